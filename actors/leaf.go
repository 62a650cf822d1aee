package actors

import (
	"context"
	"errors"

	"github.com/coppice-run/coppice/tree"
)

// Func is a Spec.Body: a function of this program that runs as a leaf of the tree. It counts as up as soon as it runs. A nil
// error is a normal end, any other a crash with its text as reason; a panic is a crash too. ctx is cancelled when the leaf
// is to stop; it then has Spec.Shutdown to return. One that does not is abandoned, because a goroutine cannot be killed:
// it is reported, counted, and heard no more.
type Func func(ctx context.Context) error

// Service is a Func that counts as up once it calls ready. An end before that is a failed start. ready may be called from
// any goroutine, any number of times.
type Service func(ctx context.Context, ready func()) error

// Ended is an error that says how a leaf ended, where a plain error would be a crash.
type Ended struct{ Reason tree.Reason }

// Error is the reason's text.
func (e Ended) Error() string { return e.Reason.Text }

// ErrIgnore, returned before a Service is ready, means that there is nothing to run, which counts as a successful start.
var ErrIgnore = errors.New("nothing to run")

// refKey is the key of a function's Ref in its context.
type refKey struct{}

// RefOf says which incarnation of which node the Func or Service with this ctx is.
func RefOf(ctx context.Context) tree.Ref {
	ref, _ := ctx.Value(refKey{}).(tree.Ref)
	return ref
}

// leaf is a child that is code of this program: a function, or an actor of the embedder's. The code itself is an engine; the
// leaf speaks for it. It is no actor of its own: all of it runs in the mailbox of its supervisor, as a guest whose panics
// are its own, because a mailbox more would be what most of an idle child costs.
type leaf struct {
	sup    *supervisor
	name   string // under which the supervisor knows it
	ref    tree.Ref
	spec   *tree.Spec
	engine engine
	timers timers

	boot  tree.Seq
	up    bool
	asked *tree.Reason // to stop
	over  bool
}

// leafNews is a message for a leaf, in the mailbox of its supervisor.
type leafNews struct {
	leaf *leaf
	msg  any
}

// tell tells the supervisor.
func (l *leaf) tell(f tree.Fact) { l.sup.hear(l.ref, f) }

// post sends the leaf a message, from any goroutine.
func (l *leaf) post(msg any) { l.sup.shell.PostUserMessage(leafNews{l, msg}) }

// take hands the leaf a message. A panic, or a Goexit, is the leaf's and not its supervisor's.
func (l *leaf) take(msg any) {
	guard(func() { l.receive(msg) }, func(reason string, stack Stack) {
		defer func() {
			if recover() != nil {
				l.quit(tree.Reason{Class: tree.Crash, Text: reason}, 0)
			}
		}()
		l.broke(reason, stack)
	})
}

// engine runs the code of a leaf. Its methods are called in the supervisor's mailbox and do not block; what happens comes
// back as codeUp and codeDown.
type engine interface {
	start(l *leaf)
	stop()
	// receive sees messages that the leaf does not know.
	receive(msg any)
}

type (
	// codeUp: the code is ready.
	codeUp struct{}
	// codeDown: it has ended. The stack is not empty after a panic.
	codeDown struct {
		err   error
		stack Stack
	}
)

// receive handles one message.
func (l *leaf) receive(msg any) {
	if l.over {
		return
	}
	switch m := msg.(type) {
	case tree.Boot:
		l.boot = m.Seq
		l.engine.start(l)
	case codeUp:
		l.ready()
	case codeDown:
		l.down(m)
	case tree.Halt:
		l.halt(m)
	case tree.Wake:
		l.timers.fired(m.Token)
		l.abandon("still running " + l.spec.Shutdown.String() + " after it was asked to stop")
	default:
		l.engine.receive(msg)
	}
}

func (l *leaf) ready() {
	if l.up || l.asked != nil {
		return
	}
	l.up = true
	seq := l.append(tree.EventReady, "", l.boot, nil)
	l.tell(tree.Up{Child: l.name, Inc: l.ref.Inc, Seq: seq})
}

// halt asks the code to stop; a second one with Kill only hastens.
func (l *leaf) halt(m tree.Halt) {
	first := l.asked == nil
	if first {
		l.asked = &m.Reason
		l.engine.stop()
	}
	switch {
	case m.Kill || l.spec.Shutdown <= 0:
		l.abandon(m.Reason.Text)
	case first && l.spec.Shutdown != tree.Forever:
		wake := tree.Wake{Token: 1, Seq: m.Seq}
		l.timers.set(1, l.spec.Shutdown, func() { l.post(wake) })
	}
}

