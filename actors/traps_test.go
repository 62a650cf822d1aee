package actors

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

// This file holds one test for each trap of protoactor that we know of, and shows that it cannot be reached from here.

// onMessage is an embedder's actor whose code runs for each message.
func onMessage(f func(ctx actor.Context)) Actor {
	return Actor{Props: actor.PropsFromFunc(f)}
}

// actorPID is the PID of an actor by its names from the top.
func (w *world) actorPID(names ...string) *actor.PID {
	return w.house.system.NewLocalPID("coppice/" + strings.Join(names, "/"))
}

// system posts a system message, as protoactor's own supervision would.
func (w *world) system(pid *actor.PID, message any) {
	w.t.Helper()
	process, ok := w.house.system.ProcessRegistry.Get(pid)
	if !ok {
		w.t.Fatalf("no actor %s", pid.Id)
	}
	process.SendSystemMessage(pid, message)
}

// Trap 1: a panic in Stopping or Stopped hangs the parent that stops. Trap 5: so does runtime.Goexit, anywhere.
func TestTrap1And5_EndsInLifecycleMessagesHangNobody(t *testing.T) {
	for _, message := range []string{"*actor.Started", "*actor.Stopping", "*actor.Stopped", "string"} {
		for _, how := range []string{"panic", "goexit"} {
			t.Run(message+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := onMessage(func(ctx actor.Context) {
						if _, ok := ctx.Message().(*actor.Started); ok && message == "string" {
							ctx.Send(ctx.Self(), "go")
						}
						if fmt.Sprintf("%T", ctx.Message()) != message {
							return
						}
						if how == "goexit" {
							runtime.Goexit()
						}
						panic("in " + message)
					})
					w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("p", body)}})
					time.Sleep(10 * time.Second)
					began := time.Now()
					w.end()
					if took := time.Since(began); took > 100*time.Millisecond || w.Abandoned() != 0 {
						t.Errorf("the stop took %s, %d abandoned", took, w.Abandoned())
					}
					history := join(w.journal.of("_host/p"))
					crashed := message == "*actor.Started" || message == "string"
					if crashed != strings.Contains(history, "backoff#1: panic: ") {
						t.Error(history)
					}
				})
			})
		}
	}
}

// Trap 2: a Restart that reaches a stopping actor revives it; a suspended one never ends.
func TestTrap2_RestartAndSuspendFromOutsideReviveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"), worker1("b"))})
		synctest.Wait()
		w.launcher.process("acme/shop/a").stopTime = time.Second
		app, leaf := w.actorPID("host#1", "acme#1", "shop#1"), w.actorPID("host#1", "acme#1", "shop#1", "a#1")
		w.stop(false)
		time.Sleep(500 * time.Millisecond)
		for _, message := range []any{&actor.SuspendMailbox{}, &actor.Restart{}, &actor.Restart{}} {
			w.system(app, message)
			w.system(leaf, message)
		}
		if err := <-w.result; err != nil {
			t.Error(err)
		}
		w.clean()
		if n := w.launcher.pids; n != 2 {
			t.Errorf("%d processes in all, want 2", n)
		}
	})
}

// Trap 3: a guardian that escalates ends the whole program.
func TestTrap3_GuardianIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		props := actor.PropsFromFunc(func(actor.Context) {}, actor.WithGuardian(actor.NewAllForOneStrategy(1, time.Second,
			func(any) actor.Directive { return actor.EscalateDirective })))
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("p", Actor{Props: props})}})
		time.Sleep(time.Second / 2)
		if got := join(w.journal.of("_host/p")); !strings.Contains(got, "backoff#1: panic: ") {
			t.Error(got)
		}
		w.end()
	})
}

// Trap 4: spawning in a handler of Terminated while stopping hangs the parent. Our supervisors decide by Down alone.
func TestTrap4_ChildrenThatEndDuringAStopAreNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{Start: tree.Ordered}, worker1("a"), worker1("b"), worker1("c"))})
		synctest.Wait()
		w.launcher.process("acme/shop/c").stopTime = time.Second
		w.stop(false)
		time.Sleep(500 * time.Millisecond)
		_ = w.launcher.crash("acme/shop/a", 1)
		_ = w.launcher.crash("acme/shop/b", 1)
		began := time.Now()
		if err := <-w.result; err != nil {
			t.Error(err)
		}
		w.clean()
		if took := time.Since(began); took > 600*time.Millisecond || w.launcher.pids != 3 {
			t.Errorf("the rest took %s, %d processes in all", took, w.launcher.pids)
		}
	})
}

