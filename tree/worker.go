package tree

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Worker is the life of ONE incarnation of a worker, from Boot to Quit. It knows nothing of its predecessors and
// decides no restart; its parent does. It is not safe for concurrent use.
//
// The life as a table. A cell says what the fact does and, after the arrow, the state that follows; an empty cell means
// that the fact is ignored. "stop" is the stop sequence below, "end" is Quit.
//
//	            new       spawning        starting         up               grace, asked      killing
//	Boot        ->spawning
//	Halt        end       remembered      stop             stop
//	Halt{Kill}  end       Kill->killing   Kill->killing    Kill->killing    Kill->killing
//	Spawned               ->starting, up                                                      Kill again
//	SpawnFailed           end                                                                 end, if never spawned
//	Checked OK                            ->up
//	Checked                               detail is kept
//	Health                                                 counted, see watch
//	Beat                                                   remembered
//	Stale                                                  stop
//	Exited                Kill->killing   Kill->killing    Kill->killing    the rest is asked remembered
//	Gone                                  ->killing        ->killing        end after Exited  end after Exited
//	deadline              Kill->killing   stop             -                asked, then Kill  end
//
// The stop sequence: StopFile and grace if the Run wants a stop file; then its signal and its timeout; then Kill, which
// has killBound to take effect. A halt that comes while a spawn is in flight waits for it, then goes on with the
// signal; a spawn that takes longer than the stop timeout is killed too.
//
// The reason at Quit is the first cause: that of a Halt, that of the machine's own decision (not ready, unhealthy,
// heartbeat stale, watchdog), else that of the exit.
//
// The numbers of causes: Record entries get their number from whoever writes them, so the machine cannot know it. Cause
// 0 in an order means the entry that the newest Record became.
type Worker struct {
	run    *Run
	normal []int

	phase   workerPhase
	boot    Seq     // of Boot: what began this incarnation
	cause   Seq     // of what began the end
	reason  *Reason // the first cause of the end
	trouble string  // the newest detail of a readiness check

	spawned, probing bool
	exited, gone     bool
	pid              int
	unrouted         bool
	failures         int       // of the health check, in a row
	beat             time.Time // the newest one, or when the worker came up
	killReason       string

	tokens, deadline, watchdog uint64 // the last token used, and those that are awaited
	orders                     []Order
}

type workerPhase int

const (
	workerNew workerPhase = iota
	workerSpawning
	workerStarting
	workerUp
	workerGrace   // the stop file is written
	workerAsked   // the signal is sent
	workerKilling // KILL is ordered, or nothing is left that could be asked
	workerOver
)

// killBound is how long KILL may take to end all of a worker. What is left then sits in the kernel; the tree goes on
// without it and says so.
const killBound = 5 * time.Second

// NewWorker returns the machine of one incarnation that runs run. normalExits are the exit statuses that count as a
// normal end. The machine keeps both and changes neither.
func NewWorker(run *Run, normalExits []int) *Worker {
	return &Worker{run: run, normal: normalExits}
}

// WorkerState is what an observer may know of a worker machine.
type WorkerState struct {
	State    State
	Ready    bool
	PID      int // 0 without a process
	Failures int // of the health check, in a row
}

// State returns what the worker is doing. Before Boot it is waiting, after Quit stopped.
func (w *Worker) State() WorkerState {
	words := [...]State{StateWaiting, StateStarting, StateStarting, StateRunning, StateStopping, StateStopping,
		StateStopping, StateStopped}
	s := WorkerState{State: words[w.phase], Ready: w.phase == workerUp && !w.unrouted, Failures: w.failures}
	if w.spawned && !w.exited && w.phase != workerOver {
		s.PID = w.pid
	}
	return s
}

// Step records one fact and returns what to do about it, in order.
func (w *Worker) Step(now time.Time, fact Fact) []Order {
	if w.phase == workerOver {
		return nil
	}
	w.orders = nil
	switch f := fact.(type) {
	case Boot:
		w.begin(f)
	case Halt:
		w.halt(f)
	case Wake:
		w.wake(now, f)
	case Spawned:
		w.born(now, f)
	case SpawnFailed:
		w.unborn(f)
	case Checked:
		w.checked(now, f)
	case HealthResult:
		w.health(f)
	case Beat:
		w.beat = now
	case Stale:
		if w.phase == workerUp && w.run.Heartbeat != nil {
			w.giveUp("heartbeat stale", "", f.Seq)
		}
	case Exited:
		w.ended(f)
	case Gone:
		w.vanished(f)
	}
	return w.orders
}

func (w *Worker) order(o Order) { w.orders = append(w.orders, o) }

// record writes an entry; what follows is caused by that entry, whose number is not known here.
func (w *Worker) record(r Record) {
	w.order(r)
	w.cause = 0
}

// enter changes the phase and with it what is waited for: an older deadline no longer counts.
func (w *Worker) enter(phase workerPhase, within time.Duration) {
	w.phase = phase
	w.deadline = 0
	if within != Forever {
		w.deadline = w.ask(within)
	}
}

