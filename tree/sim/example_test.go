package sim_test

import (
	"fmt"
	"os"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/coppice-run/coppice/tree/sim"
)

// Test a tree of one's own under virtual time: an hour of it takes a moment.
func ExampleExperiment() {
	restart := tree.Restart{Backoff: time.Second, Factor: 2, Cap: 10 * time.Second, ResetAfter: time.Minute}
	spec := tree.Spec{
		Name:      "ingest",
		Supervise: &tree.Supervise{Strategy: tree.RestForOne, Intensity: &tree.Intensity{Restarts: 3, Period: 30 * time.Second}},
		Children: []tree.Spec{
			{Name: "queue", Restart: restart, Shutdown: 5 * time.Second},
			{Name: "writer", Restart: restart, Shutdown: 5 * time.Second},
		},
	}
	fault, err := sim.ParseFault("queue: exit 1 after ready 500ms once")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := sim.Experiment{Spec: spec, Faults: []sim.Fault{fault}, Until: time.Hour, Keep: -1}.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	result.WriteTranscript(os.Stdout)
	for _, node := range result.Nodes {
		fmt.Println(node.Path, node.Starts, "starts, down for", node.Downtime)
	}
	// Output:
	// [1] +0s              start ingest#1: start
	// [2] +0s              start ingest/queue#1: start [1]
	// [3] +0s      up ingest/queue#1 [2]
	// [4] +0s              start ingest/writer#1: start [1]
	// [5] +0s      up ingest/writer#1 [4]
	// [6] +0s      up ingest#1 [5]
	// [7] +500ms   down ingest/queue#1: exit 1 [3]
	// [8] +500ms           backoff ingest/queue#1 for 1s (1. in a row): exit 1 [7]
	// [9] +500ms           stop ingest/writer#1: sibling queue [7]
	// [10] +500ms  down ingest/writer#1: shutdown [9]
	// [11] +1.5s           start ingest/queue#2 again (1. in a row): exit 1 [8]
	// [12] +1.5s   up ingest/queue#2 [11]
	// [13] +1.5s           start ingest/writer#2 again: sibling queue [8]
	// [14] +1.5s   up ingest/writer#2 [13]
	// ingest 1 starts, down for 0s
	// ingest/queue 2 starts, down for 1s
	// ingest/writer 2 starts, down for 1s
}

// How often may a worker be started that crashes again and again?
func ExampleBoundOf() {
	level := func(name string, child tree.Spec) tree.Spec {
		return tree.Spec{Name: name, Supervise: &tree.Supervise{Intensity: &tree.Intensity{Restarts: 2, Period: time.Minute}}, Children: []tree.Spec{child}}
	}
	spec := level("host", level("acme", level("shop", tree.Spec{Name: "web"})))
	bound := sim.BoundOf(&spec, "host/acme/shop/web", 0)
	fmt.Println(bound.Formula)
	fmt.Println("if it lives for 10s each time:", sim.BoundOf(&spec, "host/acme/shop/web", 10*time.Second).Why)
	// Output:
	// (2+1)·(2+1)·(2+1) = 27
	// if it lives for 10s each time: 2 more restarts of acme take 3m, and its period is 1m
}

// A World lets a test act at certain moments itself, and say what each leaf does.
func ExampleWorld() {
	spec := tree.Spec{Name: "pool", Supervise: &tree.Supervise{}, Children: []tree.Spec{
		{Name: "a", Restart: tree.Restart{Backoff: time.Second}},
	}}
	var world *sim.World
	world = sim.New(spec, sim.Options{Event: func(e tree.Event) { fmt.Printf("%s %s %s %q\n", world.Now(), e.Path, e.Kind, e.Reason) }})
	world.Boot()
	world.Run(10 * time.Second)
	world.Kill(world.Find("a"), tree.Reason{Class: tree.Crash, Text: "panic: nil map"})
	world.Run(20 * time.Second)
	// Output:
	// 0s pool starting "start"
	// 0s pool/a starting "start"
	// 0s pool/a ready ""
	// 0s pool ready ""
	// 10s pool/a exited "panic: nil map"
	// 10s pool/a backoff "panic: nil map"
	// 11s pool/a starting "panic: nil map"
	// 11s pool/a ready ""
}
