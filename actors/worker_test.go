package actors

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
)

func TestNewsBeforeTheLaunchReturnedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notify := func(s *tree.Spec) { s.Run.Ready = tree.Ready{Notify: true, Timeout: 5 * time.Second} }
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("quick", notify), worker1("short"))}, func(w *world) {
			w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
				switch {
				case ref.Path == "acme/shop/quick":
					p.onOrder = func(o tree.Order) bool { _, probe := o.(tree.Probe); return probe }
					p.tell(tree.Checked{OK: true})
				case ref.Inc == 1:
					p.end(tree.Exit{Code: 3})
				}
				return nil
			}
		})
		synctest.Wait()
		if d := cmp.Diff([]string{"starting#1: start", "ready#1"}, w.journal.of("acme/shop/quick")); d != "" {
			t.Error(d)
		}
		want := []string{"starting#1: start", "ready#1", "exited#1: exit 3", "starting#2: exit 3", "ready#2"}
		if d := cmp.Diff(want, w.journal.of("acme/shop/short")); d != "" {
			t.Error(d)
		}
		w.end()
		if w.launcher.closed != 3 {
			t.Errorf("%d instances were closed, want 3", w.launcher.closed)
		}
	})
}

func TestLaunchSeesAHaltThatIsStillInTheMailbox(t *testing.T) {
	launcher := newFakeLauncher()
	w := newWorker(&house{launcher: launcher}, tree.Ref{Path: "a", Inc: 1}, &tree.Spec{Run: &tree.Run{}}, "a", nil)
	w.newMailbox()
	w.RegisterHandlers(nil, dropAll{})
	w.halt(tree.Halt{})
	h := &handle{house: &house{launcher: launcher}, shell: w}
	h.launch(t.Context(), &tree.Spec{})
	if launcher.pids != 0 {
		t.Error("a process was spawned after the halt")
	}
}

// dropAll is a dispatcher that runs nothing.
type dropAll struct{}

func (dropAll) Schedule(func()) {}
func (dropAll) Throughput() int { return 1 }

// A launch that hangs when its worker is killed must not leave a process when it comes back at last.
func TestHungLaunchIsKilledWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"))}, func(w *world) {
			w.launcher.behave = func(ref tree.Ref, _ *fakeProcess) error { <-release; return nil }
		})
		time.Sleep(time.Second)
		began := time.Now()
		w.must(w.Halt(t.Context(), "acme/shop/a", by("ann")))
		if took := time.Since(began); took > 16*time.Second { // the stop's ten, and five for KILL
			t.Errorf("the stop took %s", took)
		}
		if got := w.journal.of("acme/shop/a"); !slices.Contains(got, "killed#1: still there 5s after KILL") {
			t.Error(join(got))
		}
		close(release)
		synctest.Wait()
		if p := w.launcher.process("acme/shop/a"); p != nil {
			t.Error("its process lives")
		}
		if w.launcher.closed != 1 {
			t.Errorf("%d instances were closed", w.launcher.closed)
		}
		w.end()
	})
}

func TestSpawnErrorsAreReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a", func(s *tree.Spec) { s.Restart.Backoff = time.Hour }))},
			func(w *world) {
				w.launcher.behave = func(tree.Ref, *fakeProcess) error {
					return errors.New("cannot start: working directory /x: no such file or directory")
				}
			})
		synctest.Wait()
		n, _ := w.journal.Node("acme/shop/a")
		if n.State != tree.StateBackoff || n.Reason != "cannot start: working directory /x: no such file or directory" || n.PID != 0 {
			t.Errorf("a is %s, %q, pid %d", n.State, n.Reason, n.PID)
		}
		w.end()
	})
}

func TestHealthIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := func(s *tree.Spec) {
			s.Run.Health = &tree.Health{HTTP: "/", Interval: time.Second, Timeout: time.Second, Failures: 3}
		}
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a", health))})
		synctest.Wait()
		p := w.launcher.process("acme/shop/a")
		p.tell(tree.HealthResult{Detail: "status 500"})
		p.tell(tree.HealthResult{Detail: "status 500"})
		synctest.Wait()
		if n, _ := w.journal.Node("acme/shop/a"); n.Health == nil || n.Health.OK || n.Health.Failures != 2 || n.PID != p.pid {
			t.Errorf("health %+v, pid %d", n.Health, n.PID)
		}
		p.tell(tree.HealthResult{OK: true})
		synctest.Wait()
		if n, _ := w.journal.Node("acme/shop/a"); !n.Health.OK || n.Health.Failures != 0 {
			t.Errorf("health %+v", n.Health)
		}
		for range 3 {
			p.tell(tree.HealthResult{Detail: "status 500"})
		}
		synctest.Wait()
		if got := w.journal.of("acme/shop/a"); !slices.Contains(got, "starting#2: unhealthy: status 500") {
			t.Error(join(got))
		}
		w.end()
	})
}

var _ Launcher = (*fakeLauncher)(nil)
