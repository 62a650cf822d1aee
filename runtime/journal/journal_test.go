package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
)

// small is a host with one app of two workers and a pool.
func small() tree.Spec {
	sup := &tree.Supervise{}
	worker := func(name string) tree.Spec { return tree.Spec{Name: name, Kind: tree.KindWorker, Run: &tree.Run{}} }
	pool := tree.Spec{Name: "web", Kind: tree.KindPool, Supervise: sup, Children: []tree.Spec{worker("web.0"), worker("web.1")}}
	app := tree.Spec{Name: "shop", Kind: tree.KindApp, Supervise: sup, Children: []tree.Spec{worker("db"), worker("webby"), pool}}
	tenant := tree.Spec{Name: "acme", Kind: tree.KindTenant, Supervise: sup, Children: []tree.Spec{app}}
	return tree.Spec{Kind: tree.KindHost, Supervise: sup, Children: []tree.Spec{tenant}}
}

func seqs(events []tree.Event) []tree.Seq {
	list := []tree.Seq{}
	for _, ev := range events {
		list = append(list, ev.Seq)
	}
	return list
}

func TestAppendNumbersAndFolds(t *testing.T) {
	j := New(Options{Root: small(), After: 41})
	seq := j.Append(tree.Event{Path: "acme/shop/db", Incarnation: 1, Kind: tree.EventStarting})
	if seq != 42 || j.Last() != 42 {
		t.Errorf("the first number is %d, the last %d; want 42", seq, j.Last())
	}
	if n, _ := j.Node("acme/shop/db"); n.State != tree.StateStarting {
		t.Errorf("the node is %s right after Append", n.State)
	}
	ev, ok := j.Event(42)
	if !ok || ev.Time.IsZero() || ev.Path != "acme/shop/db" {
		t.Errorf("event 42: %v %+v", ok, ev)
	}
	if _, ok := j.Event(43); ok {
		t.Error("there is an event 43")
	}
	pid := 7
	j.Observe("acme/shop/db", 1, tree.Observation{PID: &pid})
	if n, _ := j.Node("acme/shop/db"); n.PID != 7 {
		t.Errorf("pid %d", n.PID)
	}
}

func TestEventsAreSelected(t *testing.T) {
	j := New(Options{Root: small()})
	base := time.Now()
	for i, path := range []string{"acme", "acme/shop", "acme/shop/db", "acme/shop/web", "acme/shop/web.0", "acme/shop/webby"} {
		j.Append(tree.Event{Path: path, Kind: tree.EventReady, Time: base.Add(time.Duration(i) * time.Second)})
	}
	for _, c := range []struct {
		name string
		q    Query
		want []tree.Seq
	}{
		{"all", Query{}, []tree.Seq{1, 2, 3, 4, 5, 6}},
		{"a leaf", Query{Paths: []string{"acme/shop/db"}}, []tree.Seq{3}},
		{"a pool with its replicas, and no namesake", Query{Paths: []string{"acme/shop/web"}}, []tree.Seq{4, 5}},
		{"two", Query{Paths: []string{"acme/shop/db", "acme/shop/webby"}}, []tree.Seq{3, 6}},
		{"since", Query{Since: base.Add(4 * time.Second)}, []tree.Seq{5, 6}},
		{"after", Query{After: 4}, []tree.Seq{5, 6}},
		{"limit", Query{After: 1, Limit: 2}, []tree.Seq{2, 3}},
		{"nothing", Query{Paths: []string{"acme/sho"}}, []tree.Seq{}},
	} {
		if d := cmp.Diff(c.want, seqs(j.Events(c.q))); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestBounds(t *testing.T) {
	j := New(Options{Root: small(), Count: 10})
	for range 1000 {
		j.Append(tree.Event{Path: "acme", Kind: tree.EventReady})
		if n := len(j.Events(Query{})); n > 10 {
			t.Fatalf("%d events are kept, the bound is 10", n)
		}
	}
	if d := cmp.Diff([]tree.Seq{998, 999, 1000}, seqs(j.Events(Query{After: 997}))); d != "" {
		t.Error(d)
	}
	j = New(Options{Root: small(), Bytes: 1000})
	for range 100 {
		j.Append(tree.Event{Path: "acme", Kind: tree.EventReady, Reason: "a reason of forty letters, more or less..."})
	}
	if n := len(j.Events(Query{})); n == 0 || n > 1000/128 {
		t.Errorf("%d events are kept in 1000 bytes", n)
	}
	huge := make([]byte, 5000)
	j.Append(tree.Event{Path: "acme", Kind: tree.EventReady, Reason: string(huge)})
	if events := j.Events(Query{}); len(events) != 1 || len(events[0].Reason) != 5000 {
		t.Error("an event over the bound must be kept alone")
	}
}

func TestFollowerSeesAllOnceInOrder(t *testing.T) {
	j := New(Options{Root: small()})
	const writers, each = 4, 2000
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				j.Append(tree.Event{Path: "acme/shop/db", Kind: tree.EventReady})
				j.Append(tree.Event{Path: "elsewhere", Kind: tree.EventReady})
			}
		})
	}
	f := j.Follow(Query{Paths: []string{"acme"}})
	var last tree.Seq
	for n := 0; n < writers*each; {
		events, missed, err := f.Next(t.Context())
		if err != nil || missed != 0 {
			t.Fatalf("missed %d, %v", missed, err)
		}
		for _, ev := range events {
			if ev.Seq <= last || ev.Path != "acme/shop/db" {
				t.Fatalf("%d after %d, %s", ev.Seq, last, ev.Path)
			}
			last = ev.Seq
			n++
		}
	}
	wg.Wait()
}

