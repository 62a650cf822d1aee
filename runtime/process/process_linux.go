package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long Kill goes on before what is left is given up.
const killPatience = 5 * time.Second

// lookAgain is the pause where there is nothing to wait on.
const lookAgain = 5 * time.Millisecond

// Process is one incarnation's leader and everything that belongs to it. All methods may be called from any goroutine,
// and none of them waits.
type Process struct {
	table   *Table
	pid     int
	started time.Time
	birth   uint64 // start time by the kernel
	marks   []string
	uid     uint32 // of the worker: an orphan of anybody else's cannot claim to be part of it
	group   Group
	// contained: it was born in its cgroup v2, which so has all of it, whatever sessions and parents it makes.
	contained bool
	file      *os.File // the leader's pidfd, in the network poller

	exited chan struct{}
	gone   chan struct{}

	mu       sync.Mutex
	reaped   bool
	over     bool // gone is closed
	exit     Exit
	known    map[int]uint64 // members as last seen: pid and start time
	killed   map[int]uint64 // those that KILL was sent to
	left     []int
	parked   *os.File  // what the watcher waits on
	asked    bool      // Kill was called, and the watcher has not seen it yet
	patience time.Time // when to give up; zero before Kill
}

// PID is the leader's process id, which is its process group and session too. Once Gone is closed it may be anybody's.
func (p *Process) PID() int { return p.pid }

// Started is when the program was executed.
func (p *Process) Started() time.Time { return p.started }

// Birth is the kernel's start time of the leader, in clock ticks since boot: with the pid it names the process for ever,
// as /proc/PID/stat tells. 0 if it could not be read.
func (p *Process) Birth() uint64 { return p.birth }

// Exited is closed when the leader has ended and is reaped, whoever still holds its pipes.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit is how the leader ended: the zero value before Exited is closed.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Gone is closed when the leader is reaped and nothing of the worker runs any more. After Kill it is closed within
// five seconds whatever happens; Left then names what is still there, the leader perhaps among it.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Left lists what was given up: processes that did not end on KILL, or that this program may not signal.
func (p *Process) Left() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.left...)
}

// Killed is how many processes, the leader included, KILL had to be sent to.
func (p *Process) Killed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.killed)
}

// collect takes the leader's exit status if it has ended, and tells whether it is taken.
func (p *Process) collect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return true
	}
	var status unix.WaitStatus
	var usage unix.Rusage
	pid, err := unix.Wait4(p.pid, &status, unix.WNOHANG, &usage)
	if err == unix.EINTR || (err == nil && pid == 0) {
		return false
	}
	p.exit = Exit{Code: -1, Ran: time.Since(p.started)}
	if err == nil { // else somebody else has taken the status, and only the end itself is known
		p.exit.User, p.exit.System = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
		p.exit.MaxRSS = int64(usage.Maxrss) << 10
		if status.Signaled() {
			p.exit.Signal, p.exit.Core = signalName(syscall.Signal(status.Signal())), status.CoreDump()
		} else {
			p.exit.Code = status.ExitStatus()
		}
	}
	p.reaped = true
	p.table.forget(p)
	close(p.exited)
	return true
}

// watch is the process's only goroutine. It ends when nothing of the worker runs, or when that is given up and the
// leader at least is reaped.
func (p *Process) watch() {
	defer p.file.Close()
	for !p.park(p.file, p.collect) {
		p.persist(p.members())
	}
	for !p.isOver() {
		members := p.members()
		if len(members) == 0 {
			p.finish(nil)
			return
		}
		if p.persist(members); !p.isOver() {
			p.awaitOne(members)
		}
	}
}

// persist does what Kill asked for: KILL to all of them, or giving up when patience is at its end.
func (p *Process) persist(members []member) {
	p.mu.Lock()
	p.asked = false
	patience := p.patience
	p.mu.Unlock()
	switch {
	case patience.IsZero():
	case time.Now().Before(patience):
		p.sweep(members)
	default:
		p.finish(members)
	}
}

// awaitOne parks until one of the members has ended or Kill wants something. It opens the first that still is what it
// was when it was listed.
func (p *Process) awaitOne(members []member) {
	for _, m := range members {
		file, err := m.open()
		if err != nil {
			continue // it has ended meanwhile: look again
		}
		p.park(file, func() bool { return ended(file) })
		file.Close()
		return
	}
	<-time.After(lookAgain) // all have ended since, or no descriptor is free
}

// park waits in the network poller until done says true, and tells whether it did. False: Kill was called, or patience
// is at its end.
func (p *Process) park(file *os.File, done func() bool) bool {
	conn, err := file.SyscallConn()
	if err != nil {
		return done()
	}
	p.mu.Lock()
	if p.asked {
		p.mu.Unlock()
		return done()
	}
	p.parked = file
	if p.over {
		file.SetReadDeadline(time.Time{})
	} else {
		file.SetReadDeadline(p.patience)
	}
	p.mu.Unlock()

	finished := false
	err = conn.Read(func(uintptr) bool {
		finished = done()
		return finished
	})

	p.mu.Lock()
	p.parked = nil
	p.mu.Unlock()
	return finished && (err == nil || errors.Is(err, os.ErrDeadlineExceeded))
}

// Kill sends KILL to everything of the worker, again and again until nothing of it runs, for at most five seconds. It
// returns at once; Gone tells the end.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.patience.IsZero() || p.over {
		return
	}
	p.patience = time.Now().Add(killPatience)
	p.asked = true
	if p.parked != nil {
		p.parked.SetReadDeadline(time.Unix(1, 0)) // in the past: wakes the watcher
	}
}

func (p *Process) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// finish closes Gone, once.
func (p *Process) finish(left []member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	for _, m := range left {
		p.left = append(p.left, m.pid)
	}
	p.known = nil
	close(p.gone)
}