// Trap 6: Children() loses its order after a removal, and a parent stops all children at once.
func TestTrap6_StopsKeepTheOrderOfTheSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var workers []tree.Spec
		for i := range 10 {
			workers = append(workers, worker1(fmt.Sprint("w", i)))
		}
		w := start(t, Options{Spec: shop(tree.Supervise{Start: tree.Ordered}, workers...)})
		synctest.Wait()
		for _, i := range []int{3, 0, 7} { // they come back, as the newest of their parent's actors
			_ = w.launcher.crash(fmt.Sprint("acme/shop/w", i), 1)
			synctest.Wait()
		}
		for _, p := range w.launcher.live {
			p.stopTime = time.Second
		}
		began := time.Now()
		w.end()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("ten stops, one after the other, took %s", took)
		}
		var order []string
		for _, ev := range w.journal.all() {
			if ev.Kind == tree.EventExited && ev.Reason == "signal TERM" {
				order = append(order, strings.TrimPrefix(ev.Path, "acme/shop/"))
			}
		}
		if got := strings.Join(order, " "); got != "w9 w8 w7 w6 w5 w4 w3 w2 w1 w0" {
			t.Error(got)
		}
	})
}

// Trap 7: Terminated carries no reason and overtakes messages. Ours is in Down, and nothing acts on Terminated.
func TestTrap7_EveryEndKeepsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var workers []tree.Spec
		for i := range 200 {
			workers = append(workers, worker1(fmt.Sprint("w", i), func(s *tree.Spec) { s.Restart.Backoff = time.Hour }))
		}
		w := start(t, Options{Spec: shop(tree.Supervise{}, workers...)})
		synctest.Wait()
		for i := range workers {
			_ = w.launcher.crash(fmt.Sprint("acme/shop/w", i), i+1)
		}
		synctest.Wait()
		for i := range workers {
			if n, _ := w.journal.Node(fmt.Sprint("acme/shop/w", i)); n.Reason != fmt.Sprint("exit ", i+1) || n.State != tree.StateBackoff {
				t.Errorf("%s is %s because of %q", n.Path, n.State, n.Reason)
			}
		}
		w.end()
	})
}

// Trap 8: protoactor's backoff grows linearly, and over its limit a child is stopped and nobody is told.
func TestTrap8_BackoffDoublesAndLimitsEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a", func(s *tree.Spec) {
			s.Restart = tree.Restart{Backoff: time.Second, Factor: 2, Cap: time.Hour, ResetAfter: time.Hour, Limit: 4, Within: time.Hour, OnLimit: tree.OnLimitEscalate}
		}))}, func(w *world) {
			w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
				if ref.Inc <= 4 {
					time.AfterFunc(time.Millisecond, func() { p.end(tree.Exit{Code: 1}) })
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		var delays []any
		for _, ev := range w.journal.all() {
			if ev.Kind == tree.EventBackoff {
				delays = append(delays, ev.Data["delay"])
			}
		}
		if d := cmp.Diff([]any{1.0, 2.0, 4.0}, delays); d != "" {
			t.Error(d)
		}
		if got := w.journal.of("acme/shop"); !slices.Contains(got, "escalated#1: intensity exceeded by a") ||
			!slices.Contains(got, "starting#2: intensity exceeded by a") {
			t.Error(join(got))
		}
		w.end()
	})
}

// Trap 9: a restarted actor keeps PID and mailbox, so that messages for the dead one reach the new one.
func TestTrap9_NewsOfADeadIncarnationIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a"))})
		synctest.Wait()
		old := w.launcher.process("acme/shop/a")
		_ = w.launcher.crash("acme/shop/a", 1)
		synctest.Wait()
		for _, fact := range []tree.Fact{tree.Exited{Exit: tree.Exit{Code: 9}}, tree.Gone{}, tree.HealthResult{}, tree.Stale{}} {
			old.tell(fact)
			old.tell(fact)
		}
		app := w.house.ledger.supervisor("acme/shop")
		app.PostUserMessage(tree.Down{Child: "a", Inc: 1, Reason: tree.Reason{Class: tree.Crash, Text: "late"}})
		app.PostUserMessage(tree.Up{Child: "a", Inc: 7})
		app.PostUserMessage(tree.Wake{Token: 99})
		synctest.Wait()
		if n := w.launcher.pids; n != 2 || w.state("acme/shop/a") != "running" {
			t.Errorf("%d processes in all, a is %s", n, w.state("acme/shop/a"))
		}
		w.end()
	})
}

