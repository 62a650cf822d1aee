package sim

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The states of a node in a tally: the eight that users see, and two that they see beside them. A supervisor is degraded
// that is up while one of its children is not as wanted; a worker is unready that runs but cannot serve for now.
const (
	StateDegraded tree.State = "degraded"
	StateUnready  tree.State = "unready"
)

// States lists all states of a tally, the best first.
var States = [...]tree.State{tree.StateRunning, StateDegraded, StateUnready, tree.StateStarting, tree.StateWaiting,
	tree.StateBackoff, tree.StateStopping, tree.StateFailed, tree.StateStopped, tree.StateDone}

func phaseOf(s tree.State) uint8 {
	for i, state := range States {
		if s == state {
			return uint8(i)
		}
	}
	return 0
}

const (
	running  = 0
	degraded = 1
	starting = 3
	waiting  = 4
	stopped  = 8
	done     = 9
)

// tally is what an experiment counts while the world turns. It folds entries into states as tree.Board does.
type tally struct {
	w       *World
	tracks  []track
	origins []int32 // whose fault each entry goes back to, by its number; -1: nobody's
	begin   time.Time

	keep    int // how many entries to keep; -1: all
	head    []entry
	tail    []entry
	tailAt  int
	entries int

	picture bool // keep spans and marks too
	spans   int
	cut     time.Duration // when the picture became too large; 0: it did not
	marks   []Mark
}

// maxSpans bounds what is kept for a picture. More would be less than a dot each.
const maxSpans = 50_000

// track is the course of one lane.
type track struct {
	base, phase uint8 // what its own entries say; and with its children
	bad         int   // children that are not as wanted
	held        bool  // not enabled
	fresh       bool  // nothing has happened since its supervisor was started
	since       time.Duration
	in          [len(States)]time.Duration
	downSince   time.Duration // -1: not down
	downtime    time.Duration
	longest     time.Duration
	starts      int
	restarts    int
	failures    int
	escalations int
	blast       map[int]int
	spans       []Span
}

// Span is a time in one state.
type Span struct {
	From, To time.Duration
	State    tree.State
}

// Mark is something that struck a node: a fault, or that it gave up.
type Mark struct {
	At   time.Duration
	Node int    // its place in Result.Nodes
	What string // "exit 1", "hang", "escalated", ...
	To   time.Duration
}

// escalated is the What of a Mark at a supervisor that gave up.
const escalated = "escalated"

func newTally(w *World, keep int, picture bool) *tally {
	t := &tally{w: w, begin: w.begin, keep: keep, picture: picture, origins: []int32{-1}}
	for _, l := range w.list {
		t.join(l)
	}
	return t
}

// join begins the track of a lane.
func (t *tally) join(l *lane) {
	for len(t.tracks) <= l.index {
		t.tracks = append(t.tracks, track{base: waiting, phase: waiting, downSince: 0, fresh: true})
	}
	k := &t.tracks[l.index]
	if l.spec.Disabled {
		k.base, k.phase, k.held, k.downSince = stopped, stopped, true, -1
		return
	}
	if l.parent != nil {
		t.tracks[l.parent.index].bad++
	}
}

// see takes on an entry.
func (t *tally) see(e *entry) {
	if e.lane.index >= len(t.tracks) {
		t.join(e.lane)
	}
	origin := int32(-1)
	switch {
	case e.own:
		origin = int32(e.lane.index)
	case int(e.cause) < len(t.origins):
		origin = t.origins[e.cause]
	}
	if e.kind == "" {
		if e.state == "" { // a start failed: what it causes is its own
			t.tracks[e.lane.index].failures++
			t.origins[e.cause] = origin
			return
		}
		t.become(e.lane, e.state, e.at)
		return
	}
	t.origins = append(t.origins, origin)
	t.store(e)
	k := &t.tracks[e.lane.index]
	switch e.kind {
	case tree.EventStarting:
		t.begins(e, origin)
	case tree.EventReady:
		t.become(e.lane, tree.StateRunning, e.at)
	case tree.EventUnready:
		t.become(e.lane, StateUnready, e.at)
	case tree.EventExited:
		if e.own {
			k.failures++
		}
		if k.base == starting || k.base == running || k.base == phaseOf(StateUnready) {
			t.become(e.lane, tree.StateStopping, e.at)
		}
	case tree.EventStopping:
		if e.own {
			k.failures++
		}
		t.become(e.lane, tree.StateStopping, e.at)
	case tree.EventEscalated:
		k.escalations++
		if t.picture && len(t.marks) < maxSpans {
			t.marks = append(t.marks, Mark{At: e.at, Node: e.lane.index, What: escalated})
		}
		t.become(e.lane, tree.StateStopping, e.at)
	case tree.EventBackoff:
		t.become(e.lane, tree.StateBackoff, e.at)
	case tree.EventFailed:
		t.become(e.lane, tree.StateFailed, e.at)
	case tree.EventStopped:
		t.become(e.lane, tree.StateStopped, e.at)
	case tree.EventDone:
		t.become(e.lane, tree.StateDone, e.at)
	}
}

