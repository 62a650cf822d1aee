package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// Config is what a Hub needs of its daemon.
type Config struct {
	Dir string // root of the log files; made when the first line is written
	// Pipes is a folder of the daemon's own in which workers' output goes through named pipes, opened for reading and writing
	// by the worker itself: it outlives the daemon, and Adopt reads on. "": unnamed pipes, which end with the daemon.
	Pipes  string
	Stdout io.Writer // for logs.to = "stdout"; nil: nowhere
	Format string    // of Stdout: "json", else text
	// Dropped is told how many lines an instance lost to its rate, at most once a second for each. It must not block.
	Dropped func(path string, incarnation int, dropped int64)
	Log     hclog.Logger // nil: none
}

// Hub has the output of all workers of one daemon. Its methods may be called by any goroutine.
type Hub struct {
	cfg    Config
	stdout *sink // nil: nowhere
	slots  chan struct{}
	work   sync.WaitGroup // reading goroutines

	mu        sync.Mutex
	poll      *poller // nil until the first Open
	sources   map[string]*source
	captures  map[*Capture]struct{}
	followers map[*Follower]struct{}
	forgotten []*source // their files may not be written out yet
	closed    bool
}

// readers is how many pipes are read at the same time: it bounds the memory of their buffers and lets pipes take turns.
const readers = 64

// Bounds of what waits for a writer, and of how long workers may be delayed by it.
const (
	stdoutLimit    = 4 << 20
	stdoutPatience = 100 * time.Millisecond
	fileLimit      = 1 << 20
	filePatience   = time.Second
)

// NewHub returns a hub without workers. Close must follow.
func NewHub(cfg Config) *Hub {
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Dropped == nil {
		cfg.Dropped = func(string, int, int64) {}
	}
	h := &Hub{
		cfg: cfg, slots: make(chan struct{}, readers), sources: map[string]*source{},
		captures: map[*Capture]struct{}{}, followers: map[*Follower]struct{}{},
	}
	if cfg.Stdout != nil {
		h.stdout = newSink(stdoutLimit, stdoutPatience, h.writeStdout, h.stdoutNote)
	}
	return h
}

// writeStdout ignores errors: there is nobody to tell but the log, which usually goes to the same place.
func (h *Hub) writeStdout(p []byte) { _, _ = h.cfg.Stdout.Write(p) }

func (h *Hub) stdoutNote(lost int64) []byte {
	return h.appendStdout(nil, Line{Time: time.Now(), Path: "_host/output", Stream: Err, Dropped: lost,
		Text: fmt.Appendf(nil, "[coppice: dropped %d lines here: standard output was too slow]", lost)})
}

func (h *Hub) appendStdout(dst []byte, l Line) []byte {
	if h.cfg.Format == "json" {
		return append(l.AppendJSON(dst), '\n')
	}
	return append(l.AppendText(dst), '\n')
}

var errClosed = errors.New("the output is closed")

// Open makes the pipes of one incarnation of the worker at path. match, if not nil, gets every line of both streams, also
// those over the rate, from one goroutine per stream; it must not block nor keep the line.
func (h *Hub) Open(path string, incarnation int, logs tree.Logs, match func(line []byte)) (*Capture, error) {
	return h.capture(path, incarnation, logs, match, makePipe)
}

// Adopt reads on the pipes of an incarnation that a former daemon with the same Config.Pipes has started. What was written
// while no daemon was there is read too, as long as somebody still holds the pipe: the worker, or what Hold returned.
func (h *Hub) Adopt(path string, incarnation int, logs tree.Logs, match func(line []byte)) (*Capture, error) {
	c, err := h.capture(path, incarnation, logs, match, adoptPipe)
	if err == nil { // a pipe whose writers left before it was opened makes no event
		c.out.event(false)
		c.err.event(false)
	}
	return c, err
}

type pipeMaker func(folder, name string) (ends, error)

func (h *Hub) capture(path string, incarnation int, logs tree.Logs, match func([]byte), maker pipeMaker) (*Capture, error) {
	c, err := h.prepare(path, incarnation, logs, match, maker)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot capture output: %w", path, err)
	}
	return c, nil
}