// Traps 10 and 11 and what else we must not use: a receive timeout races, futures lose waiters and wait out their time, a
// watched child is heard of twice, Shutdown stops nothing and panics the second time, and so on.
func TestTrap10And11_WhatMustNotBeUsedIsNot(t *testing.T) {
	forbidden := map[string]string{
		"SetReceiveTimeout": "it has a data race", "RequestFuture": "several waiters of a future lose all but one",
		"NewFuture": "its name differs between versions", "NextId": "its name differs between versions",
		"PoisonFuture": "on a suspended actor it waits out its time", "StopFuture": "it waits out its time",
		"Watch": "a child that is watched is heard of twice", "Shutdown": "it stops nothing and panics the second time",
		"WithGuardian": "one that escalates ends the program", "Stash": "it is last in, first out after a restart",
		"ReenterAfter": "of a dead incarnation it runs in the next", "RestartChildren": "a Restart revives a stopping actor",
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if rest, ok := strings.CutPrefix(path, "github.com/asynkron/protoactor-go/"); ok && rest != "actor" && rest != "eventstream" {
				t.Errorf("%s imports %s: it drags in half of a cluster", set.Position(imp.Pos()), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && forbidden[sel.Sel.Name] != "" {
				// Spec.Shutdown is ours, and actor.Watch is a message that an address may get.
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "l" && x.Name != "tree" && x.Name != "actor" {
					if sel.Sel.Name == "Shutdown" && strings.HasSuffix(f.Name(), "leaf.go") {
						return true
					}
					t.Errorf("%s uses %s: %s", set.Position(sel.Pos()), sel.Sel.Name, forbidden[sel.Sel.Name])
				}
			}
			return true
		})
	}
}

// Trap 12: it logs by slog, coloured, to standard error.
func TestTrap12_ItsLogGoesToOurs(t *testing.T) {
	var out bytes.Buffer
	system := NewSystem(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info, DisableTime: true}))
	system.Logger().Info("chatter")
	system.Logger().With("a", 1).WithGroup("g").Error("trouble", "b", 2)
	if got, want := out.String(), "[ERROR] trouble: a=1 b=2\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// A foreign stop keeps the order and leaves nothing behind.
func TestForeignStopsAreOrdered(t *testing.T) {
	for _, how := range []string{"Stop", "Poison"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, Options{Spec: shop(tree.Supervise{Start: tree.Ordered}, worker1("a"), worker1("b"))})
				synctest.Wait()
				for _, p := range w.launcher.live {
					p.stopTime = time.Second
				}
				root, app := w.house.system.Root, w.actorPID("host#1", "acme#1", "shop#1")
				if how == "Stop" {
					root.Stop(app)
				} else {
					root.Poison(app)
				}
				time.Sleep(1500 * time.Millisecond)
				if w.launcher.process("acme/shop/b") != nil || w.launcher.process("acme/shop/a") == nil {
					t.Error("after a second and a half b must be gone and a not")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := w.state("acme/shop/a"); got != "running" || w.launcher.pids != 4 {
					t.Errorf("a is %s, %d processes in all: the app is permanent", got, w.launcher.pids)
				}
				root.Stop(w.actorPID("host#1", "acme#1", "shop#2", "a#2")) // a worker's actor
				synctest.Wait()
				if got := w.state("acme/shop/a"); got != "running" || w.launcher.pids != 5 {
					t.Errorf("a is %s, %d processes in all", got, w.launcher.pids)
				}
				w.end()
			})
		})
	}
}

// An actor of an embedder ends for its own reason.
func TestActorExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := onMessage(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				Exit(ctx, tree.Reason{Class: tree.Crash, Text: "no database"})
			}
		})
		stops := onMessage(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				ctx.Stop(ctx.Self())
			}
		})
		w := start(t, Options{Spec: shop(tree.Supervise{}, worker1("a")), Parts: []tree.Spec{part("p", body), part("q", stops)}})
		time.Sleep(time.Second / 2)
		if got := join(w.journal.of("_host/p")); !strings.Contains(got, "backoff#1: no database") {
			t.Error(got)
		}
		if got := join(w.journal.of("_host/q")); !strings.Contains(got, "backoff#1: ended") {
			t.Error(got)
		}
		w.end()
	})
}
