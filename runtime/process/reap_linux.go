package process

import (
	"context"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reap takes away the dead among the orphans that came to this program, until the context ends. SIGCHLD only wakes it.
// It never takes the status of a process of this table from its owner, nor that of a child which another package has
// started inside this program's own session; a package that starts children in sessions of their own must not be used
// beside it.
func (t *Table) Reap(ctx context.Context) {
	wake := make(chan os.Signal, 1)
	signal.Notify(wake, unix.SIGCHLD)
	defer signal.Stop(wake)
	for {
		t.reapOrphans()
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-t.poke:
		}
	}
}

// reapOrphans takes every dead orphan that it may take now. Those that it must leave, because they may be a start's that
// is under way, are looked at again when the last such start has settled.
func (t *Table) reapOrphans() {
	session, _ := unix.Getsid(0)
	for {
		pid := peekZombie()
		if pid == 0 {
			return
		}
		if !t.reapOne(pid, session) {
			break
		}
	}
	// The first zombie is one that we must leave, and the kernel shows no other behind it: walk the list instead.
	for _, pid := range adopted() {
		t.reapOne(pid, session)
	}
}

// reapOne tells whether the zombie called pid is out of the way now.
func (t *Table) reapOne(pid, session int) bool {
	if p := t.owner(pid); p != nil {
		return p.collect()
	}
	sid, err := unix.Getsid(pid)
	if err != nil {
		return false
	}
	if sid == session {
		return false // a child of this program's own session: whoever started it waits for it
	}
	if sid == pid && !t.settled(pid) {
		return false
	}
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid && err == nil
}

// settled tells that no start is under way that the unknown child could belong to.
func (t *Table) settled(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inFlight == 0 && t.owned[pid] == nil
}

// peekZombie is the pid of one dead child, left as it is, or 0.
func peekZombie() int {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0
		}
		return siginfoPID(&info)
	}
}

// siginfoPID reads si_pid, which x/sys hides: the first field of the union, which is aligned as a pointer is.
func siginfoPID(info *unix.Siginfo) int {
	const header = 3 * 4
	offset := (header + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}
