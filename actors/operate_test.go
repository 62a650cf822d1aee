package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
)

func by(name string) Ask { return Ask{By: name, Wait: true, Timeout: time.Minute} }

// must fails the test unless the operation succeeded, and returns its note.
func (w *world) must(note string, err error) string {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("unexpected: %v", err)
	}
	return note
}

func TestHaltIsRememberedAcrossRestartsAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b"))})
		synctest.Wait()
		if note := w.must(w.Halt(t.Context(), "acme/shop/a", by("ann"))); note != "" {
			t.Error(note)
		}
		if w.launcher.process("acme/shop/a") != nil {
			t.Error("a still runs after Halt has returned")
		}
		if note := w.must(w.Halt(t.Context(), "acme/shop/a", by("bob"))); note != "already stopped by ann" {
			t.Errorf("note %q", note)
		}
		w.must(w.Restart(t.Context(), "acme", Ask{By: "ann", Wait: true, Timeout: time.Minute}))
		synctest.Wait()
		if n, _ := w.journal.Node("acme/shop/a"); n.State != tree.StateRunning {
			t.Errorf("a restart of what is above takes stops back: a is %s", n.State)
		}
		// A restart of what is above that nobody asked for does not.
		w.must(w.Halt(t.Context(), "acme/shop/a", by("ann")))
		w.house.system.Root.Stop(w.actorPID("host#1", "acme#2", "shop#2"))
		synctest.Wait()
		if n, _ := w.journal.Node("acme/shop/a"); n.State != tree.StateStopped || n.Reason != "stopped by ann" || n.Intent != "stopped" {
			t.Errorf("a is %s, %q, intent %q", n.State, n.Reason, n.Intent)
		}
		if w.state("acme/shop/b") != "running" {
			t.Error("b does not run")
		}
		if in := w.Intents(); len(in) != 1 || in[0].Path != "acme/shop/a" || in[0].By != "ann" {
			t.Errorf("intents %+v", in)
		}
		w.must(w.Start(t.Context(), "acme", by("bob")))
		if w.state("acme/shop/a") != "running" || len(w.Intents()) != 0 {
			t.Errorf("a is %s, intents %+v", w.state("acme/shop/a"), w.Intents())
		}
		if note := w.must(w.Start(t.Context(), "acme/shop/a", by("bob"))); note != "already running" {
			t.Errorf("note %q", note)
		}
		w.end()
	})
}

func TestIntentIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"))})
		synctest.Wait()
		w.must(w.Halt(t.Context(), "acme/shop/a", Ask{By: "ann", Reason: "disk is full", Wait: true}))
		events := w.journal.all()
		for _, ev := range events {
			if ev.Path != "acme/shop/a" {
				continue
			}
			switch ev.Kind {
			case tree.EventIntent:
				if ev.Reason != "stopped by ann" || ev.Data["why"] != "disk is full" || ev.Data["by"] != "ann" {
					t.Errorf("%s %v", told(ev), ev.Data)
				}
			case tree.EventStopping:
				if events[ev.Cause-1].Kind != tree.EventIntent {
					t.Errorf("%s is caused by %s", told(ev), told(events[ev.Cause-1]))
				}
			}
		}
		w.end()
	})
}

func TestOperationsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("control", Func(waitForEnd))}})
		synctest.Wait()
		for _, path := range []string{"", "acme/sho", "acme/shop/a/b", "acme/shop/a.0", "nobody"} {
			if _, err := w.Start(t.Context(), path, by("ann")); !errors.Is(err, ErrNotFound) {
				t.Errorf("start %q: %v", path, err)
			}
		}
		for _, path := range []string{"_host", "_host/control"} {
			if _, err := w.Halt(t.Context(), path, by("ann")); !errors.Is(err, ErrConflict) {
				t.Errorf("stop %q: %v", path, err)
			}
		}
		w.must(w.Restart(t.Context(), "_host/control", by("ann")))
		w.must(w.Halt(t.Context(), "acme", by("ann")))
		_, err := w.Start(t.Context(), "acme/shop/a", by("bob"))
		if !errors.Is(err, ErrConflict) || err.Error() != "acme is stopped by ann: start acme first" {
			t.Errorf("start below a stopped ancestor: %v", err)
		}
		w.must(w.Start(t.Context(), "acme", by("bob")))
		w.stop(false)
		if _, err := w.Start(t.Context(), "acme", by("ann")); !errors.Is(err, ErrStopping) {
			t.Errorf("while stopping: %v", err)
		}
		if err := <-w.result; err != nil {
			t.Error(err)
		}
	})
}

func TestDisabledStartsOnlyWhenNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := func(s *tree.Spec) { s.Disabled = true }
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b", off))})
		synctest.Wait()
		w.must(w.Start(t.Context(), "acme", by("ann")))
		if n, _ := w.journal.Node("acme/shop/b"); n.State != tree.StateStopped || n.Reason != "not enabled" {
			t.Errorf("b is %s, %q", n.State, n.Reason)
		}
		w.must(w.Start(t.Context(), "acme/shop/b", by("ann")))
		if n, _ := w.journal.Node("acme/shop/b"); n.State != tree.StateRunning || n.Intent != "started" {
			t.Errorf("b is %s, intent %q", n.State, n.Intent)
		}
		w.house.system.Root.Stop(w.actorPID("host#1", "acme#1", "shop#1")) // its app is restarted
		synctest.Wait()
		if w.state("acme/shop/b") != "running" {
			t.Errorf("b is %s after its app was restarted", w.state("acme/shop/b"))
		}
		w.end()
	})
}

func TestStartFailsWithTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a", func(s *tree.Spec) {
			s.Restart = tree.DefaultRestart()
			s.Run.Ready = tree.Ready{Notify: true, Timeout: 3 * time.Second}
		}))})
		synctest.Wait()
		w.must(w.Halt(t.Context(), "acme/shop/a", by("ann")))
		w.launcher.behave = func(tree.Ref, *fakeProcess) error {
			return errors.New("cannot start: exec /bin/true: no such file or directory")
		}
		_, err := w.Start(t.Context(), "acme/shop/a", by("ann"))
		if err == nil || err.Error() != "cannot start: exec /bin/true: no such file or directory" {
			t.Errorf("start of the worker: %v", err)
		}
		_, err = w.Restart(t.Context(), "acme", by("ann"))
		if err == nil || err.Error() != "acme/shop/a: cannot start: exec /bin/true: no such file or directory" {
			t.Errorf("restart of the tenant: %v", err)
		}
		w.launcher.behave = func(_ tree.Ref, p *fakeProcess) error {
			p.onOrder = func(o tree.Order) bool { _, probe := o.(tree.Probe); return probe } // never ready
			return nil
		}
		_, err = w.Restart(t.Context(), "acme/shop/a", by("ann"))
		if err == nil || err.Error() != "not ready in 3s" {
			t.Errorf("restart of one that does not become ready: %v", err)
		}
		_, err = w.Restart(t.Context(), "acme/shop/a", Ask{By: "ann", Wait: true, Timeout: time.Second})
		if !errors.Is(err, ErrTimeout) || err.Error() != "timed out waiting for acme/shop/a" {
			t.Errorf("restart with a short wait: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = w.Restart(ctx, "acme/shop/a", by("ann")); !errors.Is(err, context.Canceled) {
			t.Errorf("restart by one who went away: %v", err)
		}
		w.end()
	})
}

func TestManualStartRunsAtOnceAndClearsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a", func(s *tree.Spec) {
			s.Restart = tree.DefaultRestart()
			s.Restart.OnLimit = tree.OnLimitStop
		}))}, func(w *world) {
			w.launcher.behave = func(tree.Ref, *fakeProcess) error {
				if broken {
					return errors.New("cannot start: broken")
				}
				return nil
			}
		})
		time.Sleep(time.Hour)
		if w.state("acme/shop/a") != "failed" || w.launcher.pids != 5 {
			t.Errorf("a is %s after %d attempts", w.state("acme/shop/a"), w.launcher.pids)
		}
		broken = false
		w.must(w.Start(t.Context(), "acme/shop/a", by("ann")))
		if w.state("acme/shop/a") != "running" {
			t.Errorf("a is %s", w.state("acme/shop/a"))
		}
		w.end()
	})
}

func TestPoolRollsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := group(tree.KindPool, "web", tree.Supervise{Quorum: 1}, worker1("web.0"), worker1("web.1"), worker1("web.2"))
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), pool)})
		synctest.Wait()
		for _, p := range w.launcher.live {
			p.stopTime = time.Second
		}
		began := time.Now()
		w.must(w.Restart(t.Context(), "acme/shop/web", by("ann")))
		if took := time.Since(began).Round(time.Second); took != 3*time.Second {
			t.Errorf("three replicas, one after the other, took %s", took)
		}
		w.must(w.Restart(t.Context(), "acme/shop/web.1", by("ann")))
		if n := w.launcher.count("acme/shop/web.1"); n != 3 {
			t.Errorf("web.1 was launched %d times, want 3", n)
		}
		w.must(w.Halt(t.Context(), "acme/shop/web", by("ann")))
		for _, name := range []string{"web.0", "web.1", "web.2"} {
			if w.launcher.process("acme/shop/"+name) != nil {
				t.Errorf("%s runs", name)
			}
		}
		if _, err := w.Start(t.Context(), "acme/shop/web.0", by("bob")); !errors.Is(err, ErrConflict) {
			t.Errorf("start of a replica of a stopped pool: %v", err)
		}
		w.end()
	})
}

func TestIntentsOfAnEarlierLifeAreHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b")),
			Intents: []Intent{{Path: "acme/shop/a", Stopped: true, By: "ann"}}})
		synctest.Wait()
		if got := w.state("acme/shop/a") + " " + w.state("acme/shop/b"); got != "stopped running" {
			t.Error(got)
		}
		if w.launcher.pids != 1 {
			t.Errorf("%d processes were made", w.launcher.pids)
		}
		w.end()
	})
}

// Two operators at once: each gets a definite answer, and the last word holds.
func TestParallelOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"))})
		synctest.Wait()
		w.launcher.behave = func(_ tree.Ref, p *fakeProcess) error { p.stopTime = time.Second; return nil }
		results := make(chan error, 20)
		for i := range 20 {
			go func() {
				var err error
				switch i % 3 {
				case 0:
					_, err = w.Restart(context.Background(), "acme/shop/a", by("ann"))
				case 1:
					_, err = w.Halt(context.Background(), "acme/shop/a", by("bob"))
				default:
					_, err = w.Start(context.Background(), "acme", by("eve"))
				}
				results <- err
			}()
		}
		for range 20 {
			err := <-results
			if err != nil && !errors.Is(err, ErrConflict) && !strings.Contains(err.Error(), "stopped by bob") {
				t.Error(err)
			}
		}
		w.must(w.Restart(t.Context(), "acme/shop/a", by("ann")))
		if w.state("acme/shop/a") != "running" || len(w.launcher.live) != 1 {
			t.Errorf("a is %s, %d processes", w.state("acme/shop/a"), len(w.launcher.live))
		}
		w.end()
	})
}

func TestSecondStopKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{Start: tree.Ordered}, worker1("a"), worker1("b"))})
		synctest.Wait()
		for _, p := range w.launcher.live {
			p.stopTime = time.Hour
		}
		began := time.Now()
		w.stop(false)
		time.Sleep(time.Second)
		w.stop(true)
		if err := <-w.result; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		w.clean()
	})
}

func TestDrainTimeoutKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var workers []tree.Spec
		for _, name := range []string{"a", "b", "c"} {
			workers = append(workers, worker1(name, func(s *tree.Spec) { s.Run.Stop.Timeout = time.Hour }))
		}
		w := start(t, Options{Spec: shop(tree.Supervise{Start: tree.Ordered}, workers...), DrainTimeout: 5 * time.Second})
		synctest.Wait()
		for _, p := range w.launcher.live {
			p.stopTime = 30 * time.Minute
		}
		began := time.Now()
		w.end()
		if took := time.Since(began); took > 5100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

func TestWaitingForAfterShowsAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := func(s *tree.Spec) { s.After = []string{"db"} }
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("db", func(s *tree.Spec) { s.Restart.Backoff = time.Second }), worker1("web", after))}, func(w *world) {
			w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
				if strings.HasSuffix(ref.Path, "db") && ref.Inc == 1 {
					return errors.New("cannot start: not yet")
				}
				return nil
			}
		})
		time.Sleep(500 * time.Millisecond)
		if n, _ := w.journal.Node("acme/shop/web"); n.State != tree.StateWaiting || n.Reason != "after db" {
			t.Errorf("web is %s, %q", n.State, n.Reason)
		}
		time.Sleep(time.Second)
		if got := w.journal.of("acme/shop/web"); !slices.Contains(got, "ready#1") {
			t.Error(join(got))
		}
		w.end()
	})
}
