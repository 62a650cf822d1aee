package actors

import (
	"errors"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// Actor is a Spec.Body: an actor of the embedder's own. It is spawned anew for every incarnation, with a new PID, below an
// actor of ours that speaks for it. It counts as up once it has handled Started; that it stopped by itself is a normal end,
// unless it says otherwise by Exit. A panic in it, wherever it strikes, is a crash: protoactor's own supervision is never
// asked. It runs on a dispatcher of ours, which works as protoactor's default.
type Actor struct {
	Props *actor.Props
	// Announces makes it count as up only once it calls Ready. An end before that is a failed start.
	Announces bool
}

// Ready says that the calling actor, one that runs as an Actor that Announces, is up. Only the first call in a life does
// anything.
func Ready(ctx actor.Context) { ctx.Send(ctx.Parent(), codeUp{}) }

// Exit ends the calling actor, one that runs as an Actor, with a reason of its own. The rest of its mailbox is dropped.
func Exit(ctx actor.Context, reason tree.Reason) {
	ctx.Send(ctx.Parent(), foreignEnd{end: codeDown{err: Ended{Reason: reason}}})
}

// foreign is the engine of an Actor.
type foreign struct {
	Actor
	leaf *leaf
	pid  *actor.PID
	end  *codeDown // how it ended, once known; it is only told when the actor is gone
	// ending: it has begun to stop, and another Stop might be a dead letter.
	ending atomic.Bool
}

// foreignEnd: the actor panicked, or asked for its end.
type foreignEnd struct{ end codeDown }

func (f *foreign) start(l *leaf) {
	f.leaf = l
	props := f.Props.Clone(actor.WithReceiverMiddleware(f.recovering), actor.WithDispatcher(dispatcher{}))
	pid, err := l.shell.ctx.SpawnNamed(props, "actor")
	if err != nil {
		l.down(codeDown{err: err})
		return
	}
	f.pid = pid
}

func (f *foreign) stop() {
	if f.pid != nil && f.ending.CompareAndSwap(false, true) {
		f.leaf.shell.ctx.Stop(f.pid)
	}
}

func (f *foreign) receive(msg any) {
	switch m := msg.(type) {
	case foreignEnd:
		f.finish(m.end)
	case *actor.Failure: // of a continuation, which no middleware sees
		f.finish(codeDown{err: errors.New("panic: " + textOf(m.Reason)), stack: "in a continuation"})
	case *actor.Terminated:
		if f.pid == nil || !m.Who.Equal(f.pid) {
			return
		}
		if f.end == nil {
			f.end = &codeDown{}
		}
		f.leaf.down(*f.end)
	}
}

// finish notes the first cause and stops the actor; its Terminated ends the leaf.
func (f *foreign) finish(end codeDown) {
	if f.end == nil {
		f.end = &end
	}
	f.stop()
}

func (f *foreign) depart(pid *actor.PID) { f.leaf.house.directory.depart(f.leaf.ref.Path, pid) }

// recovering keeps panics and Goexits of the actor from protoactor. It is called once for each incarnation.
func (f *foreign) recovering(next actor.ReceiverFunc) actor.ReceiverFunc {
	broken := false // belongs to the actor's mailbox, as all of this
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		_, started := envelope.Message.(*actor.Started)
		if _, stopping := envelope.Message.(*actor.Stopping); stopping {
			f.ending.Store(true)
			f.depart(ctx.Self())
		}
		switch envelope.Message.(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
			// A goroutine that ends in one of these would leave the actor half stopped for ever, so they run on one of their own.
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.guarded(next, ctx, envelope, &broken)
			}()
			<-done
		default:
			if broken {
				return
			}
			f.guarded(next, ctx, envelope, &broken)
		}
		if started && !broken {
			f.leaf.house.directory.arrive(f.leaf.ref.Path, ctx.Self())
			if !f.Announces {
				f.leaf.shell.PostUserMessage(codeUp{})
			}
		}
	}
}

func (f *foreign) guarded(next actor.ReceiverFunc, ctx actor.ReceiverContext, envelope *actor.MessageEnvelope, broken *bool) {
	finished := false
	defer func() {
		cause := recover()
		if finished {
			return
		}
		*broken = true
		f.depart(ctx.Self())
		var end codeDown
		end.stack, end.err = panicError(cause)
		f.leaf.shell.PostUserMessage(foreignEnd{end: end})
	}()
	next(ctx, envelope)
	finished = true
}
