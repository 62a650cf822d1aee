package output

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Line is one line of a worker's output, or a notice about lines that are not there.
type Line struct {
	Time        time.Time
	Path        string // of the worker
	Incarnation int
	Stream      string // "out" or "err"
	Text        []byte // raw, without the newline and without a mark; shared, so nobody may change it
	Cut         int64  // bytes that were left out at the end of Text
	Dropped     int64  // not 0: Coppice's own notice that this many lines of the worker went over its rate
	Gap         int64  // not 0: Coppice's own notice that a follower was too slow for this many lines
}

// The streams.
const (
	Out = "out"
	Err = "err"
)

const textTime = "2006-01-02T15:04:05.000Z07:00"

// AppendText appends the line as a terminal may see it, `TIME PATH out|err | text`, without a newline. Control bytes and
// whatever else could move the cursor, reorder or forge a line are visible escapes (see Escape).
func (l Line) AppendText(dst []byte) []byte {
	dst = l.Time.UTC().AppendFormat(dst, textTime)
	dst = append(dst, ' ')
	dst = appendEscaped(dst, []byte(l.Path))
	dst = append(dst, ' ')
	dst = append(dst, l.Stream...)
	dst = append(dst, " | "...)
	dst = appendEscaped(dst, l.Text)
	return appendCut(dst, l.Cut)
}

// Raw returns the text as the worker wrote it, with the mark of a cut line at its end.
func (l Line) Raw() []byte {
	if l.Cut == 0 {
		return l.Text
	}
	return appendCut(append(make([]byte, 0, len(l.Text)+32), l.Text...), l.Cut)
}

func appendCut(dst []byte, cut int64) []byte {
	if cut == 0 {
		return dst
	}
	dst = append(dst, " [cut "...)
	dst = strconv.AppendInt(dst, cut, 10)
	return append(dst, " bytes]"...)
}

// AppendJSON appends the line as one JSON object with the keys time, path, incarnation, stream, line and cut. The key line
// holds the text with the mark of a cut line at its end. Text that is not UTF-8 has U+FFFD for each wrong byte there, and
// a further key raw holds its bytes, without the mark, in standard base64; so every object parses strictly and no byte is
// lost. Notices have a key dropped or gap, which no worker's text can forge. Like AppendText it leaves no control or
// reordering character unescaped.
func (l Line) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = l.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","path":"`...)
	dst = appendJSONString(dst, []byte(l.Path))
	dst = append(dst, `","incarnation":`...)
	dst = strconv.AppendInt(dst, int64(l.Incarnation), 10)
	dst = append(dst, `,"stream":"`...)
	dst = appendJSONString(dst, []byte(l.Stream))
	dst = append(dst, `","line":"`...)
	dst = appendJSONString(dst, l.Text)
	dst = appendCut(dst, l.Cut)
	dst = append(dst, `","cut":`...)
	dst = strconv.AppendInt(dst, l.Cut, 10)
	dst = appendCount(dst, `,"dropped":`, l.Dropped)
	dst = appendCount(dst, `,"gap":`, l.Gap)
	if !utf8.Valid(l.Text) {
		dst = append(dst, `,"raw":`...)
		raw, _ := json.Marshal(l.Text) // a byte slice is base64 and cannot fail
		dst = append(dst, raw...)
	}
	return append(dst, '}')
}

func appendCount(dst []byte, key string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), n, 10)
}

// MarshalJSON is AppendJSON.
func (l Line) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON reads what MarshalJSON wrote and gets the original bytes back.
func (l *Line) UnmarshalJSON(b []byte) error {
	var v struct {
		Time        time.Time
		Path        string
		Incarnation int
		Stream      string
		Line        string
		Cut         int64
		Dropped     int64
		Gap         int64
		Raw         []byte
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*l = Line{Time: v.Time, Path: v.Path, Incarnation: v.Incarnation, Stream: v.Stream, Text: v.Raw, Cut: v.Cut,
		Dropped: v.Dropped, Gap: v.Gap}
	if v.Raw == nil {
		text := []byte(v.Line)
		if n := len(text) - len(appendCut(nil, v.Cut)); n >= 0 {
			text = text[:n]
		}
		l.Text = text
	}
	return nil
}
