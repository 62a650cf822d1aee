package sim

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Warnings says which intensities of a tree can never be exceeded, and why, from the specification alone. A node that
// fails in its own time cannot be told from here; what is said holds for every course of faults.
func Warnings(root *tree.Spec) []string {
	a := analysis{}
	a.visit(root, root.Name)
	return a.warnings
}

type analysis struct{ warnings []string }

// pace is how fast a node can end, at most.
type pace struct {
	name  string
	never string        // why it never ends; "" if it does
	first time.Duration // from its start to its first end
	r     *tree.Restart
}

// visit judges a supervisor after those below it, and returns how fast it can give up.
func (a *analysis) visit(n *tree.Spec, path string) (p pace) {
	p = pace{name: n.Name, r: &n.Restart}
	if !n.IsSupervisor() {
		return p
	}
	kids := make([]pace, 0, len(n.Children))
	for i := range n.Children {
		kids = append(kids, a.visit(&n.Children[i], tree.ChildPath(path, n.Kind, n.Children[i].Name)))
	}
	i := n.Supervise.Intensity
	for k := range n.Children {
		r := &n.Children[k].Restart
		if r.Limit > 0 && r.OnLimit == tree.OnLimitEscalate && kids[k].never == "" {
			return p // there is another way to give up; how fast does not matter
		}
	}
	switch {
	case n.Supervise.AutoShutdown != tree.AutoNever:
		return p
	case i == nil:
		p.never = "it has no intensity"
		return p
	case i.Restarts > mostLoops:
		return p
	}
	needed, ok := soonest(kids, i.Restarts+1)
	if ok {
		p.first = needed.first
	}
	if n.Supervise.First == tree.InitFails {
		defer func() { p.first, p.never = 0, "" }() // it also ends when a child does not start
	}
	where := path
	if where == "" {
		where = string(n.Kind)
	}
	head := fmt.Sprintf("%s: intensity %d within %s can never be exceeded: ", where, i.Restarts, span(i.Period))
	switch {
	case !ok:
		p.never = "it can never exceed its intensity"
		if len(kids) > 0 && kids[0].never == "" {
			a.warn(head + "no child is restarted so often")
			break
		}
		a.warn(head + "none of its children ever gives up" + whyNever(kids))
	case needed.within > i.Period:
		p.never = "it can never exceed its intensity"
		a.warn(head + tooLong(kids, i, needed.within))
	default:
		a.alone(where, kids, i)
	}
	return p
}

func (a *analysis) warn(text string) { a.warnings = append(a.warnings, text) }

// alone notes when no single child can exceed the intensity, so that the crash loop of one lives for ever.
func (a *analysis) alone(where string, kids []pace, i *tree.Intensity) {
	best := time.Duration(math.MaxInt64)
	name := ""
	for k := range kids {
		needed, ok := soonest(kids[k:k+1], i.Restarts+1)
		if ok && needed.within <= i.Period {
			return
		}
		if ok && needed.within < best {
			best, name = needed.within, kids[k].name
		}
	}
	if len(kids) > 1 && name != "" {
		a.warn(fmt.Sprintf("%s: intensity %d within %s is not exceeded by one child alone: %d restarts of %s take at least %s, so its crash "+
			"loop lives for ever here", where, i.Restarts, span(i.Period), i.Restarts+1, name, span(best)))
	}
}

func whyNever(kids []pace) string {
	for i := range kids {
		if kids[i].never != "" {
			return fmt.Sprintf(" (%s: %s)", kids[i].name, kids[i].never)
		}
	}
	return ""
}

// tooLong says which delays are in the way.
func tooLong(kids []pace, i *tree.Intensity, needed time.Duration) string {
	var fastest *pace
	best := time.Duration(math.MaxInt64)
	for k := range kids {
		if t, ok := soonest(kids[k:k+1], 2); ok && t.within < best {
			fastest, best = &kids[k], t.within
		}
	}
	text := fmt.Sprintf("%d restarts take at least %s", i.Restarts+1, span(needed))
	if fastest == nil {
		return text
	}
	why := ""
	if fastest.r.Backoff > 0 {
		why = "waits " + delays(fastest.r, i.Restarts)
	}
	if fastest.first > 0 {
		if why != "" {
			why = ", then " + why
		}
		why = "needs " + span(fastest.first) + " to give up" + why
	}
	return fmt.Sprintf("%s, because %s, the fastest child, %s. A period of %s, a shorter backoff or a smaller intensity would do", text,
		fastest.name, why, span(needed))
}

