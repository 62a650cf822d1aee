package sim

import (
	"github.com/coppice-run/coppice/tree"
)

// This file carries out the orders of supervisors, and is the life of leaves that are not processes. What becomes an
// entry, and what follows from which, is as in the daemon: see actors/orders.go.

// begins brings a node into the world.
func (w *World) begins(n *Node) {
	w.births++
	n.birth, n.newest = w.births, n.boot
	n.lane.newest = n
	switch {
	case n.Spec.IsSupervisor():
		w.trace("start", n.Name, "")
		n.kids = make(map[string]*Node, len(n.Spec.Children))
		n.machine = tree.NewSupervisor(*n.Spec, n.lane.past, w.dice(n.lane))
		w.Tell(n, tree.Boot{Seq: n.boot})
		return
	case n.Spec.Run != nil:
		n.worker = tree.NewWorker(n.Spec.Run, n.Spec.Restart.NormalExits)
		w.Tell(n, tree.Boot{Seq: n.boot})
		return
	}
	w.lives(n)
	if n.life.Start == 0 {
		w.outcome(n)
		return
	}
	w.After(n.life.Start, func() { w.outcome(n) })
}

func (w *World) dice(l *lane) tree.Dice {
	if l.dice == nil {
		l.dice = w.opt.Dice
		if w.opt.DiceOf != nil {
			l.dice = w.opt.DiceOf(l.path)
		}
	}
	return l.dice
}

func (w *World) lives(n *Node) {
	if w.plan != nil {
		n.life = w.plan.life(n)
		return
	}
	if w.opt.Lives != nil {
		n.life = w.opt.Lives(tree.Ref{Path: n.Path, Inc: n.Inc}, n.Spec)
	}
}

// outcome settles the start of a leaf. One that was told to go meanwhile still finishes its start first.
func (w *World) outcome(n *Node) {
	if n.gone {
		return
	}
	switch {
	case n.life.Outcome == Fails:
		n.gone = true
		w.trace("fail", n.Name, "")
		w.exited(n, n.life.End.Text, nil)
		w.down(n, n.life.End)
	case n.life.Outcome == Ignores:
		n.gone = true
		w.trace("ignore", n.Name, "")
		w.Tell(n.parent, tree.Ignored{Child: n.Name, Inc: n.Inc, Seq: n.newest})
	case n.life.Never && !n.leaving:
		// Nobody bounds the start of a leaf without a process; it can only be stopped.
	default:
		n.up = true
		w.trace("start", n.Name, "")
		n.newest = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventReady, cause: n.boot})
		w.Tell(n.parent, tree.Up{Child: n.Name, Inc: n.Inc, Seq: n.newest})
		if n.leaving {
			w.leave(n, false)
			return
		}
		w.lived(n)
	}
}

// lived begins the life of a leaf that is up.
func (w *World) lived(n *Node) {
	if n.life.For > 0 {
		w.After(n.life.For, func() {
			if n.worker != nil {
				w.exit(n, n.life.Exit, 0)
			} else {
				w.Kill(n, n.life.End)
			}
		})
	}
	if w.plan != nil {
		w.plan.ready(n)
	}
}

// leave lets a leaf go, in the time that it takes and may take.
func (w *World) leave(n *Node, kill bool) {
	told := tree.Reason{Class: tree.Shutdown, Text: "shutdown"}
	killed := tree.Reason{Class: tree.Crash, Text: "killed"}
	bound, takes := n.Spec.Shutdown, n.life.Stop
	if n.process.hung {
		takes = tree.Forever
	}
	switch {
	case kill || bound == 0 && n.worker == nil:
		w.ends(n, killed)
	case takes > bound:
		w.After(bound, func() { w.ends(n, killed) })
	case takes > 0:
		w.After(takes, func() { w.ends(n, told) })
	default:
		w.ends(n, told)
	}
}

// ends takes a supervisor or a leaf without a process out of the world and tells its parent.
func (w *World) ends(n *Node, r tree.Reason) {
	if n.gone {
		return
	}
	n.gone = true
	text := r.Text
	if n.machine != nil && r.Class == tree.Shutdown && text != "shutdown_term" {
		text = "shutdown"
	}
	w.trace("exit", n.Name, text)
	if n.machine == nil {
		w.exited(n, r.Text, nil)
	}
	w.down(n, r)
}

// exited records the end of a leaf.
func (w *World) exited(n *Node, reason string, exit *tree.Exit) {
	n.newest = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventExited, reason: reason, cause: n.newest,
		exit: exit, own: !n.leaving})
}

func (w *World) down(n *Node, r tree.Reason) {
	seq := n.newest
	if n.machine != nil {
		n.lane.past = n.machine.Past()
		if n.gaveUp != 0 {
			seq = n.gaveUp
		}
	}
	if n.parent != nil {
		w.Tell(n.parent, tree.Down{Child: n.Name, Inc: n.Inc, Reason: r, Seq: seq})
		return
	}
	w.over, w.why = w.clock.now, r.Text
	if w.tally != nil {
		w.tally.see(&entry{lane: n.lane, inc: n.Inc, at: w.clock.now, reason: r.Text, state: tree.StateStopped, cause: seq})
	}
}

