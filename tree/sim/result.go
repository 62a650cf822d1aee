package sim

import (
	"slices"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Result is what an experiment showed.
type Result struct {
	Seed     uint64
	Until    time.Duration // how long it lasted
	GaveUp   time.Duration // when the root ended; 0: it did not
	Reason   string        // why it did
	Facts    uint64        // that the machines were told
	Restarts int           // automatic ones, of all nodes
	Warnings []string      // of Warnings
	Notes    []string      // faults that could not do what they say

	Nodes []Summary // in the order of the specification, the root first
	// Events are the journal entries that were kept. Missing tells how many were not, and After behind how many of Events
	// they are missing.
	Events         []tree.Event
	After, Missing int

	Marks []Mark // with Picture
	// Cut is when the picture became too large, and the rest of it is missing; 0: it is complete.
	Cut time.Duration

	begin   time.Time
	entries []entry
}

// Summary is what an experiment showed of one node.
type Summary struct {
	Path     string // of the root: its name
	Kind     tree.Kind
	Strategy tree.Strategy // of a supervisor
	Depth    int
	// Starts counts all of them, Restarts the automatic ones that the node's own supervisor decided. Failures are ends and
	// failed starts that nobody asked for; Escalations, how often it gave up.
	Starts, Restarts, Failures, Escalations int
	// In is the time in each of States. Downtime is the time in which a node was wanted and did not serve: a leaf that is
	// not up, a supervisor that is not up itself (it may be degraded). Longest is the longest stretch of that.
	In                [len(States)]time.Duration
	Downtime, Longest time.Duration
	State             tree.State // in the end
	Bound             Bound      // of a leaf, for a life of no length
	Blast             []Hit      // other nodes that were started again because this one failed
	Spans             []Span     // with Picture
}

// Hit is one node of a blast radius, and how often it was started again.
type Hit struct {
	Path   string
	Starts int
}

// Leaf tells whether the node is one.
func (s *Summary) Leaf() bool { return s.Strategy == "" }

func (w *World) result(x Experiment) *Result {
	r := &Result{Seed: x.Seed, Until: w.clock.now, Facts: w.facts, Warnings: Warnings(&x.Spec), Notes: w.plan.notes(x.Faults),
		Marks: w.tally.marks, Cut: w.tally.cut, begin: w.begin}
	if w.top.gone {
		r.GaveUp, r.Reason = w.over, w.why
	}
	for _, l := range w.list {
		r.Nodes = append(r.Nodes, w.summary(l))
		s := &r.Nodes[len(r.Nodes)-1]
		r.Restarts += s.Restarts
		if s.Leaf() {
			s.Bound = boundOf(l, 0)
		}
	}
	r.entries, r.After, r.Missing = w.tally.kept()
	for i := range r.entries {
		r.Events = append(r.Events, r.entries[i].event(w.begin))
	}
	return r
}

// boundOf is BoundOf for a leaf whose place is known.
func boundOf(l *lane, life time.Duration) Bound {
	var chain []at
	for ; l != nil; l = l.parent {
		chain = append(chain, at{l.path, l.spec})
	}
	return chainBound(chain, life)
}

func (w *World) summary(l *lane) Summary {
	k := &w.tally.tracks[l.index]
	s := Summary{Path: l.path, Kind: l.spec.Kind, Starts: k.starts, Restarts: k.restarts, Failures: k.failures,
		Escalations: k.escalations, In: k.in, Downtime: k.downtime, Longest: k.longest, State: States[k.phase], Spans: k.spans}
	if l.spec.IsSupervisor() {
		s.Strategy = l.spec.Supervise.StrategyOr()
	}
	for up := l.parent; up != nil; up = up.parent {
		s.Depth++
	}
	for index, n := range k.blast {
		s.Blast = append(s.Blast, Hit{w.list[index].path, n})
	}
	slices.SortFunc(s.Blast, func(a, b Hit) int { return w.lanes[a.Path].index - w.lanes[b.Path].index })
	return s
}

// title is a path for people: the root of a configuration has no name.
func title(path string) string {
	if path == "" {
		return "host"
	}
	return path
}