// begins is a start: of the node, and with it of nothing that is below it yet.
func (t *tally) begins(e *entry, origin int32) {
	k := &t.tracks[e.lane.index]
	k.starts++
	k.held = false
	if e.restart {
		k.restarts++
	}
	if origin >= 0 && int(origin) != e.lane.index && k.starts > 1 {
		o := &t.tracks[origin]
		if o.blast == nil {
			o.blast = map[int]int{}
		}
		o.blast[e.lane.index]++
	}
	t.become(e.lane, tree.StateStarting, e.at)
	if k.starts > 1 && e.lane.kids != nil {
		for _, l := range t.w.list[e.lane.index+1:] {
			if !under(l, e.lane) {
				break // what is below a node comes right after it
			}
			if !t.tracks[l.index].held {
				t.become(l, tree.StateWaiting, e.at)
			}
		}
	}
}

func under(l, top *lane) bool {
	for ; l != nil; l = l.parent {
		if l == top {
			return true
		}
	}
	return false
}

// become moves a lane to a state of its own, and those above to what follows from it.
func (t *tally) become(l *lane, s tree.State, at time.Duration) {
	k := &t.tracks[l.index]
	before := k.well()
	k.base = phaseOf(s)
	t.show(l, at)
	t.tell(l, before, at)
}

// tell lets the lanes above know when a lane became well or no longer is.
func (t *tally) tell(l *lane, before bool, at time.Duration) {
	for l.parent != nil && t.tracks[l.index].well() != before {
		up := &t.tracks[l.parent.index]
		was := up.well()
		if before {
			up.bad++
		} else {
			up.bad--
		}
		t.show(l.parent, at)
		l, before = l.parent, was
	}
}

// well tells whether a node is as wanted.
func (k *track) well() bool {
	return k.base == running && k.bad == 0 || k.base == done || k.base == stopped && k.held
}

// show counts the time in the state that ends, if it does.
func (t *tally) show(l *lane, at time.Duration) {
	k := &t.tracks[l.index]
	phase := k.base
	if phase == running && k.bad > 0 {
		phase = degraded
	}
	if phase == k.phase {
		return
	}
	t.pass(k, at)
	k.phase = phase
	switch down := phase > degraded && !k.well(); {
	case down && k.downSince < 0:
		k.downSince = at
	case !down && k.downSince >= 0:
		k.up(at)
	}
}

func (k *track) up(at time.Duration) {
	k.downtime += at - k.downSince
	k.longest = max(k.longest, at-k.downSince)
	k.downSince = -1
}

// pass closes the time in a state.
func (t *tally) pass(k *track, at time.Duration) {
	if at > k.since {
		k.in[k.phase] += at - k.since
		t.span(k, at)
	}
	k.since = at
}

func (t *tally) span(k *track, at time.Duration) {
	if !t.picture || t.cut != 0 {
		return
	}
	if t.spans >= maxSpans {
		t.cut = at
		return
	}
	if n := len(k.spans); n > 0 && k.spans[n-1].State == States[k.phase] && k.spans[n-1].To == k.since {
		k.spans[n-1].To = at
		return
	}
	t.spans++
	k.spans = append(k.spans, Span{From: k.since, To: at, State: States[k.phase]})
}

// finish closes all that is open.
func (t *tally) finish(at time.Duration) {
	for i := range t.tracks {
		k := &t.tracks[i]
		t.pass(k, at)
		if k.downSince >= 0 {
			k.up(at)
		}
	}
}

// mark is a fault that strikes.
func (t *tally) mark(r *rule) {
	if !t.picture || len(t.marks) >= maxSpans {
		return
	}
	m := Mark{At: t.w.clock.now, Node: r.lane.index, What: string(r.kind)}
	switch r.kind {
	case faultExit, faultSignal:
		m.What = (&reader{f: r.Fault}).title()
	case faultDown:
		m.To = r.end
	}
	t.marks = append(t.marks, m)
}

// store keeps the first entries and the last.
func (t *tally) store(e *entry) {
	t.entries++
	first := t.keep - t.keep/4
	switch {
	case t.keep < 0 || len(t.head) < first:
		t.head = append(t.head, *e)
	case t.keep == 0:
	case len(t.tail) < t.keep/4:
		t.tail = append(t.tail, *e)
	default:
		if len(t.tail) > 0 {
			t.tail[t.tailAt] = *e
			t.tailAt = (t.tailAt + 1) % len(t.tail)
		}
	}
}

// kept returns what was kept, and after how many of them how many are missing.
func (t *tally) kept() (list []entry, after, missing int) {
	list = append(t.head[:len(t.head):len(t.head)], t.tail[t.tailAt:]...)
	list = append(list, t.tail[:t.tailAt]...)
	return list, len(t.head), t.entries - len(list)
}
