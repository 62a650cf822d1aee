package process

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Table knows every process that this program has started and not yet reaped, which is what tells its own children
// from orphans that came to it. There must be only one in a program that calls Reap. All methods may be called from any
// goroutine.
type Table struct {
	self Self

	mu        sync.Mutex
	owned     map[int]*Process // by pid, from the fork until the leader is reaped
	inFlight  int              // starts that have forked, or are about to, and are not in owned yet
	subreaper bool
	poke      chan struct{} // one buffered wake-up for Reap
}

// NewTable makes the table of this program. Self is what Shim returned at the start of main; the zero Self makes a
// table whose commands can have neither rlimits nor listeners nor a cgroup that has to be entered.
func NewTable(self Self) *Table {
	return &Table{self: self, owned: make(map[int]*Process), poke: make(chan struct{}, 1)}
}

// Subreaper makes orphaned descendants of this program's children become its own children, so that they are found and
// reaped. Without it, and not being PID 1, a helper that leaves its worker's session is found only while its parents
// live. Whoever calls it runs Reap too.
func (t *Table) Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become a child subreaper: %w", err)
	}
	t.mu.Lock()
	t.subreaper = true
	t.mu.Unlock()
	return nil
}

// owner is the process that has this pid now, or nil.
func (t *Table) owner(pid int) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owned[pid]
}

// expect announces a fork: until it is settled, an unknown child may be ours.
func (t *Table) expect() {
	t.mu.Lock()
	t.inFlight++
	t.mu.Unlock()
}

// settle ends what expect announced, with the process that came of it or nil.
func (t *Table) settle(p *Process) {
	t.mu.Lock()
	t.inFlight--
	if p != nil {
		t.owned[p.pid] = p
	}
	last := t.inFlight == 0
	t.mu.Unlock()
	if last {
		t.wakeReaper()
	}
}

// forget takes a reaped process out; its pid may be another's already.
func (t *Table) forget(p *Process) {
	t.mu.Lock()
	if t.owned[p.pid] == p {
		delete(t.owned, p.pid)
	}
	t.mu.Unlock()
}

func (t *Table) wakeReaper() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}
