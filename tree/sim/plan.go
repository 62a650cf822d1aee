package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// downMoment is how long a process lives that finds what it needs down.
const downMoment = 100 * time.Millisecond

// plan lets the faults of an experiment happen.
type plan struct {
	w     *World
	seed  uint64
	rules [][]*rule // by lane
	dices []tree.Dice
	idle  []string // faults that cannot do what they say
}

// rule is a fault at one path.
type rule struct {
	*Fault
	lane *lane
	left int // how often it may still come; -1: always
	came int
}

// newPlan finds out whom the faults mean. lenient leaves out paths that nobody has, and says so in idle.
func newPlan(w *World, seed uint64, faults []Fault, lenient bool) (*plan, []*Mistake) {
	p := &plan{w: w, seed: seed, rules: make([][]*rule, len(w.list)), dices: make([]tree.Dice, len(w.list))}
	var mistakes []*Mistake
	for i := range faults {
		f := &faults[i]
		for _, path := range f.paths {
			leaves, why := w.meant(path.text)
			if why != "" && lenient && len(leaves) == 0 {
				p.idle = append(p.idle, fmt.Sprintf("%q does nothing here: %s", f.text, why))
				continue
			}
			if why != "" {
				mistakes = append(mistakes, &Mistake{File: f.file, Line: f.line, Column: path.column, Text: why, Source: f.source})
				continue
			}
			for _, l := range leaves {
				p.add(f, l)
			}
		}
	}
	return p, mistakes
}

func (p *plan) add(f *Fault, l *lane) {
	r := &rule{Fault: f, lane: l, left: -1}
	if f.times > 0 {
		r.left = f.times
	}
	p.rules[l.index] = append(p.rules[l.index], r)
	if f.kind == faultReady && l.spec.Run != nil && l.spec.Run.Ready.None() {
		p.idle = append(p.idle, fmt.Sprintf("%q does nothing to %s: it has no readiness check, and is ready once it is executed", f.text, l.path))
	}
}

// notes says which faults did nothing, and why if that is known.
func (p *plan) notes(faults []Fault) []string {
	came := map[*Fault]bool{}
	there := map[*Fault]bool{}
	for _, rules := range p.rules {
		for _, r := range rules {
			there[r.Fault] = true
			came[r.Fault] = came[r.Fault] || r.came > 0
		}
	}
	list := p.idle
	for i := range faults {
		if f := &faults[i]; there[f] && !came[f] {
			list = append(list, fmt.Sprintf("%q never came: its time, its chance and a process to strike did not meet", f.text))
		}
	}
	return list
}

// meant returns the leaves that a path names: itself, its replicas, or all below it. A shorter tail will do if only one
// node has it. Else it says why not.
func (w *World) meant(path string) (leaves []*lane, why string) {
	if path == "*" {
		return w.leaves(w.list[0]), ""
	}
	if l := w.lanes[path]; l != nil {
		return w.leaves(l), ""
	}
	var found []string // the paths, without the number of a lone replica
	var first []*lane
	for _, l := range w.list {
		name := l.path
		if i := strings.LastIndexByte(name, '.'); i > 0 && !hasTail(name, path) {
			name = name[:i]
		}
		if !hasTail(name, path) || slices.Contains(found, name) {
			continue
		}
		found = append(found, name)
		first = append(first, l)
	}
	switch len(found) {
	case 1:
		return w.leaves(first[0]), ""
	case 0:
		return nil, fmt.Sprintf("no node is called %q; the leaves are %s", path, w.some())
	}
	return first, fmt.Sprintf("%q can mean %s; write more of the path", path, strings.Join(found, ", "))
}

func hasTail(path, tail string) bool { return path == tail || strings.HasSuffix(path, "/"+tail) }

// leaves returns the leaves at and below a lane.
func (w *World) leaves(l *lane) []*lane {
	if !l.spec.IsSupervisor() {
		return []*lane{l}
	}
	var list []*lane
	for _, k := range w.list {
		if !k.spec.IsSupervisor() && under(k, l) {
			list = append(list, k)
		}
	}
	return list
}

// some lists a few leaves for people.
func (w *World) some() string {
	var names []string
	for _, l := range w.list {
		if !l.spec.IsSupervisor() {
			names = append(names, l.path)
		}
	}
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + fmt.Sprintf(" and %d more", len(names)-8)
	}
	return strings.Join(names, ", ")
}

// begin schedules what has a time of its own.
func (p *plan) begin() {
	for _, rules := range p.rules {
		for _, r := range rules {
			switch {
			case r.kind == faultDown:
				p.w.After(r.at, func() { p.outage(r) })
			case r.trigger == atTimes:
				p.w.After(r.at, func() { p.occur(r) })
			case r.trigger == perSecond && r.from > 0:
				p.w.After(r.from, func() { p.draw(r, r.lane.newest) })
			}
		}
	}
}

