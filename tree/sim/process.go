package sim

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// process is the simulated operating-system process of a leaf with a Run. A healthy one is ready when its Life says so,
// leaves with status 0 when it is asked, and answers every check.
type process struct {
	runs  bool
	pid   int
	began time.Duration
	asked bool // to leave, while it hung
	own   bool // the machine itself ends this incarnation
	hung  bool
	hangs int // how often it hung; an older hang's end changes nothing
}

// carry carries out one order of a worker.
func (w *World) carry(n *Node, order tree.Order) {
	p := &n.process
	switch o := order.(type) {
	case tree.Spawn:
		w.spawn(n)
	case tree.Probe:
		if !n.life.Never {
			w.clock.schedule(n.life.Start, event{node: n, fact: tree.Checked{OK: true}})
		}
	case tree.WakeAfter:
		w.wakeWorker(n, o)
	case tree.Record:
		w.recordOf(n, o)
	case tree.ReportUp:
		again := n.up
		n.up = true
		n.newest = w.record(&entry{lane: n.lane, inc: n.Inc, kind: tree.EventReady, cause: n.or(o.Cause)})
		w.Tell(n.parent, tree.Up{Child: n.Name, Inc: n.Inc, Seq: n.newest})
		if !again {
			w.trace("start", n.Name, "")
			w.lived(n)
		}
	case tree.ReportUnready:
		w.unready(n, o.Reason, n.or(o.Cause))
	case tree.StopFile, tree.Signal:
		p.asked = true
		w.obey(n)
	case tree.Kill:
		w.exit(n, tree.Exit{Code: -1, Signal: "KILL"}, 1)
	case tree.Quit:
		n.gone = true
		w.trace("exit", n.Name, o.Reason.Text)
		n.newest = n.or(o.Cause)
		w.down(n, o.Reason)
	}
}

// or is the number of a cause; 0 stands for the newest entry of the worker's own.
func (n *Node) or(cause tree.Seq) tree.Seq {
	if cause == 0 {
		return n.newest
	}
	return cause
}

func (w *World) spawn(n *Node) {
	w.lives(n)
	if n.life.Outcome != OK {
		text := n.life.End.Text
		if text == "" {
			text = "cannot start"
		}
		if w.tally != nil { // what follows from the start is this node's own doing
			w.tally.see(&entry{lane: n.lane, inc: n.Inc, at: w.clock.now, own: true, cause: n.boot})
		}
		w.Tell(n, tree.SpawnFailed{Text: text})
		return
	}
	w.pids++
	n.process = process{runs: true, pid: w.pids, began: w.clock.now}
	w.Tell(n, tree.Spawned{PID: w.pids})
}

// wakeWorker keeps the wake-up that a worker asked for. A healthy process beats just in time for the watchdog to see it.
func (w *World) wakeWorker(n *Node, o tree.WakeAfter) {
	wake := tree.Wake{Token: o.Token, Seq: n.or(o.Cause)}
	if n.Spec.Run.Watchdog == 0 {
		w.clock.schedule(o.After, event{node: n, fact: wake})
		return
	}
	w.After(o.After, func() {
		if n.process.runs && !n.process.hung {
			w.step(n, tree.Beat{})
		}
		w.step(n, wake)
	})
}

func (w *World) recordOf(n *Node, o tree.Record) {
	e := entry{lane: n.lane, inc: n.Inc, kind: o.Kind, reason: o.Reason, cause: n.or(o.Cause), exit: o.Exit}
	e.own = !n.leaving && !n.process.own
	if o.Kind == tree.EventStopping {
		n.process.own = true
	}
	n.newest = w.record(&e)
}

// obey lets a process leave that was asked to, unless it hangs.
func (w *World) obey(n *Node) {
	if n.process.hung || !n.process.asked {
		return
	}
	w.After(n.life.Stop, func() {
		if !n.process.hung {
			w.exit(n, tree.Exit{}, 0)
		}
	})
}

// exit ends a process, and with it all that belongs to it.
func (w *World) exit(n *Node, exit tree.Exit, killed int) bool {
	if n == nil || n.gone || !n.process.runs {
		return false
	}
	n.process.runs = false
	exit.Ran = w.clock.now - n.process.began
	w.Tell(n, tree.Exited{Exit: exit})
	w.Tell(n, tree.Gone{Killed: killed})
	return true
}

// hang makes a leaf deaf: it ignores every wish, fails its health checks and beats no more. d is how long; 0 is for ever.
func (w *World) hang(n *Node, d time.Duration) {
	p := &n.process
	p.hung = true
	p.hangs++
	this := p.hangs
	if d > 0 {
		w.After(d, func() {
			if p.hangs == this {
				w.unhang(n)
			}
		})
	}
	if n.worker == nil {
		return
	}
	run := n.Spec.Run
	if run.Watchdog > 0 {
		w.Tell(n, tree.Beat{}) // the last
	}
	if run.Health != nil && run.Health.Interval > 0 {
		w.sick(n, this)
	}
	if run.Heartbeat != nil {
		w.After(run.Heartbeat.Stale, func() {
			if p.hung && p.hangs == this {
				w.Tell(n, tree.Stale{})
			}
		})
	}
}

// sick fails a health check after each interval while the hang lasts.
func (w *World) sick(n *Node, hang int) {
	w.After(n.Spec.Run.Health.Interval, func() {
		if n.gone || !n.process.runs || !n.process.hung || n.process.hangs != hang {
			return
		}
		if n.up {
			w.Tell(n, tree.HealthResult{Detail: "no answer"})
		}
		w.sick(n, hang)
	})
}

func (w *World) unhang(n *Node) {
	n.process.hung = false
	if n.gone || n.worker == nil {
		return
	}
	if n.Spec.Run.Health != nil && n.up {
		w.Tell(n, tree.HealthResult{OK: true})
	}
	w.obey(n)
}
