package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// workerOracle holds the answers of a worker machine against its promises. It knows only facts, orders and the clock,
// nothing of the machine's states. Each call of fail is one promise; testdata/mutants has a mutant for each.
type workerOracle struct {
	w      *Worker
	run    *Run
	normal []int
	now    time.Time

	booted, spawned, exited, gone bool // facts that could be true when they came
	haltKill, haltedInFlight      bool
	haltAt                        time.Time
	spawns, probes, monitors      int
	up, everUp, unready, quit     bool
	ending                        bool // an end has begun, for whatever reason
	probeAt, fileAt, signalAt     time.Time
	killAt, beatAt                time.Time
	failures                      int
	want                          Reason // of Quit: the first cause
	wakes                         []pendingWake
	tokens                        map[uint64]bool
	recordedExit, killedDue       bool

	trouble string
	story   strings.Builder
}

type pendingWake struct {
	token uint64
	due   time.Time
}

func newWorkerOracle(run *Run, normal []int) *workerOracle {
	return &workerOracle{w: NewWorker(run, normal), run: run, normal: normal, now: time.Unix(0, 0), tokens: map[uint64]bool{}}
}

func (o *workerOracle) fail(format string, args ...any) {
	if o.trouble == "" {
		o.trouble = "broken: " + fmt.Sprintf(format, args...)
	}
}

// feed gives the machine one fact and judges its orders.
func (o *workerOracle) feed(fact Fact) {
	awaited := o.note(fact)
	orders := o.w.Step(o.now, fact)
	o.tell(fact, orders)
	if o.quit && len(orders) > 0 {
		o.fail("after Quit nothing")
	}
	if !awaited && len(orders) > 0 {
		o.fail("a wake-up that is not awaited does nothing")
	}
	for i, order := range orders {
		o.judge(fact, order)
		if _, last := order.(Quit); last && i != len(orders)-1 {
			o.fail("after Quit nothing")
		}
	}
	o.after(fact)
}

// note records what the fact makes true. It returns false for a Wake that nobody asked for.
func (o *workerOracle) note(fact Fact) bool {
	switch f := fact.(type) {
	case Boot:
		o.booted = true
	case Wake:
		i := slices.IndexFunc(o.wakes, func(w pendingWake) bool { return w.token == f.Token })
		if i < 0 {
			return false
		}
		o.wakes = slices.Delete(o.wakes, i, i+1)
	case Halt:
		if o.quit {
			break
		}
		o.haltKill = o.haltKill || f.Kill
		if !o.ending {
			o.haltAt, o.haltedInFlight = o.now, o.booted && !o.spawned
			o.end(Reason{Class: Shutdown, Text: orElse(f.Reason.Text, "shutdown")})
		}
	case Spawned:
		o.spawned = o.spawned || o.booted
	case SpawnFailed:
		if o.booted && !o.spawned && !o.ending {
			o.end(Reason{Class: Crash, Text: f.Text})
		}
	case Beat:
		o.beatAt = o.now
	case HealthResult:
		switch {
		case f.OK:
			o.failures = 0
		case o.everUp && !o.ending:
			o.failures++
		}
	case Exited:
		o.noteExit(f.Exit)
	case Gone:
		if o.spawned || !o.killAt.IsZero() {
			o.killedDue = !o.gone && !o.quit && (f.Killed > 0 || len(f.Left) > 0)
			o.gone = true
			o.up = false
		}
	}
	return true
}

func (o *workerOracle) noteExit(e Exit) {
	if !o.booted || o.exited || o.quit {
		return
	}
	o.exited, o.spawned = true, true
	if o.ending {
		return
	}
	switch {
	case e.OOM:
		o.end(Reason{Class: Crash, Text: "out of memory"})
	case e.Signal != "":
		o.end(Reason{Class: Crash, Text: "signal " + e.Signal})
	case slices.Contains(o.normal, e.Code):
		o.end(Reason{Class: Normal, Text: fmt.Sprintf("exit %d", e.Code)})
	default:
		o.end(Reason{Class: Crash, Text: fmt.Sprintf("exit %d", e.Code)})
	}
}

func (o *workerOracle) end(r Reason) {
	o.ending, o.up, o.want = true, false, r
}

// after holds what must have come with the fact.
func (o *workerOracle) after(fact Fact) {
	if _, ok := fact.(Exited); ok && o.exited != o.recordedExit {
		o.fail("an exit is recorded")
	}
	if o.killedDue {
		o.fail("what KILL had to reach is recorded")
	}
	if o.exited && o.gone && !o.quit {
		o.fail("it quits as soon as nothing is left")
	}
	rule := o.run.Health
	if rule != nil && o.up && o.failures >= rule.Failures && !o.unready {
		o.fail("so many failures in a row are not overlooked")
	}
}

// judge holds one order against the promises.
func (o *workerOracle) judge(fact Fact, order Order) {
	switch x := order.(type) {
	case WakeAfter:
		if o.tokens[x.Token] || x.Token == 0 {
			o.fail("every wake-up has a token of its own")
		}
		o.tokens[x.Token] = true
		o.wakes = append(o.wakes, pendingWake{x.Token, o.now.Add(x.After)})
	case Spawn:
		if o.spawns++; o.spawns > 1 {
			o.fail("one Spawn")
		}
	case Probe:
		o.probeAt = o.now
		if o.probes++; o.probes > 1 || o.ending || o.everUp {
			o.fail("it is probed once, and not on its way out")
		}
	case Monitor:
		if o.monitors++; o.monitors > 1 || !o.up {
			o.fail("it is watched once it is up, never before")
		}
	case ReportUp:
		o.judgeUp()
	case ReportUnready:
		if !o.up || o.unready || o.run.Health == nil || !o.run.Health.Unroute || o.failures < o.run.Health.Failures {
			o.fail("unready only after so many failures in a row")
		}
		o.unready = true
	case StopFile:
		o.judgeStopFile(x)
	case Signal:
		o.judgeSignal(x)
	case Kill:
		o.judgeKill(fact, x)
	case Record:
		o.judgeRecord(fact, x)
	case Quit:
		o.judgeQuit(fact, x)
	}
}

