package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

// owner is an embedder's actor that mounts a tree and keeps what it hears.
type owner struct {
	props *actor.Props
	tree  *actor.PID
	heard chan any
}

func (o *owner) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		o.tree = ctx.Spawn(o.props)
	case tree.Up, tree.Down, tree.Reply:
		o.heard <- m
	case string:
		ctx.Request(o.tree, tree.WhichChildren{Call: 7})
	case tree.Fact:
		ctx.Request(o.tree, m)
	}
}

func TestTreeIsMountedUnderAnyActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan string, 10)
		function := func(name string) Func {
			return func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				stopped <- name
				return nil
			}
		}
		leaf := func(name string, body any) tree.Spec {
			return tree.Spec{Name: name, Kind: tree.KindWorker, Shutdown: 5 * time.Second, Body: body}
		}
		once := &tree.Intensity{Restarts: 1, Period: 5 * time.Second}
		inner := group(tree.KindGroup, "inner", tree.Supervise{Start: tree.Ordered, Intensity: once}, leaf("b", function("b")),
			leaf("c", onMessage(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Stopped); ok {
					stopped <- "c"
				}
			})))
		spec := group(tree.KindGroup, "mine", tree.Supervise{Start: tree.Ordered, Intensity: once}, leaf("a", function("a")), inner,
			worker1("w"))
		launcher := newFakeLauncher()
		system := NewSystem(hclog.NewNullLogger())
		o := &owner{props: propsFor(t, Tree{Spec: spec, Launcher: launcher}), heard: make(chan any, 10)}
		pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return o }))
		if up, ok := (<-o.heard).(tree.Up); !ok || up.Child != "mine" {
			t.Errorf("heard %v first", up)
		}
		system.Root.Send(pid, "which")
		reply := (<-o.heard).(tree.Reply)
		var names []string
		for _, c := range reply.Children {
			names = append(names, c.Child)
		}
		if d := cmp.Diff([]string{"w", "inner", "a"}, names); d != "" || reply.Call != 7 {
			t.Error(d, reply.Call)
		}
		system.Root.Send(pid, tree.StartChild{Spec: leaf("d", function("d")), Call: 8})
		if reply := (<-o.heard).(tree.Reply); reply.Error != "" || reply.Call != 8 {
			t.Errorf("reply %+v", reply)
		}
		if launcher.process("mine/w") == nil {
			t.Error("w has no process")
		}
		// The owner is stopped by somebody who knows nothing of us.
		system.Root.Stop(pid)
		time.Sleep(time.Minute)
		synctest.Wait()
		close(stopped)
		var order []string
		for name := range stopped {
			order = append(order, name)
		}
		if d := cmp.Diff([]string{"d", "c", "b", "a"}, order); d != "" {
			t.Error(d)
		}
		if launcher.process("mine/w") != nil || launcher.closed != 1 {
			t.Error("w's process is left")
		}
	})
}

func TestTreeThatEndsTellsItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := group(tree.KindGroup, "mine", tree.Supervise{Intensity: &tree.Intensity{Restarts: 2, Period: time.Minute}},
			tree.Spec{Name: "a", Kind: tree.KindWorker, Body: Func(func(context.Context) error { panic("always") })})
		system := NewSystem(hclog.NewNullLogger())
		o := &owner{props: propsFor(t, Tree{Spec: spec}), heard: make(chan any, 10)}
		pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return o }))
		for m := range o.heard {
			if down, ok := m.(tree.Down); ok {
				if want := (tree.Reason{Class: tree.Shutdown, Text: "intensity exceeded by a"}); down.Reason != want {
					t.Errorf("down because of %+v", down.Reason)
				}
				break
			}
		}
		system.Root.Stop(pid)
		synctest.Wait()
	})
}

func propsFor(t *testing.T, mine Tree) *actor.Props {
	t.Helper()
	props, err := mine.Props()
	if err != nil {
		t.Fatal(err)
	}
	return props
}
