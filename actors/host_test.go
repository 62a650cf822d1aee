package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
)

// shop is the smallest host with all levels.
func shop(policy tree.Supervise, workers ...tree.Spec) tree.Spec {
	return hostOf(group(tree.KindTenant, "acme", tree.Supervise{}, group(tree.KindApp, "shop", policy, workers...)))
}

func TestHostBootsRestartsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{Strategy: tree.RestForOne}, worker1("db"), worker1("web"))})
		synctest.Wait()
		for _, path := range []string{"acme", "acme/shop", "acme/shop/db", "acme/shop/web"} {
			if got := w.state(path); got != "running" {
				t.Errorf("%s is %s", path, got)
			}
		}
		if err := w.launcher.crash("acme/shop/db", 7); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.end()
		want := []string{"starting#1: start", "ready#1", "exited#1: exit 7", "starting#2: exit 7", "ready#2",
			"stopping#2: shutdown", "exited#2: signal TERM", "stopped#2: shutdown"}
		if d := cmp.Diff(want, w.journal.of("acme/shop/db")); d != "" {
			t.Error(d)
		}
		want = []string{"starting#1: start", "ready#1", "stopping#1: sibling db", "exited#1: signal TERM",
			"starting#2: sibling db", "ready#2", "stopping#2: shutdown", "exited#2: signal TERM", "stopped#2: shutdown"}
		if d := cmp.Diff(want, w.journal.of("acme/shop/web")); d != "" {
			t.Error(d)
		}
		if w.launcher.closed != 4 {
			t.Errorf("%d instances were closed, want 4", w.launcher.closed)
		}
	})
}

func TestChainOfCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(s *tree.Spec) { s.Restart.Backoff = time.Second }
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("web", slow))})
		synctest.Wait()
		_ = w.launcher.crash("acme/shop/web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var last tree.Event
		for _, ev := range w.journal.all() {
			if ev.Path == "acme/shop/web" && ev.Kind == tree.EventStarting {
				last = ev
			}
		}
		var chain []string
		for ev := last; ; ev = w.journal.all()[ev.Cause-1] {
			chain = append(chain, ev.Path+" "+told(ev))
			if ev.Cause == 0 {
				break
			}
		}
		want := []string{"acme/shop/web starting#2: exit 1", "acme/shop/web backoff#1: exit 1",
			"acme/shop/web exited#1: exit 1", "acme/shop/web starting#1: start", "acme/shop starting#1: start",
			"acme starting#1: start", " daemon_started#0"}
		if d := cmp.Diff(want, chain); d != "" {
			t.Error(d)
		}
		w.end()
	})
}

func TestEscalationCarriesItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strict := tree.Supervise{Intensity: &tree.Intensity{Restarts: 0, Period: time.Minute}}
		w := start(t, Options{Spec: shop(strict, worker1("db"), worker1("web"))})
		synctest.Wait()
		_ = w.launcher.crash("acme/shop/db", 1)
		synctest.Wait()
		events := w.journal.all()
		for _, ev := range events {
			if ev.Path == "acme/shop" && ev.Kind == tree.EventStarting && ev.Incarnation == 2 {
				if cause := events[ev.Cause-1]; cause.Kind != tree.EventEscalated || cause.Path != "acme/shop" {
					t.Errorf("the app's restart is caused by %s %s", cause.Path, told(cause))
				}
			}
		}
		if got := w.state("acme/shop/web"); got != "running" {
			t.Errorf("web is %s after its app was restarted", got)
		}
		// Incarnations go on counting across the restart of the app.
		if got := w.journal.of("acme/shop/db"); got[len(got)-2] != "starting#2: start" {
			t.Error(join(got))
		}
		w.end()
	})
}

func TestHostGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := &tree.Intensity{Restarts: 0, Period: time.Minute}
		spec := shop(tree.Supervise{Intensity: none}, worker1("db"))
		spec.Children[0].Supervise.Intensity = none
		spec.Supervise.Intensity = none
		part := tree.Spec{Name: "control", Kind: tree.KindPart, Shutdown: time.Second, Body: Func(waitForEnd)}
		w := start(t, Options{Spec: spec, Parts: []tree.Spec{part}})
		synctest.Wait()
		_ = w.launcher.crash("acme/shop/db", 1)
		if err := <-w.result; err != ErrIntensity {
			t.Errorf("Run: %v", err)
		}
		w.clean()
		events := w.journal.all()
		if last := events[len(events)-1]; last.Path != "_host" || last.Kind != tree.EventStopped {
			t.Errorf("the last event is %s %s; parts go last", last.Path, told(last))
		}
	})
}