func (h *Hub) prepare(path string, incarnation int, logs tree.Logs, match func([]byte), maker pipeMaker) (*Capture, error) {
	if _, _, err := fileName(path); err != nil {
		return nil, err
	}
	poll, src, err := h.source(path, logs)
	if err != nil {
		return nil, err
	}
	c := &Capture{hub: h, source: src, incarnation: incarnation}
	if match != nil {
		c.match.Store(&match)
	}
	for _, stream := range []string{Out, Err} {
		p, err := poll.pipe(c, stream, h.cfg.Pipes, maker)
		if err != nil {
			c.Close()
			return nil, err
		}
		if stream == Out {
			c.out = p
		} else {
			c.err = p
		}
	}
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.captures[c] = struct{}{}
	}
	h.mu.Unlock()
	if closed {
		c.Close()
		return nil, errClosed
	}
	return c, nil
}

// source returns the worker's source, made or brought up to date, with one more user.
func (h *Hub) source(path string, logs tree.Logs) (*poller, *source, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, errClosed
	}
	if h.poll == nil {
		poll, err := newPoller(&h.work)
		if err != nil {
			return nil, nil, err
		}
		h.poll = poll
		h.work.Go(poll.run)
	}
	s := h.sources[path]
	if s == nil {
		s = &source{hub: h, path: path}
		for f := range h.followers {
			if f.q.match(path) {
				s.followers = append(s.followers, f)
			}
		}
		h.sources[path] = s
	}
	s.use(logs)
	return h.poll, s, nil
}

// matching returns the sources that the query wants. The caller holds mu.
func (h *Hub) matching(q Query) []*source {
	var list []*source
	for path, s := range h.sources {
		if q.match(path) {
			list = append(list, s)
		}
	}
	return list
}

// Forget drops the ring and the counters of a worker that is no longer in the tree, once all its captures are closed; before,
// it does nothing. Files stay.
func (h *Hub) Forget(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[path]
	if s == nil || !s.unused() {
		return
	}
	delete(h.sources, path)
	h.forgotten = slices.DeleteFunc(append(h.forgotten, s), (*source).written)
}

// Count is what became of one worker's output since the daemon started.
type Count struct {
	Path    string
	Lines   int64 // kept
	Bytes   int64 // of the kept lines' text
	Dropped int64 // lines over the rate
	Cut     int64 // kept lines that were cut
	Unfiled int64 // kept lines that the log file could not take
}

// Stats is the counters of a hub.
type Stats struct {
	Workers    []Count // by path
	StdoutLost int64   // lines that standard output was too slow for
	Followers  int
}

// Stats returns the counters as they are now.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	sources := h.matching(Query{})
	st := Stats{Followers: len(h.followers)}
	h.mu.Unlock()
	for _, s := range sources {
		st.Workers = append(st.Workers, s.count())
	}
	slices.SortFunc(st.Workers, func(a, b Count) int { return strings.Compare(a.Path, b.Path) })
	if h.stdout != nil {
		st.StdoutLost = h.stdout.losses()
	}
	return st
}

// Close ends reading and writes out what was read, as far as ctx allows; the error is ctx's. Named pipes stay for Adopt. A
// Stdout that blocks for ever keeps its goroutine.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	poll := h.poll
	h.poll = nil
	captures, followers, sources := h.captures, h.followers, append(h.matching(Query{}), h.forgotten...)
	h.captures, h.followers = map[*Capture]struct{}{}, map[*Follower]struct{}{}
	h.mu.Unlock()
	if poll != nil {
		poll.close()
	}
	for c := range captures {
		c.end(false)
	}
	h.work.Wait()
	all := true
	for _, s := range sources {
		all = s.close(ctx.Done()) && all
	}
	if h.stdout != nil {
		all = h.stdout.flush(ctx.Done()) && all
	}
	for f := range followers {
		f.end()
	}
	if !all {
		return ctx.Err()
	}
	return nil
}
