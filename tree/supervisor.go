package tree

import "time"

// Past is what a new machine must know of its predecessors at the same path: incarnation numbers are never used twice.
type Past struct{ Incarnations map[string]int }

// Dice is the source of jitter, an input like time: Float64 returns a number in [0, 1). Nil means no jitter.
type Dice interface{ Float64() float64 }

// Supervisor decides for one supervisor what starts, stops and restarts, in which order, when, and why. It does nothing
// itself: facts go in, orders come out. The same history always gives the same orders. It must be used by one goroutine
// at a time.
type Supervisor struct {
	policy   Supervise
	name     string
	template *Spec // of a SimpleOneForOne supervisor
	kids     []*child
	byName   map[string]*child
	used     map[string]int // the last incarnation of each name, of children that are no longer known too
	dice     Dice

	life     life
	final    Reason // why it quits
	stopWhy  string // what the children are told meanwhile
	kill     bool   // quits at once, not in order
	reported bool   // up, as far as the parent knows

	// The sequence that runs. In ordered mode facts wait in the queue until it is over.
	stops    []*child // to be stopped, in start order; taken from the right
	starts   []*child // to be started, in start order; taken from the left
	starting *child   // ordered: the one whose Up the sequence waits for
	awaited  int      // children that the sequence needs gone
	leaving  int      // children that are stopping, whoever asked
	queue    mailbox

	roll     roll
	restarts window
	tokens   map[uint64]*child
	token    uint64

	alive, unmet, serving, wanted int // counts of children, kept by child.recount

	now    time.Time
	seq    Seq // of the fact that is being handled
	orders []Order
}

// life is how far the supervisor itself is.
type life uint8

const (
	unborn life = iota
	living
	quitting
	over
)

// NewSupervisor returns the machine of a supervisor that has not begun. The spec must have Supervise set; it and all
// that it points to must never change again. Hold and Release may come before Boot: they are what operators said before.
func NewSupervisor(spec Spec, past Past, dice Dice) *Supervisor {
	s := &Supervisor{
		policy: *spec.Supervise, name: spec.Name, dice: dice,
		byName: make(map[string]*child, len(spec.Children)),
		used:   make(map[string]int, len(past.Incarnations)+len(spec.Children)),
		tokens: map[uint64]*child{},
	}
	for name, inc := range past.Incarnations {
		s.used[name] = inc
	}
	children := spec.Children
	if s.simple() {
		if len(children) > 0 {
			s.template = &children[0]
		}
		children = nil
	}
	s.kids = make([]*child, 0, len(children))
	for i := range children {
		c := s.adopt(&children[i])
		if c.spec.Disabled {
			c.held, c.why = true, "not enabled"
		}
	}
	s.link()
	return s
}

// Past returns what the next machine at this path must be told.
func (s *Supervisor) Past() Past {
	p := Past{Incarnations: make(map[string]int, len(s.used))}
	for name, inc := range s.used {
		p.Incarnations[name] = inc
	}
	return p
}

// Step records one fact and returns what to do about it, in this order. Now must never go back. A fact that no longer
// concerns anything (another incarnation, an unknown child, a forgotten token) gives no orders, and after Quit nothing
// does. The returned slice is the caller's.
func (s *Supervisor) Step(now time.Time, fact Fact) []Order {
	if s.life == over {
		return nil
	}
	s.now, s.orders = now, nil
	s.record(fact)
	s.settle()
	return s.orders
}

// record handles what must not wait and puts the rest in line.
func (s *Supervisor) record(fact Fact) {
	if s.life == unborn {
		s.recordUnborn(fact)
		return
	}
	switch f := fact.(type) {
	case Halt:
		s.seq = f.Seq
		if f.Wait && !f.Kill && s.busy() {
			s.queue.push(item{fact: fact})
			return
		}
		s.halt(f)
	case Up:
		s.seq = f.Seq
		if c := s.current(f.Child, f.Inc); c != nil {
			s.up(c)
		}
	case Unready:
		s.seq = f.Seq
		if c := s.current(f.Child, f.Inc); c != nil {
			s.unready(c)
		}
	case Ignored:
		s.seq = f.Seq
		if c := s.current(f.Child, f.Inc); c != nil {
			s.recordIgnored(c)
		}
	case Down:
		s.seq = f.Seq
		if c := s.current(f.Child, f.Inc); c != nil {
			s.recordDown(c, f)
		}
	case Hold:
		s.seq = f.Seq
		s.hold(f)
	case Release:
		s.seq = f.Seq
		s.release(f)
	case Bounce:
		s.seq = f.Seq
		if c := s.byName[f.Child]; c != nil {
			s.bounce(c, f.Reason)
		}
	case Wake:
		s.seq = f.Seq
		s.wake(f)
	case Roll, StartChild, TerminateChild, RestartChild, DeleteChild, WhichChildren, CountChildren, ChangeSpec:
		if s.life == quitting {
			return
		}
		if s.busy() {
			s.queue.push(item{fact: fact})
			return
		}
		s.serve(fact)
	}
}

// recordUnborn handles the facts that make sense before the machine has begun.
func (s *Supervisor) recordUnborn(fact Fact) {
	switch f := fact.(type) {
	case Boot:
		s.seq = f.Seq
		s.boot()
	case Hold:
		s.seq = f.Seq
		if c := s.byName[f.Child]; c != nil {
			c.held, c.why = true, f.Reason
		}
	case Release:
		if c := s.byName[f.Child]; c != nil {
			c.held, c.why = false, ""
		}
	case Halt:
		s.seq = f.Seq
		s.halt(f)
	}
}

