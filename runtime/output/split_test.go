//go:build linux

package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// chunked splits data cut into reads of the sizes in cuts, over and over, and ends it as an exit does.
func chunked(data []byte, limit int, cuts []byte) []string {
	s := splitter{max: limit}
	var lines []string
	take := func(spans []span) {
		for _, sp := range spans {
			lines = append(lines, string(appendCut(bytes.Clone(sp.text), sp.cut)))
		}
	}
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		read := bytes.Clone(data[:n]) // as a read buffer, it is used again:
		take(s.split(read, nil))
		for j := range read {
			read[j] = '!'
		}
		if i%3 == 0 {
			s.release()
		}
		data = data[n:]
	}
	take(s.giveOut(nil))
	return lines
}

// plainly is what the lines must be, written for eyes.
func plainly(data []byte, limit int) []string {
	var lines []string
	all := bytes.Split(data, []byte{'\n'})
	if len(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	for _, l := range all {
		text := l
		if len(text) > limit {
			text = text[:limit]
			for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
				if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
					if !utf8.FullRune(tail) {
						text = text[:len(text)-n]
					}
					break
				}
			}
		}
		lines = append(lines, string(appendCut(bytes.Clone(text), int64(len(l)-len(text)))))
	}
	return lines
}

func TestSplit(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"empty lines", "\n\na\n\n", "||a|"},
		{"last line without newline", "a\nb", "a|b"},
		{"nul, cr, invalid", "a\x00b\rc\xff\n", "a\x00b\rc\xff"},
		{"just fits", "12345678\n", "12345678"},
		{"cut", "123456789ab\nx\n", "12345678 [cut 3 bytes]|x"},
		{"cut without newline", "123456789ab", "12345678 [cut 3 bytes]"},
		{"cut before a character", "123456é\n1234567é\n", "123456é|1234567 [cut 2 bytes]"},
		{"cut in garbage", "1234567\xff\xff\n", "1234567\xff [cut 1 bytes]"},
	} {
		for _, cuts := range [][]byte{nil, {0}, {1}, {2, 0, 4}} {
			got := strings.Join(chunked([]byte(test.in), 8, cuts), "|")
			if got != test.want {
				t.Errorf("%s, reads %v: %q, want %q", test.name, cuts, got, test.want)
			}
		}
	}
}

// A line that was given out early goes on as a line of its own; its newline alone is not an empty line.
func TestSplitGiveOut(t *testing.T) {
	s := splitter{max: 4}
	var got []string
	take := func(spans []span) {
		for _, sp := range spans {
			got = append(got, string(appendCut(bytes.Clone(sp.text), sp.cut)))
		}
	}
	take(s.split([]byte("abcdefg"), nil))
	take(s.giveOut(nil))
	take(s.giveOut(nil))
	take(s.split([]byte("\nnext\n\nabcdefg"), nil))
	take(s.giveOut(nil))
	take(s.split([]byte("hi"), nil))
	take(s.split([]byte("j\nend\n"), nil))
	want := []string{"abcd [cut 3 bytes]", "next", "", "abcd [cut 3 bytes]", "hij", "end"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\nccc"), uint8(2), []byte{0, 3})
	f.Add([]byte("\xf0\x9f\x98\x80\xf0\x9f\x98\x80\n"), uint8(5), []byte{2})
	f.Add(bytes.Repeat([]byte("xy\n"), 50), uint8(200), []byte{7})
	f.Fuzz(func(t *testing.T, data []byte, limit uint8, cuts []byte) {
		want := plainly(data, int(limit)+1)
		if diff := cmp.Diff(want, chunked(data, int(limit)+1, cuts)); diff != "" {
			t.Errorf("limit %d, reads %v: %s", limit, cuts, diff)
		}
		if diff := cmp.Diff(want, chunked(data, int(limit)+1, nil)); diff != "" {
			t.Errorf("limit %d, one read: %s", limit, diff)
		}
	})
}

// Kept and dropped together are what was sent, whatever the rate is and however the lines come.
func FuzzKeptAndDropped(f *testing.F) {
	f.Add([]byte("a\nb\nc\nd"), uint8(1), uint8(2), []byte{1})
	f.Fuzz(func(t *testing.T, data []byte, perSecond, burst uint8, cuts []byte) {
		h := NewHub(Config{})
		defer h.Close(t.Context())
		logs := unlimited()
		logs.Rate, logs.Burst, logs.Keep = int(perSecond), int(burst), 1<<20
		s := &source{hub: h, path: "a/b/c.0"}
		s.use(logs)
		split := splitter{max: 16}
		var dropped int64
		for rest, i := data, 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, int(cuts[i%len(cuts)])+1)
			}
			dropped += s.accept(1, Out, split.split(rest[:n], nil))
			rest = rest[n:]
		}
		dropped += s.accept(1, Out, split.giveOut(nil))
		s.close(nil)
		n, sent := s.count(), int64(len(plainly(data, 16)))
		if n.Lines+n.Dropped != sent || n.Dropped != dropped {
			t.Errorf("kept %d, dropped %d (%d), sent %d", n.Lines, n.Dropped, dropped, sent)
		}
		var kept, told int64
		for c := s.cursor(); c != nil && c.next(); {
			if c.line.Dropped > 0 {
				told += c.line.Dropped
				if !strings.Contains(string(c.line.Text), fmt.Sprintf("dropped %d ", c.line.Dropped)) {
					t.Errorf("notice: %s", c.line.Text)
				}
			} else {
				kept++
			}
		}
		if kept != n.Lines || told != n.Dropped {
			t.Errorf("the ring has %d lines and tells of %d dropped, want %d and %d", kept, told, n.Lines, n.Dropped)
		}
	})
}
