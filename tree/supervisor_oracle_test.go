package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// oracle watches the facts that a supervisor gets and the orders that it gives, and holds them against the promises of
// the package: one function each. It knows nothing of the machine's insides. Trouble is the first broken promise.
type oracle struct {
	policy   Supervise
	template Spec // of a simple supervisor
	kids     map[string]*watched
	order    []string        // of the children, in start order
	line     []StartChild    // whose turn has not come
	calls    map[uint64]bool // not answered yet
	facts    Seq
	now      time.Time
	trouble  string

	quitting, killing, quit, escalated bool
	ends                               int // unasked ends that may need a restart
	counted                            []time.Time
	lastStart, lastStop                map[Seq]int // by cause: the place of the newest automatic start and stop
}

// watched is what the facts and orders so far say of one child.
type watched struct {
	spec                     Spec
	inc, highest             int
	alive, up, ready         bool
	stopping, ignored        bool
	manualStart, manualStop  bool
	held, over, failed, done bool // over: temporary and ended; done: transient and ended as it should
	backedOff                int  // the incarnation whose end was counted by a Backoff
}

func newOracle(spec Spec) *oracle {
	o := &oracle{kids: map[string]*watched{}, lastStart: map[Seq]int{}, lastStop: map[Seq]int{},
		calls: map[uint64]bool{}}
	o.adopt(spec)
	return o
}

