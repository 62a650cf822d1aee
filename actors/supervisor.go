package actors

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// supervisor is the actor around a tree.Supervisor: host, tenant, app, pool and an embedder's group alike. It hands facts to
// the machine, carries out its orders, and decides nothing.
type supervisor struct {
	house *house
	shell *shell
	ref   tree.Ref
	spec  *tree.Spec
	core  *tree.Supervisor
	boot  tree.Seq // of the event that recorded our start

	props *actor.Props // of every child; makes the shell that adopt left in next
	next  *shell

	kids   map[string]*kid
	past   map[string]int // incarnations used before the machine was made
	timers timers
	calls  map[uint64]func(tree.Reply)

	gaveUp tree.Seq  // of the escalated event
	fall   *collapse // after a panic: the machine is not used any more
	top    bool      // the root above host and parts, which is no node of the tree
}

// kid is one incarnation of a child that has not gone down: a shell, which is its mailbox, or a leaf, which is a guest in ours.
type kid struct {
	shell *shell
	leaf  *leaf
	inc   int
	path  string
}

func (k *kid) halt(m tree.Halt) {
	if k.leaf != nil {
		k.leaf.take(m)
		return
	}
	k.shell.halt(m)
}

// request is an administrative fact whose Reply goes to answer. answer is called in the mailbox and must not block.
type request struct {
	fact   func(call uint64) tree.Fact
	answer func(tree.Reply)
}

// errNoProc answers an administrative fact that nobody is there to answer; the word is OTP's.
const errNoProc = "noproc"

// newSupervisor makes the shell of a supervisor that has not started yet.
func newSupervisor(h *house, ref tree.Ref, spec *tree.Spec, name string, tell func(tree.Fact)) *shell {
	s := &supervisor{house: h, ref: ref, spec: spec, kids: map[string]*kid{}}
	s.shell = &shell{body: s, name: name, inc: ref.Inc, tell: tell}
	s.shell.onStart = s.begin
	s.props = actor.PropsFromProducer(func() actor.Actor { return s.next },
		actor.WithMailbox(func() actor.Mailbox { return s.next.newMailbox() }),
		actor.WithDispatcher(dispatcher{}))
	return s.shell
}

// begin runs before the first message.
func (s *supervisor) begin() {
	s.past = s.house.ledger.enter(s.ref.Path, s.shell)
	s.core = tree.NewSupervisor(*s.spec, tree.Past{Incarnations: s.past}, s.house.dice)
}

// receive implements body.
func (s *supervisor) receive(msg any) {
	switch m := msg.(type) {
	case leafNews:
		m.leaf.take(m.msg)
		return
	case foreignNews:
		if f := s.foreignAt(m.who); f != nil {
			f.leaf.take(m)
		}
		return
	case *actor.Terminated:
		s.gone(m.Who)
		return
	case *actor.Failure: // of a continuation in an embedder's actor, which no middleware sees
		s.failed(m)
		return
	}
	if s.fall != nil {
		s.fall.receive(msg)
		return
	}
	switch m := msg.(type) {
	case tree.Boot:
		s.boot = m.Seq
		s.honour()
		s.step(m)
	case tree.Wake:
		s.timers.fired(m.Token)
		s.step(m)
	case tree.Down:
		if k := s.kids[m.Child]; k != nil && k.inc == m.Inc {
			delete(s.kids, m.Child)
		}
		s.step(m)
	case request:
		s.call(m)
	case tree.Fact:
		if r, ok := asked(m, s.shell.ctx.Sender(), s.shell.ctx.ActorSystem()); ok {
			s.call(r)
			return
		}
		s.step(m)
	case stopAsked:
		s.step(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: "shutdown"}, Seq: s.boot})
	}
}

// honour tells a fresh machine what operators asked for while its predecessors ran.
func (s *supervisor) honour() {
	for i := range s.spec.Children {
		child := &s.spec.Children[i]
		in, ok := s.house.ledger.intent(s.pathOf(child.Name))
		switch {
		case ok && in.Stopped:
			s.step(tree.Hold{Child: child.Name, Reason: in.reason(), Seq: in.Seq})
		case ok && child.Disabled:
			s.step(tree.Release{Child: child.Name, Reason: in.reason(), Seq: in.Seq})
		}
	}
}

func (s *supervisor) call(r request) {
	if s.calls == nil {
		s.calls = map[uint64]func(tree.Reply){}
	}
	call := s.house.calls.Add(1)
	s.calls[call] = r.answer
	fact := r.fact(call)
	if f, ok := fact.(tree.StartChild); ok {
		s.house.journal.Add(s.ref.Path, f.Spec) // status shows it with what is below it; one that is refused is there already
	}
	s.step(fact)
}

func (s *supervisor) pathOf(child string) string {
	if s.top {
		return topPath(child)
	}
	return tree.ChildPath(s.ref.Path, s.spec.Kind, child)
}