// delays lists the first delays of a restart in a row.
func delays(r *tree.Restart, n int) string {
	var list []string
	for k := 1; k <= min(n, 4); k++ {
		list = append(list, span(delay(r, k, r.Limit > 0 && k >= r.Limit)))
	}
	if n > 4 {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// quick is the least time for a number of restarts: from the start of the supervisor to the last of them, and from the
// first of them to the last in the best of windows.
type quick struct{ first, within time.Duration }

// soonest finds out how fast children can end n times in all. It never says too much: real ones are slower.
func soonest(kids []pace, n int) (quick, bool) {
	able := 0
	var q quick
	for i := range kids {
		if kids[i].never == "" && kids[i].r.PolicyOr() != tree.Temporary && !(kids[i].r.PolicyOr() == tree.Transient && kids[i].first > 0) {
			able++
		}
	}
	if able == 0 {
		return q, false
	}
	q.within = earliest(func(t time.Duration) bool { return reached(kids, n, t, false) })
	q.first = earliest(func(t time.Duration) bool { return reached(kids, n, t, true) })
	return q, q.within < tree.Forever/8
}

// earliest is the least time for which something holds that goes on holding.
func earliest(holds func(time.Duration) bool) time.Duration {
	i := sort.Search(62, func(i int) bool { return holds(time.Duration(1)<<i - 1) })
	if i == 0 {
		return 0
	}
	if i >= 61 {
		return tree.Forever / 8
	}
	low, high := time.Duration(1)<<(i-1)-1, time.Duration(1)<<i-1
	return low + time.Duration(sort.Search(int(high-low), func(d int) bool { return holds(low + time.Duration(d)) }))
}

// reached tells whether children can end n times within t: in any window, or in the first after their start.
func reached(kids []pace, n int, t time.Duration, fromStart bool) bool {
	for i := range kids {
		k := &kids[i]
		if k.never != "" || k.r.PolicyOr() == tree.Temporary || k.r.PolicyOr() == tree.Transient && k.first > 0 {
			continue
		}
		left := t
		if fromStart {
			left -= k.first
		}
		if left < 0 {
			continue
		}
		n -= 1 + sort.Search(n, func(gaps int) bool { return k.gaps(gaps+1) > left })
		if n <= 0 {
			return true
		}
	}
	return false
}

// gaps is the least time between the first of n+1 ends and the last. The delays grow in a row; being up for ResetAfter
// begins a new row. However many rows there are, it is best if they are of like length.
func (k *pace) gaps(n int) time.Duration {
	if n > 64 { // less sharp, still true
		return time.Duration(min(float64(n)*float64(delay(k.r, 1, false)+k.first), float64(tree.Forever/4)))
	}
	best := float64(tree.Forever / 4)
	wait := max(k.r.ResetAfter-k.first, 0)
	for rows := 1; rows <= n; rows++ {
		length, longer := n/rows, n%rows
		t := float64(wait)*float64(rows-1) + float64(longer)*k.row(length+1) + float64(rows-longer)*k.row(length)
		best = min(best, t+float64(k.first)*float64(n))
	}
	return time.Duration(best)
}

// row is the sum of the first n delays in a row.
func (k *pace) row(n int) float64 {
	sum, slow := 0.0, false
	for i := 1; i <= n; i++ {
		if i == k.r.Limit {
			slow = k.r.OnLimit != tree.OnLimitStop && (k.r.Within <= 0 || sum+float64(k.first)*float64(i-1) <= float64(k.r.Within))
		}
		sum += float64(delay(k.r, i, slow))
	}
	return sum
}
