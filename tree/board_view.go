package tree

import "time"

// This file is what an observer sees: the own state of each node in the light of those above and below it.

// Nodes returns all nodes below the root in tree order: a node before its children, children in the order of the spec,
// dynamic ones last.
func (b *Board) Nodes() []Node {
	v := b.viewer(len(b.byPath))
	v.walk(b.root, nil)
	return v.nodes[1:]
}

// Node returns one node; the root's path is "".
func (b *Board) Node(path string) (Node, bool) {
	e := b.byPath[path]
	if e == nil {
		return Node{}, false
	}
	v := b.viewer(1)
	v.walk(e, b.above(e.parent))
	return v.nodes[0], true
}

// above returns the supervisor that decides how what is below p looks, p included; nil if none does.
func (b *Board) above(p *entry) *entry {
	if p == nil {
		return nil
	}
	return p.shade(b.above(p.parent))
}

// shade returns the supervisor itself if it is not at work, so that nothing below it can be; else over, which does the
// same further up. One that is only stopping gives way to one that is down.
func (e *entry) shade(over *entry) *entry {
	if over != nil && over.state != StateStopping {
		return over
	}
	if e.fresh || e.strategy == "" || e.state == StateRunning || e.state == StateStarting {
		return over
	}
	return e
}

type viewer struct {
	began  time.Time
	nodes  []Node
	leaves []Leaf
}

func (b *Board) viewer(size int) *viewer {
	return &viewer{began: b.began, nodes: make([]Node, 0, size), leaves: make([]Leaf, 0, size)}
}

// walk adds a node and all below it, and tells whether all of it is as wanted. over is the nearest supervisor from the
// top that is not at work.
func (v *viewer) walk(e, over *entry) bool {
	at := len(v.nodes)
	v.nodes = append(v.nodes, v.node(e, over))
	if e.strategy == "" {
		return e.wellLeaf()
	}
	over = e.shade(over)
	well := true
	for _, child := range e.children {
		well = v.walk(child, over) && well
	}
	n := &v.nodes[at]
	n.Degraded = !well && n.State == StateRunning
	switch e.state {
	case StateStopped, StateDone:
		return true // wanted so, with all below
	}
	return well && e.state == StateRunning
}

// wellLeaf tells whether a leaf is as wanted: it serves, or it has no need to.
func (e *entry) wellLeaf() bool {
	switch e.state {
	case StateStopped, StateDone:
		return true
	case StateRunning:
		return e.leaf.Ready || e.kind == KindSchedule
	}
	return e.kind == KindSchedule && e.state == StateWaiting && !e.fresh
}

func (v *viewer) node(e, over *entry) Node {
	n := Node{Path: e.path, Kind: e.kind, Strategy: e.strategy, State: e.state, Since: e.since, Restarts: e.restarts,
		Reason: e.reason, NextAt: e.nextAt, Intent: e.intent}
	if over != nil && e.shaded(over) {
		n.State, n.Since, n.Reason, n.NextAt = StateStopped, over.since, over.reason, nil
		if over.state == StateWaiting {
			n.State = StateWaiting // it comes with the one above
		}
	}
	if n.Since.IsZero() {
		n.Since = v.began
	}
	if e.strategy == "" {
		v.leaves = append(v.leaves, e.leaf)
		n.Leaf = &v.leaves[len(v.leaves)-1]
		n.Incarnation = e.inc
	}
	return n
}

// shaded tells whether the supervisor above decides what is seen: not over a process that is there, nor over what
// an operator or the configuration keeps stopped for itself, nor over what has ended for good. While the one above is
// still stopping, only what will not come back is told apart.
func (e *entry) shaded(over *entry) bool {
	switch {
	case e.leaf.PID != 0, e.state == StateDone:
		return false
	case e.state == StateStopped:
		return e.intent != "stopped" && !(e.fresh && e.disabled)
	case over.state == StateStopping:
		return e.state == StateWaiting || e.state == StateBackoff || e.state == StateFailed
	}
	return true
}
