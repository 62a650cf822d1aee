package sim

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// event is something that is due: a fact for a node, or anything else.
type event struct {
	at   time.Duration
	n    uint64
	node *Node
	fact tree.Fact
	do   func()
}

// clock is the virtual time and what is due. What is due at the same moment happens in the order of its scheduling. Most
// of it is due at once, so that has a line of its own and does not go through the heap.
type clock struct {
	now   time.Duration
	count uint64
	later []event // a heap by time, then number
	line  []event // due now, in order
	head  int
}

func (c *clock) schedule(d time.Duration, e event) {
	c.count++
	e.n, e.at = c.count, c.now+d
	if d <= 0 {
		e.at = c.now
		c.line = append(c.line, e)
		return
	}
	if e.at < c.now {
		return // beyond the end of time: a delay of for ever
	}
	c.later = append(c.later, e)
	c.rise(len(c.later) - 1)
}

// next takes out what comes first, if it is due until then, and moves the time to it.
func (c *clock) next(until time.Duration) (event, bool) {
	queued := c.head < len(c.line)
	if queued && (len(c.later) == 0 || c.later[0].at > c.now) { // else that was scheduled before all in the line
		e := c.line[c.head]
		c.line[c.head] = event{}
		c.head++
		if c.head == len(c.line) {
			c.line, c.head = c.line[:0], 0
		}
		return e, true
	}
	if len(c.later) == 0 || c.later[0].at > until {
		return event{}, false
	}
	e := c.later[0]
	last := len(c.later) - 1
	c.later[0] = c.later[last]
	c.later[last] = event{}
	c.later = c.later[:last]
	c.sink(0)
	c.now = e.at
	return e, true
}

func (c *clock) before(i, j int) bool {
	a, b := &c.later[i], &c.later[j]
	return a.at < b.at || a.at == b.at && a.n < b.n
}

func (c *clock) rise(i int) {
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(i, up) {
			return
		}
		c.later[i], c.later[up] = c.later[up], c.later[i]
		i = up
	}
}

func (c *clock) sink(i int) {
	for {
		kid := 2*i + 1
		if kid >= len(c.later) {
			return
		}
		if kid+1 < len(c.later) && c.before(kid+1, kid) {
			kid++
		}
		if !c.before(kid, i) {
			return
		}
		c.later[i], c.later[kid] = c.later[kid], c.later[i]
		i = kid
	}
}
