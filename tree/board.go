package tree

import (
	"slices"
	"strings"
	"time"
)

// Observation is something true of a node now that is not history: it changes too often, or matters too little, to be
// a journal entry. Nil fields say nothing.
type Observation struct {
	PID     *int
	Socket  *string
	Port    *int
	Status  *string
	Health  *Pulse
	Dropped *int64
	Intent  *string
	// Waiting is the reason of a node that waits for another ("after db"); it becomes StateWaiting.
	Waiting *string
	// NextAt is when something will happen by itself: a schedule's next run. The zero time takes it back.
	NextAt *time.Time
	At     time.Time
}

// Board is the status of a whole tree: the fold of journal entries and observations over a spec. It decides nothing and
// remembers no history. It is not safe for concurrent use; what Nodes and Node return is the caller's own.
type Board struct {
	root   *entry
	byPath map[string]*entry
	began  time.Time // of the first thing it heard
}

// entry is what the board knows of one node. Its own state is what its own entries say; what an observer sees also
// depends on the nodes above and below, see view.
type entry struct {
	path     string
	kind     Kind
	strategy Strategy // "" for a leaf
	disabled bool
	origin   origin
	parent   *entry
	children []*entry

	fresh    bool // nothing has happened since its supervisor (re)started
	state    State
	since    time.Time
	reason   string
	restarts int
	inc      int
	nextAt   *time.Time
	intent   string
	leaf     Leaf
}

// origin says why the board knows a node, and so when it forgets it.
type origin int

const (
	declared origin = iota // by the spec
	dynamic                // added while the tree runs: stays until it is forgotten
	leaving                // was declared once: stays until it has stopped
)

// NewBoard returns the board of a tree of which nothing is known yet. The root stands for the host: its path is "",
// whatever its name.
func NewBoard(root Spec) *Board {
	b := &Board{byPath: map[string]*entry{}}
	b.Set(root)
	return b
}

// Set takes on another spec. Nodes of the same path keep what is known of them; one that is declared no longer stays
// until it has stopped.
func (b *Board) Set(root Spec) {
	old := b.byPath
	b.byPath = make(map[string]*entry, len(old))
	b.root = b.declare(old, nil, "", &root)
	paths := make([]string, 0, len(old))
	for path := range old {
		if b.byPath[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		e := old[path]
		if e.alive() || (e.origin == dynamic && b.byPath[e.parent.path] != nil) {
			b.keep(old, e)
		}
	}
}

// keep hangs an entry of the old tree below the entry of its parent's path in the new one, parents first.
func (b *Board) keep(old map[string]*entry, e *entry) {
	if b.byPath[e.path] == e {
		return
	}
	if b.byPath[e.parent.path] == nil {
		b.keep(old, e.parent)
	}
	e.parent = b.byPath[e.parent.path]
	if e.origin == declared {
		e.origin = leaving
	}
	e.children = nil // those that stay come here by themselves
	e.parent.children = append(e.parent.children, e)
	b.byPath[e.path] = e
}

// declare makes the entries of a spec and all below it, from the old ones where there are any.
func (b *Board) declare(old map[string]*entry, parent *entry, path string, spec *Spec) *entry {
	e := old[path]
	if e == nil {
		e = newEntry(path, spec)
	}
	e.kind, e.disabled, e.origin, e.parent, e.strategy = spec.Kind, spec.Disabled, declared, parent, ""
	if spec.IsSupervisor() {
		e.strategy = spec.Supervise.StrategyOr()
	}
	b.byPath[path] = e
	e.children = make([]*entry, 0, len(spec.Children))
	if e.strategy == SimpleOneForOne {
		return e // its only child is a template
	}
	for i := range spec.Children {
		child := &spec.Children[i]
		at := ChildPath(path, spec.Kind, child.Name)
		if b.byPath[at] == nil {
			e.children = append(e.children, b.declare(old, e, at, child))
		}
	}
	return e
}

func newEntry(path string, spec *Spec) *entry {
	e := &entry{path: path, kind: spec.Kind, disabled: spec.Disabled}
	e.refresh()
	return e
}

// refresh brings an entry back to where nothing has happened yet, all but what is remembered for good.
func (e *entry) refresh() {
	e.fresh, e.state, e.reason, e.nextAt, e.since = true, StateWaiting, "not started yet", nil, time.Time{}
	if e.disabled && e.intent != "started" {
		e.state, e.reason = StateStopped, "not enabled"
	}
	e.leaf.Ready, e.leaf.PID = false, 0
}

// alive tells whether something of the node or below it may still run.
func (e *entry) alive() bool {
	switch e.state {
	case StateStarting, StateRunning, StateStopping:
		return true
	}
	return slices.ContainsFunc(e.children, (*entry).alive)
}

// Add makes a dynamic child known, with all below it, last among its siblings. It does nothing for an unknown parent
// or a known path.
func (b *Board) Add(parent string, spec Spec) {
	p := b.byPath[parent]
	if p == nil {
		return
	}
	path := ChildPath(parent, p.kind, spec.Name)
	if b.byPath[path] != nil {
		return
	}
	e := b.declare(nil, p, path, &spec)
	e.origin = dynamic
	p.children = append(p.children, e)
}

// Forget removes a node that its supervisor knows no longer, and all below it.
func (b *Board) Forget(path string) {
	e := b.byPath[path]
	if e == nil || e.parent == nil {
		return
	}
	e.parent.children = slices.DeleteFunc(e.parent.children, func(x *entry) bool { return x == e })
	b.drop(e)
}

func (b *Board) drop(e *entry) {
	delete(b.byPath, e.path)
	for _, child := range e.children {
		b.drop(child)
	}
}

// find returns the entry of a path, and makes one for a dynamic child that has just been started.
func (b *Board) find(ev *Event) *entry {
	if e := b.byPath[ev.Path]; e != nil || ev.Kind != EventStarting {
		return e
	}
	dir, name := "", ev.Path
	if i := strings.LastIndexByte(ev.Path, '/'); i >= 0 {
		dir, name = ev.Path[:i], ev.Path[i+1:]
	}
	parent := b.byPath[dir]
	if i := strings.LastIndexByte(ev.Path, '.'); i > len(dir) && b.byPath[ev.Path[:i]] != nil {
		parent = b.byPath[ev.Path[:i]]
	}
	if parent == nil || parent.strategy == "" {
		return nil
	}
	kind := KindWorker
	if parent.kind == KindPart {
		kind = KindPart
	}
	e := newEntry(ev.Path, &Spec{Name: name, Kind: kind})
	e.parent, e.origin = parent, dynamic
	parent.children = append(parent.children, e)
	b.byPath[ev.Path] = e
	return e
}
