package output

import (
	"bytes"
	"unicode/utf8"
)

// span is one line on its way from the pipe: its text and how many bytes of it were left out. The text points into the
// read buffer or the splitter, so it holds until the next call of the splitter.
type span struct {
	text []byte
	cut  int64
}

// splitter cuts a stream into lines. What it gives depends only on the bytes, not on how they were cut into reads.
type splitter struct {
	max       int    // bytes of text that a line may keep
	held      []byte // what there is of the unfinished line, at most max bytes
	spare     []byte // takes turns with held, because a finished line may still be in use
	cut       int64  // bytes of the unfinished line beyond max
	continued bool   // the unfinished line is the rest of one that was given out before its end
}

// split appends the lines that end in buf to out.
func (s *splitter) split(buf []byte, out []span) []span {
	if s.unfinished() || s.continued {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			s.hold(buf)
			return out
		}
		s.hold(buf[:i])
		out = s.finish(out)
		buf = buf[i+1:]
	}
	for {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			s.hold(buf)
			return out
		}
		if i <= s.max {
			out = append(out, span{text: buf[:i]})
		} else {
			out = append(out, cutSpan(buf[:s.max], int64(i-s.max)))
		}
		buf = buf[i+1:]
	}
}

// unfinished tells whether bytes wait for their newline.
func (s *splitter) unfinished() bool { return len(s.held) > 0 || s.cut > 0 }

// hold adds b to the unfinished line.
func (s *splitter) hold(b []byte) {
	keep := min(len(b), s.max-len(s.held))
	s.held = append(s.held, b[:keep]...)
	s.cut += int64(len(b) - keep)
}

// finish ends the unfinished line where it is. The newline alone of a line that was already given out is no line.
func (s *splitter) finish(out []span) []span {
	switch {
	case s.cut > 0:
		out = append(out, cutSpan(s.held, s.cut))
	case len(s.held) > 0 || !s.continued:
		out = append(out, span{text: s.held})
	}
	s.held, s.spare = s.spare[:0], s.held
	s.cut, s.continued = 0, false
	return out
}

// giveOut ends the unfinished line before its newline has come, if there is one; what follows is its continuation.
func (s *splitter) giveOut(out []span) []span {
	if !s.unfinished() {
		return out
	}
	out = s.finish(out)
	s.continued = true
	return out
}

// release lets go of memory that an idle pipe does not need.
func (s *splitter) release() {
	s.spare = nil
	if len(s.held) == 0 {
		s.held = nil
	}
}

// cutSpan is a line of which cut bytes beyond text are left out. A character that the cut breaks goes with them.
func cutSpan(text []byte, cut int64) span {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				cut += int64(len(text) - i)
				text = text[:i]
			}
			break
		}
	}
	return span{text, cut}
}
