package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// StopLeftovers ends what still runs of the traces: everything is asked to stop by its own signal, and after grace KILL is
// sent until nothing is left. It blocks for at most grace and five seconds more, less where ctx ends the grace, and returns
// what became of each trace, in their order. Call it before anything is started.
//
// A process is signalled only if it is proven to be a trace's: the leader by pid and start time; its session and group while
// their number is the leader's still; what is in its cgroup; what has marks that nobody else can have, or the marks and
// the trace's pipes; and all that descends from these. This program itself and what it descends from are never signalled.
func StopLeftovers(ctx context.Context, traces []Trace, grace time.Duration) []Remains {
	l := &leftovers{traces: traces, remains: make([]Remains, len(traces)), since: make(map[int]uint64)}
	l.spare()
	found := l.survey()
	l.note(found)
	if ctx.Err() == nil && grace > 0 {
		for i, members := range found {
			l.ask(i, members)
		}
		deadline, cancel := context.WithTimeout(ctx, grace)
		awaitAll(deadline, found)
		cancel()
		found = l.survey()
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	for ; count(found) > 0 && deadline.Err() == nil; found = l.survey() {
		l.note(found)
		for i, members := range found {
			l.kill(i, members)
		}
		awaitAll(deadline, found)
	}
	for i, members := range found {
		for _, m := range members {
			l.remains[i].Left = append(l.remains[i].Left, m.pid)
		}
	}
	return l.remains
}

// leftovers is one run of StopLeftovers.
type leftovers struct {
	traces  []Trace
	remains []Remains
	self    map[int]bool   // this program and its ancestors
	since   map[int]uint64 // all that was found: pid and start time
}

// spare notes whom no signal may reach, whatever a record says: the next daemon may have been started from a shell that is
// a leftover itself.
func (l *leftovers) spare() {
	l.self = map[int]bool{0: true, 1: true, 2: true}
	for pid := os.Getpid(); pid > 1 && !l.self[pid]; {
		l.self[pid] = true
		s, err := readStat(pid)
		if err != nil {
			return
		}
		pid = s.ppid
	}
}

func count(found [][]member) int {
	n := 0
	for _, members := range found {
		n += len(members)
	}
	return n
}

// note adds what was found to the report.
func (l *leftovers) note(found [][]member) {
	for i, members := range found {
		for _, m := range members {
			if started, known := l.since[m.pid]; !known || started != m.started {
				l.since[m.pid] = m.started
				l.remains[i].Found = append(l.remains[i].Found, m.pid)
			}
		}
	}
}

// ask sends the trace's own signal, and CONT after it to those that are stopped, so that they see it.
func (l *leftovers) ask(i int, members []member) {
	sig, err := signalNumber(l.traces[i].Signal)
	if err != nil {
		return
	}
	for _, m := range members {
		m.signal(sig)
		if m.stopped {
			m.signal(unix.SIGCONT)
		}
	}
}

// kill sends KILL. The cgroup is killed as one, so that it cannot outrun us by forking, unless this program is in it.
func (l *leftovers) kill(i int, members []member) {
	if group := l.traces[i].Group; group != nil && len(members) > 0 {
		pids, err := group.Procs()
		if err == nil && !slices.ContainsFunc(pids, func(pid int) bool { return l.self[pid] }) {
			group.Kill()
		}
	}
	for _, m := range members {
		if m.signal(unix.SIGKILL) == nil && !slices.Contains(l.remains[i].Killed, m.pid) {
			l.remains[i].Killed = append(l.remains[i].Killed, m.pid)
		}
	}
}

// awaitAll waits until all have ended, or ctx ends.
func awaitAll(ctx context.Context, found [][]member) {
	for _, members := range found {
		for _, m := range members {
			file, err := m.open()
			if err != nil {
				continue // it has ended
			}
			awaitEnd(ctx, file)
			file.Close()
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// awaitEnd parks in the network poller until the process of a pidfd has ended or ctx ends.
func awaitEnd(ctx context.Context, pidfd *os.File) {
	stop := context.AfterFunc(ctx, func() { pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if conn, err := pidfd.SyscallConn(); err == nil {
		conn.Read(func(uintptr) bool { return ended(pidfd) })
	}
}

// world is every process as one look at /proc found it.
type world struct {
	stats    map[int]stat
	children map[int][]int
}

func lookAround() *world {
	w := &world{stats: make(map[int]stat), children: make(map[int][]int)}
	for _, pid := range numbersIn("/proc") {
		if s, err := readStat(pid); err == nil {
			w.stats[pid] = s
			w.children[s.ppid] = append(w.children[s.ppid], pid)
		}
	}
	return w
}

// survey looks for everything alive that is proven to be a trace's. It looks again while a process could not be told
// because it was just executing.
func (l *leftovers) survey() [][]member {
	if len(l.traces) == 0 {
		return nil
	}
	for range rounds {
		found, executing := l.look()
		if !executing {
			return found
		}
		<-time.After(time.Millisecond)
	}
	found, _ := l.look()
	return found
}

// look is one round of survey.
func (l *leftovers) look() (found [][]member, executing bool) {
	w := lookAround()
	found = make([][]member, len(l.traces))
	taken := make(map[int]bool)
	var take func(i, pid int)
	take = func(i, pid int) {
		if taken[pid] {
			return
		}
		taken[pid] = true
		s, there := w.stats[pid]
		if !there || pid == os.Getpid() {
			return
		}
		switch {
		case l.self[pid]:
			l.doubt(i, pid, "this daemon runs below it")
		case !s.dead():
			found[i] = append(found[i], member{pid: pid, pgrp: s.pgrp, started: s.started, stopped: s.state == 'T'})
		}
		for _, child := range w.children[pid] {
			take(i, child)
		}
	}
	for i := range l.traces {
		l.byNumber(w, i, take)
		if group := l.traces[i].Group; group != nil {
			pids, _ := group.Procs()
			for _, pid := range pids {
				take(i, pid)
			}
		}
	}
	// What was proven once stays so, wherever it went since.
	for i := range l.remains {
		for _, pid := range l.remains[i].Found {
			if s, there := w.stats[pid]; there && s.started == l.since[pid] {
				take(i, pid)
			}
		}
	}
	return found, l.byMarks(w, taken, take)
}

// byNumber takes the leader, and who is in its session or group.
func (l *leftovers) byNumber(w *world, i int, take func(i, pid int)) {
	t := &l.traces[i]
	if t.PID <= 1 || t.Started == 0 {
		return
	}
	holder, held := w.stats[t.PID]
	ours := held && holder.started == t.Started
	if ours {
		take(i, t.PID)
	}
	if held && !ours {
		return // a stranger has the number, and so has its session
	}
	for pid, s := range w.stats {
		if pid == t.PID || (s.session != t.PID && s.pgrp != t.PID) || s.dead() {
			continue
		}
		switch {
		// Without the leader the number may have been a stranger's, who is dead too: the marks tell.
		case ours || carries(pid, t.Marks) == yes && l.mayBe(t, pid, &s):
			take(i, pid)
		case s.started >= t.Started:
			l.doubt(i, pid, "it is in the session of a process that is dead, and nothing else says whose it is")
		}
	}
}

// mayBe tells whether a process can be a trace's at all: of its user or root, and no older.
func (l *leftovers) mayBe(t *Trace, pid int, s *stat) bool {
	var st unix.Stat_t
	if l.self[pid] || s.started < t.Started || unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return false
	}
	return st.Uid == t.UID || st.Uid == 0
}

// byMarks takes those that left session and parents behind, and tells whether one could not be told yet. Marks that
// another daemon's process may have too are no proof without a pipe of the trace's.
func (l *leftovers) byMarks(w *world, taken map[int]bool, take func(i, pid int)) (executing bool) {
	byMark := make(map[string][]int)
	for i := range l.traces {
		if marks := l.traces[i].Marks; len(marks) > 0 {
			byMark[marks[0]] = append(byMark[marks[0]], i)
		}
	}
	if len(byMark) == 0 {
		return false
	}
	for pid, s := range w.stats {
		if taken[pid] || l.self[pid] || s.dead() {
			continue
		}
		env, err := environ(pid)
		executing = executing || errors.Is(err, errExecuting)
		for _, i := range candidates(byMark, env) {
			t := &l.traces[i]
			if taken[pid] || !hasAll(env, t.Marks) || !l.mayBe(t, pid, &s) {
				continue
			}
			switch {
			case t.Keyed || holdsPipe(pid, t.Pipes):
				take(i, pid)
			case l.self[s.ppid]: // an orphan; else somebody who lives cares for it
				l.doubt(i, pid, "it carries the marks of this worker, as one of another daemon could")
			}
		}
	}
	return executing
}

func candidates(byMark map[string][]int, env [][]byte) (all []int) {
	for _, entry := range env {
		all = append(all, byMark[string(entry)]...)
	}
	return all
}

func hasAll(env [][]byte, marks []string) bool {
	for _, mark := range marks {
		if !slices.ContainsFunc(env, func(entry []byte) bool { return string(entry) == mark }) {
			return false
		}
	}
	return true
}

var errExecuting = errors.New("the process is between two programs")

// environ is the environment that a process was executed with; errExecuting if it has none yet.
func environ(pid int) ([][]byte, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	data, err := readWhole(folder + "/environ")
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		// A kernel thread has neither, and never will; what it is shows in its lack of a program.
		if args, err := readWhole(folder + "/cmdline"); err == nil && len(args) == 0 && hasProgram(folder) {
			return nil, errExecuting
		}
		if data, err = readWhole(folder + "/environ"); err != nil {
			return nil, err
		}
	}
	return bytes.Split(data, []byte{0}), nil
}

func hasProgram(folder string) bool {
	_, err := os.Readlink(folder + "/exe")
	return err == nil
}

// holdsPipe tells whether a process has one of the pipes open.
func holdsPipe(pid int, inodes []uint64) bool {
	if len(inodes) == 0 {
		return false
	}
	folder := "/proc/" + strconv.Itoa(pid) + "/fd"
	for _, fd := range numbersIn(folder) {
		target, err := os.Readlink(folder + "/" + strconv.Itoa(fd))
		if err != nil {
			continue
		}
		for _, inode := range inodes {
			if target == "pipe:["+strconv.FormatUint(inode, 10)+"]" {
				return true
			}
		}
	}
	return false
}

// doubt notes a process that is left alone, once.
func (l *leftovers) doubt(i, pid int, why string) {
	r := &l.remains[i]
	if !slices.ContainsFunc(r.Doubts, func(d Doubt) bool { return d.PID == pid }) {
		r.Doubts = append(r.Doubts, Doubt{pid, why})
	}
}
