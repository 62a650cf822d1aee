package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// busyPatience is how long a program that is open for writing is tried again within one start.
const busyPatience = 900 * time.Millisecond

// Start executes a command and returns once its program runs. It blocks for the fork and exec, a quarter of a
// millisecond; some milliseconds where the shim is needed; up to a second while the program's file is open for writing.
// The files of the command stay the caller's, and must stay open until Start returns. The error is a *StartError.
func (t *Table) Start(cmd Command) (*Process, error) {
	if err := cmd.check(); err != nil {
		return nil, err
	}
	programs, fail := cmd.programs()
	if fail != nil {
		return nil, fail
	}
	deadline := time.Now().Add(busyPatience)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		p, fail := t.try(&cmd, programs)
		if fail == nil {
			return p, nil
		}
		if !errors.Is(fail.Err, unix.ETXTBSY) || time.Now().Add(pause).After(deadline) {
			return nil, fail
		}
		<-time.After(pause)
	}
}

// try makes one attempt, with each place of the PATH until the target user may execute what is there.
func (t *Table) try(cmd *Command, programs []string) (*Process, *StartError) {
	if cmd.needsShim() {
		return t.tryShim(cmd, programs)
	}
	var first *StartError
	for _, program := range programs {
		p, err := t.launch(cmd, program)
		if err == nil {
			return p, nil
		}
		if err == errBirthKill {
			return t.tryShim(cmd, programs) // enters the cgroup from outside, before the program is executed
		}
		fail := cmd.explain(program, err)
		if first == nil {
			first = fail
		}
		if fail.Step != "exec" || !errors.Is(fail.Err, unix.EACCES) {
			break
		}
	}
	return nil, first
}

// launch forks and executes, on the plain path.
func (t *Table) launch(cmd *Command, program string) (*Process, error) {
	files, closeFiles, err := cmd.files()
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir: cmd.dir(), Env: cmd.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd, Credential: cmd.credential()},
	}
	if cmd.Group != nil && cmd.Group.FD() >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, cmd.Group.FD()
	}
	p, err := t.fork(cmd, program, cmd.Argv, attr)
	runtime.KeepAlive(cmd)
	if err != nil {
		return nil, err
	}
	if attr.Sys.UseCgroupFD && killedAtBirth(p.pid) {
		p.discard()
		return nil, errBirthKill
	}
	p.begin()
	return p, nil
}

// fork makes the process and enters it in the table before anybody can take it for an orphan. It is not watched yet.
func (t *Table) fork(cmd *Command, program string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	t.expect()
	var pid int
	var err error
	offMainThread(func() { pid, err = syscall.ForkExec(program, argv, attr) })
	if err != nil {
		t.settle(nil)
		return nil, err
	}
	p := &Process{table: t, pid: pid, started: time.Now(), marks: cmd.Marks, uid: cmd.uid(), group: cmd.Group,
		contained: attr.Sys.UseCgroupFD,
		exited:    make(chan struct{}), gone: make(chan struct{})}
	// Nobody reaps it before it is settled, so this is its own start time for sure.
	if s, err := readStat(pid); err == nil {
		p.birth = s.started
	}
	pidfd := *attr.Sys.PidFD      // never missing: Go makes one wherever the kernel can
	unix.SetNonblock(pidfd, true) // with it, os.NewFile hands the descriptor to the network poller
	p.file = os.NewFile(uintptr(pidfd), "pidfd:"+strconv.Itoa(pid))
	t.settle(p)
	return p, nil
}

// offMainThread runs a fork on any thread but the main one. The kernel keeps children by the thread that forked them, and
// gives orphans to the main thread: so its list holds the orphans and nothing else, however many workers run.
func offMainThread(fork func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != os.Getpid() {
		fork()
		return
	}
	done := make(chan struct{})
	go func() { // while we hold the main thread, this runs on another
		defer close(done)
		fork()
	}()
	<-done
}

// begin starts the watch over a process.
func (p *Process) begin() { go p.watch() }

// discard ends a process that never became the worker, and waits for its end. The reaper may have taken its status
// already, so its pid alone is not enough to go by.
func (p *Process) discard() {
	p.mu.Lock()
	if !p.reaped {
		unix.Kill(p.pid, unix.SIGKILL)
	}
	p.mu.Unlock()
	for !p.park(p.file, p.collect) {
	}
	p.file.Close()
}

// killedAtBirth tells whether a process that should have executed its program never did. The kernel does that to one that
// is born into a cgroup that cgroup.kill was ever used on: it is dead before its first instruction, which looks
// like a success to the one who forked.
func killedAtBirth(pid int) bool {
	s, err := readStat(pid)
	return err == nil && s.flags&forkNoExec != 0
}

// files lists the descriptors that the command gets, in order, and a function that closes those made here.
func (c *Command) files() ([]uintptr, func(), error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &StartError{Step: "open", Subject: "/dev/null", Err: err}
	}
	files := make([]uintptr, 0, 3+len(c.Listeners)+3)
	files = append(files, uintptr(null))
	for _, f := range append([]*os.File{c.Stdout, c.Stderr}, c.Listeners...) {
		if f == nil {
			files = append(files, uintptr(null))
		} else {
			// Fd also makes the description blocking, which is what a program expects of what it inherits.
			files = append(files, f.Fd())
		}
	}
	return files, func() { unix.Close(null) }, nil
}

func (c *Command) credential() *syscall.Credential {
	if c.Identity == nil || c.Identity.isOwn() {
		return nil
	}
	return &syscall.Credential{Uid: c.Identity.UID, Gid: c.Identity.GID, Groups: c.Identity.Groups}
}

func (c *Command) uid() uint32 {
	if c.Identity == nil {
		return uint32(os.Getuid())
	}
	return c.Identity.UID
}

// isOwn tells whether there is nothing to change: a daemon without privileges that starts a worker as itself.
func (id *Identity) isOwn() bool {
	return os.Geteuid() != 0 && int(id.UID) == os.Getuid() && os.Getuid() == os.Geteuid() &&
		int(id.GID) == os.Getgid() && os.Getgid() == os.Getegid()
}

// programs lists the paths to try, in order: more than one only for a name that is looked up in the PATH.
func (c *Command) programs() ([]string, *StartError) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		return []string{name}, nil
	}
	search := c.lookup("PATH")
	var found []string
	refused := ""
	for _, folder := range strings.Split(search, ":") {
		if !strings.HasPrefix(folder, "/") {
			folder = c.dir() + "/" + folder // relative to where the program will run, as execvp has it
		}
		path := strings.TrimRight(folder, "/") + "/" + name
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if st.Mode&0o111 != 0 {
			found = append(found, path)
		} else if refused == "" {
			refused = path
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case refused != "":
		return nil, &StartError{Step: "exec", Subject: refused, Err: unix.EACCES}
	case search == "":
		return nil, &StartError{Step: "exec", Subject: name, Err: unix.ENOENT, Hint: "the environment has no PATH to look in"}
	}
	return nil, &StartError{Step: "exec", Subject: name, Err: unix.ENOENT, Hint: fmt.Sprintf("looked in PATH %s", search)}
}
