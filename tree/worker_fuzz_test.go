package tree

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzWorker feeds a worker machine histories, possible and impossible ones, and holds every answer against the oracle
// in worker_oracle_test.go. The seeds alone are a few thousand histories.
func FuzzWorker(f *testing.F) {
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		seed := make([]byte, 4+dice.IntN(60))
		for j := range seed {
			seed[j] = byte(dice.Uint32())
		}
		if i%2 == 0 { // a life that gets as far as being up, and something of a life
			copy(seed[2:], []byte{9, 13})
			for j := 4; j < len(seed)/2; j++ {
				seed[j] = seed[j]&0xe0 | [...]byte{0, 7, 17, 17, 20, 21, 23, 28}[dice.IntN(8)]
			}
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := playWorker(data)
		if o.trouble != "" {
			t.Fatalf("%s\n%s", o.trouble, o.story.String())
		}
		if again := playWorker(data); again.story.String() != o.story.String() {
			t.Fatalf("the same history gave other orders:\n%s\nand\n%s", o.story.String(), again.story.String())
		}
	})
}

// fuzzRun makes a run of two bytes.
func fuzzRun(a, b byte) *Run {
	run := DefaultRun()
	run.Ready.Notify = a&1 != 0
	run.Ready.Timeout = 4 * time.Second
	run.Stop.File = a&2 != 0
	run.Stop.Grace, run.Stop.Timeout = 3*time.Second, 2*time.Second
	if a&4 != 0 {
		run.Watchdog = 3 * time.Second
	}
	if a&8 != 0 {
		run.Heartbeat = &Heartbeat{Stale: time.Second}
	}
	if a&16 != 0 {
		run.Health = &Health{Failures: 1 + int(b&3), Unroute: b&4 != 0}
	}
	if b&0xf8 == 0 {
		run.Stop.Signal = "KILL"
	}
	return &run
}

// playWorker plays the history that the bytes say. It ends with a Halt and with nothing but time, so that whatever waits
// for something else is found.
func playWorker(data []byte) *workerOracle {
	data = append(data, 0, 0, 0, 0)
	o := newWorkerOracle(fuzzRun(data[0], data[1]), []int{0, 3})
	data = data[2:]
	if data[0] != 255 {
		o.feed(Boot{Seq: 1})
	}
	for _, b := range data {
		o.play(b)
		if o.trouble != "" {
			return o
		}
	}
	o.feed(Halt{Seq: 99})
	halted := o.now
	for i := 0; i < 20 && !o.quit && o.trouble == ""; i++ {
		o.fire()
	}
	stop := o.run.Stop
	if bound := stop.Grace + 2*stop.Timeout + 2*killBound; !o.quit || o.now.Sub(halted) > bound {
		o.fail("a Halt ends in Quit in bounded time")
	}
	o.feed(Spawned{PID: 9})
	o.feed(Halt{Kill: true})
	return o
}

// play does one thing: the low bits say what, the high bits how.
func (o *workerOracle) play(b byte) {
	how := int(b >> 5)
	switch b & 31 {
	case 0, 1, 2, 3, 4, 5:
		o.fire()
	case 6, 7, 8:
		o.now = o.now.Add(time.Duration(how) * 300 * time.Millisecond)
	case 9, 10, 11:
		o.feed(Spawned{PID: 100})
	case 12:
		if how == 7 {
			o.feed(Boot{Seq: 2})
			return
		}
		o.feed(SpawnFailed{Text: "cannot start: no"})
	case 13, 14, 15:
		o.feed(Checked{OK: true})
	case 16:
		o.feed(Checked{Detail: "connection refused"})
	case 17, 18, 19:
		o.feed(HealthResult{OK: false, Detail: "status 500"})
	case 20:
		o.feed(HealthResult{OK: true})
	case 21, 22:
		o.feed(Beat{})
	case 23:
		o.feed(Stale{Seq: 5})
	case 24, 25:
		e := Exit{Code: how}
		if how > 5 {
			e = Exit{Code: -1, Signal: "SEGV", OOM: how == 7}
		}
		o.feed(Exited{Exit: e})
	case 26, 27:
		o.feed(Gone{Killed: how & 3})
	case 28:
		o.feed(Halt{Reason: Reason{Text: fmt.Sprintf("stopped by %d", how)}, Seq: Seq(10 + how)})
	case 29:
		o.feed(Halt{Kill: how > 3, Seq: Seq(20 + how)})
	case 30:
		token := uint64(how) // perhaps of before, perhaps of nothing
		if !slices.ContainsFunc(o.wakes, func(w pendingWake) bool { return w.token == token && w.due.After(o.now) }) {
			o.feed(Wake{Token: token}) // but a real clock never wakes early
		}
	case 31:
		o.feed(Gone{Left: []int{7}})
	}
}

// fire advances the clock to the next wake-up that was asked for and delivers it.
func (o *workerOracle) fire() {
	best := -1
	for i, w := range o.wakes {
		if best < 0 || w.due.Before(o.wakes[best].due) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	w := o.wakes[best]
	if w.due.After(o.now) {
		o.now = w.due
	}
	o.feed(Wake{Token: w.token})
}

// TestWorkerState is for what no oracle sees: State agrees with the orders.
func TestWorkerState(t *testing.T) {
	run := DefaultRun()
	run.Ready.Notify = true
	run.Health = &Health{Failures: 2, Unroute: true}
	w := NewWorker(&run, nil)
	now := time.Unix(0, 0)
	steps := []struct {
		fact Fact
		want WorkerState
	}{
		{Boot{}, WorkerState{State: StateStarting}},
		{Spawned{PID: 7}, WorkerState{State: StateStarting, PID: 7}},
		{Checked{OK: true}, WorkerState{State: StateRunning, Ready: true, PID: 7}},
		{HealthResult{}, WorkerState{State: StateRunning, Ready: true, PID: 7, Failures: 1}},
		{HealthResult{}, WorkerState{State: StateRunning, PID: 7, Failures: 2}},
		{HealthResult{OK: true}, WorkerState{State: StateRunning, Ready: true, PID: 7}},
		{Halt{}, WorkerState{State: StateStopping, PID: 7}},
		{Exited{}, WorkerState{State: StateStopping}},
		{Gone{}, WorkerState{State: StateStopped}},
	}
	if got := w.State(); got != (WorkerState{State: StateWaiting}) {
		t.Errorf("before Boot: %+v", got)
	}
	for _, step := range steps {
		w.Step(now, step.fact)
		if got := w.State(); got != step.want {
			t.Errorf("after %T: %+v, want %+v", step.fact, got, step.want)
		}
	}
}

// tell writes a fact into the story.
func (o *workerOracle) tell(fact Fact, orders []Order) {
	name := strings.TrimPrefix(reflect.TypeOf(fact).String(), "tree.")
	fmt.Fprintf(&o.story, "%s  %s%+v\n", o.now.Sub(time.Unix(0, 0)), name, fact)
	for _, order := range orders {
		fmt.Fprintf(&o.story, "        %s\n", workerOrder(order))
	}
}
