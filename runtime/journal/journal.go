// Package journal keeps what happened. Every decision about a node is one event, written once by Append, and all that people
// and programs see is made from these events: status (by a board that is folded under the same lock, so that it never
// disagrees with the events), history, causes, and the daemon's log.
//
// The journal is in memory and bounded. Readers pull: one that is slow falls out of what is kept and is told how much it
// missed. Nothing that a reader does can make Append wait.
package journal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Options bound a journal.
type Options struct {
	// Root is the whole tree, for status.
	Root tree.Spec
	// Count and Bytes bound what is kept, whichever is reached first; 0 means 20,000 events and 16 MiB. The newest event is
	// always kept.
	Count int
	Bytes int64
	// After is the number of the last event of an earlier life: numbers go on from there.
	After tree.Seq
}

// Journal is a bounded list of events and the status that follows from them. All methods may be called by anyone at any
// time, and none but Next waits for anything.
type Journal struct {
	mu    sync.Mutex
	board *tree.Board
	kept  window
	last  tree.Seq
	bell  chan struct{} // closed by the next Append; nil while nobody waits
}

// New returns an empty journal.
func New(o Options) *Journal {
	if o.Count <= 0 {
		o.Count = 20_000
	}
	if o.Bytes <= 0 {
		o.Bytes = 16 << 20
	}
	return &Journal{board: tree.NewBoard(o.Root), kept: window{count: o.Count, bytes: o.Bytes}, last: o.After}
}

// Append records one event and returns its number. It fills in Seq, and Time and Data where they are not set. The event's Data belongs to
// the journal from then on and must not be changed.
func (j *Journal) Append(ev tree.Event) tree.Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ev.Time.IsZero() {
		ev.Time = time.Now() // with its monotonic reading, so that spans survive a step of the clock
	}
	if ev.Data == nil {
		ev.Data = map[string]any{} // which a reader of the JSON can rely on
	}
	j.last++
	ev.Seq = j.last
	j.kept.push(ev)
	j.board.Apply(ev)
	if j.bell != nil {
		close(j.bell)
		j.bell = nil
	}
	return ev.Seq
}

// Observe notes what is true of one incarnation now.
func (j *Journal) Observe(path string, inc int, seen tree.Observation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seen.At.IsZero() {
		seen.At = time.Now()
	}
	j.board.Observe(tree.Ref{Path: path, Inc: inc}, seen)
}

// Declare takes on another specification of the whole tree; what is known of nodes that stay is kept.
func (j *Journal) Declare(root tree.Spec) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Set(root)
}

// Add makes a dynamic child of the node at parent known; Forget removes a node that its supervisor knows no longer.
func (j *Journal) Add(parent string, spec tree.Spec) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Add(parent, spec)
}

// Forget removes a node that its supervisor knows no longer from status. Its events stay.
func (j *Journal) Forget(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Forget(path)
}

// Nodes is the status of all nodes. Its times are in the wall clock of now: an uptime neither jumps nor is negative when
// somebody sets the clock.
func (j *Journal) Nodes() []tree.Node {
	j.mu.Lock()
	nodes := j.board.Nodes()
	j.mu.Unlock()
	now := time.Now()
	for i := range nodes {
		nodes[i] = steadied(now, nodes[i])
	}
	return nodes
}

// Node is the status of one node, as in Nodes.
func (j *Journal) Node(path string) (tree.Node, bool) {
	j.mu.Lock()
	node, ok := j.board.Node(path)
	j.mu.Unlock()
	return steadied(time.Now(), node), ok
}

// Last is the number of the newest event.
func (j *Journal) Last() tree.Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Event is the event of a number, if it is still kept.
func (j *Journal) Event(seq tree.Seq) (tree.Event, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if rest := j.kept.from(seq); len(rest) > 0 && rest[0].Seq == seq {
		return rest[0], true
	}
	return tree.Event{}, false
}

// Why is the chain of causes that led to the present state of a node, newest first. complete tells that it goes back to
// what happened by itself; else it breaks off where an event is no longer kept. See tree.Why.
func (j *Journal) Why(path string) (chain []tree.Event, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	node, ok := j.board.Node(path)
	if !ok {
		return nil, false
	}
	chain, note := tree.Why(j.kept.all(), node)
	return chain, note == ""
}

// Query selects events.
type Query struct {
	Paths []string  // the nodes and all below them; none: all
	Since time.Time // not before
	After tree.Seq  // later than this one
	Limit int       // at most this many; 0: all
}

// Events returns what is kept and selected, oldest first.
func (j *Journal) Events(q Query) []tree.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	events, _ := j.selected(q)
	return events
}

// selected returns the selected events and the number up to which it has looked.
func (j *Journal) selected(q Query) ([]tree.Event, tree.Seq) {
	var events []tree.Event
	seen := q.After
	rest := j.kept.from(q.After + 1)
	for i := range rest {
		ev := &rest[i]
		seen = ev.Seq
		if !q.Since.IsZero() && ev.Time.Before(q.Since) || !covers(q.Paths, ev.Path) {
			continue
		}
		events = append(events, *ev)
		if q.Limit > 0 && len(events) == q.Limit {
			break
		}
	}
	return events, seen
}

// Next waits until there is an event after the given number and returns some of those that are kept, oldest first. A jump
// in the numbers tells that events in between are no longer kept. It returns early with ctx's error.
func (j *Journal) Next(ctx context.Context, after tree.Seq) ([]tree.Event, error) {
	f := j.Follow(Query{After: after})
	events, _, err := f.Next(ctx)
	return events, err
}

// Follower reads the selected events as they come. It belongs to one goroutine and needs no closing: it holds nothing.
type Follower struct {
	journal *Journal
	query   Query
}

// batch is the most that one Next returns.
const batch = 512

// Follow returns a reader of the selected events that are kept and of all that come.
func (j *Journal) Follow(q Query) *Follower {
	q.Limit = batch
	j.mu.Lock()
	defer j.mu.Unlock()
	if oldest := j.kept.oldest(); q.After+1 < oldest {
		q.After = oldest - 1
	}
	return &Follower{journal: j, query: q}
}

// Next waits for events and returns them, oldest first, with how many events of any path were dropped unread before them
// because the follower was too slow. It returns early with ctx's error.
func (f *Follower) Next(ctx context.Context) (events []tree.Event, missed int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, missed, err
		}
		events, bell := f.take(&missed)
		if len(events) > 0 || missed > 0 {
			return events, missed, nil
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return nil, missed, ctx.Err()
		}
	}
}

// take returns what is there, or a bell that rings with the next event.
func (f *Follower) take(missed *int) ([]tree.Event, <-chan struct{}) {
	j := f.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if oldest := j.kept.oldest(); f.query.After+1 < oldest {
		*missed += int(oldest - 1 - f.query.After)
		f.query.After = oldest - 1
	}
	events, seen := j.selected(f.query)
	f.query.After = seen
	if len(events) > 0 {
		return events, nil
	}
	if j.bell == nil {
		j.bell = make(chan struct{})
	}
	return nil, j.bell
}

// covers tells whether the path is one of the nodes or below one.
func covers(nodes []string, path string) bool {
	return len(nodes) == 0 || slices.ContainsFunc(nodes, func(node string) bool { return tree.Under(node, path) })
}