// do carries out one order of a supervisor. backoff is the entry of the backoff that the same step ordered, which is what
// its wake-up is caused by.
func (w *World) do(n *Node, order tree.Order, backoff *tree.Seq) {
	switch o := order.(type) {
	case tree.Start:
		w.start(n, o)
	case tree.Stop:
		w.stop(n, o)
	case tree.Backoff:
		e := entry{lane: w.laneOf(n, o.Child, nil), inc: o.Inc, kind: tree.EventBackoff, reason: o.Reason, cause: o.Cause,
			delay: o.Delay, attempt: o.Attempt}
		if o.Slow {
			e.kind = tree.EventFailed
		}
		*backoff = w.record(&e)
	case tree.Rest:
		w.rest(n, o)
	case tree.Forget:
	case tree.WakeAfter:
		seq := o.Cause
		if *backoff != 0 {
			seq = *backoff
		}
		w.clock.schedule(o.After, event{node: n, fact: tree.Wake{Token: o.Token, Seq: seq}})
	case tree.ReportUp:
		if !n.up {
			w.trace("ready", n.Name, "")
		}
		n.up = true
		n.newest = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventReady, cause: o.Cause})
		if n.parent != nil {
			w.Tell(n.parent, tree.Up{Child: n.Name, Inc: n.Inc, Seq: n.newest})
		}
	case tree.ReportUnready:
		w.unready(n, o.Reason, o.Cause)
	case tree.Escalate:
		w.trace("escalate", n.Name, "")
		n.gaveUp = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventEscalated, reason: o.Reason, cause: o.Cause})
	case tree.Quit:
		n.newest = o.Cause
		if n.up {
			w.ends(n, o.Reason)
			return
		}
		n.gone = true
		w.trace("fail", n.Name, "")
		w.down(n, o.Reason)
	}
}

func (w *World) unready(n *Node, reason string, cause tree.Seq) {
	n.newest = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventUnready, reason: reason, cause: cause})
	if n.parent != nil {
		w.Tell(n.parent, tree.Unready{Child: n.Name, Inc: n.Inc, Reason: reason, Seq: n.newest})
	}
}

// laneOf is where a child of a node lives. One that the spec does not have gets a lane when it is first heard of.
func (w *World) laneOf(n *Node, child string, spec *tree.Spec) *lane {
	l := n.lane.kids[child]
	switch {
	case l == nil && spec == nil:
		l = w.declare(n.lane, &tree.Spec{Name: child}, tree.ChildPath(n.Path, n.Spec.Kind, child))
		n.lane.kids[child] = l
	case l == nil:
		l = w.declare(n.lane, spec, tree.ChildPath(n.Path, n.Spec.Kind, child))
		n.lane.kids[child] = l
	case spec != nil && l.spec != spec:
		l.spec = spec
		if spec.IsSupervisor() && l.kids == nil {
			l.kids = map[string]*lane{}
		}
	}
	return l
}

func (w *World) start(n *Node, o tree.Start) {
	l := w.laneOf(n, o.Child, o.Spec)
	k := &Node{Name: o.Child, Path: l.path, Inc: o.Inc, Spec: o.Spec, parent: n, lane: l}
	k.boot = w.record(&entry{lane: l, inc: o.Inc, kind: tree.EventStarting, reason: o.Reason, cause: o.Cause,
		restart: o.Restart, attempt: o.Attempt})
	n.kids[o.Child] = k
	w.begins(k)
}

func (w *World) rest(n *Node, o tree.Rest) {
	e := entry{lane: w.laneOf(n, o.Child, nil), inc: o.Inc, reason: o.Reason, cause: o.Cause, attempt: o.Attempt}
	switch o.State {
	case tree.StateWaiting: // is shown, and no entry
		if w.tally != nil {
			e.state, e.at = o.State, w.clock.now
			w.tally.see(&e)
		}
		return
	case tree.StateDone:
		e.kind = tree.EventDone
	case tree.StateFailed:
		e.kind = tree.EventFailed
	default:
		e.kind = tree.EventStopped
	}
	w.record(&e)
}

func (w *World) stop(n *Node, o tree.Stop) {
	k := n.kids[o.Child]
	if k == nil || k.gone {
		return
	}
	seq := w.record(&entry{lane: k.lane, inc: o.Inc, kind: tree.EventStopping, reason: o.Reason, cause: o.Cause})
	k.newest = seq
	halt := tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: o.Reason}, Kill: o.Kill, Seq: seq}
	switch {
	case k.worker != nil:
		k.leaving = true
		w.Tell(k, halt)
	case k.machine == nil:
		k.leaving = true
		if k.up || o.Kill || k.life.Never {
			w.leave(k, o.Kill)
		}
	case w.opt.Patient && k.Spec.Shutdown == 0:
		w.Crush(k)
	default:
		if w.opt.Patient { // OTP's word for every stop by a supervisor is shutdown
			halt.Wait, halt.Reason = true, tree.Reason{}
		}
		w.Tell(k, halt)
		if w.opt.Patient && k.Spec.Shutdown < tree.Forever {
			w.After(k.Spec.Shutdown, func() { w.Crush(k) })
		}
	}
}
