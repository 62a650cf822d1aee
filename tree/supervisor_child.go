package tree

import (
	"slices"
	"time"
)

// phase is what exists of a child.
type phase uint8

const (
	down phase = iota
	starting
	up
	stopping
)

// idle is why a child that is down is down, which decides who may start it again.
type idle uint8

const (
	idleWaiting    idle = iota // wanted: in the sequence, at a gate, or behind its lead
	idleRestarting             // wanted: a retry or a delay is pending
	idleDone                   // ended, and its policy wants no more
	idleIgnored                // had nothing to run, which is a success
	idleStopped                // terminated or never started; a group restart starts it, as in OTP
	idleFailed                 // reached its limit; only an operator starts it
)

// ticket is a start that is wanted but not ordered yet.
type ticket struct {
	reason  string
	cause   Seq
	restart bool
	attempt int
	manual  bool // by an operator: starts at once, outside every sequence
	asked   bool // by StartChild or RestartChild: Call wants a Reply, and a failure is not retried
	fresh   bool // by StartChild: a failure leaves no spec
	call    uint64
}

// child is all that a supervisor knows of one child.
type child struct {
	spec  *Spec
	index int
	inc   int
	phase phase
	idle  idle

	dead    bool // it is gone, but its Down waits in the queue
	lapsed  bool // up, but it cannot serve for now
	held    bool // by an operator, or not enabled
	why     string
	dropped bool // a temporary one that ended: OTP no longer knows it
	dynamic bool // by StartChild: once dropped it is forgotten
	removed bool // deleted, though some list may still point here
	boot    bool // its first start is not over
	born    bool // it was started in the life of this supervisor

	after, dependents []*child // by Spec.After

	toStop   bool // waits in stops
	awaited  bool // the sequence needs it gone
	killed   bool // was told to go at once
	leaveWhy string
	leaveSeq Seq

	ticket  *ticket
	running ticket // of the start that is on its way
	queued  bool   // waits in starts
	gated   bool   // waits for those it comes after
	lead    *child // waits until this one is settled
	waiters []*child

	upAt    time.Time
	attempt int // restarts in a row
	ends    []time.Time
	slow    bool
	token   uint64 // of the wake-up that ends its delay
	due     time.Time
	round   uint64
	lastWhy string
	lastSeq Seq

	calls []uint64 // TerminateChild facts to answer once it is gone

	isWanted, isUnmet, isServing bool
}

// adopt makes a new child, last in start order.
func (s *Supervisor) adopt(spec *Spec) *child {
	c := &child{spec: spec, index: len(s.kids), inc: s.used[spec.Name]}
	s.kids = append(s.kids, c)
	s.byName[spec.Name] = c
	s.recount(c)
	return c
}

// link resolves After into pointers. A name that is no child gates nothing.
func (s *Supervisor) link() {
	for _, c := range s.kids {
		c.after, c.dependents = nil, nil
	}
	for _, c := range s.kids {
		for _, name := range c.spec.After {
			if a := s.byName[name]; a != nil {
				c.after = append(c.after, a)
				a.dependents = append(a.dependents, c)
			}
		}
	}
}

// remove takes a child off the books.
func (s *Supervisor) remove(c *child) {
	s.forgetPlans(c)
	s.free(c)
	s.kids = slices.Delete(s.kids, c.index, c.index+1)
	for i := c.index; i < len(s.kids); i++ {
		s.kids[i].index = i
	}
	delete(s.byName, c.spec.Name)
	c.removed, c.dropped = true, true
	s.recount(c)
	s.emit(Forget{Child: c.spec.Name, Cause: s.seq})
	if len(c.after)+len(c.dependents) > 0 {
		dependents := c.dependents
		s.link()
		s.recheck(dependents)
	}
}

// place moves a child to a phase, and when that is down says why it stays there.
func (s *Supervisor) place(c *child, p phase, i idle) {
	if (c.phase == stopping) != (p == stopping) {
		if p == stopping {
			s.leaving++
		} else {
			s.leaving--
		}
	}
	if (c.phase == down) != (p == down) {
		if p == down {
			s.alive--
		} else {
			s.alive++
		}
	}
	c.phase, c.idle = p, i
	if p == down {
		c.dead, c.lapsed, c.killed = false, false, false
	}
	s.recount(c)
}

