package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

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

// rounds is how often a survey is repeated while what it looks at is moving.
const rounds = 20

// members looks for everything alive that belongs to the worker. /proc is no snapshot: a process may die after it was
// listed, and its children come to us when our list is read already. So whenever one was met dead that was not known to be
// so, or one that is just executing and shows no environment, everything is looked at again.
func (p *Process) members() []member {
	p.mu.Lock()
	over, known := p.over, p.known
	p.mu.Unlock()
	if over {
		return nil
	}
	found := survey{table: p.table, dead: make(map[int]bool)}
	for range rounds {
		found.begin()
		p.look(&found, known)
		if found.executing {
			<-time.After(time.Millisecond)
		} else if !found.moving {
			break
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

// look is one round of members.
func (p *Process) look(found *survey, known map[int]uint64) {
	p.mu.Lock()
	reaped := p.reaped
	p.mu.Unlock()
	// Only who may move processes between cgroups can leave one. While it tells of the worker nothing else needs to be read.
	if p.contained {
		if pids, err := p.group.Procs(); err == nil {
			if !reaped {
				found.one(p.pid)
			}
			for _, pid := range pids {
				found.one(pid)
			}
			if len(found.members) > 0 || !p.signalGroup(0) {
				return
			}
		}
	}
	if !reaped {
		found.walk(p.pid)
	}
	if p.group != nil {
		pids, _ := p.group.Procs()
		for _, pid := range pids {
			found.one(pid)
		}
	}
	if reaped && !p.table.adopts() && !p.signalGroup(0) {
		return // nothing of the group is left, and orphans of other sessions went elsewhere: no reason to read all of /proc
	}
	for _, pid := range p.table.orphans() {
		if pid == p.pid || found.seen[pid] {
			continue
		}
		s, err := readStat(pid)
		if err != nil || s.dead() {
			found.died(pid)
			continue
		}
		switch p.claims(pid, &s, known) {
		case yes:
			found.walk(pid)
		case executing:
			found.executing = true
		}
	}
}

// claim is whether an orphan is a worker's.
type claim int

const (
	no claim = iota
	yes
	executing // it cannot be told now: the process is between two programs
)

// claims tells whether an orphan is this worker's: by session or group, by having been seen among its processes before,
// or by the marks in its environment.
func (p *Process) claims(pid int, s *stat, known map[int]uint64) claim {
	if s.session == p.pid || s.pgrp == p.pid {
		// The number stays ours as long as one of the session lives; a process of the table that has it now says
		// that none does.
		if owner := p.table.owner(p.pid); owner == nil || owner == p {
			return yes
		}
		return no
	}
	if started, ok := known[pid]; ok && started == s.started {
		return yes
	}
	if len(p.marks) == 0 || !p.sameUser(pid) {
		return no
	}
	return carries(pid, p.marks)
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
		if p.table.owner(pid) == nil && p.claims(pid, &s, known) == yes {
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

// survey collects members, each once.
type survey struct {
	table   *Table
	seen    map[int]bool
	members []member

	dead      map[int]bool // met in this round or one before
	moving    bool         // one was met dead for the first time
	executing bool         // one could not be told, since it was executing
}

func (v *survey) begin() {
	v.seen, v.members, v.moving, v.executing = make(map[int]bool), nil, false, false
}

// died notes one that is dead or has vanished. Its children were given away before it looked dead, so a second sight
// of it says nothing new.
func (v *survey) died(pid int) {
	if !v.dead[pid] {
		v.dead[pid], v.moving = true, true
	}
}

// one takes a living process in, and tells whether its children are worth a look.
func (v *survey) one(pid int) bool {
	if pid <= 0 || v.seen[pid] {
		return false
	}
	v.seen[pid] = true
	s, err := readStat(pid)
	if err != nil || s.dead() {
		v.died(pid)
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

// adopts tells whether orphans come to this program.
func (t *Table) adopts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subreaper || os.Getpid() == 1
}

// orphans lists the processes that may have lost their parents: this program's children that it did not start, or, where
// orphans go elsewhere, every process there is.
func (t *Table) orphans() []int {
	var pids []int
	if t.adopts() {
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
	// One by one first: those that the cgroup's KILL has ended already could not be counted.
	reached, _ := p.send(members, unix.SIGKILL)
	if p.group != nil {
		p.group.Kill()
	}
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