// boot wants every child that nothing keeps down, in start order.
func (s *Supervisor) boot() {
	s.life = living
	if why := s.refuse(s.policy.AutoShutdown, s.specs()); why != "" {
		s.stopAll(Reason{Class: Crash, Text: "cannot start: " + why}, "cannot start")
		return
	}
	before := ""
	for _, c := range s.kids {
		if c.held {
			s.rest(c, StateStopped, idleStopped, c.why)
			continue
		}
		c.boot = true
		s.want(c, ticket{reason: "start", cause: s.seq})
		if s.ordered() && before != "" {
			s.tell(c, StateWaiting, "after "+before)
		}
		before = c.label()
	}
}

// halt begins the end, or hastens it.
func (s *Supervisor) halt(f Halt) {
	r := f.Reason
	if r == (Reason{}) {
		r = Reason{Class: Shutdown, Text: "shutdown"}
	}
	if s.life != quitting {
		s.stopAll(r, r.Text)
	}
	if f.Kill && !s.kill {
		s.kill = true
		s.killAll()
	}
}

// stopAll drops everything that is pending and wants every child gone.
func (s *Supervisor) stopAll(final Reason, why string) {
	s.life, s.final, s.stopWhy = quitting, final, why
	s.queue, s.roll, s.starting = mailbox{}, roll{}, nil
	s.starts = s.starts[:0]
	for _, c := range s.kids {
		s.forgetPlans(c)
	}
	for i := len(s.kids) - 1; i >= 0; i-- {
		s.markStop(s.kids[i], why)
	}
}

// escalate gives up because of a child: everything stops, and the parent learns the reason.
func (s *Supervisor) escalate(c *child) {
	why := "intensity exceeded by " + c.spec.Name
	s.emit(Escalate{Child: c.spec.Name, Reason: why, Cause: s.seq})
	if c.phase == down {
		s.rest(c, StateStopped, idleStopped, why)
	}
	s.stopAll(Reason{Class: Shutdown, Text: why}, why)
}

// recordIgnored tells a start that had nothing to run from one that was told to stop meanwhile.
func (s *Supervisor) recordIgnored(c *child) {
	switch {
	case c.phase == stopping || c.toStop:
		s.gone(c, "nothing to run")
	case c.phase == starting:
		s.ignored(c)
	}
}

// recordDown decides whether an end is news at once or waits its turn.
func (s *Supervisor) recordDown(c *child, f Down) {
	switch {
	case c.phase == stopping || c.toStop:
		s.gone(c, f.Reason.Text)
	case c.phase == starting:
		s.startFailed(c, f.Reason)
	case c.dead:
		// Its end is in the queue already.
	case s.busy():
		c.dead = true
		s.queue.push(item{fact: f})
	default:
		s.ended(c, f.Reason)
	}
}

// serve handles a fact whose turn has come.
func (s *Supervisor) serve(fact Fact) {
	switch f := fact.(type) {
	case Down:
		s.seq = f.Seq
		if c := s.current(f.Child, f.Inc); c != nil && c.phase == up {
			s.ended(c, f.Reason)
		}
	case Halt:
		s.seq = f.Seq
		s.halt(f)
	case Roll:
		s.seq = f.Seq
		s.beginRoll(f)
	case StartChild:
		s.seq = f.Seq
		s.startChild(f)
	case TerminateChild:
		s.seq = f.Seq
		s.terminateChild(f)
	case RestartChild:
		s.seq = f.Seq
		s.restartChild(f)
	case DeleteChild:
		s.seq = f.Seq
		s.deleteChild(f)
	case ChangeSpec:
		s.seq = f.Seq
		s.changeSpec(f)
	case WhichChildren:
		s.whichChildren(f)
	case CountChildren:
		s.countChildren(f)
	}
}

// current returns the child if this incarnation of it is the one that exists.
func (s *Supervisor) current(name string, inc int) *child {
	if c := s.byName[name]; c != nil && c.inc == inc && c.phase != down {
		return c
	}
	return nil
}

func (s *Supervisor) emit(o Order) { s.orders = append(s.orders, o) }

func (s *Supervisor) ordered() bool { return s.policy.StartOr() == Ordered }

func (s *Supervisor) simple() bool { return s.policy.StrategyOr() == SimpleOneForOne }

// busy tells whether facts have to wait in line: an ordered sequence runs, or others wait already.
func (s *Supervisor) busy() bool {
	return s.ordered() && (s.awaited > 0 || s.starting != nil || len(s.starts) > 0 || !s.queue.empty())
}

// item is what waits its turn: a fact, a retry that the machine sent itself, or a delay that is over.
type item struct {
	fact  Fact
	child *child
	why   string
	seq   Seq
	round uint64 // of a delay: the child's round for which it was meant
	delay bool
}

// mailbox is a queue that reuses its memory.
type mailbox struct {
	items []item
	head  int
}

func (m *mailbox) empty() bool { return m.head == len(m.items) }

func (m *mailbox) push(i item) { m.items = append(m.items, i) }

func (m *mailbox) pop() item {
	i := m.items[m.head]
	m.items[m.head] = item{}
	m.head++
	if m.head == len(m.items) {
		m.items, m.head = m.items[:0], 0
	}
	return i
}