// recount keeps the supervisor's counts true after a child changed.
func (s *Supervisor) recount(c *child) {
	parked := c.phase == down && (c.idle == idleDone || c.idle == idleStopped || c.idle == idleIgnored)
	serving := c.phase == up && !c.lapsed
	wanted := !c.held && !c.dropped && !parked
	unmet := wanted && !serving
	s.wanted += change(&c.isWanted, wanted)
	s.serving += change(&c.isServing, serving)
	s.unmet += change(&c.isUnmet, unmet)
}

func change(was *bool, is bool) int {
	if *was == is {
		return 0
	}
	*was = is
	if is {
		return 1
	}
	return -1
}

// open tells whether all that a child comes after are up.
func (c *child) open() bool {
	for _, a := range c.after {
		if a.phase == up && !a.lapsed && !a.dead {
			continue
		}
		if a.phase == down && a.idle == idleIgnored && !a.held {
			continue
		}
		return false
	}
	return true
}

// gate names the first sibling that a child waits for.
func (c *child) gate() string {
	for _, a := range c.after {
		if !(a.phase == up && !a.lapsed && !a.dead) && !(a.phase == down && a.idle == idleIgnored && !a.held) {
			return a.label()
		}
	}
	return ""
}

// label is a child's name as the configuration writes it: the only replica of a worker goes by the worker's.
func (c *child) label() string {
	if c.spec.Run != nil && c.spec.Name == c.spec.Run.Worker+".0" {
		return c.spec.Run.Worker
	}
	return c.spec.Name
}

// startable tells whether a group restart starts this child.
func (c *child) startable() bool {
	return !c.held && !c.dropped && !c.removed && !(c.phase == down && c.idle == idleFailed)
}

func (c *child) temporary() bool { return c.spec.Restart.PolicyOr() == Temporary }

// clean gives a child the counts of one that never failed.
func (c *child) clean() { c.attempt, c.ends, c.slow = 0, nil, false }

// forgetPlans cancels everything that would start a child.
func (s *Supervisor) forgetPlans(c *child) {
	s.tear(c, true)
	c.gated, c.lead, c.queued = false, nil, false
	s.cancelDelay(c)
	if c.phase == down && (c.idle == idleRestarting || c.idle == idleWaiting) {
		s.place(c, down, idleStopped)
	}
}

// cancelDelay makes the wake-up that a child waits for meaningless.
func (s *Supervisor) cancelDelay(c *child) {
	if c.token != 0 {
		delete(s.tokens, c.token)
		c.token = 0
	}
	c.round++
}

// rest settles what a child that is down rests as, and tells it.
func (s *Supervisor) rest(c *child, state State, i idle, why string) {
	s.place(c, down, i)
	s.tell(c, state, why)
}

func (s *Supervisor) tell(c *child, state State, why string) {
	s.emit(Rest{Child: c.spec.Name, Inc: c.inc, State: state, Reason: why, Cause: s.seq})
}

// drop ends a temporary child for good: OTP forgets its spec. One that was configured stays visible as done, and an
// operator may start it again; one that came by StartChild is forgotten.
func (s *Supervisor) drop(c *child, why string) {
	c.dropped = true
	s.forgetPlans(c)
	s.rest(c, StateDone, idleDone, why)
	s.free(c)
	if c.dynamic {
		s.remove(c)
	}
}

// insert puts a child into a list that is sorted by start order.
func insert(list []*child, c *child) []*child {
	if n := len(list); n == 0 || list[n-1].index < c.index {
		return append(list, c)
	}
	i, _ := slices.BinarySearchFunc(list, c.index, func(e *child, index int) int { return e.index - index })
	return slices.Insert(list, i, c)
}

func (s *Supervisor) specs() []*Spec {
	if s.template != nil {
		return []*Spec{s.template}
	}
	specs := make([]*Spec, len(s.kids))
	for i, c := range s.kids {
		specs[i] = c.spec
	}
	return specs
}
