package tree

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// manyChildren is a supervisor of n children that are all up.
func manyChildren(n int, p Supervise, r Restart) (*Supervisor, time.Time) {
	spec := Spec{Name: "app", Supervise: &p}
	for i := range n {
		spec.Children = append(spec.Children, Spec{Name: fmt.Sprintf("w.%d", i), Restart: r})
	}
	s := NewSupervisor(spec, Past{}, nil)
	now := time.Unix(0, 0)
	s.Step(now, Boot{Seq: 1})
	for i := range n {
		s.Step(now, Up{Child: spec.Children[i].Name, Inc: 1, Seq: 2})
	}
	return s, now
}

// cpu is the processor time that this program has used: on a busy machine it says more than the clock.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSupervisor measures facts per second of processor time: each crash is a Down and an Up, with a backoff also a Wake.
func BenchmarkSupervisor(b *testing.B) {
	backoff := Restart{Backoff: time.Millisecond, Factor: 2, Cap: time.Second, ResetAfter: time.Second, Limit: 5, Within: time.Minute}
	for _, c := range []struct {
		name string
		n    int
		p    Supervise
		r    Restart
	}{
		{"one_for_one/10", 10, Supervise{Intensity: &Intensity{Restarts: 1 << 30, Period: time.Second}}, Restart{}},
		{"one_for_one/10000", 10000, Supervise{}, Restart{}},
		{"one_for_one/10000/ordered", 10000, Supervise{Start: Ordered}, Restart{}},
		{"one_for_one/10000/backoff", 10000, Supervise{}, backoff},
		{"one_for_all/3", 3, Supervise{Strategy: OneForAll}, Restart{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, now := manyChildren(c.n, c.p, c.r)
			facts, k := 0, 0
			var todo []Fact
			b.ReportAllocs()
			begin := cpu()
			for b.Loop() {
				if len(todo) == 0 {
					k = (k + 7919) % c.n
					now = now.Add(2 * time.Second)
					kid := s.kids[k]
					todo = append(todo, Down{Child: kid.spec.Name, Inc: kid.inc, Reason: Reason{Crash, "exit 1"}, Seq: 3})
				}
				fact := todo[0]
				todo = todo[:copy(todo, todo[1:])]
				for _, o := range s.Step(now, fact) {
					switch o := o.(type) {
					case Start:
						todo = append(todo, Up{Child: o.Child, Inc: o.Inc, Seq: 4})
					case Stop:
						todo = append(todo, Down{Child: o.Child, Inc: o.Inc, Reason: Reason{Shutdown, "shutdown"}, Seq: 5})
					case WakeAfter:
						todo = append(todo, Wake{Token: o.Token, Seq: 6})
					}
				}
				facts++
			}
			b.ReportMetric(float64(facts)/(cpu()-begin).Seconds(), "facts/cpu-s")
		})
	}
}

// TestManyChildren boots and halts a supervisor of ten thousand in both modes; each must stay far from quadratic.
func TestManyChildren(t *testing.T) {
	for _, mode := range []StartMode{Ordered, Together} {
		s, now := manyChildren(10000, Supervise{Start: mode}, Restart{})
		if s.serving != 10000 || !s.reported {
			t.Fatalf("%s: %d of 10000 are up", mode, s.serving)
		}
		todo := s.Step(now, Halt{Seq: 3})
		for n := 0; len(todo) > 0; n++ {
			switch o := todo[0].(type) {
			case Stop:
				todo = append(todo[1:], s.Step(now, Down{Child: o.Child, Inc: o.Inc, Seq: 4})...)
			case Quit:
				return
			default:
				todo = todo[1:]
			}
		}
		t.Fatalf("%s: no Quit", mode)
	}
}
