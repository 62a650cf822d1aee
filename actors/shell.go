package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// body is what a shell carries: one of this package's actors. Both methods run in the mailbox.
type body interface {
	// receive handles one message of this package's vocabulary.
	receive(msg any)
	// broke is told of a panic in receive, with its reason ("panic: ...") and stack. The body's machine may be in any state
	// then and is not to be used again; what the body holds must still be taken down.
	broke(reason string, stack Stack)
}

// stopAsked is what a Stop, PoisonPill or Restart from outside becomes: a request for an ordered end.
type stopAsked struct{}

// shell stands between protoactor and one of our actors, as its mailbox and as its actor, and keeps all of protoactor's own
// supervision away from it:
//
//   - A Stop from anywhere but itself becomes the message stopAsked, so that a foreign stop (an embedder's parent that
//     stops, a PoisonPill) keeps our order and never leaves a process behind.
//   - A Restart does the same, and a suspension is ignored: the mailbox always runs.
//   - A panic ends in body.broke, never in a Failure to the parent; so does a runtime.Goexit.
type shell struct {
	actor.Mailbox
	body    body
	ctx     actor.Context // one and the same for the whole life of the actor
	onStart func()        // runs in the mailbox before the first message
	onStop  func()        // runs in the mailbox after the last
	open    atomic.Bool   // the next Stop is our own and may pass
	halting atomic.Bool   // a Halt is in the mailbox

	name string          // under which the parent knows it
	inc  int             // its incarnation
	tell func(tree.Fact) // to the parent
}

// newMailbox is called once by protoactor while it spawns the actor.
func (s *shell) newMailbox() actor.Mailbox {
	s.Mailbox = actor.Unbounded()()
	return s
}

// RegisterHandlers puts a catcher between the mailbox and the actor's context.
func (s *shell) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	s.Mailbox.RegisterHandlers(&catcher{MessageInvoker: invoker, shell: s}, dispatcher)
}

// halt posts a Halt. The flag is for what is about to happen outside the mailbox.
func (s *shell) halt(m tree.Halt) {
	s.halting.Store(true)
	s.PostUserMessage(m)
}

// PostSystemMessage lets pass what does not end or suspend the actor.
func (s *shell) PostSystemMessage(message any) {
	switch message.(type) {
	case *actor.Stop:
		if !s.open.Load() {
			s.Mailbox.PostUserMessage(stopAsked{})
			return
		}
	case *actor.Restart:
		s.Mailbox.PostUserMessage(stopAsked{})
		return
	case *actor.SuspendMailbox, *actor.ResumeMailbox:
		return
	}
	s.Mailbox.PostSystemMessage(message)
}

// Receive implements actor.Actor.
func (s *shell) Receive(ctx actor.Context) {
	msg := ctx.Message()
	switch msg.(type) {
	case *actor.Started:
		s.ctx = ctx
		if s.onStart == nil {
			return
		}
	case *actor.Stopped:
		if s.onStop != nil {
			s.onStop()
		}
		return
	case *actor.Stopping, *actor.Restarting:
		return // by now the body is done, and code that runs here is what wedges an actor
	case *actor.Terminated:
		if s.open.Load() {
			s.endAfterChildren()
			return
		}
	}
	if s.open.Load() {
		return // the body has quit
	}
	s.guard(func() {
		if _, ok := msg.(*actor.Started); ok {
			s.onStart()
			return
		}
		s.body.receive(msg)
	})
}

// guard runs f and turns a panic, or a Goexit, into broke.
func guard(f func(), broke func(reason string, stack Stack)) {
	finished := false
	defer func() {
		cause := recover()
		if finished {
			return
		}
		reason := "panic: runtime.Goexit"
		if cause != nil {
			reason = fmt.Sprint("panic: ", cause)
		}
		broke(reason, stackNow())
	}()
	f()
	finished = true
}

// guard runs f in the mailbox. A panic in broke itself ends the actor at once: the body has then told its parent what it
// could.
func (s *shell) guard(f func()) { guard(f, s.broke) }

// broke hands a panic to the body.
func (s *shell) broke(reason string, stack Stack) {
	defer func() {
		if recover() != nil {
			s.quit(tree.Reason{Class: tree.Crash, Text: reason}, 0)
		}
	}()
	s.body.broke(reason, stack)
}

// quit tells the parent that nothing of the body runs any more and stops the actor. Messages that are still in its mailbox
// are dropped. Only the first call does anything.
func (s *shell) quit(reason tree.Reason, seq tree.Seq) {
	if s.leave() {
		s.tell(tree.Down{Child: s.name, Inc: s.inc, Reason: reason, Seq: seq})
	}
}

// leave stops the actor without a word to the parent, which knows. It tells whether this was the first call.
func (s *shell) leave() bool {
	if !s.open.CompareAndSwap(false, true) {
		return false
	}
	s.endAfterChildren()
	return true
}

// endAfterChildren stops the actor once its children's actors are gone. They have all quit; a Stop sent to one of them now
// would be a dead letter, and after a dead letter protoactor keeps a goroutine for a while.
func (s *shell) endAfterChildren() {
	if len(s.ctx.Children()) == 0 {
		s.ctx.Stop(s.ctx.Self())
	}
}

// HandleFailure implements actor.SupervisorStrategy: a failure of an embedder's actor that no middleware could see (one in a
// continuation) is a message to us, and decides nothing by itself.
func (s *shell) HandleFailure(_ *actor.ActorSystem, _ actor.Supervisor, who *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	s.guard(func() { s.body.receive(&actor.Failure{Who: who, Reason: reason, Message: message}) })
}

// catcher keeps a failure that escaped the shell (there is none that we know of) from becoming a Failure.
type catcher struct {
	actor.MessageInvoker
	shell *shell
}

// InvokeUserMessage implements actor.MessageInvoker. A request that comes too late is answered, so that nobody waits for it.
func (c *catcher) InvokeUserMessage(message any) {
	if c.shell.open.Load() {
		if r, ok := message.(request); ok {
			r.answer(tree.Reply{Error: errNoProc})
			return
		}
	}
	c.MessageInvoker.InvokeUserMessage(message)
}

// EscalateFailure implements actor.MessageInvoker and never escalates.
func (c *catcher) EscalateFailure(reason any, _ any) {
	c.shell.broke(fmt.Sprint("panic: ", reason), stackNow())
}

// dispatcher runs mailboxes as protoactor's default does, a goroutine for each batch, and survives runtime.Goexit in a
// Receive, which would leave the mailbox marked as running for ever.
type dispatcher struct{}

// Schedule implements actor.Dispatcher.
func (d dispatcher) Schedule(run func()) { go d.drive(run) }

// Throughput implements actor.Dispatcher: messages before the goroutine yields.
func (dispatcher) Throughput() int { return 300 }

func (d dispatcher) drive(run func()) {
	finished := false
	defer func() {
		if !finished {
			go d.drive(run) // the message that ended the goroutine is gone; the rest of the queue is not
		}
	}()
	run()
	finished = true
}
