package output

import (
	"sync"
	"time"
)

// sink takes formatted lines to a writer that may be slow, without making anyone wait for long. Lines gather in chunks
// while the writer's goroutine writes former ones; it lives only while there is something to write. Memory is bounded by
// limit (and one batch more), waiting by patience, which comes back only when the writer has caught up: a writer that is
// always behind delays the workers once and then loses lines, counted.
type sink struct {
	write    func(p []byte)          // whole lines; by one goroutine at a time
	note     func(lost int64) []byte // a line that says how many were lost
	limit    int
	patience time.Duration

	mu      sync.Mutex
	queue   [][]byte      // the last one is being filled
	size    int           // of the queue
	left    time.Duration // what is left of patience
	lost    int64         // lines that were not taken since the last note
	total   int64         // lines that were never taken
	noted   time.Time     // when the last note was made
	writing bool
	then    func()        // to call, by the writer's goroutine, when all is written
	moved   chan struct{} // closed at the writer's next progress; nil if nobody waits
}

// chunkSize is the capacity of the chunks that busy sinks share.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

func newSink(limit int, patience time.Duration, write func([]byte), note func(int64) []byte) *sink {
	return &sink{write: write, note: note, limit: limit, patience: patience, left: patience}
}

// await waits for room, as long as patience lasts.
func (s *sink) await() {
	s.mu.Lock()
	for s.size >= s.limit && s.left > 0 {
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

// begin locks the sink and returns a chunk to append whole lines of about need bytes to; nil if there is no room. end must
// follow.
func (s *sink) begin(need int) []byte {
	s.mu.Lock()
	if s.size >= s.limit {
		return nil
	}
	if n := len(s.queue); n > 0 && cap(s.queue[n-1])-len(s.queue[n-1]) >= need {
		s.size -= len(s.queue[n-1])
		return s.queue[n-1]
	}
	if s.lost > 0 && len(s.queue) == 0 && time.Since(s.noted) >= noticeEvery {
		s.addNote()
	}
	var chunk []byte
	if need <= chunkSize/64 || need > chunkSize {
		chunk = make([]byte, 0, need)
	} else {
		chunk = chunks.Get().(*[chunkSize]byte)[:0]
	}
	s.queue = append(s.queue, chunk)
	return chunk
}

// end takes the chunk back, with lost lines that had no room, and unlocks.
func (s *sink) end(chunk []byte, lost int64) {
	if chunk != nil {
		s.queue[len(s.queue)-1] = chunk
		s.size += len(chunk)
	}
	s.lost += lost
	s.total += lost
	if !s.writing && len(s.queue) > 0 {
		s.writing = true
		go s.run()
	}
	s.mu.Unlock()
}

// addNote queues the line that tells of the lost ones. The caller holds mu.
func (s *sink) addNote() {
	note := s.note(s.lost)
	s.queue = append(s.queue, note)
	s.size += len(note)
	s.lost, s.noted = 0, time.Now()
}

// run writes until there is nothing left.
func (s *sink) run() {
	s.mu.Lock()
	for {
		switch then := s.then; {
		case len(s.queue) > 0:
			full := s.queue
			s.queue, s.size = nil, 0
			s.signal()
			s.mu.Unlock()
			s.writeAll(full)
			s.mu.Lock()
			continue
		case s.lost > 0:
			s.addNote()
			continue
		case then != nil:
			s.then = nil
			s.mu.Unlock()
			then()
			s.mu.Lock()
			continue
		}
		break
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

func (s *sink) writeAll(full [][]byte) {
	for _, chunk := range full {
		s.write(chunk)
		if cap(chunk) == chunkSize {
			chunks.Put((*[chunkSize]byte)(chunk[:chunkSize]))
		}
	}
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

func (s *sink) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writing
}

// losses is how many lines were never taken.
func (s *sink) losses() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
