// Package sim runs a tree of supervisor machines under virtual time. It starts nothing: leaves are simulated, a minute
// takes as long as its facts, and the same world always takes the same course.
package sim

import (
	"container/heap"
	"sort"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Outcome is what becomes of one start of a leaf.
type Outcome int

// The outcomes.
const (
	OK Outcome = iota
	Fails
	Ignores
)

// Life is what one incarnation of a leaf does.
type Life struct {
	Outcome Outcome
	Start   time.Duration // from the order to the outcome
	For     time.Duration // how long it runs by itself; 0: until it is told to go
	End     tree.Reason   // how it ends by itself, or why its start fails
	Stop    time.Duration // how long it takes to go when asked
}

// Options are what a world leaves to its owner. All are optional.
type Options struct {
	// Lives says what an incarnation of a leaf does.
	Lives func(ref tree.Ref, spec *tree.Spec) Life
	Dice  tree.Dice
	// Seen hears every fact that a supervisor gets, and every order that it gives. Trace hears what happens to the nodes.
	Fact  func(path string, fact tree.Fact)
	Order func(path string, order tree.Order)
	Trace func(what, name, detail string)
	// Patient makes a stop wait its turn in a supervisor's queue, and bounds how long a supervisor may take to go by its
	// Shutdown: what OTP does and Coppice does not.
	Patient bool
}

// World is a tree of machines and the simulated leaves below them.
type World struct {
	opt    Options
	begin  time.Time
	now    time.Time
	events schedule
	count  uint64
	seq    tree.Seq
	top    *Node
	pasts  map[string]tree.Past
	nodes  map[string]*Node // the newest node of each name
}

// Node is one incarnation of one node of the world.
type Node struct {
	Name, Path string
	Inc        int
	Spec       *tree.Spec
	parent     *Node
	kids       map[string]*Node
	order      []*Node
	machine    *tree.Supervisor // nil for a leaf
	life       Life
	up, gone   bool
	leaving    bool
}

// New returns a world at rest at an arbitrary moment.
func New(spec tree.Spec, opt Options) *World {
	w := &World{opt: opt, begin: time.Unix(1_000_000_000, 0), pasts: map[string]tree.Past{}, nodes: map[string]*Node{}}
	w.now = w.begin
	w.top = &Node{Name: spec.Name, Path: spec.Name, Inc: 1, Spec: &spec}
	return w
}

// Boot starts the tree.
func (w *World) Boot() { w.begins(w.top) }

// Now is how much virtual time has passed.
func (w *World) Now() time.Duration { return w.now.Sub(w.begin) }

// Find returns the newest incarnation of the node of that name, nil if it never ran.
func (w *World) Find(name string) *Node { return w.nodes[name] }

// Alive lists the names of all nodes that are up, sorted.
func (w *World) Alive() []string {
	names := []string{}
	for name, n := range w.nodes {
		if n.Alive() {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Top is the root.
func (w *World) Top() *Node { return w.top }

// Alive tells whether the node is there: up, or on its way down.
func (n *Node) Alive() bool { return n != nil && !n.gone && n.up }

// Exists tells whether anything of the node is there.
func (n *Node) Exists() bool { return n != nil && !n.gone }

// Run lets everything happen that is due until then.
func (w *World) Run(until time.Duration) {
	end := w.begin.Add(until)
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// Tell gives a supervisor a fact, after all that is due at this moment.
func (w *World) Tell(n *Node, fact tree.Fact) {
	w.after(0, func() { w.step(n, fact) })
}

// NextSeq returns a number for a fact.
func (w *World) NextSeq() tree.Seq { w.seq++; return w.seq }

// Kill ends a leaf as if by itself. It tells its parent.
func (w *World) Kill(n *Node, r tree.Reason) bool {
	if !n.Alive() || n.machine != nil {
		return false
	}
	w.ends(n, r)
	return true
}

// Crush ends a supervisor without a chance to stop its children in order: leaves below it die with it, supervisors below
// it stop what they have.
func (w *World) Crush(n *Node) bool {
	if !n.Exists() || n.machine == nil {
		return false
	}
	killed := tree.Reason{Class: tree.Crash, Text: "killed"}
	w.ends(n, killed)
	for _, k := range n.order {
		if !k.Exists() {
			continue
		}
		k.parent = nil
		if k.machine == nil {
			w.ends(k, killed)
		} else {
			w.Tell(k, tree.Halt{Reason: killed, Seq: w.NextSeq()})
		}
	}
	return true
}

func (w *World) trace(what, name, detail string) {
	if w.opt.Trace != nil {
		w.opt.Trace(what, name, detail)
	}
}

// step hands a fact to a machine and does what it orders.
func (w *World) step(n *Node, fact tree.Fact) {
	if n.gone {
		return
	}
	if w.opt.Fact != nil {
		w.opt.Fact(n.Path, fact)
	}
	for _, o := range n.machine.Step(w.now, fact) {
		if w.opt.Order != nil {
			w.opt.Order(n.Path, o)
		}
		w.do(n, o)
	}
}

// begins brings a node into the world.
func (w *World) begins(n *Node) {
	w.nodes[n.Name] = n
	if n.Spec.IsSupervisor() {
		w.trace("start", n.Name, "")
		n.kids = map[string]*Node{}
		n.machine = tree.NewSupervisor(*n.Spec, w.pasts[n.Path], w.opt.Dice)
		w.Tell(n, tree.Boot{Seq: w.NextSeq()})
		return
	}
	if w.opt.Lives != nil {
		n.life = w.opt.Lives(tree.Ref{Path: n.Path, Inc: n.Inc}, n.Spec)
	}
	if n.life.Start == 0 {
		w.outcome(n)
		return
	}
	w.after(n.life.Start, func() { w.outcome(n) })
}

// outcome settles the start of a leaf. One that was told to go meanwhile still finishes its start first.
func (w *World) outcome(n *Node) {
	if n.gone {
		return
	}
	switch n.life.Outcome {
	case Fails:
		n.gone = true
		w.trace("fail", n.Name, "")
		w.down(n, n.life.End)
	case Ignores:
		n.gone = true
		w.trace("ignore", n.Name, "")
		w.Tell(n.parent, tree.Ignored{Child: n.Name, Inc: n.Inc, Seq: w.NextSeq()})
	default:
		n.up = true
		w.trace("start", n.Name, "")
		w.Tell(n.parent, tree.Up{Child: n.Name, Inc: n.Inc, Seq: w.NextSeq()})
		if n.leaving {
			w.leave(n, n.Spec.Shutdown)
			return
		}
		if n.life.For > 0 {
			w.after(n.life.For, func() { w.ends(n, n.life.End) })
		}
	}
}

// leave lets a leaf go, in the time that it takes and may take.
func (w *World) leave(n *Node, bound time.Duration) {
	told := tree.Reason{Class: tree.Shutdown, Text: "shutdown"}
	killed := tree.Reason{Class: tree.Crash, Text: "killed"}
	switch {
	case bound == 0:
		w.ends(n, killed)
	case n.life.Stop > bound:
		w.after(bound, func() { w.ends(n, killed) })
	case n.life.Stop > 0:
		w.after(n.life.Stop, func() { w.ends(n, told) })
	default:
		w.ends(n, told)
	}
}

// ends takes a node out of the world and tells its parent.
func (w *World) ends(n *Node, r tree.Reason) {
	if n.gone {
		return
	}
	n.gone = true
	text := r.Text
	if n.machine != nil && r.Class == tree.Shutdown && text != "shutdown_term" {
		text = "shutdown"
	}
	w.trace("exit", n.Name, text)
	w.down(n, r)
}

func (w *World) down(n *Node, r tree.Reason) {
	if n.machine != nil {
		w.pasts[n.Path] = n.machine.Past()
	}
	if n.parent != nil {
		w.Tell(n.parent, tree.Down{Child: n.Name, Inc: n.Inc, Reason: r, Seq: w.NextSeq()})
	}
}

// do carries out one order of a supervisor.
func (w *World) do(n *Node, order tree.Order) {
	switch o := order.(type) {
	case tree.Start:
		k := &Node{Name: o.Child, Path: tree.ChildPath(n.Path, n.Spec.Kind, o.Child), Inc: o.Inc, Spec: o.Spec, parent: n}
		n.kids[o.Child] = k
		n.order = append(n.order, k)
		w.begins(k)
	case tree.Stop:
		w.stop(n.kids[o.Child], o.Kill)
	case tree.WakeAfter:
		w.after(o.After, func() { w.step(n, tree.Wake{Token: o.Token, Seq: w.NextSeq()}) })
	case tree.ReportUp:
		if !n.up {
			w.trace("ready", n.Name, "")
		}
		n.up = true
		if n.parent != nil {
			w.Tell(n.parent, tree.Up{Child: n.Name, Inc: n.Inc, Seq: w.NextSeq()})
		}
	case tree.ReportUnready:
		if n.parent != nil {
			w.Tell(n.parent, tree.Unready{Child: n.Name, Inc: n.Inc, Reason: o.Reason, Seq: w.NextSeq()})
		}
	case tree.Escalate:
		w.trace("escalate", n.Name, "")
	case tree.Quit:
		if n.up {
			w.ends(n, o.Reason)
			return
		}
		n.gone = true
		w.trace("fail", n.Name, "")
		w.down(n, o.Reason)
	}
}

func (w *World) stop(k *Node, kill bool) {
	if k == nil || k.gone {
		return
	}
	if k.machine == nil {
		k.leaving = true
		bound := k.Spec.Shutdown
		if kill {
			bound = 0
		}
		if k.up || kill {
			w.leave(k, bound)
		}
		return
	}
	if w.opt.Patient && k.Spec.Shutdown == 0 {
		w.Crush(k)
		return
	}
	w.Tell(k, tree.Halt{Kill: kill, Wait: w.opt.Patient, Seq: w.NextSeq()})
	if w.opt.Patient && k.Spec.Shutdown < tree.Forever {
		w.after(k.Spec.Shutdown, func() { w.Crush(k) })
	}
}

// after schedules something; what is due at the same moment happens in the order of its scheduling.
func (w *World) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.events, event{at: w.now.Add(d), n: w.count, do: do})
}

type event struct {
	at time.Time
	n  uint64
	do func()
}

type schedule []event

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	if !s[i].at.Equal(s[j].at) {
		return s[i].at.Before(s[j].at)
	}
	return s[i].n < s[j].n
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(e any)   { *s = append(*s, e.(event)) }
func (s *schedule) Pop() any {
	old := *s
	e := old[len(old)-1]
	*s = old[:len(old)-1]
	return e
}