func TestSlowFollowerIsToldWhatItMissed(t *testing.T) {
	j := New(Options{Root: small(), Count: 10})
	f := j.Follow(Query{})
	for range 25 {
		j.Append(tree.Event{Path: "acme", Kind: tree.EventReady})
	}
	events, missed, err := f.Next(t.Context())
	if err != nil || missed != 15 {
		t.Errorf("missed %d, want 15; %v", missed, err)
	}
	if d := cmp.Diff([]tree.Seq{16, 17, 18, 19, 20, 21, 22, 23, 24, 25}, seqs(events)); d != "" {
		t.Error(d)
	}
	// One that begins now has missed nothing.
	if _, missed, _ := j.Follow(Query{}).Next(t.Context()); missed != 0 {
		t.Errorf("a new follower missed %d", missed)
	}
}

func TestFollowerEndsWithItsContext(t *testing.T) {
	j := New(Options{Root: small()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, err := j.Follow(Query{}).Next(ctx)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWhyWalksBack(t *testing.T) {
	j := New(Options{Root: small()})
	db := "acme/shop/db"
	intent := j.Append(tree.Event{Path: db, Kind: tree.EventIntent, Reason: "started by ann", Data: map[string]any{"intent": ""}})
	first := j.Append(tree.Event{Path: db, Incarnation: 1, Kind: tree.EventStarting, Cause: intent})
	exited := j.Append(tree.Event{Path: db, Incarnation: 1, Kind: tree.EventExited, Cause: first, Reason: "exit 1"})
	backoff := j.Append(tree.Event{Path: db, Incarnation: 1, Kind: tree.EventBackoff, Cause: exited, Reason: "exit 1"})
	second := j.Append(tree.Event{Path: db, Incarnation: 2, Kind: tree.EventStarting, Cause: backoff, Reason: "exit 1"})
	chain, complete := j.Why(db)
	if d := cmp.Diff([]tree.Seq{second, backoff, exited}, seqs(chain)); d != "" || !complete {
		t.Error(d, complete)
	}
	if _, complete := j.Why("acme/nothing"); complete {
		t.Error("an unknown path has a chain")
	}
}

func BenchmarkAppend(b *testing.B) {
	j := New(Options{Root: small()})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		j.Append(tree.Event{Path: "acme/shop/db", Incarnation: i, Kind: tree.EventReady})
	}
}

func ExampleJournal_Follow() {
	j := New(Options{Root: small()})
	j.Append(tree.Event{Path: "acme/shop/db", Incarnation: 1, Kind: tree.EventReady})
	events, missed, _ := j.Follow(Query{Paths: []string{"acme"}}).Next(context.Background())
	fmt.Println(events[0].Path, events[0].Kind, missed)
	// Output: acme/shop/db ready 0
}
