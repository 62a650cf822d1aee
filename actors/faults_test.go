package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// faultyTell loses, repeats and delays what a process tells.
type faultyTell struct {
	mu   sync.Mutex
	dice *rand.Rand
}

func (f *faultyTell) roll() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dice.Float64()
}

func (f *faultyTell) wrap(tell func(tree.Fact)) func(tree.Fact) {
	return func(fact tree.Fact) {
		switch r := f.roll(); {
		case r < 0.1: // lost
			if _, gone := fact.(tree.Gone); !gone {
				return
			}
		case r < 0.3: // repeated
			tell(fact)
		case r < 0.5: // delayed, so that later ones overtake it
			delay := time.Duration(f.roll() * float64(2*time.Second))
			time.AfterFunc(delay, func() { tell(fact) })
			return
		}
		tell(fact)
	}
}

// TestFaults runs a host whose starts fail at random and whose processes tell things twice, late, or never, while operators
// and crashes come at random too. Whatever happens: never two processes of a worker at once, every operation gets an answer,
// a stop ends in bounded time and leaves nothing, and what is left alone comes back.
func TestFaults(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runFaults(t, seed) })
		})
	}
}

func runFaults(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	faults := &faultyTell{dice: rand.New(rand.NewPCG(seed, 2))}
	strategies := []tree.Strategy{tree.OneForOne, tree.OneForAll, tree.RestForOne}
	var tenants []tree.Spec
	var paths []string
	for i := range 3 {
		var workers []tree.Spec
		for k := range 4 {
			workers = append(workers, worker1(fmt.Sprint("w", k), func(s *tree.Spec) {
				s.Restart = tree.DefaultRestart()
				s.Restart.Limit = 0
				if k%2 == 1 {
					s.Run.Ready = tree.Ready{Notify: true, Timeout: 5 * time.Second}
				}
			}))
			paths = append(paths, fmt.Sprintf("t%d/app/w%d", i, k))
		}
		app := group(tree.KindApp, "app", tree.Supervise{Strategy: strategies[i],
			Intensity: &tree.Intensity{Restarts: 5, Period: 5 * time.Second}}, workers...)
		app.Restart = tree.DefaultRestart()
		app.Restart.Limit = 0
		tenants = append(tenants, group(tree.KindTenant, fmt.Sprint("t", i), tree.Supervise{}, app))
	}
	calm := false // under faults.mu
	w := start(t, Options{Spec: hostOf(tenants...), DrainTimeout: time.Minute}, func(w *world) {
		w.launcher.behave = func(_ tree.Ref, p *fakeProcess) error {
			r := faults.roll()
			faults.mu.Lock()
			quiet := calm
			faults.mu.Unlock()
			if quiet {
				return nil
			}
			if r < 0.1 {
				return errors.New("cannot start: no luck")
			}
			p.tell = faults.wrap(p.tell)
			p.stopTime = time.Duration(r * float64(3*time.Second))
			return nil
		}
	})
	var ops sync.WaitGroup
	for range 100 {
		time.Sleep(time.Duration(dice.IntN(2000)) * time.Millisecond)
		path := paths[dice.IntN(len(paths))]
		switch op := dice.IntN(10); op {
		case 0, 1, 2:
			ops.Go(func() {
				_, _ = []func() (string, error){
					func() (string, error) { return w.Halt(t.Context(), path, by("ann")) },
					func() (string, error) { return w.Start(t.Context(), path, by("ann")) },
					func() (string, error) { return w.Restart(t.Context(), path, by("ann")) },
				}[op]()
			})
		default:
			_ = w.launcher.crash(path, dice.IntN(3))
		}
	}
	ops.Wait()
	faults.mu.Lock()
	calm = true
	faults.mu.Unlock()
	for i := range tenants {
		_, err := w.Restart(t.Context(), fmt.Sprint("t", i), by("ann"))
		_ = err // a failed start of before may still be told
	}
	time.Sleep(10 * time.Minute)
	for _, path := range paths {
		if got := w.state(path); got != "running" {
			t.Errorf("%s is %s when all is calm", path, got)
		}
	}
	began := time.Now()
	w.end()
	if took := time.Since(began); took > time.Minute+6*time.Second {
		t.Errorf("the stop took %s", took)
	}
	time.Sleep(time.Minute) // late news
}