// occur is one of the moments of a fault that has them.
func (p *plan) occur(r *rule) {
	if p.w.clock.now > r.end || r.left == 0 {
		return
	}
	p.strike(r, r.lane.newest)
	if r.every > 0 {
		p.w.After(r.every, func() { p.occur(r) })
	}
}

// strike does what a fault says, if there is somebody to do it to.
func (p *plan) strike(r *rule, n *Node) {
	if n == nil || n.gone || n.leaving || (n.worker != nil && !n.process.runs) || (n.worker == nil && !n.up) ||
		r.left == 0 || p.w.clock.now > r.end || !p.hits(r) {
		return
	}
	r.left = max(r.left-1, -1)
	p.mark(r)
	if r.kind == faultHang {
		p.w.hang(n, r.lasts)
		return
	}
	p.w.die(n, r.exit)
}

func (p *plan) mark(r *rule) {
	r.came++
	if p.w.tally != nil {
		p.w.tally.mark(r)
	}
}

// die ends a leaf of either kind.
func (w *World) die(n *Node, exit tree.Exit) {
	if n.worker != nil {
		w.exit(n, exit, 0)
		return
	}
	normal := n.Spec.Restart.NormalExits
	reason := tree.Reason{Class: tree.Crash, Text: "signal " + exit.Signal}
	if exit.Signal == "" {
		reason.Text = fmt.Sprintf("exit %d", exit.Code)
		if slices.Contains(normal, exit.Code) || normal == nil && exit.Code == 0 {
			reason.Class = tree.Normal
		}
	}
	w.ends(n, reason)
}

// hits rolls the dice of a fault that comes with a probability.
func (p *plan) hits(r *rule) bool {
	return r.probability >= 1 || r.trigger == perSecond || p.dice(r.lane).Float64() < r.probability
}

func (p *plan) dice(l *lane) tree.Dice {
	if p.dices[l.index] == nil {
		p.dices[l.index] = Dice(mix(p.seed, "fault of "+l.path))
	}
	return p.dices[l.index]
}

// mix makes a seed for one purpose, so that no draw changes another (FNV-1a).
func mix(seed uint64, purpose string) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := 0; i < len(purpose); i++ {
		h = (h ^ uint64(purpose[i])) * 1099511628211
	}
	return h
}

// outage begins a down: who runs ends.
func (p *plan) outage(r *rule) {
	p.mark(r)
	if n := r.lane.newest; n.Exists() && !n.leaving {
		p.w.die(n, tree.Exit{Code: 1})
	}
}

// now tells whether a rule without a trigger of its own concerns this start.
func (p *plan) now(r *rule) bool {
	if r.trigger != always || r.left == 0 || p.w.clock.now < r.from || p.w.clock.now >= r.end || !p.hits(r) {
		return false
	}
	r.left = max(r.left-1, -1)
	return true
}

// life says what a new incarnation will do.
func (p *plan) life(n *Node) Life {
	var life Life
	if n.lane.index >= len(p.rules) {
		return life // a dynamic child
	}
	for _, r := range p.rules[n.lane.index] {
		if !p.now(r) {
			continue
		}
		switch r.kind {
		case faultStart:
			life.Outcome, life.End = Fails, tree.Reason{Class: tree.Crash, Text: "cannot start: simulated"}
			p.mark(r)
		case faultReady:
			r.came++
			life.Start, life.Never = r.takes, r.never
		case faultStop:
			r.came++
			life.Stop = r.takes
		case faultDown:
			if n.worker == nil {
				life.Outcome, life.Start, life.End = Fails, downMoment, tree.Reason{Class: tree.Crash, Text: "exit 1"}
				continue
			}
			life.Never = true
			p.w.After(downMoment, func() { p.w.exit(n, tree.Exit{Code: 1}, 0) })
		}
	}
	return life
}

// ready begins what comes after a leaf is up.
func (p *plan) ready(n *Node) {
	if n.lane.index >= len(p.rules) {
		return
	}
	for _, r := range p.rules[n.lane.index] {
		switch {
		case r.trigger == afterReady && p.w.clock.now+r.after >= r.from:
			p.w.After(r.after, func() { p.strike(r, n) })
		case r.trigger == perSecond && p.w.clock.now >= r.from:
			p.draw(r, n)
		}
	}
}

// draw decides when a leaf ends that ends with some probability in each second.
func (p *plan) draw(r *rule, n *Node) {
	if n.Alive() && p.w.clock.now <= r.end {
		p.w.After(lifetime(p.dice(r.lane), r.probability), func() { p.strike(r, n) })
	}
}
