package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

var few = tree.Supervise{Start: tree.Ordered, Intensity: &tree.Intensity{Restarts: 2, Period: time.Minute}}

// untilStopped is a function that does nothing else.
func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// mounted mounts a tree and waits until it is up.
func mounted(t *testing.T, mine Tree) (*actor.ActorSystem, *Mounted) {
	t.Helper()
	system := NewSystem(hclog.NewNullLogger())
	m, err := mine.Mount(system.Root)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return system, m
}

func stop(t *testing.T, m *Mounted) {
	t.Helper()
	if err := m.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// counter is an actor that answers how many messages its incarnation has had, and panics when told to.
type counter struct{ n int }

func (c *counter) Receive(ctx actor.Context) {
	switch ctx.Message() {
	case "count":
		c.n++
		ctx.Respond(c.n)
	case "panic":
		panic("as told")
	}
}

func counters() *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &counter{} })
}

func TestAddressStaysOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, m := mounted(t, Tree{Spec: Supervisor("mine", few, FromProps("a", counters(), tree.Restart{Backoff: time.Second}))})
		a := m.Address("mine/a")
		count := func() (any, error) { return system.Root.RequestFuture(a, "count", time.Second).Result() }
		for want := 1; want <= 2; want++ {
			if got, err := count(); got != want || err != nil {
				t.Error(got, err)
			}
		}
		system.Root.Send(a, "panic")
		synctest.Wait()
		if _, err := count(); !errors.Is(err, actor.ErrDeadLetter) {
			t.Errorf("between two lives a request got %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := count(); got != 1 || err != nil {
			t.Error("the second life has its own count and nothing of the old mailbox:", got, err)
		}
		if reply, err := system.Root.RequestFuture(m.Address("mine"), tree.CountChildren{}, time.Second).Result(); err != nil ||
			reply.(tree.Reply).Counts != (tree.Counts{Specs: 1, Active: 1, Workers: 1}) {
			t.Error(reply, err)
		}
		watched := make(chan *actor.PID, 2)
		watcher := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			switch msg := ctx.Message().(type) {
			case *actor.Started:
				ctx.Watch(a)
			case *actor.Terminated:
				watched <- msg.Who
			}
		}))
		system.Root.Stop(a) // ends the incarnation; it is permanent
		time.Sleep(time.Minute)
		if got, err := count(); got != 1 || err != nil || len(watched) != 0 {
			t.Error(got, err, len(watched))
		}
		stop(t, m)
		if who := <-watched; !who.Equal(a) {
			t.Error("terminated", who)
		}
		if _, err := count(); !errors.Is(err, actor.ErrDeadLetter) {
			t.Error(err)
		}
		system.Root.Stop(watcher)
		time.Sleep(time.Second)
	})
}

func TestAddressOfANestedSupervisorOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := Supervisor("inner", tree.Supervise{Intensity: &tree.Intensity{}}, FromProps("a", counters(), tree.Restart{}))
		system, m := mounted(t, Tree{Spec: Supervisor("mine", few, inner)})
		address, a := m.Address("mine/inner"), m.Address("mine/inner/a")
		system.Root.Send(a, "panic") // which inner may not repair
		synctest.Wait()
		reply, err := system.Root.RequestFuture(address, tree.WhichChildren{Call: 3}, time.Second).Result()
		if want := (tree.Reply{Call: 3, Children: []tree.ChildStatus{{Child: "a", Inc: 2}}}); err != nil || cmp.Diff(want, reply) != "" {
			t.Error(reply, err)
		}
		if n, _ := m.Node("mine/inner"); n.Restarts != 1 {
			t.Errorf("%+v", n)
		}
		stop(t, m)
	})
}

func TestDynamicChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := mounted(t, Tree{Spec: Supervisor("mine", few, Function("a", untilStopped, tree.Restart{}))})
		ctx := t.Context()
		b := Function("b", untilStopped, tree.Restart{})
		steps := []struct {
			what string
			do   func() error
			want error
		}{
			{"start", func() error { return m.StartChild(ctx, "mine", b) }, nil},
			{"start twice", func() error { return m.StartChild(ctx, "mine", b) }, Refused("already_started")},
			{"delete a running one", func() error { return m.DeleteChild(ctx, "mine/b") }, Refused("running")},
			{"terminate", func() error { return m.TerminateChild(ctx, "mine/b") }, nil},
			{"start a terminated one", func() error { return m.StartChild(ctx, "mine", b) }, Refused("already_present")},
			{"restart", func() error { return m.RestartChild(ctx, "mine/b") }, nil},
			{"restart a running one", func() error { return m.RestartChild(ctx, "mine/b") }, Refused("running")},
			{"terminate again", func() error { return m.TerminateChild(ctx, "mine/b") }, nil},
			{"delete", func() error { return m.DeleteChild(ctx, "mine/b") }, nil},
			{"delete again", func() error { return m.DeleteChild(ctx, "mine/b") }, Refused("not_found")},
			{"start what fails", func() error {
				fails := Serving("c", func(context.Context, func()) error { return errors.New("no") }, tree.Restart{})
				return m.StartChild(ctx, "mine", fails)
			}, Refused("start_failed")},
			{"below nobody", func() error { return m.StartChild(ctx, "mine/x", b) }, Refused("noproc")},
			{"of nobody", func() error { return m.TerminateChild(ctx, "mine/x/y") }, Refused("noproc")},
		}
		for _, s := range steps {
			if err := s.do(); !errors.Is(err, s.want) {
				t.Errorf("%s: %v, want %v", s.what, err, s.want)
			}
		}
		if counts, err := m.CountChildren(ctx, "mine"); err != nil || counts != (tree.Counts{Specs: 1, Active: 1, Workers: 1}) {
			t.Error(counts, err)
		}
		if list, err := m.WhichChildren(ctx, "mine"); err != nil || cmp.Diff([]tree.ChildStatus{{Child: "a", Inc: 1}}, list) != "" {
			t.Error(list, err)
		}
		stop(t, m)
		if err := m.StartChild(ctx, "mine", b); !errors.Is(err, Refused("noproc")) {
			t.Error(err)
		}
		if _, err := m.WhichChildren(ctx, "mine"); err == nil || err.Error() != "mine: noproc" {
			t.Error(err)
		}
	})
}

func TestInstancesOfATemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := tree.Supervise{Strategy: tree.SimpleOneForOne, Intensity: &tree.Intensity{Restarts: 1, Period: time.Second}}
		_, m := mounted(t, Tree{Spec: Supervisor("mine", pool, Function("template", untilStopped, tree.Restart{}))})
		for i := range 3 {
			if err := m.StartChild(t.Context(), "mine", tree.Spec{Name: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		}
		var paths []string
		for _, n := range m.Status() {
			paths = append(paths, n.Path+" "+string(n.State))
		}
		if d := cmp.Diff([]string{"mine running", "mine/0 running", "mine/1 running", "mine/2 running"}, paths); d != "" {
			t.Error(d)
		}
		stop(t, m)
	})
}

func TestStopHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stubborn := Function("stubborn", func(context.Context) error { <-release; return nil }, tree.Restart{})
		stubborn.Shutdown = tree.Forever
		_, m := mounted(t, Tree{Spec: Supervisor("mine", few, stubborn)})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := m.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Error(err, time.Since(began))
		}
		if m.Abandoned() != 1 {
			t.Error("abandoned", m.Abandoned())
		}
		if err := m.Stop(t.Context()); err != nil {
			t.Error("a second stop:", err)
		}
		close(release)
		synctest.Wait()
	})
}

func TestEventsArePublishedInOrderWithStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := NewSystem(hclog.NewNullLogger())
		var mu sync.Mutex
		var told []string
		var stack string
		first := true
		sub := system.EventStream.SubscribeWithPredicate(func(msg any) {
			ev := msg.(tree.Event)
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%d<-%d %s %s", ev.Seq, ev.Cause, ev.Path, tellEvent(ev)))
			if s, ok := ev.Data["stack"].(Stack); ok {
				stack = s.String()
			}
			if first {
				first = false
				panic("in a subscriber")
			}
		}, func(msg any) bool { _, ok := msg.(tree.Event); return ok })
		defer system.EventStream.Unsubscribe(sub)
		inner := Supervisor("inner", tree.Supervise{Intensity: &tree.Intensity{}},
			Function("a", func(context.Context) error { time.Sleep(time.Second); panic("no memory") }, tree.Restart{}))
		m, err := Tree{Spec: Supervisor("mine", tree.Supervise{Intensity: &tree.Intensity{}}, inner)}.Mount(system.Root)
		if err != nil {
			t.Fatal(err)
		}
		<-m.Done()
		const why = "intensity exceeded by inner: intensity exceeded by a: panic: no memory"
		if err := m.Err(); !errors.As(err, new(Ended)) || err.Error() != why {
			t.Error(err)
		}
		want := []string{
			"1<-0 mine starting#1: start", "2<-1 mine/inner starting#1: start", "3<-2 mine/inner/a starting#1: start",
			"4<-3 mine/inner/a ready#1", "5<-4 mine/inner ready#1", "6<-5 mine ready#1",
			"7<-3 mine/inner/a exited#1: panic: no memory", "8<-7 mine/inner escalated#1: intensity exceeded by a",
			"9<-7 mine/inner/a stopped#1: intensity exceeded by a", "10<-8 mine escalated#1: intensity exceeded by inner",
			"11<-8 mine/inner stopped#1: intensity exceeded by inner",
		}
		mu.Lock()
		defer mu.Unlock()
		if d := cmp.Diff(want, told); d != "" {
			t.Error(d)
		}
		if !strings.Contains(stack, "mounted_test.go") {
			t.Error(stack)
		}
	})
}

