package actors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// drain pops all and returns the tenants in their order.
func drain(q *queue) string {
	var order []string
	for t := q.pop(); t != nil; t = q.pop() {
		order = append(order, t.tenant)
	}
	return strings.Join(order, "")
}

func TestQueueTakesTurns(t *testing.T) {
	for _, c := range []struct{ pushed, want string }{
		{"aaa", "aaa"},
		{"aaabbb", "ababab"},
		{"aaaabc", "abcaaa"},
		{"cba", "abc"}, // nobody was served yet: by name
	} {
		q := newQueue()
		for _, tenant := range c.pushed {
			q.push(&ticket{tenant: string(tenant)})
		}
		if got := drain(q); got != c.want {
			t.Errorf("%s: popped %s, want %s", c.pushed, got, c.want)
		}
	}
}

func TestQueueServesANewcomerNext(t *testing.T) {
	q := newQueue()
	for range 500 {
		q.push(&ticket{tenant: "crashing"})
	}
	q.push(&ticket{tenant: "calm"})
	q.pop()
	q.pop()
	for range 3 { // it comes again and again, and is always next
		q.push(&ticket{tenant: "calm"})
		if got := q.pop().tenant; got != "calm" {
			t.Fatalf("%s was next", got)
		}
		q.pop()
	}
}

func TestQueueIsFirstInFirstOutWithinATenant(t *testing.T) {
	q := newQueue()
	var tickets []*ticket
	for range 5 {
		tickets = append(tickets, &ticket{tenant: "a"})
		q.push(tickets[len(tickets)-1])
	}
	for _, i := range []int{0, 2, 4} { // head, middle, tail
		if !q.cancel(tickets[i]) || q.cancel(tickets[i]) {
			t.Errorf("ticket %d: cancelled not exactly once", i)
		}
	}
	if q.pop() != tickets[1] || q.pop() != tickets[3] || q.pop() != nil || q.size != 0 {
		t.Error("not the ones that were left, in their order")
	}
	if q.cancel(tickets[1]) {
		t.Error("cancelled a spawn that had begun")
	}
}

// TestCrashingTenantDelaysNobody has 500 workers crash all the time beside one that crashes now and then.
func TestCrashingTenantDelaysNobody(t *testing.T) {
	const spawn = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var bad []tree.Spec
		for i := range 500 {
			bad = append(bad, worker1(fmt.Sprint("w", i)))
		}
		spec := hostOf(
			group(tree.KindTenant, "bad", tree.Supervise{}, group(tree.KindApp, "app", tree.Supervise{}, bad...)),
			group(tree.KindTenant, "good", tree.Supervise{}, group(tree.KindApp, "app", tree.Supervise{}, worker1("web"))))
		w := start(t, Options{Spec: spec, Slots: 2}, func(w *world) {
			w.launcher.spawnFor = spawn
			w.launcher.behave = func(ref tree.Ref, p *fakeProcess) error {
				if strings.HasPrefix(ref.Path, "bad/") {
					time.AfterFunc(time.Millisecond, func() { p.end(tree.Exit{Code: 1}) })
				}
				return nil
			}
		})
		time.Sleep(time.Second)
		for i := range 20 {
			before := w.launcher.count("good/app/web")
			if err := w.launcher.crash("good/app/web", 1); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			synctest.Wait()
			// One spawn's time until a slot is free, and one for its own.
			time.Sleep(2 * spawn)
			synctest.Wait()
			if w.launcher.count("good/app/web") != before+1 || w.launcher.process("good/app/web") == nil {
				t.Fatalf("round %d: the good tenant waits; %d spawns are queued", i, w.Spawning())
			}
			time.Sleep(37 * time.Millisecond)
		}
		w.end()
	})
}

// TestHungSpawnKeepsNoSlot has a tenant whose spawns hang.
func TestHungSpawnKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := group(tree.KindTenant, "hung", tree.Supervise{}, group(tree.KindApp, "app", tree.Supervise{},
			worker1("a"), worker1("b"), worker1("c"), worker1("d")))
		good := group(tree.KindTenant, "good", tree.Supervise{}, group(tree.KindApp, "app", tree.Supervise{}, worker1("web")))
		release := make(chan struct{})
		w := start(t, Options{Spec: hostOf(hung, good), Slots: 1}, func(w *world) {
			w.launcher.behave = func(ref tree.Ref, _ *fakeProcess) error {
				if strings.HasPrefix(ref.Path, "hung/") {
					<-release
				}
				return nil
			}
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := w.state("good/app/web"); got != "running" {
			t.Errorf("the good worker is %s", got)
		}
		close(release)
		synctest.Wait()
		if n := w.house.spawns.slots; n != 1 {
			t.Errorf("%d slots after all came back", n)
		}
		w.end()
	})
}

// TestNothingIsSpawnedAfterHalt stops a host that has a long queue.
func TestNothingIsSpawnedAfterHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []tree.Spec
		for i := range 50 {
			many = append(many, worker1(fmt.Sprint("w", i)))
		}
		w := start(t, Options{Spec: shop(tree.Supervise{}, many...), Slots: 2}, func(w *world) {
			w.launcher.spawnFor = 10 * time.Millisecond
		})
		time.Sleep(55 * time.Millisecond)
		synctest.Wait()
		began := time.Now()
		launched := w.launcher.pids
		w.end()
		if w.launcher.pids != launched {
			t.Errorf("%d spawns began after the halt", w.launcher.pids-launched)
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
	})
}

func BenchmarkQueue(b *testing.B) {
	q := newQueue()
	tenants := make([]string, 50)
	for i := range tenants {
		tenants[i] = fmt.Sprint("t", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.push(&ticket{tenant: tenants[i%50]})
		if i%100 > 50 {
			q.pop()
			q.pop()
		}
	}
}
