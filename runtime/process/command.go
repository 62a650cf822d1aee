package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/coppice-run/coppice/tree"
)

// Command is everything that one process is made of. Nothing is inherited from the daemon but its umask, which
// [CleanSelf] sets, and what no program can see of itself.
type Command struct {
	Argv []string // no shell; Argv[0] is looked up in the PATH of Env, and a relative path with a slash from Dir
	Env  []string // the whole environment, "NAME=value"
	Dir  string   // absolute; "" is "/"

	Identity *Identity   // nil: the daemon's own
	Limits   tree.Limits // only the rlimits are used here

	Stdout, Stderr *os.File // write ends, which Start makes blocking; nil: /dev/null. Standard input is always /dev/null

	// Listeners become the file descriptors from 3 on. Start adds LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES for them.
	Listeners   []*os.File
	ListenNames []string // one a listener

	// Marks are entries of Env that no other worker has, such as the ones with its path and incarnation. A helper that
	// left the worker's session is recognised by having all of them.
	Marks []string

	Group Group // nil: no cgroup
}

// Group is the cgroup of one incarnation, made before the start and removed after the process is gone by the one who
// made it.
type Group interface {
	// FD is a descriptor of the cgroup v2 directory that the process shall be born in, or -1.
	FD() int
	// JoinPaths tells, by being more than empty, that being born there is not enough: Enter must be called before the
	// program is executed, which costs a start through the shim. So it is with the hierarchies of cgroup v1.
	JoinPaths() []string
	// Enter moves a process into every hierarchy of the group.
	Enter(pid int) error
	// Procs lists the pids of those in it, the dead perhaps among them.
	Procs() ([]int, error)
	// Kill sends KILL to all in it.
	Kill() error
}

// StartError says why a process could not be started: at which step, with what, and the system's own word for it.
// Its text begins with "cannot start: ".
type StartError struct {
	Step    string // "exec", "working directory", "user", "limit", "argument", "environment", "fork", "cgroup" or "shim"
	Subject string // a path or name; may be ""
	Err     error  // a syscall.Errno where the system refused
	Hint    string // more about the cause, for people; may be ""
}

// Error is "cannot start: STEP SUBJECT: ERRNO (HINT)".
func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("cannot start: ")
	b.WriteString(e.Step)
	if e.Subject != "" {
		b.WriteString(" " + printable(e.Subject))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap gives the system's error to errors.Is.
func (e *StartError) Unwrap() error { return e.Err }

// printable keeps a path readable and the message on one line: a name is chosen by a tenant and may hold anything.
func printable(s string) string {
	quoted := strconv.Quote(s)
	if quoted[1:len(quoted)-1] == s {
		return s
	}
	return quoted
}

// maxString is the longest argument or variable, without its final NUL, that Linux passes to a program.
const maxString = 128<<10 - 1

// check finds what the kernel would refuse without saying what it was.
func (c *Command) check() *StartError {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return &StartError{Step: "exec", Err: fmt.Errorf("the command is empty")}
	}
	if len(c.Listeners) != len(c.ListenNames) {
		return &StartError{Step: "listen", Err: fmt.Errorf("%d sockets with %d names", len(c.Listeners), len(c.ListenNames))}
	}
	for i, arg := range c.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return &StartError{Step: "argument", Subject: strconv.Itoa(i), Err: fmt.Errorf("it holds a NUL byte")}
		}
		if len(arg) > maxString {
			return &StartError{Step: "argument", Subject: strconv.Itoa(i), Err: errTooLong,
				Hint: fmt.Sprintf("%d bytes, at most %d are possible", len(arg), maxString)}
		}
	}
	for _, entry := range c.Env {
		name, _, found := strings.Cut(entry, "=")
		switch {
		case !found || name == "":
			return &StartError{Step: "environment", Subject: name, Err: fmt.Errorf("an entry needs a name and a =")}
		case strings.IndexByte(entry, 0) >= 0:
			return &StartError{Step: "environment", Subject: name, Err: fmt.Errorf("it holds a NUL byte")}
		case len(entry) > maxString:
			return &StartError{Step: "environment", Subject: name, Err: errTooLong,
				Hint: fmt.Sprintf("%d bytes with its name, at most %d are possible", len(entry), maxString)}
		}
	}
	return nil
}

// size is what argv and environment take on the new program's stack, as the kernel counts it.
func (c *Command) size() int {
	total := 0
	for _, s := range c.Argv {
		total += len(s) + 1 + 8
	}
	for _, s := range c.Env {
		total += len(s) + 1 + 8
	}
	return total
}

// lookup finds a variable in the environment the command will have; the first entry counts, as for libc.
func (c *Command) lookup(name string) string {
	for _, entry := range c.Env {
		if key, value, found := strings.Cut(entry, "="); found && key == name {
			return value
		}
	}
	return ""
}

func (c *Command) dir() string {
	if c.Dir == "" {
		return "/"
	}
	return c.Dir
}
