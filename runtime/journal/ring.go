package journal

import (
	"sort"

	"github.com/coppice-run/coppice/tree"
)

// ring keeps the newest events within two bounds. It grows as events come, so that a small tree costs little.
type ring struct {
	count int
	bytes int64

	events []tree.Event
	head   int // of the oldest
	n      int
	used   int64
}

func (r *ring) len() int { return r.n }

// at is the i-th oldest.
func (r *ring) at(i int) *tree.Event { return &r.events[(r.head+i)%len(r.events)] }

// find is the position of the first event whose number is seq or later. Numbers have no gaps but may start anywhere.
func (r *ring) find(seq tree.Seq) int {
	return sort.Search(r.n, func(i int) bool { return r.at(i).Seq >= seq })
}

func (r *ring) push(ev tree.Event) {
	size := sizeOf(&ev)
	for r.n > 0 && (r.n >= r.count || r.used+size > r.bytes) {
		r.drop()
	}
	if r.n == len(r.events) {
		r.grow()
	}
	r.events[(r.head+r.n)%len(r.events)] = ev
	r.n++
	r.used += size
}

func (r *ring) drop() {
	old := r.at(0)
	r.used -= sizeOf(old)
	*old = tree.Event{}
	r.head = (r.head + 1) % len(r.events)
	r.n--
}

func (r *ring) grow() {
	bigger := make([]tree.Event, min(max(2*len(r.events), 64), r.count))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.events, r.head = bigger, 0
}

// sizeOf estimates what an event costs; only the sum matters.
func sizeOf(ev *tree.Event) int64 {
	const fixed, entry = 128, 64
	size := int64(fixed + len(ev.Path) + len(ev.Reason))
	for key, value := range ev.Data {
		size += int64(entry + len(key))
		if text, ok := value.(string); ok {
			size += int64(len(text))
		}
	}
	return size
}
