package process

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// needsShim tells whether the command needs what the plain path cannot do.
func (c *Command) needsShim() bool {
	return c.Limits.Rlimits() || len(c.Listeners) > 0 || (c.Group != nil && len(c.Group.JoinPaths()) > 0)
}

// tryShim starts the command through this program's own shim, and waits until it has become the worker.
func (t *Table) tryShim(cmd *Command, programs []string) (*Process, *StartError) {
	if !t.self.usable {
		return nil, &StartError{Step: "shim", Err: errors.New("this program does not call process.Shim first")}
	}
	s, err := newShimStart(cmd, programs)
	if err != nil {
		return nil, &StartError{Step: "shim", Err: err}
	}
	defer s.close()
	p, err := s.fork(t, cmd)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != unix.EAGAIN {
			return nil, &StartError{Step: "shim", Err: errno}
		}
		return nil, cmd.explain(programs[0], err)
	}
	if cmd.Group != nil {
		if err := cmd.Group.Enter(p.pid); err != nil {
			p.discard()
			return nil, &StartError{Step: "cgroup", Err: err}
		}
		s.gateWrite.Write([]byte{shimReady})
	}
	if fail := s.wait(cmd); fail != nil {
		p.discard()
		return nil, fail
	}
	p.begin()
	return p, nil
}

// shimStart holds the descriptors of one start through the shim.
type shimStart struct {
	plan                    *os.File
	statusRead, statusWrite *os.File
	gateRead, gateWrite     *os.File
}

func newShimStart(cmd *Command, programs []string) (*shimStart, error) {
	p := plan{Programs: programs, Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.dir(), Limits: rlimits(&cmd.Limits),
		OwnPID: len(cmd.Listeners) > 0, Gate: cmd.Group != nil}
	if p.OwnPID {
		p.Env = append(p.Env[:len(p.Env):len(p.Env)], "LISTEN_FDS="+strconv.Itoa(len(cmd.Listeners)),
			"LISTEN_FDNAMES="+strings.Join(cmd.ListenNames, ":"))
	}
	if id := cmd.credential(); id != nil {
		p.Change, p.UID, p.GID, p.Groups, p.User = true, id.Uid, id.Gid, id.Groups, cmd.Identity.Name
	}
	fd, err := unix.MemfdCreate(shimPlan, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	s := &shimStart{plan: os.NewFile(uintptr(fd), shimPlan)}
	if err = gob.NewEncoder(s.plan).Encode(&p); err == nil {
		_, err = s.plan.Seek(0, io.SeekStart)
	}
	if err == nil {
		s.statusRead, s.statusWrite, err = os.Pipe()
	}
	if err == nil {
		s.gateRead, s.gateWrite, err = os.Pipe()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *shimStart) close() {
	for _, f := range []*os.File{s.plan, s.statusRead, s.statusWrite, s.gateRead, s.gateWrite} {
		f.Close() // on nil it only returns an error
	}
}

// fork executes the shim. It takes on nothing of the command yet but the descriptors and the session.
func (s *shimStart) fork(t *Table, cmd *Command) (*Process, error) {
	files, closeFiles, err := cmd.files()
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	first := len(files)
	files = append(files, s.plan.Fd(), s.statusWrite.Fd(), s.gateRead.Fd())
	pidfd := -1
	p, err := t.fork(cmd, "/proc/self/exe", []string{"coppice-shim"}, &syscall.ProcAttr{
		// With the marks, so that it is recognised even if we are killed now.
		Dir: "/", Env: append([]string{shimVariable + "=" + strconv.Itoa(first)}, cmd.Marks...), Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	runtime.KeepAlive(cmd)
	runtime.KeepAlive(s)
	s.statusWrite.Close()
	s.gateRead.Close()
	return p, err
}

// wait reads the status pipe to its end, which comes with the exec, and returns nil if there was one.
func (s *shimStart) wait(cmd *Command) *StartError {
	said, err := io.ReadAll(s.statusRead)
	if err != nil {
		return &StartError{Step: "shim", Err: err}
	}
	report, ready := bytes.CutPrefix(said, []byte{shimReady})
	if len(report) == 0 {
		if ready {
			return nil
		}
		return &StartError{Step: "shim", Err: errors.New("it ended without a word")}
	}
	var f shimFailure
	if err := gob.NewDecoder(bytes.NewReader(report)).Decode(&f); err != nil {
		return &StartError{Step: "shim", Err: err}
	}
	if f.Step == "exec" || f.Step == "working directory" {
		program := f.Program
		if program == "" {
			program = cmd.Argv[0]
		}
		return cmd.explain(program, f.Errno)
	}
	fail := &StartError{Step: f.Step, Subject: f.Subject, Hint: f.Hint, Err: f.Errno}
	if f.Text != "" {
		fail.Err = errors.New(f.Text)
	}
	return fail
}
