package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/actors"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
	"github.com/thejerf/suture/v4"
)

// stage is what the children of a subject report to and are ended by. All of them share it, so that it costs no child
// anything.
type stage struct {
	strike chan struct{}  // one receive ends one child
	ended  chan time.Time // when it ended
	ready  chan time.Time // when a child was ready
}

// subject is one way to look after children.
type subject struct {
	name string
	// start starts n children and returns how to end one of them; each sends to ready when it is.
	start func(s *stage, n int) (end func(i int), stop func(), err error)
}

var subjects = []subject{
	{"Coppice, function returns an error", func(s *stage, n int) (func(int), func(), error) { return coppice(s, n, s.function(false)) }},
	{"Coppice, function panics", func(s *stage, n int) (func(int), func(), error) { return coppice(s, n, s.function(true)) }},
	{"Coppice, actor panics", func(s *stage, n int) (func(int), func(), error) { return coppiceActors(s, n) }},
	{"suture, service returns an error", func(s *stage, n int) (func(int), func(), error) { return sutures(s, n, s.function(false)) }},
	{"suture, service panics", func(s *stage, n int) (func(int), func(), error) { return sutures(s, n, s.function(true)) }},
	{"protoactor, actor panics", protoactors},
}

var errStruck = errors.New("struck")

// function is a child that runs until it is struck.
func (s *stage) function(panics bool) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		s.ready <- time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-s.strike:
		}
		s.ended <- time.Now()
		if panics {
			panic(errStruck)
		}
		return errStruck
	}
}

// strikes ends one child, whichever waits.
func (s *stage) strikes(int) { s.strike <- struct{}{} }

// endless is more restarts than any measurement makes.
var endless = tree.Supervise{Intensity: &tree.Intensity{Restarts: 1 << 30, Period: time.Second}}

func coppice(s *stage, n int, run actors.Func) (func(int), func(), error) {
	children := make([]tree.Spec, n)
	for i := range children {
		children[i] = actors.Function(fmt.Sprint("c", i), run, tree.Restart{})
	}
	_, stop, err := mount(actors.NewSystem(hclog.NewNullLogger()), children)
	return s.strikes, stop, err
}

func coppiceActors(s *stage, n int) (func(int), func(), error) {
	props := actor.PropsFromProducer(func() actor.Actor { return &struck{s} })
	children := make([]tree.Spec, n)
	for i := range children {
		children[i] = actors.FromProps(fmt.Sprint("c", i), props, tree.Restart{})
	}
	system := actors.NewSystem(hclog.NewNullLogger())
	m, stop, err := mount(system, children)
	if err != nil {
		return nil, nil, err
	}
	return func(i int) { system.Root.Send(m.Address(fmt.Sprint("compare/c", i)), errStruck) }, stop, nil
}

func mount(system *actor.ActorSystem, children []tree.Spec) (*actors.Mounted, func(), error) {
	m, err := actors.Tree{Spec: actors.Supervisor("compare", endless, children...)}.Mount(system.Root)
	if err != nil {
		return nil, nil, err
	}
	return m, func() { _ = m.Stop(context.Background()) }, nil
}

// struck is an actor that panics when it is struck.
type struck struct{ *stage }

func (a *struck) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		a.ready <- time.Now()
	case error:
		a.ended <- time.Now()
		panic(errStruck)
	}
}

// service is a suture.Service that is a function.
type service struct {
	run func(ctx context.Context) error
}

func (s *service) Serve(ctx context.Context) error { return s.run(ctx) }

func sutures(s *stage, n int, run func(ctx context.Context) error) (func(int), func(), error) {
	sup := suture.New("compare", suture.Spec{EventHook: func(suture.Event) {}, FailureThreshold: 1e9})
	ctx, cancel := context.WithCancel(context.Background())
	done := sup.ServeBackground(ctx)
	for range n {
		sup.Add(&service{run})
	}
	return s.strikes, func() { cancel(); <-done }, nil
}

func protoactors(s *stage, n int) (func(int), func(), error) {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	props := actor.PropsFromProducer(func() actor.Actor { return &struck{s} })
	pids := make([]*actor.PID, 0, n)
	began := make(chan struct{})
	strategy := actor.NewOneForOneStrategy(1<<30, time.Second, actor.DefaultDecider)
	parent := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			for range n {
				pids = append(pids, ctx.Spawn(props))
			}
			close(began)
		}
	}, actor.WithSupervisor(strategy)))
	<-began
	return func(i int) { system.Root.Send(pids[i], errStruck) }, func() { _ = system.Root.StopFuture(parent).Wait() }, nil
}

// measure starts n children, weighs them, and ends as many as is asked, one after the other.
func measure(subject subject, n, restarts int) (figures, error) {
	s := &stage{strike: make(chan struct{}), ended: make(chan time.Time, 1), ready: make(chan time.Time, n)}
	before := weigh()
	end, stop, err := subject.start(s, n)
	if err != nil {
		return figures{}, err
	}
	for range n {
		<-s.ready
	}
	f := figures{Bytes: float64(weigh()-before) / float64(n)}
	took := make([]float64, 0, restarts)
	for i := range restarts {
		end(i * 7919 % n)
		began := <-s.ended
		took = append(took, float64((<-s.ready).Sub(began).Nanoseconds())/1000)
	}
	stop()
	slices.Sort(took)
	f.Median, f.Worst = took[len(took)/2], took[len(took)*99/100]
	return f, nil
}

// weigh is what the heap and the stacks take once all garbage is gone.
func weigh() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
		time.Sleep(100 * time.Millisecond) // nothing tells when goroutines have come to rest
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
