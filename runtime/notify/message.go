package notify

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	maxMessage = 4096           // bytes of one datagram, as in systemd; a longer one is refused whole
	maxStatus  = 512            // bytes of STATUS that are kept
	maxExtend  = 24 * time.Hour // of one EXTEND_TIMEOUT_USEC
)

// Message is what one datagram said. Refused is the reason why nothing in it counts; everything but the sender is zero
// then.
type Message struct {
	PID, UID int // of the sender, as the kernel says; not by what it claims
	Refused  string

	Ready     bool // READY=1
	Stopping  bool // STOPPING=1
	Reloading bool // RELOADING=1
	Watchdog  bool // WATCHDOG=1
	Trigger   bool // WATCHDOG=trigger: the worker asks to be treated as if the watchdog had fired

	// HasStatus tells whether STATUS was in it: an empty Status takes an earlier one back. Status is at most 512 bytes, raw
	// as the worker wrote them: whoever shows it escapes it.
	HasStatus bool
	Status    string
	// Errno is from ERRNO, 0 if there was none.
	Errno int
	// Extend is from EXTEND_TIMEOUT_USEC: the worker asks that the start or stop that is going on may take this much longer
	// from now, at most 24 h. Whether it may is for the caller to say.
	Extend time.Duration
}

// parse reads KEY=VALUE lines as systemd does: what it does not know it skips, and of a key that comes twice the last
// counts. It skips on purpose:
//
//   - MAINPID: a worker's process is the one that was started, known by its pidfd, never one that somebody names.
//   - FDSTORE, FDSTOREREMOVE, FDNAME, FDPOLL: nothing is kept for a worker.
//   - WATCHDOG_USEC: how often a worker must report is for the configuration to say.
//   - BARRIER: it asks that its descriptor is closed, and every descriptor is.
func parse(data []byte) Message {
	// Some C programs send the string's final zero too.
	if i := bytes.IndexByte(data, 0); i >= 0 {
		data = data[:i]
	}
	var m Message
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		key, value, ok := bytes.Cut(line, []byte("="))
		if ok {
			m.set(string(key), string(value))
		}
	}
	return m
}

func (m *Message) set(key, value string) {
	switch key {
	case "READY":
		m.Ready = value == "1"
	case "STOPPING":
		m.Stopping = value == "1"
	case "RELOADING":
		m.Reloading = value == "1"
	case "WATCHDOG":
		m.Watchdog = m.Watchdog || value == "1"
		m.Trigger = m.Trigger || value == "trigger"
	case "STATUS":
		m.HasStatus, m.Status = true, cut(value, maxStatus)
	case "ERRNO":
		if n, err := strconv.ParseUint(value, 10, 12); err == nil {
			m.Errno = int(n)
		}
	case "EXTEND_TIMEOUT_USEC":
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			m.Extend = time.Duration(min(n, uint64(maxExtend/time.Microsecond))) * time.Microsecond
		}
	}
}

// cut shortens to at most n bytes, and not within a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := n
	for i > n-utf8.UTFMax && !utf8.RuneStart(s[i]) {
		i--
	}
	if !utf8.RuneStart(s[i]) {
		i = n // it was not UTF-8 anyway
	}
	return s[:i]
}