// adopt spawns the actor of one incarnation of a child. Its PID is new, named by child and incarnation.
func (s *supervisor) adopt(o tree.Start, path string, boot tree.Seq) {
	ref := tree.Ref{Path: path, Inc: o.Inc}
	name := o.Child
	if e := engineOf(o.Spec); e != nil {
		l := &leaf{sup: s, name: name, ref: ref, spec: o.Spec, engine: e}
		s.kids[name] = &kid{leaf: l, inc: o.Inc, path: path}
		l.take(tree.Boot{Seq: boot})
		return
	}
	tell := func(f tree.Fact) { s.hear(ref, f) }
	s.next = s.house.build(ref, o.Spec, name, tell)
	k := &kid{shell: s.next, inc: o.Inc, path: path}
	if _, err := s.shell.ctx.SpawnNamed(s.props, actorName(name, o.Inc)); err != nil {
		// Names are used once, so this is a defect; it must not look like a child that runs.
		tell(tree.Down{Child: name, Inc: o.Inc, Reason: tree.Reason{Class: tree.Crash, Text: "cannot start: " + err.Error()}, Seq: boot})
		return
	}
	s.kids[name] = k
	k.shell.PostUserMessage(tree.Boot{Seq: boot})
}

// hear takes what a child tells, from any goroutine.
func (s *supervisor) hear(child tree.Ref, f tree.Fact) {
	if s.house.heard != nil {
		s.house.heard(child, f)
	}
	s.shell.PostUserMessage(f)
}

// foreignAt is the engine whose actor has that PID, nil if there is none that counts.
func (s *supervisor) foreignAt(who *actor.PID) *foreign {
	name := strings.TrimPrefix(who.Id, s.shell.ctx.Self().Id+"/")
	i := strings.LastIndexByte(name, '#')
	if i < 0 {
		return nil
	}
	k := s.kids[name[:i]]
	if k == nil || k.leaf == nil || name[i+1:] != strconv.Itoa(k.inc) {
		return nil
	}
	f, _ := k.leaf.engine.(*foreign)
	return f
}

// gone is told that the actor of a child has ended.
func (s *supervisor) gone(who *actor.PID) {
	if f := s.foreignAt(who); f != nil {
		f.leaf.take(foreignGone{})
	}
}

func (s *supervisor) failed(m *actor.Failure) {
	if f := s.foreignAt(m.Who); f != nil {
		f.leaf.take(m)
	}
}

// end tells the parent and stops the actor. Nothing of the supervisor runs any more.
func (s *supervisor) end(reason tree.Reason, seq tree.Seq) {
	s.cleanUp()
	s.shell.quit(reason, seq)
}

// leave stops the actor of a supervisor whose parent knows already.
func (s *supervisor) leave() {
	s.cleanUp()
	s.shell.leave()
}

func (s *supervisor) cleanUp() {
	s.timers.stop()
	for _, answer := range s.calls {
		answer(tree.Reply{Error: errNoProc})
	}
	s.calls = nil
	past := s.past
	if s.core != nil {
		past = s.core.Past().Incarnations
	}
	s.house.ledger.leave(s.ref.Path, s.shell, past)
}

// broke implements body: the machine is broken, so its children go down by hand, last first, each after the one before is
// gone, and the parent is told of a crash.
func (s *supervisor) broke(reason string, stack Stack) {
	s.timers.stop()
	seq := s.house.journal.Append(tree.Event{Path: s.ref.Path, Incarnation: s.ref.Inc, Kind: tree.EventEscalated,
		Reason: reason, Cause: s.boot, Data: map[string]any{"stack": stack}})
	if s.fall != nil { // it broke while it fell: what is left is told at once
		s.fall.hurry()
		return
	}
	s.fall = &collapse{s: s, reason: tree.Reason{Class: tree.Crash, Text: reason}, seq: seq}
	s.fall.next()
}

// collapse takes down the children of a supervisor whose machine is broken.
type collapse struct {
	s      *supervisor
	reason tree.Reason
	seq    tree.Seq
	asked  string // the child that was asked last
	kill   bool
}

func (c *collapse) receive(msg any) {
	switch m := msg.(type) {
	case tree.Down:
		k := c.s.kids[m.Child]
		if k == nil || k.inc != m.Inc {
			return
		}
		delete(c.s.kids, m.Child)
		c.s.house.journal.Append(tree.Event{Path: k.path, Incarnation: k.inc, Kind: tree.EventStopped,
			Reason: c.reason.Text, Cause: m.Seq})
		if m.Child == c.asked || len(c.s.kids) == 0 {
			c.next()
		}
	case tree.Halt:
		if m.Kill && !c.kill {
			c.kill = true
			c.hurry()
		}
	case request:
		m.answer(tree.Reply{Error: errNoProc})
	}
}

// next asks the last child to go, or ends.
func (c *collapse) next() {
	last := c.last()
	if last == "" {
		c.s.end(c.reason, c.seq)
		return
	}
	c.asked = last
	c.ask(c.s.kids[last], c.kill)
}

// hurry kills all that is left, without order.
func (c *collapse) hurry() {
	for _, k := range c.s.kids {
		c.ask(k, true)
	}
	if len(c.s.kids) == 0 {
		c.s.end(c.reason, c.seq)
	}
}

func (c *collapse) ask(k *kid, kill bool) {
	seq := c.s.house.journal.Append(tree.Event{Path: k.path, Incarnation: k.inc, Kind: tree.EventStopping,
		Reason: c.reason.Text, Cause: c.seq})
	k.halt(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: c.reason.Text}, Kill: kill, Seq: seq})
}

// last is the name of the child that comes last in the specification; one that is not in it comes after all others.
func (c *collapse) last() string {
	for _, name := range slices.Sorted(maps.Keys(c.s.kids)) {
		if !slices.ContainsFunc(c.s.spec.Children, func(s tree.Spec) bool { return s.Name == name }) {
			return name
		}
	}
	for _, child := range slices.Backward(c.s.spec.Children) {
		if c.s.kids[child.Name] != nil {
			return child.Name
		}
	}
	return ""
}
