package tree

import (
	"testing"
	"time"
)

// TestPast: a supervisor that takes over from another at the same path never uses an incarnation number again.
func TestPast(t *testing.T) {
	spec := Spec{Name: "app", Supervise: &Supervise{}, Children: []Spec{{Name: "a"}, {Name: "b"}}}
	now := time.Unix(0, 0)
	first := NewSupervisor(spec, Past{Incarnations: map[string]int{"a": 6}}, nil)
	starts(t, first.Step(now, Boot{Seq: 1}), Ref{"a", 7}, Ref{"b", 1})
	second := NewSupervisor(spec, first.Past(), nil)
	starts(t, second.Step(now, Boot{Seq: 2}), Ref{"a", 8}, Ref{"b", 2})
}

// TestSaidBefore: what operators said before the machine began holds when it begins.
func TestSaidBefore(t *testing.T) {
	spec := Spec{Name: "app", Supervise: &Supervise{}, Children: []Spec{{Name: "a"}, {Name: "b", Disabled: true}, {Name: "c", Disabled: true}}}
	s := NewSupervisor(spec, Past{}, nil)
	now := time.Unix(0, 0)
	s.Step(now, Hold{Child: "a", Reason: "stopped by anna", Seq: 1})
	s.Step(now, Release{Child: "b", Reason: "started by anna", Seq: 2})
	orders := s.Step(now, Boot{Seq: 3})
	starts(t, orders, Ref{"b", 1})
	rests := map[string]string{}
	for _, o := range orders {
		if r, ok := o.(Rest); ok {
			rests[r.Child] = r.Reason
		}
	}
	if rests["a"] != "stopped by anna" || rests["c"] != "not enabled" || len(rests) != 2 {
		t.Errorf("they rest as %v", rests)
	}
}

func starts(t *testing.T, orders []Order, want ...Ref) {
	t.Helper()
	var got []Ref
	for _, o := range orders {
		if s, ok := o.(Start); ok {
			got = append(got, Ref{s.Child, s.Inc})
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%v start, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v start, want %v", got, want)
		}
	}
}