func (o *workerOracle) judgeUp() {
	if o.ending || (o.everUp && !o.unready) {
		o.fail("up at most once unless unready between, and never on its way out")
	}
	if !o.everUp {
		o.beatAt = o.now
	}
	o.up, o.everUp, o.unready = true, true, false
}

func (o *workerOracle) judgeStopFile(x StopFile) {
	if !o.run.Stop.File || !o.fileAt.IsZero() || !o.signalAt.IsZero() || !o.ending || o.exited {
		o.fail("the stop file comes once, first, and only if wanted")
	}
	if x.Reason == "" {
		o.fail("a %T has a reason", x)
	}
	o.fileAt = o.now
}

// graceIsOver tells whether the signal may come: the file first, and time to obey it.
func (o *workerOracle) graceIsOver() bool {
	if !o.run.Stop.File || o.haltedInFlight || o.exited {
		return true
	}
	return !o.fileAt.IsZero() && o.now.Sub(o.fileAt) >= o.run.Stop.Grace
}

func (o *workerOracle) judgeSignal(x Signal) {
	if !o.ending || !o.signalAt.IsZero() || !o.killAt.IsZero() {
		o.fail("one signal, before any KILL")
	}
	if !o.graceIsOver() {
		o.fail("the signal leaves the stop file its grace")
	}
	if x.Reason == "" {
		o.fail("a %T has a reason", x)
	}
	o.signalAt = o.now
}

func (o *workerOracle) judgeKill(fact Fact, x Kill) {
	_, late := fact.(Spawned)
	_, died := fact.(Exited)
	timeout := o.run.Stop.Timeout
	switch {
	case o.haltKill:
	case !o.signalAt.IsZero() && o.now.Sub(o.signalAt) >= timeout:
	case died && o.signalAt.IsZero() && o.fileAt.IsZero(): // unasked, or before it could be asked
	case o.want.Text == "watchdog":
	case o.run.Stop.Signal == "KILL" && o.ending && o.graceIsOver():
	case o.haltedInFlight && !o.spawned && o.now.Sub(o.haltAt) >= timeout:
	case late && !o.killAt.IsZero():
	default:
		o.fail("KILL never before its time")
	}
	if x.Reason == "" {
		o.fail("a %T has a reason", x)
	}
	o.killAt = o.now
}

func (o *workerOracle) judgeRecord(fact Fact, x Record) {
	if x.Reason == "" {
		o.fail("a %T has a reason", x)
	}
	switch x.Kind {
	case EventExited:
		if o.recordedExit || !o.exited || x.Exit == nil {
			o.fail("an exit is recorded once, when it happened")
		}
		o.recordedExit = true
	case EventKilled:
		_, bound := fact.(Wake)
		if !o.killedDue && !bound {
			o.fail("killed only when KILL had to reach something")
		}
		o.killedDue = false
	case EventStopping:
		o.judgeOwnStop(fact, x.Reason)
		o.end(Reason{Class: Crash, Text: x.Reason})
	default:
		o.fail("a worker records nothing else: %s", x.Kind)
	}
}

// judgeOwnStop holds the machine's own decisions against what it may decide.
func (o *workerOracle) judgeOwnStop(fact Fact, reason string) {
	if o.ending {
		o.fail("it decides nothing once an end has begun")
	}
	_, woken := fact.(Wake)
	_, stale := fact.(Stale)
	rule := o.run.Health
	switch word, _, _ := strings.Cut(reason, ":"); word {
	case "not ready in 4s":
		if !woken || o.everUp || o.probes == 0 || o.now.Sub(o.probeAt) < o.run.Ready.Timeout {
			o.fail("not ready only after its time")
		}
	case "unhealthy":
		if !o.up || rule == nil || rule.Unroute || o.failures < rule.Failures {
			o.fail("unhealthy only when up, after so many failures in a row")
		}
	case "heartbeat stale":
		if !o.up || !stale || o.run.Heartbeat == nil {
			o.fail("stale only when up and asked for")
		}
	case "watchdog":
		if !o.up || !woken || o.run.Watchdog == 0 || o.now.Sub(o.beatAt) < o.run.Watchdog {
			o.fail("the watchdog leaves every beat its time")
		}
	default:
		o.fail("no such reason: %q", reason)
	}
}

func (o *workerOracle) judgeQuit(fact Fact, x Quit) {
	_, woken := fact.(Wake)
	_, failed := fact.(SpawnFailed)
	bound := woken && (o.now.Sub(o.killAt) >= killBound || o.gone)
	if o.spawned && !(o.exited && o.gone) && !bound {
		o.fail("it quits only when nothing runs any more, or KILL had its time")
	}
	if o.booted && !o.spawned && !failed && !o.gone && !bound {
		o.fail("a spawn in flight is awaited")
	}
	if x.Reason.Text == "" || x.Reason.Class == "" {
		o.fail("a %T has a reason", x)
	}
	want := o.want
	if !o.ending {
		want = Reason{Class: Crash, Text: "exit unknown"}
	}
	if x.Reason != want {
		o.fail("the first cause wins: quit %v, want %v", x.Reason, want)
	}
	o.quit = true
}