func (o *oracle) adopt(spec Spec) {
	o.policy = *spec.Supervise
	o.lastStart, o.lastStop = map[Seq]int{}, map[Seq]int{}
	if o.simple() {
		o.template = spec.Children[0]
		return
	}
	var order []string
	for _, c := range spec.Children {
		order = append(order, c.Name)
		w := o.kids[c.Name]
		if w == nil {
			w = &watched{held: c.Disabled}
			o.kids[c.Name] = w
		}
		w.spec, w.over = c, false
	}
	for _, name := range o.order {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	o.order = order
}

func (o *oracle) simple() bool  { return o.policy.StrategyOr() == SimpleOneForOne }
func (o *oracle) ordered() bool { return o.policy.StartOr() == Ordered }

func (o *oracle) say(promise int, format string, args ...any) {
	if o.trouble == "" {
		o.trouble = fmt.Sprintf("promise %d is broken: ", promise) + fmt.Sprintf(format, args...)
	}
}

func byOperator(reason string) bool {
	return strings.HasPrefix(reason, "started by") || strings.HasPrefix(reason, "restarted by") ||
		strings.HasPrefix(reason, "stopped by")
}

// see takes one step: first the fact, then each order.
func (o *oracle) see(now time.Time, fact Fact, orders []Order) {
	o.now = now
	wasOver := o.quit
	halted := o.learn(fact)
	if wasOver && len(orders) > 0 {
		o.say(6, "orders after Quit: %v", orders)
	}
	stepStart, stepStop := -1, len(o.order)
	for _, order := range orders {
		if name, ok := orderChild(order); ok {
			_, starts := order.(Start)
			if o.coming(name) && (o.kids[name] == nil || starts && o.kids[name].over) {
				o.learnComing(name)
			}
		}
		o.named(order)
		o.explained(order)
		switch f := order.(type) {
		case Start:
			if w := o.kids[f.Child]; w != nil {
				o.oneIncarnation(f, w)
				o.startsInOrder(f, w, &stepStart)
				o.policyHolds(f, w)
				o.restartsCounted(f, w)
				o.noStartAtTheEnd(f)
				w.inc, w.highest, w.alive, w.up, w.ready, w.stopping = f.Inc, max(w.highest, f.Inc), true, false, false, false
				w.ignored, w.manualStart, w.done, w.failed, w.over = false, byOperator(f.Reason), false, false, false
			}
		case Stop:
			if w := o.kids[f.Child]; w != nil {
				o.stopsInOrder(f, w, &stepStop)
				w.stopping, w.manualStop = true, byOperator(f.Reason)
			}
		case Backoff:
			if w := o.kids[f.Child]; w != nil && w.backedOff != f.Inc {
				w.backedOff = f.Inc
				o.count()
			}
		case Rest:
			if w := o.kids[f.Child]; w != nil {
				w.failed, w.ignored = f.State == StateFailed, w.ignored && f.Reason == "nothing to run"
				w.over = w.over || (f.State == StateDone && w.spec.Restart.PolicyOr() == Temporary)
			}
		case Forget:
			delete(o.kids, f.Child)
			o.order = slices.DeleteFunc(o.order, func(n string) bool { return n == f.Child })
		case Reply:
			if !o.calls[f.Call] {
				o.say(7, "call %d is answered twice, or never came", f.Call)
			}
			delete(o.calls, f.Call)
			if f.Error != "" {
				o.line = slices.DeleteFunc(o.line, func(s StartChild) bool { return s.Call == f.Call })
			}
		case Escalate:
			o.escalates(f)
		case Quit:
			o.quits(f)
		}
	}
	o.haltProceeds(halted)
}

// learn records what a fact says.
func (o *oracle) learn(fact Fact) (halted bool) {
	seq := func(s Seq) { o.facts = max(o.facts, s) }
	child := func(name string, inc int) *watched {
		if w := o.kids[name]; w != nil && w.inc == inc && w.alive {
			return w
		}
		return &watched{}
	}
	switch f := fact.(type) {
	case WhichChildren:
		o.calls[f.Call] = true
	case CountChildren:
		o.calls[f.Call] = true
	case Boot:
		seq(f.Seq)
	case Halt:
		seq(f.Seq)
		if !f.Wait {
			o.quitting, o.killing = true, o.killing || f.Kill
			return true
		}
	case Wake:
		seq(f.Seq)
	case Up:
		seq(f.Seq)
		w := child(f.Child, f.Inc)
		w.up, w.ready = true, true
	case Unready:
		seq(f.Seq)
		child(f.Child, f.Inc).ready = false
	case Ignored:
		seq(f.Seq)
		w := child(f.Child, f.Inc)
		if !w.up {
			w.alive, w.ignored, w.ready = false, !w.stopping, false
		}
	case Down:
		seq(f.Seq)
		w := child(f.Child, f.Inc)
		if w.alive && !w.stopping {
			o.ends++
			w.over = w.over || w.spec.Restart.PolicyOr() == Temporary
			w.done = w.spec.Restart.PolicyOr() == Transient && !f.Reason.Abnormal()
		}
		w.alive, w.up, w.ready = false, false, false
	case Hold:
		seq(f.Seq)
		if w := o.kids[f.Child]; w != nil && !o.quitting {
			w.held, w.ignored = true, false
		}
	case Release:
		seq(f.Seq)
		if w := o.kids[f.Child]; w != nil {
			w.held = false
		}
	case Bounce:
		seq(f.Seq)
		if w := o.kids[f.Child]; w != nil {
			w.held = false
		}
	case Roll:
		seq(f.Seq)
	case StartChild:
		seq(f.Seq)
		o.calls[f.Call] = true
		o.line = append(o.line, f)
	case RestartChild:
		seq(f.Seq)
		o.calls[f.Call] = true
		if w := o.kids[f.Child]; w != nil {
			w.over, w.failed = false, false
		}
	case TerminateChild:
		seq(f.Seq)
		o.calls[f.Call] = true
	case DeleteChild:
		seq(f.Seq)
		o.calls[f.Call] = true
	case ChangeSpec:
		seq(f.Seq)
		o.calls[f.Call] = true
		if f.Spec.Supervise != nil {
			o.adopt(f.Spec)
		}
	}
	return false
}

// coming tells whether a child of that name is asked for by a StartChild whose turn has not come.
func (o *oracle) coming(name string) bool {
	return slices.ContainsFunc(o.line, func(f StartChild) bool { return f.Spec.Name == name })
}

// learnComing learns of a new child, and of those that were asked for before it.
func (o *oracle) learnComing(name string) {
	for len(o.line) > 0 {
		f := o.line[0]
		o.line = o.line[1:]
		if o.kids[f.Spec.Name] == nil || f.Spec.Name == name {
			o.learnNew(f.Spec)
		}
		if f.Spec.Name == name {
			return
		}
	}
}

func (o *oracle) learnNew(spec Spec) {
	if o.simple() {
		spec.Restart = o.template.Restart
	}
	if w := o.kids[spec.Name]; w == nil {
		o.kids[spec.Name] = &watched{spec: spec}
		o.order = append(o.order, spec.Name)
	} else {
		w.over = false
	}
}
