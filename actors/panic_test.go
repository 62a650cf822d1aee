package actors

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
)

// stacks checks that some event of a path kept the stack of a panic.
func stacks(t *testing.T, w *world, path string) {
	t.Helper()
	for _, ev := range w.journal.all() {
		if stack, ok := ev.Data["stack"].(Stack); ok && ev.Path == path && strings.Contains(stack.String(), "_test.go:") {
			return
		}
	}
	t.Errorf("no event of %s keeps a stack", path)
}

func TestPanickingWorkerActorDoesNotLoseItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("web"))}, func(w *world) {
			w.journal.breakOn("acme/shop/web", tree.EventReady)
		})
		synctest.Wait()
		want := []string{"starting#1: start", "exited#1: panic: no journal for acme/shop/web ready",
			"starting#2: panic: no journal for acme/shop/web ready", "ready#2"}
		if d := cmp.Diff(want, w.journal.of("acme/shop/web")); d != "" {
			t.Error(d)
		}
		stacks(t, w, "acme/shop/web")
		w.end() // and there were never two processes
	})
}

func TestPanickingWorkerActorWaitsForTheDeathOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("web"))}, func(w *world) {
			w.journal.breakOn("acme/shop/web", tree.EventReady)
			w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
				if ref.Inc == 1 { // it takes a second to die of KILL
					p.onOrder = func(o tree.Order) bool {
						if _, kill := o.(tree.Kill); kill {
							time.AfterFunc(time.Second, func() { p.end(tree.Exit{Code: -1, Signal: "KILL"}) })
						}
						return true
					}
				}
				return nil
			}
		})
		time.Sleep(500 * time.Millisecond)
		if n := w.launcher.count("acme/shop/web"); n != 1 {
			t.Errorf("%d launches while the first process dies", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.state("acme/shop/web"); got != "running" {
			t.Errorf("web is %s", got)
		}
		w.end()
	})
}

func TestPanickingLauncherAndInstance(t *testing.T) {
	for _, where := range []string{"Launch", "Do", "Do twice", "Close"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("web"))}, func(w *world) {
					w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
						if ref.Inc > 1 {
							return nil
						}
						switch where {
						case "Launch":
							panic("in launch")
						case "Close":
							p.panicOnClose = true
							time.AfterFunc(time.Second, func() { p.end(tree.Exit{Code: 1}) })
						default:
							p.onOrder = func(o tree.Order) bool {
								if _, kill := o.(tree.Kill); !kill || where == "Do twice" {
									time.AfterFunc(time.Millisecond, func() { p.end(tree.Exit{Code: 1}) })
									panic("in do")
								}
								return false
							}
						}
						return nil
					}
				})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := w.state("acme/shop/web"); got != "running" {
					t.Errorf("web is %s", got)
				}
				if n := w.launcher.count("acme/shop/web"); n != 2 {
					t.Errorf("%d launches, want 2", n)
				}
				w.end()
			})
		})
	}
}

func TestPanickingSupervisorTakesItsChildrenDownInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(s *tree.Spec) { s.Restart.Backoff = time.Hour }
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b", slow), worker1("c"), worker1("d"))})
		synctest.Wait()
		for _, name := range []string{"a", "c", "d"} {
			w.launcher.process("acme/shop/" + name).stopTime = time.Second
		}
		w.journal.breakOn("acme/shop/b", tree.EventBackoff) // appended by the app's actor
		_ = w.launcher.crash("acme/shop/b", 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var order []string
		for _, ev := range w.journal.all() {
			if ev.Kind == tree.EventExited && ev.Reason == "signal TERM" {
				order = append(order, ev.Path)
			}
		}
		if d := cmp.Diff([]string{"acme/shop/d", "acme/shop/c", "acme/shop/a"}, order); d != "" {
			t.Errorf("stopped in another order: %s", d)
		}
		stacks(t, w, "acme/shop")
		if got := w.journal.of("acme/shop"); !slices.Contains(got, "starting#2: panic: no journal for acme/shop/b backoff") {
			t.Error(join(got))
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if got := w.state("acme/shop/" + name); got != "running" {
				t.Errorf("%s is %s", name, got)
			}
		}
		w.end()
	})
}

func TestPanickingHostSupervisorIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"))}, func(w *world) {
			w.journal.breakOn("acme", tree.EventStarting) // appended by the host's actor
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.state("acme/shop/a"); got != "running" {
			t.Errorf("a is %s", got)
		}
		w.end()
	})
}

func TestPanicWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b"))})
		synctest.Wait()
		w.journal.breakOn("acme/shop/b", tree.EventStopped) // of the app's actor
		w.journal.breakOn("acme/shop/a", tree.EventExited)  // of a's
		w.journal.breakOn("acme/shop", tree.EventStopped)   // of the tenant's
		w.end()
	})
}

func part(name string, body any) tree.Spec {
	return tree.Spec{Name: name, Kind: tree.KindPart, Shutdown: time.Second, Body: body,
		Restart: tree.Restart{Backoff: time.Second, Factor: 1}}
}

func TestFuncsThatEndBadly(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   Func
		reason string
	}{
		{"panic", func(context.Context) error { panic("boom") }, "panic: boom"},
		{"nil panic", func(context.Context) error { panic(nil) }, "panic: panic called with nil argument"},
		{"goexit", func(context.Context) error { runtime.Goexit(); return nil }, "panic: runtime.Goexit"},
		{"error", func(context.Context) error { return errors.New("the port is taken") }, "the port is taken"},
		{"return", func(context.Context) error { return nil }, "ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("p", c.body)}})
				time.Sleep(3500 * time.Millisecond)
				synctest.Wait()
				got := w.journal.of("_host/p")
				want := []string{"starting#1: start", "ready#1", "exited#1: " + c.reason, "backoff#1: " + c.reason,
					"starting#2: " + c.reason}
				if d := cmp.Diff(want, got[:min(5, len(got))]); d != "" {
					t.Error(d)
				}
				if got := w.state("acme/shop/a"); got != "running" {
					t.Errorf("a is %s", got)
				}
				w.end()
			})
		})
	}
}

func TestFuncThatDoesNotReturnIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")),
			Parts: []tree.Spec{part("p", Func(func(context.Context) error { <-release; return nil }))}})
		synctest.Wait()
		began := time.Now()
		w.end()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the stop took %s, want the part's second", took)
		}
		if w.Abandoned() != 1 {
			t.Errorf("%d are counted as abandoned", w.Abandoned())
		}
		close(release)
	})
}

func TestServiceIsUpWhenItSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := Service(func(ctx context.Context, ready func()) error {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return ctx.Err()
			}
			ready()
			ready()
			<-ctx.Done()
			return ctx.Err()
		})
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("p", service)}})
		time.Sleep(30 * time.Second)
		if got := w.state("_host/p"); got != "starting" {
			t.Errorf("after half a minute: %s", got)
		}
		time.Sleep(31 * time.Second)
		if got := w.state("_host/p") + " " + w.state("acme/shop/a"); got != "running running" {
			t.Errorf("after a minute: %s", got)
		}
		w.end()
	})
}
