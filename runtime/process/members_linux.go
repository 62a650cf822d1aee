package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// member is one living process of a worker. Pid and start time together name it for ever.
type member struct {
	pid, pgrp int
	started   uint64
	stopped   bool // by a stop signal
}

// open takes a pidfd on the member, which can be read once it has ended. It fails if the pid is somebody else's by now.
func (m member) open() (*os.File, error) {
	fd, err := unix.PidfdOpen(m.pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if s, err := readStat(m.pid); err != nil || s.started != m.started {
		unix.Close(fd)
		return nil, unix.ESRCH
	}
	return os.NewFile(uintptr(fd), "pidfd:"+strconv.Itoa(m.pid)), nil
}

// signal sends one signal to this member and nobody else.
func (m member) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s, err := readStat(m.pid); err != nil || s.started != m.started || s.dead() {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// ended tells whether the process of a pidfd has ended.
func ended(pidfd *os.File) bool {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		over = n > 0 || (err != nil && err != unix.EINTR)
	})
	return over
}

// Members lists the pids of the worker's processes that run now, the leader first while it runs. It reads /proc, some
// ten microseconds a process.
func (p *Process) Members() []int {
	var pids []int
	for _, m := range p.members() {
		pids = append(pids, m.pid)
	}
	return pids
}

// members looks for everything alive that belongs to the worker.
func (p *Process) members() []member {
	p.mu.Lock()
	reaped, over, known := p.reaped, p.over, p.known
	p.mu.Unlock()
	if over {
		return nil
	}
	found := survey{table: p.table, seen: make(map[int]bool)}
	if !reaped {
		found.walk(p.pid)
	}
	if p.group != nil {
		pids, _ := p.group.Procs()
		for _, pid := range pids {
			found.one(pid)
		}
	}
	for _, pid := range p.table.orphans() {
		if found.seen[pid] || pid == p.pid {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.dead() && p.claims(pid, &s, known) {
			found.walk(pid)
		}
	}
	p.mu.Lock()
	p.known = make(map[int]uint64, len(found.members))
	for _, m := range found.members {
		p.known[m.pid] = m.started
	}
	p.mu.Unlock()
	return found.members
}

// claims tells whether an orphan is this worker's: by session or group, by having been seen among its processes before,
// or by the marks in its environment.
func (p *Process) claims(pid int, s *stat, known map[int]uint64) bool {
	if s.session == p.pid || s.pgrp == p.pid {
		// The number stays ours as long as one of the session lives; a process of the table that has it now says
		// that none does.
		owner := p.table.owner(p.pid)
		return owner == nil || owner == p
	}
	if started, ok := known[pid]; ok && started == s.started {
		return true
	}
	return p.sameUser(pid) && carries(pid, p.marks)
}

// sameUser tells whether a process runs as the worker's user or as root: nobody else's word about whose it is counts.
func (p *Process) sameUser(pid int) bool {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return false
	}
	return st.Uid == p.uid || st.Uid == 0
}

// Owns tells whether pid is one of the worker's own processes: for a message that carries its sender's credentials. It
// is false for a process that is reaped already. It looks at pid and its parents, not at all members.
func (p *Process) Owns(pid int) bool {
	p.mu.Lock()
	over, known := p.over, p.known
	p.mu.Unlock()
	if over || pid <= 0 {
		return false
	}
	sender := pid
	for range 64 { // a bound on the ancestors looked at
		if pid == p.pid {
			return p.table.owner(pid) == p
		}
		s, err := readStat(pid)
		if err != nil {
			return false
		}
		if p.table.owner(pid) == nil && p.claims(pid, &s, known) {
			return true
		}
		if s.ppid <= 1 || s.ppid == os.Getpid() {
			break
		}
		pid = s.ppid
	}
	if p.group == nil {
		return false
	}
	pids, _ := p.group.Procs()
	return slices.Contains(pids, sender)
}

// survey collects members, each once, and never a process that the table knows as another worker's leader.
type survey struct {
	table   *Table
	seen    map[int]bool
	members []member
}

// one takes a living process in, and tells whether its children are worth a look.
func (v *survey) one(pid int) bool {
	if pid <= 0 || v.seen[pid] {
		return false
	}
	v.seen[pid] = true
	s, err := readStat(pid)
	if err != nil || s.dead() {
		return false
	}
	v.members = append(v.members, member{pid: pid, pgrp: s.pgrp, started: s.started, stopped: s.state == 'T'})
	return true
}

// walk takes a process in and all that descends from it. A dead one has no children: they are orphans already.
func (v *survey) walk(pid int) {
	if !v.one(pid) {
		return
	}
	for _, child := range childrenOf(pid) {
		v.walk(child)
	}
}

// orphans lists the processes that may have lost their parents: this program's children that it did not start, or, where
// orphans go elsewhere, every process there is.
func (t *Table) orphans() []int {
	t.mu.Lock()
	ours := t.subreaper || os.Getpid() == 1
	t.mu.Unlock()
	var pids []int
	if ours {
		pids = adopted()
	} else {
		pids = numbersIn("/proc")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(pids, func(pid int) bool { return t.owned[pid] != nil })
}

// Signal sends a signal, "TERM" or "SIGTERM" or "RTMIN+3", to the worker's process group and to everything else of it, and
// CONT after it to those that are stopped, so that they see it. It returns how many processes were reached; the error
// is about the first that was not.
func (p *Process) Signal(name string) (int, error) {
	sig, err := signalNumber(name)
	if err != nil {
		return 0, err
	}
	members := p.members()
	reached, err := p.send(members, sig)
	if sig != unix.SIGKILL && sig != unix.SIGSTOP && sig != unix.SIGTSTP && sig != unix.SIGCONT {
		for _, m := range members {
			if m.stopped {
				m.signal(unix.SIGCONT)
			}
		}
	}
	return len(reached), err
}

// sweep sends KILL to the members and whatever else is in their group and cgroup by now.
func (p *Process) sweep(members []member) {
	if p.group != nil {
		p.group.Kill()
	}
	reached, _ := p.send(members, unix.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == nil {
		p.killed = make(map[int]uint64)
	}
	for _, m := range reached {
		p.killed[m.pid] = m.started
	}
}

// send signals the process group as one, so that nothing forked in between is missed, and all others one by one.
func (p *Process) send(members []member, sig unix.Signal) (reached []member, err error) {
	grouped := false
	if slices.ContainsFunc(members, func(m member) bool { return m.pgrp == p.pid }) {
		grouped = p.signalGroup(sig)
	}
	for _, m := range members {
		if grouped && m.pgrp == p.pid {
			reached = append(reached, m)
			continue
		}
		switch e := m.signal(sig); {
		case e == nil:
			reached = append(reached, m)
		case e != unix.ESRCH && err == nil:
			err = fmt.Errorf("cannot send %s to process %d: %w", signalName(sig), m.pid, e)
		}
	}
	return reached, err
}

// signalGroup signals the process group through the leader's pidfd, which names it even after the leader is reaped and
// can never mean a stranger. Before Linux 6.9 it does so by number, only while the leader is not reaped.
func (p *Process) signalGroup(sig unix.Signal) bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	err = unix.ESRCH
	conn.Control(func(fd uintptr) {
		err = unix.PidfdSendSignal(int(fd), sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
	if err != unix.EINVAL {
		return err == nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reaped && unix.Kill(-p.pid, sig) == nil
}