// ask orders a wake-up and returns its token.
func (w *Worker) ask(after time.Duration) uint64 {
	w.tokens++
	w.order(WakeAfter{After: after, Token: w.tokens, Cause: w.cause})
	return w.tokens
}

// or returns the number of a fact that was recorded, else that of this incarnation's beginning.
func (w *Worker) or(seq Seq) Seq {
	if seq != 0 {
		return seq
	}
	return w.boot
}

func (w *Worker) begin(f Boot) {
	if w.phase != workerNew {
		return
	}
	w.boot, w.phase = f.Seq, workerSpawning
	w.order(Spawn{Cause: f.Seq})
}

func (w *Worker) born(now time.Time, f Spawned) {
	if w.spawned || w.phase == workerNew {
		return
	}
	w.spawned, w.pid = true, f.PID
	switch {
	case w.phase == workerKilling: // Kill came before there was anything to kill
		w.kill(w.killReason)
	case w.reason != nil:
		w.signal()
	case w.run.Ready.None():
		w.up(now, w.or(f.Seq))
	default:
		w.probing = true
		w.order(Probe{Cause: w.or(f.Seq)})
		limit := w.run.Ready.Timeout
		if limit <= 0 {
			limit = Forever
		}
		w.cause = w.or(f.Seq)
		w.enter(workerStarting, limit)
	}
}

func (w *Worker) unborn(f SpawnFailed) {
	if w.spawned || w.phase == workerNew {
		return
	}
	if w.reason == nil {
		w.reason = &Reason{Class: Crash, Text: f.Text}
		w.cause = w.or(f.Seq)
	}
	w.quit()
}

func (w *Worker) checked(now time.Time, f Checked) {
	switch {
	case w.phase != workerStarting:
	case f.OK:
		w.up(now, w.or(f.Seq))
	default:
		w.trouble = f.Detail
	}
}

// up begins the watch: health, heartbeat and watchdog count from here and never before.
func (w *Worker) up(now time.Time, cause Seq) {
	w.cause = cause
	w.enter(workerUp, Forever)
	w.order(ReportUp{Cause: cause})
	w.order(Monitor{Cause: cause})
	w.probing = true
	if w.run.Watchdog > 0 {
		w.beat = now
		w.watchdog = w.ask(w.run.Watchdog)
	}
}

func (w *Worker) health(f HealthResult) {
	rule := w.run.Health
	if w.phase != workerUp || rule == nil {
		return
	}
	if f.OK {
		w.failures = 0
		if w.unrouted {
			w.unrouted = false
			w.order(ReportUp{Cause: w.or(f.Seq)})
		}
		return
	}
	w.failures++
	if w.failures < rule.Failures || w.unrouted {
		return
	}
	text := "unhealthy"
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if rule.Unroute {
		w.unrouted = true
		w.order(ReportUnready{Reason: text, Cause: w.or(f.Seq)})
		return
	}
	w.giveUp(text, "", f.Seq)
}

func (w *Worker) wake(now time.Time, f Wake) {
	switch {
	case f.Token == 0:
	case f.Token == w.deadline:
		w.deadline = 0
		w.expired()
	case f.Token == w.watchdog && w.phase == workerUp:
		// One wake-up is under way whatever the number of beats; it asks again for what is left of the newest.
		if left := w.run.Watchdog - now.Sub(w.beat); left > 0 {
			w.cause = w.boot
			w.watchdog = w.ask(left)
			return
		}
		w.begun("watchdog", "", f.Seq)
		w.kill("watchdog")
	}
}

// expired is what the end of a wait means.
func (w *Worker) expired() {
	switch w.phase {
	case workerSpawning:
		w.kill(w.reason.Text)
	case workerStarting:
		w.giveUp("not ready in "+shortDuration(w.run.Ready.Timeout), w.trouble, 0)
	case workerGrace:
		w.signal()
	case workerAsked:
		w.kill("still running " + shortDuration(w.run.Stop.Timeout) + " after " + w.stopSignal())
	case workerKilling:
		w.unkillable()
	}
}

// exitReason folds an exit into its class and words.
func (w *Worker) exitReason(e Exit) Reason {
	switch {
	case e.OOM:
		return Reason{Class: Crash, Text: "out of memory"}
	case e.Signal != "":
		return Reason{Class: Crash, Text: "signal " + e.Signal}
	case e.Code < 0: // of a process that is not our child, and nobody could tell
		return Reason{Class: Crash, Text: "exit unknown"}
	case slices.Contains(w.normal, e.Code):
		return Reason{Class: Normal, Text: "exit " + strconv.Itoa(e.Code)}
	}
	return Reason{Class: Crash, Text: "exit " + strconv.Itoa(e.Code)}
}

// shortDuration writes a duration as people and configuration files do: "1m", not "1m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
