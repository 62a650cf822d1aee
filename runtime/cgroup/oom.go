package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OOM returns how many of the leaf's processes the kernel killed because memory ran out, its own limit's or one above it,
// up to the host's. A leaf that no memory limit binds is not counted and gives 0. After an incarnation ended by KILL it
// tells whether that was the kernel's doing or somebody's signal. To be asked before Remove.
//
// In v2 one such kill takes the whole leaf. In v1 it takes one process, and the rest is the caller's: [Leaf.AwaitOOM].
func (l *Leaf) OOM() (killed int) {
	if l.memory == "" {
		return 0
	}
	if !l.memory2 {
		killed, _ = entry(l.memory, "memory.oom_control", "oom_kill")
		return killed
	}
	// Local, because a limit that the worker set on a group below its own is the worker's affair.
	killed, err := entry(l.memory, "memory.events.local", "oom_kill")
	if err != nil {
		killed, _ = entry(l.memory, "memory.events", "oom_kill")
		return killed
	}
	if killed > 0 {
		return killed
	}
	if groups, _ := entry(l.memory, "memory.events.local", "oom_group_kill"); groups > 0 {
		killed, _ = entry(l.memory, "memory.events", "oom_kill")
		return max(killed, 1)
	}
	return 0
}

// oomPoll is how often AwaitOOM looks. v1's own notification comes before the kill and is deprecated; one read of a small
// file four times a second, for workers with a memory limit on such hosts only, is cheaper than its pitfalls.
const oomPoll = 250 * time.Millisecond

// AwaitOOM returns nil once the kernel has killed one process of the leaf for memory and the rest of it lives on, which
// happens in v1 only: the caller then kills the leaf. It blocks until then or until ctx ends, whose cause it returns.
func (l *Leaf) AwaitOOM(ctx context.Context) error {
	if l.memory == "" || l.memory2 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	tick := time.NewTicker(oomPoll)
	defer tick.Stop()
	for {
		if l.OOM() > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Memory is what the leaf's memory accounting says, in bytes.
type Memory struct {
	Peak  int64 // the most that was in use at once, page cache included
	Now   int64
	Limit int64 // the leaf's own; 0: none
}

// Memory returns what the leaf uses and used; false where its memory is not counted, because no memory limit binds it, or
// because it is removed. Peak is 0 on kernels that do not keep it (v2 before 5.19).
func (l *Leaf) Memory() (Memory, bool) {
	if l.memory == "" {
		return Memory{}, false
	}
	now, peak, limit := "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes"
	if l.memory2 {
		now, peak, limit = "memory.current", "memory.peak", "memory.max"
	}
	var m Memory
	var err error
	if m.Now, err = number(l.memory, now); err != nil {
		return Memory{}, false
	}
	m.Peak, _ = number(l.memory, peak)
	m.Limit = bound(l.memory, limit)
	return m, true
}

// bound reads a limit; v2 writes "max" and v1 a number near the largest where there is none.
func bound(dir, file string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n >= 1<<62 {
		return 0
	}
	return n
}

// CPU returns the processor time that the leaf used, and for how long its processes were held back by a limit; false
// where neither is counted.
func (l *Leaf) CPU() (used, held time.Duration, ok bool) {
	for _, dir := range append([]string{l.v2}, l.v1...) {
		if dir == "" {
			continue
		}
		if n, err := entry(dir, "cpu.stat", "usage_usec"); err == nil && n > 0 {
			used, ok = time.Duration(n)*time.Microsecond, true
		}
		if n, err := entry(dir, "cpu.stat", "throttled_usec"); err == nil && n > 0 {
			held, ok = time.Duration(n)*time.Microsecond, true
		}
		if n, err := entry(dir, "cpu.stat", "throttled_time"); err == nil && n > 0 {
			held, ok = time.Duration(n), true
		}
	}
	return used, held, ok
}
