package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// BenchmarkRestarts simulates crash loops: of a worker with a process, with the machine that the daemon uses for it; of a
// leaf without one; and of a tree that gives up at two levels again and again.
func BenchmarkRestarts(b *testing.B) {
	fast := tree.Restart{Backoff: time.Millisecond}
	worker := app(tree.OneForOne, -1, "a")
	worker.Children[0].Restart = fast
	leaf := tree.Spec{Name: "app", Supervise: &tree.Supervise{}, Children: []tree.Spec{{Name: "a", Restart: fast}}}
	nested := app(tree.RestForOne, 2, "a", "b", "c")
	nested.Restart = fast
	for i := range nested.Children {
		nested.Children[i].Restart = fast
	}
	nested = tree.Spec{Name: "acme", Restart: fast, Supervise: &tree.Supervise{Intensity: &tree.Intensity{Restarts: 2, Period: time.Minute}},
		Children: []tree.Spec{nested}}
	nested = tree.Spec{Name: "host", Supervise: &tree.Supervise{}, Children: []tree.Spec{nested}}
	many := app(tree.OneForOne, -1)
	for i := range 1000 {
		many.Children = append(many.Children, app(tree.OneForOne, -1, fmt.Sprintf("w.%d", i)).Children...)
		many.Children[i].Restart = fast
	}
	for _, c := range []struct {
		name  string
		spec  tree.Spec
		fault string
	}{
		{"worker", worker, "a: exit 1 after ready 1ms"},
		{"leaf", leaf, "a: exit 1 after ready 1ms"},
		{"nested", nested, "a: exit 1 after ready 1ms"},
		{"thousand", many, "*: exit 1 after ready 1s"},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := ParseFault(c.fault)
			if err != nil {
				b.Fatal(err)
			}
			var facts, restarts float64
			b.ReportAllocs()
			for b.Loop() {
				r, err := Experiment{Spec: c.spec, Faults: []Fault{f}, Until: 2 * time.Minute, Keep: 200}.Run()
				if err != nil {
					b.Fatal(err)
				}
				facts += float64(r.Facts)
				restarts += float64(r.Restarts)
			}
			b.ReportMetric(facts/b.Elapsed().Seconds(), "facts/s")
			b.ReportMetric(restarts/b.Elapsed().Seconds(), "restarts/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
