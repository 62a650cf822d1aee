package actors

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// nullJournal numbers events and keeps none, so that a benchmark measures the actors alone.
type nullJournal struct {
	*fakeJournal
	ready chan string // hears the path of each worker that becomes ready
}

func (j *nullJournal) Append(ev tree.Event) tree.Seq {
	if ev.Kind == tree.EventReady && ev.Data != nil {
		j.ready <- ev.Path
	}
	return 1
}

func (j *nullJournal) Observe(string, int, tree.Observation) {}

// instantLauncher makes processes that cost nothing.
type instantLauncher struct{ made chan *instantProcess }

type instantProcess struct{ tell func(tree.Fact) }

func (l *instantLauncher) Launch(_ context.Context, _ tree.Ref, _ *tree.Spec, tell func(tree.Fact)) (Instance, error) {
	p := &instantProcess{tell: tell}
	if l.made != nil {
		l.made <- p
	}
	return p, nil
}

func (p *instantProcess) PID() int       { return 1 }
func (p *instantProcess) Socket() string { return "" }
func (p *instantProcess) Port() int      { return 0 }
func (p *instantProcess) Close()         {}
func (p *instantProcess) Do(o tree.Order) {
	switch o.(type) {
	case tree.Signal, tree.Kill:
		p.die()
	}
}

func (p *instantProcess) die() {
	p.tell(tree.Exited{Exit: tree.Exit{Code: -1, Signal: "KILL"}})
	p.tell(tree.Gone{})
}

// benchHost starts a host of n workers, ten tenants, and waits until all are up.
func benchHost(b testing.TB, n int, made chan *instantProcess) (h *Host, j *nullJournal, done chan error) {
	var tenants []tree.Spec
	for t := range min(10, n) {
		var workers []tree.Spec
		for i := range n / min(10, n) {
			workers = append(workers, worker1(fmt.Sprint("w", i)))
		}
		tenants = append(tenants, group(tree.KindTenant, fmt.Sprint("t", t), tree.Supervise{},
			group(tree.KindApp, "app", tree.Supervise{}, workers...)))
	}
	j = &nullJournal{ready: make(chan string, n)}
	h = NewHost(Options{Spec: hostOf(tenants...), Journal: j, Launcher: &instantLauncher{made: made}, Log: hclog.NewNullLogger()})
	done = make(chan error, 1)
	go func() { done <- h.Run(0) }()
	for range n {
		<-j.ready
	}
	return h, j, done
}

// BenchmarkRestart is from the exit of a process to the launch of the next: what the actors add to a restart.
func BenchmarkRestart(b *testing.B) {
	made := make(chan *instantProcess, 1)
	h, j, done := benchHost(b, 1, made)
	p := <-made
	b.ReportAllocs()
	for b.Loop() {
		p.die()
		p = <-made
		<-j.ready
	}
	h.Stop(true, 0)
	<-done
}

// BenchmarkStart10000 starts, idles and stops 10,000 workers. Its metrics are for one worker.
func BenchmarkStart10000(b *testing.B) {
	const n = 10_000
	var start, stop time.Duration
	var heap float64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		h, _, done := benchHost(b, n, nil)
		start += time.Since(began)
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap += float64(after.HeapInuse+after.StackInuse) - float64(before.HeapInuse+before.StackInuse)
		if g := runtime.NumGoroutine(); g > 20 {
			b.Errorf("%d goroutines while %d workers idle", g, n)
		}
		began = time.Now()
		h.Stop(false, 0)
		<-done
		stop += time.Since(began)
	}
	b.ReportMetric(float64(start.Microseconds())/float64(b.N*n), "µs-start/worker")
	b.ReportMetric(float64(stop.Microseconds())/float64(b.N*n), "µs-stop/worker")
	b.ReportMetric(heap/float64(b.N*n), "B/worker")
}

// BenchmarkChildRestart is from the end of a child that is code of this program to the readiness of the next, among others.
func BenchmarkChildRestart(b *testing.B) {
	strike, ready := make(chan struct{}), make(chan struct{}, 100_000)
	function := Func(func(ctx context.Context) error {
		ready <- struct{}{}
		select {
		case <-ctx.Done():
		case <-strike:
		}
		return nil
	})
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ready <- struct{}{}
		case string:
			panic("struck")
		}
	})
	for _, n := range []int{100, 10_000} {
		for _, kind := range []string{"function", "actor"} {
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) {
				var children []tree.Spec
				for i := range n {
					name := fmt.Sprint("c", i)
					if kind == "actor" {
						children = append(children, FromProps(name, props, tree.Restart{}))
					} else {
						children = append(children, Function(name, function, tree.Restart{}))
					}
				}
				system := NewSystem(hclog.NewNullLogger())
				m, err := Tree{Spec: Supervisor("mine", tree.Supervise{Intensity: &tree.Intensity{Restarts: 1 << 30, Period: time.Second}}, children...)}.Mount(system.Root)
				if err != nil {
					b.Fatal(err)
				}
				for range n {
					<-ready
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if kind == "actor" {
						system.Root.Send(m.Address(fmt.Sprint("mine/c", i%n)), "strike")
					} else {
						strike <- struct{}{}
					}
					<-ready
				}
				_ = m.Stop(context.Background())
			})
		}
	}
}
