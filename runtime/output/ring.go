package output

import (
	"encoding/binary"
	"time"
)

// ring keeps the last lines of one worker within a bound of memory. It is a queue of segments that only grow at their end:
// a reader takes the segments as they are and reads them without a lock, and the oldest segment goes as a whole. A worker
// that never printed has none.
type ring struct {
	keep int // bytes, headers included
	segs []segment
	used int // sum of the capacities
}

type segment struct {
	data   []byte
	shared bool // a reader may still look at it, so its memory is not used again
}

// The header of a record: time, cut or dropped, incarnation, and length with the flags.
const (
	headerSize  = 24
	flagErr     = 1 << 31
	flagDropped = 1 << 30
	lengthMask  = flagDropped - 1
)

const firstSegment = 512

func (r *ring) segmentSize() int { return min(max(r.keep/16, firstSegment), 64<<10) }

// add appends one record. A record that is larger than the whole ring is kept alone.
func (r *ring) add(now int64, incarnation int, number int64, flags uint32, text []byte) {
	if r.keep <= 0 {
		return
	}
	data := r.space(headerSize + len(text))
	data = binary.LittleEndian.AppendUint64(data, uint64(now))
	data = binary.LittleEndian.AppendUint64(data, uint64(number))
	data = binary.LittleEndian.AppendUint32(data, uint32(incarnation))
	data = binary.LittleEndian.AppendUint32(data, uint32(len(text))|flags)
	r.segs[len(r.segs)-1].data = append(data, text...)
}

// space returns the newest segment's data with room for need bytes, and makes room by growing it, adding one, or taking
// the oldest.
func (r *ring) space(need int) []byte {
	size := r.segmentSize()
	if n := len(r.segs); n > 0 {
		s := &r.segs[n-1]
		if cap(s.data)-len(s.data) >= need {
			return s.data
		}
		if grown := 2 * cap(s.data); cap(s.data) < size && len(s.data)+need <= min(grown, size) {
			data := make([]byte, len(s.data), min(grown, size))
			copy(data, s.data)
			r.used += cap(data) - cap(s.data)
			*s = segment{data: data}
			return data
		}
	}
	want := max(need, size)
	if len(r.segs) == 0 {
		want = max(need, firstSegment)
	}
	var free []byte
	for len(r.segs) > 0 && r.used+want > r.keep {
		oldest := r.segs[0]
		r.used -= cap(oldest.data)
		r.segs = append(r.segs[:0], r.segs[1:]...)
		if !oldest.shared && cap(oldest.data) == want {
			free = oldest.data[:0]
		}
	}
	if free == nil {
		free = make([]byte, 0, want)
	}
	r.used += cap(free)
	r.segs = append(r.segs, segment{data: free})
	return free
}

// view is the ring as it is now, readable without a lock. The newest segment is the last.
func (r *ring) view() [][]byte {
	view := make([][]byte, len(r.segs))
	for i := range r.segs {
		r.segs[i].shared = true
		view[i] = r.segs[i].data
	}
	return view
}

// cursor walks one worker's lines from the newest to the oldest.
type cursor struct {
	path   string
	segs   [][]byte
	starts []int // of the records of the last segment that are still to come
	line   Line
}

// next moves to the next older line and tells whether there is one.
func (c *cursor) next() bool {
	for len(c.starts) == 0 {
		if len(c.segs) == 0 {
			return false
		}
		data := c.segs[len(c.segs)-1]
		for i := 0; i < len(data); {
			c.starts = append(c.starts, i)
			i += headerSize + int(binary.LittleEndian.Uint32(data[i+20:])&lengthMask)
		}
		if len(c.starts) == 0 {
			c.segs = c.segs[:len(c.segs)-1]
		}
	}
	data := c.segs[len(c.segs)-1]
	start := c.starts[len(c.starts)-1]
	c.starts = c.starts[:len(c.starts)-1]
	if len(c.starts) == 0 {
		c.segs = c.segs[:len(c.segs)-1]
	}
	c.line = decode(c.path, data[start:])
	return true
}

func decode(path string, b []byte) Line {
	flags := binary.LittleEndian.Uint32(b[20:])
	end := headerSize + int(flags&lengthMask)
	l := Line{
		Time: time.Unix(0, int64(binary.LittleEndian.Uint64(b))), Path: path,
		Incarnation: int(binary.LittleEndian.Uint32(b[16:])), Stream: Out, Text: b[headerSize:end:end],
	}
	if flags&flagErr != 0 {
		l.Stream = Err
	}
	number := int64(binary.LittleEndian.Uint64(b[8:]))
	if flags&flagDropped != 0 {
		l.Dropped = number
	} else {
		l.Cut = number
	}
	return l
}
