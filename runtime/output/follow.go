package output

import (
	"context"
	"io"
	"sync"
	"time"
)

// Follower gives lines as they come. One goroutine may use it.
type Follower struct {
	hub *Hub
	q   Query
	out []Line // taken, and not yet given out

	mu     sync.Mutex
	queue  []Line
	bytes  int
	gap    Line          // of Gap lines that had no room
	wake   chan struct{} // has one item if there may be something new
	closed bool
}

// What may wait for a follower. Beyond it lines are counted only, until the follower has taken all that waits.
const (
	followLines = 4096
	followBytes = 1 << 20
)

// Next returns the next line. It blocks until there is one, ctx is done (its error) or the follower or hub is closed and
// all that came before was given out (io.EOF). A line whose Gap is not 0 stands for lines that came too fast for this
// follower.
func (f *Follower) Next(ctx context.Context) (Line, error) {
	for len(f.out) == 0 {
		closed := f.take()
		if len(f.out) > 0 {
			break
		}
		if closed {
			return Line{}, io.EOF
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return Line{}, ctx.Err()
		}
	}
	l := f.out[0]
	f.out[0] = Line{}
	f.out = f.out[1:]
	return l, nil
}

// take moves what waits to out.
func (f *Follower) take() (closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out, f.queue, f.bytes = f.queue, nil, 0
	if f.gap.Gap > 0 {
		f.out = append(f.out, f.gap)
		f.gap = Line{}
	}
	return f.closed
}

// Close ends following. It may be called more than once and from any goroutine.
func (f *Follower) Close() {
	f.hub.unfollow(f)
	f.end()
}

func (f *Follower) end() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.poke()
}

func (f *Follower) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// offer hands a line over, or counts it. The text is copied, because the line may not outlive its read buffer.
func (f *Follower) offer(l Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.q.Incarnation != 0 && f.q.Incarnation != l.Incarnation {
		return
	}
	if f.gap.Gap > 0 || len(f.queue) >= followLines || f.bytes+len(l.Text) > followBytes && len(f.queue) > 0 {
		if f.gap.Gap == 0 {
			f.gap = Line{Path: l.Path, Incarnation: l.Incarnation, Stream: Err, Text: []byte("[coppice: a gap: this reader was too slow]")}
		}
		f.gap.Gap++
		f.gap.Time = l.Time
		return
	}
	l.Text = append([]byte(nil), l.Text...)
	f.queue = append(f.queue, l)
	f.bytes += len(l.Text)
	if len(f.queue) == 1 {
		f.poke()
	}
}

// Follow gives the last q.Last lines that are there and then every line that comes, each once. Close must follow.
func (h *Hub) Follow(q Query) *Follower {
	f := &Follower{hub: h, q: q, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	if h.closed {
		f.closed = true
	}
	h.followers[f] = struct{}{}
	sources := h.matching(q)
	h.mu.Unlock()
	cursors := make([]*cursor, 0, len(sources))
	for _, s := range sources {
		if c := s.follow(f); c != nil {
			cursors = append(cursors, c)
		}
	}
	f.out = merge(cursors, q)
	return f
}

func (h *Hub) unfollow(f *Follower) {
	h.mu.Lock()
	delete(h.followers, f)
	sources := h.matching(f.q)
	h.mu.Unlock()
	for _, s := range sources {
		s.unfollow(f)
	}
}

// since tells whether the query wants lines of this time.
func (q Query) since(t time.Time) bool { return q.Since.IsZero() || !t.Before(q.Since) }
