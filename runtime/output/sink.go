package output

import (
	"sync"
	"time"
)

// sink takes formatted lines to a writer that may be slow, without making anyone wait for long. Lines gather in one buffer
// while the writer's goroutine writes the other; it lives only while there is something to write. Memory is bounded by
// limit (and one batch more), waiting by patience, which comes back only when the writer has caught up: a writer that is
// always behind delays the workers once and then loses lines, counted.
type sink struct {
	write    func(p []byte)          // whole lines; by one goroutine at a time
	note     func(lost int64) []byte // a line that says how many were lost
	limit    int
	patience time.Duration

	mu      sync.Mutex
	fill    []byte
	left    time.Duration // what is left of patience
	lost    int64         // lines that were not taken since the last note
	total   int64         // lines that were never taken
	writing bool
	then    func()        // to call, by the writer's goroutine, when all is written
	moved   chan struct{} // closed at the writer's next progress; nil if nobody waits
}

// chunkSize is the capacity of the buffers that busy sinks share.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

func newSink(limit int, patience time.Duration, write func([]byte), note func(int64) []byte) *sink {
	return &sink{write: write, note: note, limit: limit, patience: patience, left: patience}
}

// await waits for room, as long as patience lasts.
func (s *sink) await() {
	s.mu.Lock()
	for len(s.fill) >= s.limit && s.left > 0 {
		moved := s.progress()
		left := s.left
		s.mu.Unlock()
		start := time.Now()
		timer := time.NewTimer(left)
		select {
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
		s.mu.Lock()
		s.left = max(0, min(s.left, left-time.Since(start)))
	}
	s.mu.Unlock()
}

// progress returns a channel that closes when the writer has written something. The caller holds mu.
func (s *sink) progress() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// begin locks the sink and returns the buffer to append whole lines to, of about need bytes; nil if there is no room.
// end must follow.
func (s *sink) begin(need int) []byte {
	s.mu.Lock()
	if len(s.fill) >= s.limit {
		return nil
	}
	if s.fill == nil {
		if need > chunkSize/64 {
			s.fill = chunks.Get().(*[chunkSize]byte)[:0]
		} else {
			s.fill = make([]byte, 0, need)
		}
	}
	return s.fill
}

// end takes the buffer back, with lost lines that had no room, and unlocks.
func (s *sink) end(buf []byte, lost int64) {
	if buf != nil {
		s.fill = buf
	}
	s.lost += lost
	s.total += lost
	if !s.writing && len(s.fill) > 0 {
		s.writing = true
		go s.run()
	}
	s.mu.Unlock()
}

// run writes until there is nothing left.
func (s *sink) run() {
	s.mu.Lock()
	for {
		if len(s.fill) == 0 && s.lost > 0 {
			s.fill = append(s.fill, s.note(s.lost)...)
			s.lost = 0
		}
		full := s.fill
		s.fill = nil
		if then := s.then; len(full) == 0 && then != nil {
			s.then = nil
			s.mu.Unlock()
			then()
			s.mu.Lock()
			continue
		}
		if len(full) == 0 {
			break
		}
		s.signal()
		s.mu.Unlock()
		s.write(full)
		if cap(full) == chunkSize {
			chunks.Put((*[chunkSize]byte)(full[:chunkSize]))
		}
		s.mu.Lock()
	}
	s.writing = false
	s.left = s.patience
	s.signal()
	s.mu.Unlock()
}

// afterwards has f called once all that waits is written, by the writer's goroutine.
func (s *sink) afterwards(f func()) {
	s.mu.Lock()
	s.then = f
	if !s.writing {
		s.writing = true
		go s.run()
	}
	s.mu.Unlock()
}

func (s *sink) signal() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// flush waits until everything is written and tells whether that was before stop closed.
func (s *sink) flush(stop <-chan struct{}) bool {
	s.mu.Lock()
	for s.writing {
		moved := s.progress()
		s.mu.Unlock()
		select {
		case <-moved:
		case <-stop:
			return false
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	return true
}

// losses is how many lines were never taken.
func (s *sink) losses() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
