package actors

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// chronicle is the Journal of a mounted tree: it keeps what is true now, and publishes what happened on the EventStream.
// Subscribers are code of the embedder, so they run on a goroutine of the chronicle and not in a supervisor's mailbox: one
// that blocks or panics holds up the other subscribers, and no restart.
type chronicle struct {
	log    hclog.Logger
	stream *eventstream.EventStream

	mu       sync.Mutex
	seq      tree.Seq
	board    *tree.Board
	queue    []tree.Event
	spare    []tree.Event // the array of the queue before, to be used again
	draining bool
	idle     []func()          // called once when the queue is empty
	whys     map[string]string // of supervisors that gave up: why, down to the end that was one too many
}

// newChronicle returns the chronicle of a tree whose root's path is the spec's name.
func newChronicle(spec tree.Spec, stream *eventstream.EventStream, log hclog.Logger) *chronicle {
	above := tree.Spec{Kind: tree.KindGroup, Supervise: &tree.Supervise{}, Children: []tree.Spec{spec}}
	return &chronicle{log: log, stream: stream, board: tree.NewBoard(above)}
}

// Append implements Journal.
func (c *chronicle) Append(ev tree.Event) tree.Seq {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	ev.Seq, ev.Time = c.seq, time.Now()
	if ev.Data == nil {
		ev.Data = noData
	}
	c.board.Apply(ev)
	if ev.Kind == tree.EventEscalated {
		c.gaveUp(&ev)
	}
	c.queue = append(c.queue, ev)
	if !c.draining {
		c.draining = true
		go c.drain()
	}
	return ev.Seq
}

// gaveUp notes why a supervisor did.
func (c *chronicle) gaveUp(ev *tree.Event) {
	if c.whys == nil {
		c.whys = map[string]string{}
	}
	child, _ := ev.Data["child"].(string)
	below := ev.Path + "/" + child
	why, known := c.whys[below]
	if !known {
		if n, ok := c.board.Node(below); ok && n.Leaf != nil && n.LastExit != nil {
			why = n.LastExit.Reason
		}
	}
	c.whys[ev.Path] = ev.Reason
	if why != "" {
		c.whys[ev.Path] += ": " + why
	}
}

// why is why the supervisor at path gave up last; "" if it never did.
func (c *chronicle) why(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whys[path]
}

// noData is the Data of every event without any. Nobody writes to it.
var noData = map[string]any{}

// whenIdle calls f once all that was appended is published.
func (c *chronicle) whenIdle(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		f()
		return
	}
	c.idle = append(c.idle, f)
}

// drain publishes until nothing is left. It survives a subscriber that ends its goroutine.
func (c *chronicle) drain() {
	finished := false
	defer func() {
		if !finished {
			go c.drain()
		}
	}()
	runtime.Gosched() // what is to be started again goes first
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.draining = false
			idle := c.idle
			c.idle = nil
			c.mu.Unlock()
			for _, f := range idle {
				f()
			}
			finished = true
			return
		}
		batch := c.queue
		c.queue, c.spare = c.spare, nil
		c.mu.Unlock()
		c.publishAll(batch)
		if cap(batch) <= keptEvents {
			clear(batch)
			c.mu.Lock()
			c.spare = batch[:0]
			c.mu.Unlock()
		}
	}
}

// keptEvents is the length up to which an array of events is used again.
const keptEvents = 256

// publishAll publishes a batch. A subscriber that ends the goroutine costs no event but its own: the rest goes before
// what was appended meanwhile.
func (c *chronicle) publishAll(batch []tree.Event) {
	done := 0
	defer func() {
		if done == len(batch) {
			return
		}
		c.mu.Lock()
		c.queue = append(slices.Clone(batch[done+1:]), c.queue...)
		c.mu.Unlock()
	}()
	for ; done < len(batch); done++ {
		c.publish(batch[done])
	}
}

func (c *chronicle) publish(ev tree.Event) {
	defer func() {
		if cause := recover(); cause != nil {
			c.log.Error("a subscriber panicked", "event", ev.Kind, "path", ev.Path, "reason", textOf(cause))
		}
	}()
	c.stream.Publish(ev)
}

// Observe implements Journal.
func (c *chronicle) Observe(path string, inc int, seen tree.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.board.Observe(tree.Ref{Path: path, Inc: inc}, seen)
}

// Add implements Journal.
func (c *chronicle) Add(parent string, child tree.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.board.Add(parent, child)
}

// Forget implements Journal.
func (c *chronicle) Forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.board.Forget(path)
}

// Node implements Journal.
func (c *chronicle) Node(path string) (tree.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.board.Node(path)
}

// Nodes implements Journal. The first is the root.
func (c *chronicle) Nodes() []tree.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.board.Nodes()
}

// Next implements Journal: the past is not kept, and nobody asks an embedded tree.
func (c *chronicle) Next(ctx context.Context, _ tree.Seq) ([]tree.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
