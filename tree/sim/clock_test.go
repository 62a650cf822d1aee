package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// TestClock: what is due first comes first, and what is due at the same moment comes in the order of its scheduling,
// whether it was scheduled long before or at that moment.
func TestClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var c clock
		var last event
		scheduled, seen := 0, 0
		add := func() {
			scheduled++
			c.schedule(time.Duration(rng.IntN(4)), event{})
		}
		for range 20 {
			add()
		}
		for {
			e, ok := c.next(1000)
			if !ok {
				break
			}
			if seen++; e.at < last.at || e.at == last.at && e.n < last.n || e.at != c.now {
				t.Fatalf("%d at %s came after %d at %s", e.n, e.at, last.n, last.at)
			}
			last = e
			if scheduled < 300 {
				for range rng.IntN(3) {
					add()
				}
			}
		}
		if seen != scheduled {
			t.Fatalf("%d of %d came", seen, scheduled)
		}
	}
	var c clock
	c.now = time.Hour
	c.schedule(tree.Forever, event{})
	if e, ok := c.next(tree.Forever); ok {
		t.Errorf("what is never due came at %s", e.at)
	}
}
