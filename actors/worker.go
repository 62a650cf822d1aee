package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// worker is the actor around a tree.Worker: one incarnation of a worker. Its process hangs on a handle of its own, so that a
// panic here cannot lose it.
type worker struct {
	house  *house
	shell  *shell
	ref    tree.Ref
	spec   *tree.Spec
	core   *tree.Worker
	handle *handle
	timers timers

	launching bool        // a launch is queued or runs
	early     []tree.Fact // told before the launch returned
	boot      tree.Seq    // of the event that recorded our start
	newest    tree.Seq    // of the newest entry of our own, else boot
	failures  int         // of the health check, in a row
	crash     *tree.Down  // after a panic: the machine is not used any more, and this is what the parent will hear
}

// launched is the answer of the spawn queue.
type launched struct {
	err error
	// stack is not empty if the launcher panicked.
	stack Stack
}

// killLate ends the wait of a broken worker for the death of its process.
type killLate struct{}

// killPatience is how long a broken worker waits for that.
const killPatience = 5 * time.Second

func newWorker(h *house, ref tree.Ref, spec *tree.Spec, name string, tell func(tree.Fact)) *shell {
	w := &worker{house: h, ref: ref, spec: spec}
	w.shell = &shell{body: w, name: name, inc: ref.Inc, tell: tell}
	w.core = tree.NewWorker(spec.Run, spec.Restart.NormalExits)
	return w.shell
}

// receive implements body.
func (w *worker) receive(msg any) {
	if w.crash != nil {
		w.mourn(msg)
		return
	}
	switch m := msg.(type) {
	case tree.Boot:
		w.boot, w.newest = m.Seq, m.Seq
		w.step(m)
	case tree.Halt:
		w.step(m)
		w.unqueue()
	case tree.Wake:
		w.timers.fired(m.Token)
		w.step(m)
	case launched:
		w.arrived(m)
	case tree.HealthResult:
		w.pulse(m)
		w.step(m)
	case tree.Fact:
		if w.launching {
			w.early = append(w.early, m)
			return
		}
		if _, ok := m.(tree.Gone); ok {
			w.see(tree.Observation{PID: new(int)})
		}
		w.step(m)
	case stopAsked:
		w.step(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: "shutdown"}, Seq: w.boot})
		w.unqueue()
	}
}

// arrived is the end of a launch: Spawned or SpawnFailed, and then what was told meanwhile.
func (w *worker) arrived(m launched) {
	w.launching = false
	w.handle.over()
	early := w.early
	w.early = nil
	if m.err != nil {
		if !m.stack.empty() {
			w.newest = w.recordPanic(m.err.Error(), m.stack)
		}
		w.step(tree.SpawnFailed{Text: m.err.Error()})
		return
	}
	pid, socket, port := w.handle.inst.PID(), w.handle.inst.Socket(), w.handle.inst.Port()
	w.see(tree.Observation{PID: &pid, Socket: &socket, Port: &port})
	w.step(tree.Spawned{PID: pid})
	for _, f := range early {
		w.receive(f)
	}
}

// unqueue takes back a spawn that has not begun, so that nothing is spawned after a Halt; one that runs is told to give up.
func (w *worker) unqueue() {
	if w.launching && w.handle.cancel() {
		w.shell.PostUserMessage(launched{err: errCancelled})
	}
}

func (w *worker) step(fact tree.Fact) {
	for _, order := range w.core.Step(time.Now(), fact) {
		w.carry(order)
	}
}

func (w *worker) carry(order tree.Order) {
	switch o := order.(type) {
	case tree.Spawn:
		w.spawn()
	case tree.WakeAfter:
		wake := tree.Wake{Token: o.Token, Seq: w.or(o.Cause)}
		w.timers.set(o.Token, o.After, func() { w.shell.PostUserMessage(wake) })
	case tree.Record:
		w.record(o)
	case tree.ReportUp:
		w.newest = w.append(tree.EventReady, "", o.Cause, map[string]any{"pid": w.handle.pid()})
		w.shell.tell(tree.Up{Child: w.shell.name, Inc: w.ref.Inc, Seq: w.newest})
	case tree.ReportUnready:
		w.newest = w.append(tree.EventUnready, o.Reason, o.Cause, nil)
		w.shell.tell(tree.Unready{Child: w.shell.name, Inc: w.ref.Inc, Reason: o.Reason, Seq: w.newest})
	case tree.Kill:
		w.unqueue()
		w.handle.do(o)
	case tree.Quit:
		w.quit(o.Reason, w.or(o.Cause))
	default:
		w.handle.do(o)
	}
}