func tellEvent(ev tree.Event) string {
	text := fmt.Sprintf("%s#%d", ev.Kind, ev.Incarnation)
	if ev.Reason != "" {
		text += ": " + ev.Reason
	}
	return text
}

// A subscriber that blocks, or ends its goroutine, holds up no restart.
func TestSubscribersHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, m := mounted(t, Tree{Spec: Supervisor("mine", few, FromProps("a", counters(), tree.Restart{}))})
		release := make(chan struct{})
		sub := system.EventStream.Subscribe(func(msg any) {
			if _, ok := msg.(tree.Event); ok {
				<-release
			}
		})
		defer system.EventStream.Unsubscribe(sub)
		a := m.Address("mine/a")
		system.Root.Send(a, "panic")
		synctest.Wait()
		if got, err := system.Root.RequestFuture(a, "count", time.Second).Result(); got != 1 || err != nil {
			t.Error(got, err)
		}
		close(release)
		stop(t, m)
	})
}

func TestActorAnnouncesThatItIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := FromProps("slow", actor.PropsFromFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				system, self := ctx.ActorSystem(), ctx.Self()
				time.AfterFunc(time.Second, func() { system.Root.Send(self, "loaded") })
			case string:
				Ready(ctx)
			}
		}), tree.Restart{})
		body := slow.Body.(Actor)
		body.Announces = true
		slow.Body = body
		began := time.Now()
		_, m := mounted(t, Tree{Spec: Supervisor("mine", few, slow, Function("after", untilStopped, tree.Restart{}))})
		if took := time.Since(began); took != time.Second {
			t.Errorf("up after %s", took)
		}
		stop(t, m)
	})
}

func TestMistakesAreFoundBeforeAnythingRuns(t *testing.T) {
	run := Function("a", untilStopped, tree.Restart{})
	after := run
	after.After = []string{"b"}
	for _, c := range []struct {
		spec tree.Spec
		want string
	}{
		{run, "a: the root of a tree is a supervisor"},
		{Supervisor("", few), ": a name is not empty and has no / or #"},
		{Supervisor("m", few, run, run), `m: two children are called "a"`},
		{Supervisor("m", few, after), `m/a: it comes after "b", which is no sibling`},
		{Supervisor("m", few, Function("a", nil, tree.Restart{})), "m/a: its actors.Func is nil"},
		{Supervisor("m", few, FromProps("a", nil, tree.Restart{})), "m/a: its actors.Actor is nil"},
		{Supervisor("m", few, tree.Spec{Name: "a"}), "m/a: it has nothing to run"},
		{Supervisor("m", few, tree.Spec{Name: "a", Body: func() {}}), "m/a: a func() is no Func, Service or Actor"},
		{Supervisor("m", few, Command("a", tree.Restart{}, "true")), "m/a: a process needs a Launcher"},
		{Supervisor("m", tree.Supervise{Strategy: "two_for_one"}), `m: there is no strategy "two_for_one"`},
		{Supervisor("m", tree.Supervise{}, run),
			"m/a: nothing bounds its restarts; give it a Backoff or a Limit, or its supervisor an Intensity"},
	} {
		if _, err := (Tree{Spec: c.spec}).Mount(NewSystem(hclog.NewNullLogger()).Root); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := (Tree{Spec: c.spec}).Props(); err == nil {
			t.Errorf("no error from Props, want %s", c.want)
		}
	}
}

func TestTwoTreesOfOneNameAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, m := mounted(t, Tree{Spec: Supervisor("mine", few)})
		if _, err := (Tree{Spec: Supervisor("mine", few)}).Mount(system.Root); !errors.Is(err, actor.ErrNameExists) {
			t.Error(err)
		}
		stop(t, m)
	})
}
