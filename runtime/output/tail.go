package output

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// Query says which lines are wanted.
type Query struct {
	// Paths are whole-segment prefixes: a worker, a pool ("acme/shop/web" for "acme/shop/web.0"), or a node above. None:
	// all workers.
	Paths []string
	Last  int       // at most so many lines, the newest; 0 or less: none; never more than MaxTail
	Since time.Time // not older than this
	// Incarnation, if not 0, leaves out the lines of others.
	Incarnation int
}

// MaxTail is the most lines that one answer has, however many are asked for.
const MaxTail = 100_000

func (q Query) match(path string) bool {
	if len(q.Paths) == 0 {
		return true
	}
	for _, p := range q.Paths {
		if p == "" {
			return true
		}
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/' || rest[0] == '.') {
			return true
		}
	}
	return false
}

// Tail returns the last lines in memory, oldest first, merged by time. It reads from the newest ends of the rings and no
// further than the answer needs. It blocks nobody.
func (h *Hub) Tail(q Query) []Line {
	if q.Last <= 0 {
		return nil
	}
	h.mu.Lock()
	sources := h.matching(q)
	h.mu.Unlock()
	cursors := make([]*cursor, 0, len(sources))
	for _, s := range sources {
		if c := s.cursor(); c != nil {
			cursors = append(cursors, c)
		}
	}
	return merge(cursors, q)
}

// newest is a heap with the newest line on top. Of equal times the path decides, so that the order is always the same.
type newest []*cursor

func (n newest) Len() int { return len(n) }
func (n newest) Less(i, j int) bool {
	a, b := &n[i].line, &n[j].line
	if !a.Time.Equal(b.Time) {
		return a.Time.After(b.Time)
	}
	return a.Path > b.Path
}
func (n newest) Swap(i, j int) { n[i], n[j] = n[j], n[i] }
func (n *newest) Push(x any)   { *n = append(*n, x.(*cursor)) }
func (n *newest) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}

// merge takes the newest q.Last lines of the cursors and puts them in order.
func merge(cursors []*cursor, q Query) []Line {
	want := min(q.Last, MaxTail)
	var n newest
	var lines []Line
	if want <= 0 {
		return nil
	}
	for _, c := range cursors {
		if c.older(q) {
			n = append(n, c)
		}
	}
	heap.Init(&n)
	for len(n) > 0 && len(lines) < want {
		lines = append(lines, n[0].line)
		if n[0].older(q) {
			heap.Fix(&n, 0)
		} else {
			heap.Pop(&n)
		}
	}
	slices.Reverse(lines)
	return lines
}

// older moves to the next older line that the query wants.
func (c *cursor) older(q Query) bool {
	for c.next() {
		if !q.since(c.line.Time) {
			return false
		}
		if q.Incarnation == 0 || c.line.Incarnation == q.Incarnation {
			return true
		}
	}
	return false
}