// abandon stands in for KILL.
func (l *leaf) abandon(why string) {
	seq := l.append(tree.EventKilled, why, l.boot, map[string]any{"abandoned": true})
	l.sup.house.abandoned.Add(1)
	l.sup.house.log.Warn("abandoned", "path", l.ref.Path, "incarnation", l.ref.Inc, "reason", why)
	l.quit(tree.Reason{Class: tree.Crash, Text: "killed"}, seq)
}

// down is the end of the code.
func (l *leaf) down(m codeDown) {
	if !l.up && l.asked == nil && errors.Is(m.err, ErrIgnore) {
		l.over = true
		l.tell(tree.Ignored{Child: l.name, Inc: l.ref.Inc, Seq: l.boot})
		return
	}
	reason := l.reason(m.err)
	data := map[string]any{"code": 0, "signal": ""}
	if reason.Abnormal() {
		data["code"] = -1
	}
	if !m.stack.empty() {
		data["stack"] = m.stack
	}
	l.quit(reason, l.append(tree.EventExited, reason.Text, l.boot, data))
}

// reason folds how the code ended.
func (l *leaf) reason(err error) tree.Reason {
	var ended Ended
	switch {
	case errors.As(err, &ended):
		return ended.Reason
	case l.asked != nil && (err == nil || errors.Is(err, context.Canceled)):
		return *l.asked
	case err == nil:
		return tree.Reason{Class: tree.Normal, Text: "ended"}
	}
	return tree.Reason{Class: tree.Crash, Text: err.Error()}
}

// quit tells the supervisor that nothing of the leaf runs any more. Only the first call does anything.
func (l *leaf) quit(reason tree.Reason, seq tree.Seq) {
	if l.over {
		return
	}
	l.over = true
	l.timers.stop()
	l.tell(tree.Down{Child: l.name, Inc: l.ref.Inc, Reason: reason, Seq: seq})
}

func (l *leaf) append(kind tree.EventKind, reason string, cause tree.Seq, data map[string]any) tree.Seq {
	return l.sup.house.journal.Append(tree.Event{Path: l.ref.Path, Incarnation: l.ref.Inc, Kind: kind, Reason: reason,
		Cause: cause, Data: data})
}

// broke is told of a panic in receive. The code cannot be killed, so it is asked to stop and abandoned.
func (l *leaf) broke(reason string, stack Stack) {
	seq := l.append(tree.EventExited, reason, l.boot, map[string]any{"code": -1, "signal": "", "stack": stack})
	defer l.quit(tree.Reason{Class: tree.Crash, Text: reason}, seq)
	l.engine.stop()
}

// function is the engine of a Func or Service: one of the two.
type function struct {
	run    Func
	serve  Service
	cancel context.CancelFunc
}

// lifeContext is a context that knows whose it is.
type lifeContext struct {
	context.Context
	leaf *leaf
}

// Value implements context.Context.
func (c lifeContext) Value(key any) any {
	if _, ok := key.(refKey); ok {
		return c.leaf.ref
	}
	return nil
}

func (f *function) start(l *leaf) {
	ctx, cancel := context.WithCancel(lifeContext{context.Background(), l})
	f.cancel = cancel
	go f.live(ctx, l)
	if f.run != nil {
		l.ready()
	}
}

func (f *function) stop() {
	if f.cancel != nil {
		f.cancel()
	}
}

func (f *function) receive(any) {}

// live runs the code on its own goroutine, which ends when the code does.
func (f *function) live(ctx context.Context, l *leaf) {
	var end codeDown
	finished := false
	defer func() {
		if cause := recover(); !finished {
			end.stack, end.err = panicError(cause)
		}
		f.cancel()
		l.post(end)
	}()
	if f.run != nil {
		end.err = f.run(ctx)
	} else {
		end.err = f.serve(ctx, func() { l.post(codeUp{}) })
	}
	finished = true
}

// idle is the engine of a leaf that has nothing to run yet: it is up until it is stopped.
type idle struct{ leaf *leaf }

func (i *idle) start(l *leaf) {
	i.leaf = l
	l.ready()
}

func (i *idle) stop() {
	if i.leaf != nil {
		i.leaf.post(codeDown{})
	}
}

func (i *idle) receive(any) {}
