package journal

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// step is what the wall clock may run apart from the monotonic one without anybody having set it.
const step = time.Second

// steady tells the moment t in the wall clock of now, whatever became of that clock in between: who subtracts the two gets
// the time that really passed, and no uptime jumps. While nobody sets the clock it returns t as it is.
func steady(now, t time.Time) time.Time {
	return stepped(now, t, now.Sub(t))
}

// stepped is steady, told how far apart the two moments are by the monotonic clock.
func stepped(now, t time.Time, apart time.Duration) time.Time {
	wall := now.Round(0).Sub(t.Round(0))
	if t.IsZero() || (wall-apart).Abs() < step {
		return t
	}
	return now.Add(-apart)
}

// steadied puts all times of a node into the wall clock of now. What it changes is not shared with the board.
func steadied(now time.Time, n tree.Node) tree.Node {
	n.Since = steady(now, n.Since)
	if n.NextAt != nil {
		at := steady(now, *n.NextAt)
		n.NextAt = &at
	}
	if n.Leaf == nil {
		return n
	}
	if n.LastExit != nil {
		last := *n.LastExit
		last.At = steady(now, last.At)
		n.LastExit = &last
	}
	if n.Health != nil {
		pulse := *n.Health
		pulse.At = steady(now, pulse.At)
		n.Health = &pulse
	}
	return n
}