// or is the number of a cause; 0 stands for the newest entry of our own.
func (w *worker) or(cause tree.Seq) tree.Seq {
	if cause == 0 {
		return w.newest
	}
	return cause
}

// quit tells the parent, and lets go of what the process had.
func (w *worker) quit(reason tree.Reason, seq tree.Seq) {
	w.timers.stop()
	w.shell.quit(reason, seq)
	if w.handle != nil {
		w.handle.release()
	}
}

// spawn queues the launch of the process.
func (w *worker) spawn() {
	w.launching = true
	w.handle = &handle{house: w.house, ref: w.ref, shell: w.shell}
	ctx, stop := context.WithCancel(context.Background())
	w.handle.stop = stop
	w.handle.dequeue = w.house.spawns.submit(tenantOf(w.ref.Path), func() { w.handle.launch(ctx, w.spec) })
}

func (w *worker) record(o tree.Record) {
	data := o.Data
	if o.Kind == tree.EventExited {
		if data == nil {
			data = map[string]any{}
		}
		data["pid"] = w.handle.pid()
	}
	w.newest = w.append(o.Kind, o.Reason, o.Cause, data)
}

func (w *worker) append(kind tree.EventKind, reason string, cause tree.Seq, data map[string]any) tree.Seq {
	return w.house.journal.Append(tree.Event{Path: w.ref.Path, Incarnation: w.ref.Inc, Kind: kind, Reason: reason,
		Cause: w.or(cause), Data: data})
}

func (w *worker) recordPanic(reason string, stack Stack) tree.Seq {
	return w.append(tree.EventExited, reason, 0, map[string]any{"code": -1, "signal": "", "stack": stack})
}

func (w *worker) see(o tree.Observation) {
	o.At = time.Now()
	w.house.journal.Observe(w.ref.Path, w.ref.Inc, o)
}

// pulse shows the newest health check to observers.
func (w *worker) pulse(m tree.HealthResult) {
	w.failures++
	if m.OK {
		w.failures = 0
	}
	w.see(tree.Observation{Health: &tree.Pulse{OK: m.OK, Detail: m.Detail, At: time.Now(), Failures: w.failures}})
}

// broke implements body: the machine is broken. The process is killed, and the parent hears of the crash when nothing of it
// is left: never two incarnations at once.
func (w *worker) broke(reason string, stack Stack) {
	w.timers.stop()
	again := w.crash != nil
	w.crash = &tree.Down{Reason: tree.Reason{Class: tree.Crash, Text: reason}, Seq: w.newest}
	if !again {
		w.timers.set(0, killPatience, func() { w.shell.PostUserMessage(killLate{}) })
		w.crash.Seq = w.recordPanic(reason, stack)
	}
	switch {
	case again, w.handle == nil, w.launching && w.handle.cancel(), !w.launching && w.handle.gone.Load():
		w.buried()
	case !w.launching:
		w.handle.kill(reason)
	}
}

// mourn waits for the end of a broken worker's process.
func (w *worker) mourn(msg any) {
	switch m := msg.(type) {
	case launched:
		w.launching = false
		w.handle.over()
		if m.err != nil || w.handle.gone.Load() {
			w.buried()
			return
		}
		w.handle.kill(w.crash.Reason.Text)
	case tree.Gone:
		if !w.launching {
			w.buried()
		}
	case killLate:
		defer w.buried()
		w.append(tree.EventKilled, "still there after KILL", 0, map[string]any{"killed": 0, "left": []int{w.handle.pid()}})
	}
}

func (w *worker) buried() { w.quit(w.crash.Reason, w.crash.Seq) }

// panicError is what a recovered panic is told as.
func panicError(cause any) (stack Stack, err error) {
	if cause == nil {
		cause = "runtime.Goexit"
	}
	return stackNow(), fmt.Errorf("panic: %v", cause)
}
