package sim

import (
	"sort"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Outcome is what becomes of one start of a leaf.
type Outcome int

// The outcomes.
const (
	OK Outcome = iota
	Fails
	Ignores // of a leaf without a process only
)

// Life is what one incarnation of a leaf does.
type Life struct {
	Outcome Outcome
	Start   time.Duration // from the order to the outcome; of a process: from its execution until its checks hold
	Never   bool          // of a process: its checks never hold
	For     time.Duration // how long it runs by itself, once up; 0: until it is told to go
	End     tree.Reason   // how it ends by itself, or why its start fails
	Exit    tree.Exit     // how a process ends by itself
	Stop    time.Duration // how long it takes to go when asked
}

// Options are what a world leaves to its owner. All are optional.
type Options struct {
	// Lives says what an incarnation of a leaf does.
	Lives func(ref tree.Ref, spec *tree.Spec) Life
	Dice  tree.Dice
	// DiceOf gives each path dice of its own, instead of Dice: then what happens in one place changes no draw in another.
	DiceOf func(path string) tree.Dice
	// Fact hears every fact that a machine gets, and Order every order that it gives.
	Fact  func(path string, fact tree.Fact)
	Order func(path string, order tree.Order)
	// Stepped hears each step of a supervisor's machine as a whole.
	Stepped func(n *Node, now time.Time, fact tree.Fact, orders []tree.Order)
	// Trace hears what happens to the nodes, Event what a journal would hold.
	Trace func(what, name, detail string)
	Event func(tree.Event)
	// Patient makes a stop wait its turn in a supervisor's queue, and bounds how long a supervisor may take to go by its
	// Shutdown: what OTP does and Coppice does not.
	Patient bool
}

// World is a tree of machines and the simulated leaves below them: a tree.Supervisor for each supervisor, a tree.Worker
// for each leaf with a Run. It is not safe for concurrent use.
type World struct {
	opt    Options
	begin  time.Time
	clock  clock
	births uint64
	seq    tree.Seq
	facts  uint64
	pids   int
	top    *Node
	lanes  map[string]*lane
	list   []*lane // the order of the spec; dynamic ones last

	plan  *plan         // of an experiment: decides instead of Options.Lives
	tally *tally        // of an experiment: counts
	over  time.Duration // when the root ended
	why   string
}

// lane is all that there ever was at one path.
type lane struct {
	index  int
	path   string
	spec   *tree.Spec
	parent *lane
	kids   map[string]*lane
	newest *Node
	past   tree.Past
	dice   tree.Dice
}

// Node is one incarnation of one node of the world.
type Node struct {
	Name, Path string
	Inc        int
	Spec       *tree.Spec
	lane       *lane
	birth      uint64
	parent     *Node
	kids       map[string]*Node
	machine    *tree.Supervisor // nil for a leaf
	worker     *tree.Worker     // nil but for a leaf with a process
	process    process
	life       Life
	boot       tree.Seq // of the entry that it starts
	newest     tree.Seq // of its own newest entry, else boot
	gaveUp     tree.Seq
	up, gone   bool
	leaving    bool
}

// New returns a world at rest at an arbitrary moment.
func New(spec tree.Spec, opt Options) *World {
	w := &World{opt: opt, begin: time.Unix(1_000_000_000, 0).UTC(), lanes: map[string]*lane{}}
	root := w.declare(nil, &spec, spec.Name)
	w.top = &Node{Name: spec.Name, Path: spec.Name, Inc: 1, Spec: &spec, lane: root}
	return w
}

// declare makes the lanes of a spec and all below it.
func (w *World) declare(parent *lane, spec *tree.Spec, path string) *lane {
	l := &lane{index: len(w.list), path: path, spec: spec, parent: parent}
	w.lanes[path] = l
	w.list = append(w.list, l)
	if !spec.IsSupervisor() {
		return l
	}
	l.kids = make(map[string]*lane, len(spec.Children))
	if spec.Supervise.StrategyOr() == tree.SimpleOneForOne {
		return l // its only child is a template
	}
	for i := range spec.Children {
		child := &spec.Children[i]
		l.kids[child.Name] = w.declare(l, child, tree.ChildPath(path, spec.Kind, child.Name))
	}
	return l
}

// Boot starts the tree.
func (w *World) Boot() {
	w.top.boot = w.record(&entry{lane: w.top.lane, inc: 1, kind: tree.EventStarting, reason: "start"})
	w.begins(w.top)
}

// Now is how much virtual time has passed.
func (w *World) Now() time.Duration { return w.clock.now }

// Facts is how many facts the machines have been told.
func (w *World) Facts() uint64 { return w.facts }

// Find returns the newest incarnation of the node at that path, or of that name; nil if it never ran.
func (w *World) Find(name string) *Node {
	if l := w.lanes[name]; l != nil && strings.Contains(name, "/") {
		return l.newest
	}
	var found *Node
	for _, l := range w.list {
		if n := l.newest; n != nil && n.Name == name && (found == nil || n.birth > found.birth) {
			found = n
		}
	}
	return found
}

// Alive lists the names of all nodes that are up, sorted.
func (w *World) Alive() []string {
	names := []string{}
	for _, l := range w.list {
		if l.newest.Alive() {
			names = append(names, l.newest.Name)
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
	for w.next(until) {
	}
	w.clock.now = max(w.clock.now, until)
}

// next lets the next thing happen, if it is due until then.
func (w *World) next(until time.Duration) bool {
	e, ok := w.clock.next(until)
	switch {
	case !ok:
		return false
	case e.do != nil:
		e.do()
	default:
		w.step(e.node, e.fact)
	}
	return true
}

// Tell gives a node a fact, after all that is due at this moment.
func (w *World) Tell(n *Node, fact tree.Fact) { w.clock.schedule(0, event{node: n, fact: fact}) }

// NextSeq returns a number for a fact.
func (w *World) NextSeq() tree.Seq { w.seq++; return w.seq }

// After lets something happen when so much more time has passed.
func (w *World) After(d time.Duration, do func()) { w.clock.schedule(d, event{do: do}) }

// Kill ends a leaf as if by itself. It tells its parent. A process ends with status 0 if the reason is normal, else 1.
func (w *World) Kill(n *Node, r tree.Reason) bool {
	if n != nil && n.worker != nil {
		exit := tree.Exit{Code: 1}
		if r.Class == tree.Normal {
			exit.Code = 0
		}
		return w.exit(n, exit, 0)
	}
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
	kids := make([]*Node, 0, len(n.kids))
	for _, k := range n.kids {
		if k.Exists() {
			kids = append(kids, k)
		}
	}
	sort.Slice(kids, func(i, j int) bool { return kids[i].birth < kids[j].birth })
	for _, k := range kids {
		k.parent = nil
		switch {
		case k.machine != nil:
			w.Tell(k, tree.Halt{Reason: killed, Seq: w.NextSeq()})
		case k.worker != nil:
			w.exit(k, tree.Exit{Code: -1, Signal: "KILL"}, 1)
		default:
			w.ends(k, killed)
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
	w.facts++
	now := w.begin.Add(w.clock.now)
	var orders []tree.Order
	if n.worker != nil {
		orders = n.worker.Step(now, fact)
	} else {
		orders = n.machine.Step(now, fact)
		if w.opt.Stepped != nil {
			w.opt.Stepped(n, now, fact, orders)
		}
	}
	backoff := tree.Seq(0)
	for _, o := range orders {
		if w.opt.Order != nil {
			w.opt.Order(n.Path, o)
		}
		if n.worker != nil {
			w.carry(n, o)
		} else {
			w.do(n, o, &backoff)
		}
	}
}
