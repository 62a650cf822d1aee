package notify

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Message
	}{
		{"ready", "READY=1", Message{Ready: true}},
		{"all at once", "READY=1\nSTOPPING=1\nRELOADING=1\nWATCHDOG=1\nERRNO=2\n",
			Message{Ready: true, Stopping: true, Reloading: true, Watchdog: true, Errno: 2}},
		{"trigger", "WATCHDOG=trigger", Message{Trigger: true}},
		{"not one", "READY=0\nSTOPPING=yes\nRELOADING=\nWATCHDOG=2", Message{}},
		{"the last counts", "READY=1\nREADY=0\nSTATUS=a\nSTATUS=b", Message{HasStatus: true, Status: "b"}},
		{"an empty status", "STATUS=", Message{HasStatus: true}},
		{"a status with equals", "STATUS=a=b", Message{HasStatus: true, Status: "a=b"}},
		{"a raw status", "STATUS=\x1b[2J\xff\r\t", Message{HasStatus: true, Status: "\x1b[2J\xff\r\t"}},
		{"a long status", "STATUS=" + strings.Repeat("x", 600), Message{HasStatus: true, Status: strings.Repeat("x", 512)}},
		{"cut between characters", "STATUS=" + strings.Repeat("x", 510) + "€€",
			Message{HasStatus: true, Status: strings.Repeat("x", 510)}},
		{"ignored", "MAINPID=1\nFDSTORE=1\nFDNAME=x\nBARRIER=1\nWATCHDOG_USEC=1\nX_OURS=1\nNOTIFYACCESS=all", Message{}},
		{"extend", "EXTEND_TIMEOUT_USEC=2500000", Message{Extend: 2500 * time.Millisecond}},
		{"extend for ever", "EXTEND_TIMEOUT_USEC=18446744073709551615", Message{Extend: 24 * time.Hour}},
		{"numbers that are none", "ERRNO=-1\nEXTEND_TIMEOUT_USEC=-1", Message{}},
		{"an errno that is none", "ERRNO=99999999999", Message{}},
		{"to the zero byte", "READY=1\x00\nSTOPPING=1", Message{Ready: true}},
		{"case and spaces", "ready=1\n READY=1\nREADY =1\nREADY= 1\nREADY=1\r", Message{}},
		{"nothing", "", Message{}},
		{"no key", "=1\n=\n\n\nREADY", Message{}},
	} {
		if got := parse([]byte(c.data)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"READY=1\nSTATUS=x", "STATUS=\xe2\x82\xac", "EXTEND_TIMEOUT_USEC=1\nERRNO=5", "\x00", "WATCHDOG=trigger"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := parse(data)
		switch {
		case len(m.Status) > maxStatus || !m.HasStatus && m.Status != "":
			t.Errorf("status %q", m.Status)
		case m.Extend < 0 || m.Extend > maxExtend || m.Errno < 0 || m.Errno > 4095:
			t.Errorf("%+v", m)
		case strings.ContainsAny(m.Status, "\n\x00"):
			t.Errorf("status %q has more than one line", m.Status)
		case utf8.Valid(data) && !utf8.ValidString(m.Status):
			t.Errorf("a character was cut: %q", m.Status)
		case m.PID != 0 || m.UID != 0 || m.Refused != "":
			t.Errorf("the text says who sent it: %+v", m)
		}
	})
}
