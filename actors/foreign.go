package actors

import (
	"errors"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// Actor is a Spec.Body: an actor of the embedder's own. It is spawned anew for every incarnation, with a new PID, below the
// actor of its supervisor; Mounted.Address has a PID that stays. It counts as up once it has handled Started; that it
// stopped by itself is a normal end, unless it says otherwise by Exit. A panic in it, wherever it strikes, is a crash:
// protoactor's own supervision is never asked. The producer of Props runs in the supervisor, as OTP's init does, and must not
// block; what takes time belongs into Started. It runs on a dispatcher of ours, which works as protoactor's default.
type Actor struct {
	Props *actor.Props
	// Announces makes it count as up only once it calls Ready. An end before that is a failed start.
	Announces bool
}

// Ready says that the calling actor, one that runs as an Actor that Announces, is up. Only the first call in a life does
// anything.
func Ready(ctx actor.Context) { ctx.Send(ctx.Parent(), foreignNews{ctx.Self(), codeUp{}}) }

// Exit ends the calling actor, one that runs as an Actor, with a reason of its own. The rest of its mailbox is dropped.
func Exit(ctx actor.Context, reason tree.Reason) {
	ctx.Send(ctx.Parent(), foreignNews{ctx.Self(), codeDown{err: Ended{Reason: reason}}})
}

// foreignNews is what the actor says of itself, in the mailbox of the supervisor.
type foreignNews struct {
	who *actor.PID
	msg any
}

// foreignGone: the actor has ended.
type foreignGone struct{}

// foreign is the engine of an Actor.
type foreign struct {
	Actor
	leaf *leaf
	pid  *actor.PID
	// crash is the first panic. The actor stops itself after it, and its end overtakes messages: so it is not sent as one.
	crash atomic.Pointer[codeDown]
	exit  *codeDown // by Exit, or a continuation
	// ending: it has begun to stop, and another Stop might be a dead letter.
	ending atomic.Bool
}

// start spawns the actor. Its producer is the embedder's code; on a goroutine of its own it cannot end the supervisor's.
func (f *foreign) start(l *leaf) {
	f.leaf = l
	props := f.Props.Clone(actor.WithReceiverMiddleware(f.recovering), actor.WithDispatcher(dispatcher{}))
	var end codeDown
	done := make(chan struct{})
	go func() {
		defer close(done)
		guard(func() {
			f.pid, end.err = l.sup.shell.ctx.SpawnNamed(props, actorName(l.name, l.ref.Inc))
		}, func(reason string, stack Stack) { end.err, end.stack = errors.New(reason), stack })
	}()
	<-done
	if end.err != nil {
		f.pid = nil
		l.down(end)
	}
}

func (f *foreign) stop() {
	if f.pid != nil && f.ending.CompareAndSwap(false, true) {
		f.leaf.sup.shell.ctx.Stop(f.pid)
	}
}

func (f *foreign) receive(msg any) {
	switch m := msg.(type) {
	case foreignNews:
		switch m := m.msg.(type) {
		case codeUp:
			f.leaf.ready()
		case codeDown:
			f.finish(m)
		}
	case *actor.Failure:
		f.finish(codeDown{err: errors.New("panic in a continuation: " + textOf(m.Reason))})
	case foreignGone:
		switch crash := f.crash.Load(); {
		case f.exit != nil:
			f.leaf.down(*f.exit)
		case crash != nil:
			f.leaf.down(*crash)
		default:
			f.leaf.down(codeDown{})
		}
	}
}

// finish notes the cause and stops the actor; that it is gone ends the leaf.
func (f *foreign) finish(end codeDown) {
	if f.exit == nil {
		f.exit = &end
	}
	f.stop()
}

func (f *foreign) depart(pid *actor.PID) { f.leaf.sup.house.directory.depart(f.leaf.ref.Path, pid) }

// recovering keeps panics and Goexits of the actor from protoactor. It is called once for each incarnation.
func (f *foreign) recovering(next actor.ReceiverFunc) actor.ReceiverFunc {
	broken := false // belongs to the actor's mailbox, as all of this
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		switch envelope.Message.(type) {
		case *actor.Started:
			// What is sent to its address from here on waits in its mailbox.
			f.leaf.sup.house.directory.arrive(f.leaf.ref.Path, ctx.Self())
			f.guarded(next, ctx, envelope, &broken)
			if !broken && !f.Announces {
				f.leaf.post(codeUp{})
			}
		case *actor.Stopping:
			f.ending.Store(true)
			f.depart(ctx.Self())
			f.apart(next, ctx, envelope, &broken)
		case *actor.Stopped, *actor.Restarting:
			f.apart(next, ctx, envelope, &broken)
		default:
			if !broken {
				f.guarded(next, ctx, envelope, &broken)
			}
		}
	}
}

// apart is guarded on a goroutine of its own: one that ended in these messages would leave the actor half stopped for ever.
func (f *foreign) apart(next actor.ReceiverFunc, ctx actor.ReceiverContext, envelope *actor.MessageEnvelope, broken *bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.guarded(next, ctx, envelope, broken)
	}()
	<-done
}

func (f *foreign) guarded(next actor.ReceiverFunc, ctx actor.ReceiverContext, envelope *actor.MessageEnvelope, broken *bool) {
	guard(func() { next(ctx, envelope) }, func(reason string, stack Stack) {
		*broken = true
		f.depart(ctx.Self())
		f.crash.CompareAndSwap(nil, &codeDown{err: errors.New(reason), stack: stack})
		if f.ending.CompareAndSwap(false, true) {
			stopSelf(ctx)
		}
	})
}

// stopSelf makes an actor stop, as soon as it has handled its message.
func stopSelf(ctx actor.ReceiverContext) { ctx.ActorSystem().Root.Stop(ctx.Self()) }
