package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Bound is how often a leaf can be started that crashes again and again, each time after the same life, before the tree
// gives up because of it. See the package's text for the formula.
type Bound struct {
	Starts  uint64 // as far as Level
	Formula string // "(2+1)·(0+1) = 3"
	Forever bool   // there is no bound: Level lives on, and each life of the node below it has Starts of them
	Level   string // the path of the node where the loop ends, or lives for ever
	Below   string // the path of the node below it
	Why     string // what happens at Level, for people
}

// BoundOf computes the bound of the leaf at a path from the specification alone. life is how long the leaf lives each time.
// It knows intensities, policies, backoffs and limits; it does not know AutoShutdown, and takes stops and starts to need no
// time. The zero Bound is that of a path that is no leaf.
func BoundOf(root *tree.Spec, path string, life time.Duration) Bound {
	chain := chainTo(root, root.Name, path)
	if len(chain) == 0 || chain[0].spec.IsSupervisor() {
		return Bound{}
	}
	return chainBound(chain, life)
}

// chainBound multiplies the levels above a leaf, which comes first.
func chainBound(chain []at, life time.Duration) Bound {
	b := Bound{Starts: 1}
	var factors []string
	for k := 0; k+1 < len(chain); k++ {
		child, parent := chain[k], chain[k+1]
		loop := loopOf(child.spec, parent.spec.Supervise, life)
		b.Level, b.Below, b.Why = title(parent.path), title(child.path), loop.why
		if loop.factor == 0 {
			b.Forever = true
			break
		}
		b.Starts = multiply(b.Starts, loop.factor)
		factors = append(factors, loop.text)
		if loop.over {
			b.Level = title(child.path)
			break
		}
		life = loop.takes
	}
	b.Formula = strings.Join(factors, "·")
	if len(factors) != 1 || factors[0] != fmt.Sprint(b.Starts) {
		b.Formula = strings.TrimPrefix(b.Formula+fmt.Sprintf(" = %d", b.Starts), " = ")
	}
	return b
}

// at is a node and where it stands.
type at struct {
	path string
	spec *tree.Spec
}

// chainTo lists the node at a path and all above it, the root last.
func chainTo(n *tree.Spec, here, path string) []at {
	if here == path {
		return []at{{here, n}}
	}
	for i := range n.Children {
		child := &n.Children[i]
		if list := chainTo(child, tree.ChildPath(here, n.Kind, child.Name), path); list != nil {
			return append(list, at{here, n})
		}
	}
	return nil
}

func multiply(a, b uint64) uint64 {
	if b != 0 && a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}

// loop is what becomes of one supervisor while one child of it ends again and again.
type loop struct {
	factor uint64        // how often the child is started in one life of the supervisor; 0: for ever
	text   string        // the factor as a formula
	takes  time.Duration // how long that life is
	over   bool          // the child is not started again, and the supervisor lives on
	why    string
}

// mostLoops bounds the analysis: with an intensity above it, only the first so many restarts are looked at.
const mostLoops = 1 << 12

// loopOf follows the ends of one child as the supervisor would, without jitter.
func loopOf(child *tree.Spec, s *tree.Supervise, life time.Duration) loop {
	r := &child.Restart
	policy := r.PolicyOr()
	if policy == tree.Temporary || policy == tree.Transient && child.IsSupervisor() {
		return loop{factor: 1, text: "1", over: true,
			why: fmt.Sprintf("%s is %s and is not restarted", child.Name, policy)}
	}
	at, slow := life, false
	why := "" // why the intensity is not exceeded
	if s.Intensity == nil {
		why = "it has no intensity"
	}
	var ends []time.Duration
	for n := 1; n <= mostLoops; n++ {
		ends = append(ends, at)
		limited := r.Limit > 0 && (slow || n >= r.Limit && (r.Within <= 0 || at-ends[n-r.Limit] <= r.Within))
		switch {
		case limited && r.OnLimit == tree.OnLimitStop:
			return loop{factor: uint64(n), text: fmt.Sprint(n), over: true,
				why: fmt.Sprintf("%s has failed after %d ends", child.Name, n)}
		case limited && r.OnLimit == tree.OnLimitEscalate:
			return loop{factor: uint64(n), text: fmt.Sprint(n), takes: at,
				why: fmt.Sprintf("the limit of %s is %d", child.Name, r.Limit)}
		}
		if i := s.Intensity; i != nil && n > i.Restarts && at-ends[n-1-i.Restarts] <= i.Period {
			return loop{factor: uint64(n), text: fmt.Sprintf("(%d+1)", n-1), takes: at,
				why: fmt.Sprintf("more than %d restarts within %s", i.Restarts, span(i.Period))}
		}
		if why == "" && s.Intensity != nil && n > s.Intensity.Restarts {
			why = tooSlow(child, *s.Intensity, at-ends[n-1-s.Intensity.Restarts])
		}
		// The delays only grow, so what does not happen at once never does.
		if why != "" && (r.Limit <= 0 || n >= r.Limit || r.OnLimit == "" || r.OnLimit == tree.OnLimitSlow) {
			return loop{why: why}
		}
		slow = limited && life < r.ResetAfter
		attempt := n
		if life >= r.ResetAfter {
			attempt = 1
		}
		at += delay(r, attempt, limited) + life
	}
	n := s.Intensity.Restarts // the delays have long reached what they grow to
	if gap := delay(r, mostLoops, r.Limit > 0 && r.Limit < mostLoops) + life; gap == 0 || s.Intensity.Period/gap >= time.Duration(n) {
		return loop{factor: uint64(n) + 1, text: fmt.Sprintf("(%d+1)", n), takes: time.Duration(n) * gap,
			why: fmt.Sprintf("more than %d restarts within %s", n, span(s.Intensity.Period))}
	}
	return loop{why: fmt.Sprintf("%d more restarts of %s take longer than its period of %s", n, child.Name, span(s.Intensity.Period))}
}

// tooSlow says why a loop never exceeds an intensity.
func tooSlow(child *tree.Spec, i tree.Intensity, takes time.Duration) string {
	times := "restarts"
	if i.Restarts == 1 {
		times = "restart"
	}
	return fmt.Sprintf("%d more %s of %s take %s, and its period is %s", i.Restarts, times, child.Name, span(takes), span(i.Period))
}

// delay is the delay before the n-th restart in a row, without jitter.
func delay(r *tree.Restart, n int, slow bool) time.Duration {
	d := float64(r.Backoff)
	if slow && r.Cap > 0 {
		d = float64(r.Cap)
	} else if r.Factor > 0 {
		d *= math.Pow(r.Factor, float64(n-1))
	}
	if r.Cap > 0 {
		d = min(d, float64(r.Cap))
	}
	return time.Duration(min(d, float64(tree.Forever/4)))
}

// span writes a duration as people do: "1m", not "1m0s".
func span(d time.Duration) string {
	s := d.String()
	for _, tail := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, tail) {
			s = s[:len(s)-2]
		}
	}
	return s
}
