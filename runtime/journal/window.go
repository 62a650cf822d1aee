package journal

import (
	"sort"

	"github.com/coppice-run/coppice/tree"
)

// window keeps the newest events within two bounds, side by side in memory. It grows as events come, so that a small tree
// costs little.
type window struct {
	count int
	bytes int64

	events []tree.Event // those before head are dropped
	head   int
	used   int64
}

// all are the kept events, oldest first. They are valid until the next push.
func (w *window) all() []tree.Event { return w.events[w.head:] }

// from are the kept events whose number is seq or later. Numbers have no gaps but may start anywhere.
func (w *window) from(seq tree.Seq) []tree.Event {
	all := w.all()
	return all[sort.Search(len(all), func(i int) bool { return all[i].Seq >= seq }):]
}

// oldest is the number of the oldest kept event, 0 without one.
func (w *window) oldest() tree.Seq {
	if w.head == len(w.events) {
		return 0
	}
	return w.events[w.head].Seq
}

func (w *window) push(ev tree.Event) {
	size := sizeOf(&ev)
	for n := len(w.events) - w.head; n > 0 && (n >= w.count || w.used+size > w.bytes); n-- {
		w.used -= sizeOf(&w.events[w.head])
		w.events[w.head] = tree.Event{}
		w.head++
	}
	if w.head > 64 && w.head > len(w.events)/2 {
		n := copy(w.events, w.all())
		clear(w.events[n:])
		w.events, w.head = w.events[:n], 0
	}
	w.events = append(w.events, ev)
	w.used += size
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
