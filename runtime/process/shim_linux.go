package process

import (
	"encoding/gob"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coppice-run/coppice/tree"
)

// shimVariable marks a program that was executed as a shim; its value is the descriptor of the plan. The status pipe and
// the gate are the two after it.
const shimVariable = "_COPPICE_SHIM"

// shimPlan names the memory file that holds a plan.
const shimPlan = "coppice-plan"

// shimReady is the first byte on the status pipe: nothing but the exec itself is left to do. A failure follows it, or
// comes in its place.
const shimReady = '!'

// plan is what the shim has to become. It travels in a memory file, since anybody may read a program's arguments,
// and as gob, since names and values may be any bytes.
type plan struct {
	Programs, Argv, Env []string
	Dir                 string
	Change              bool // take on the identity
	UID, GID            uint32
	Groups              []uint32
	User                string
	Limits              []rlimit
	OwnPID              bool // add LISTEN_PID
	Gate                bool // wait until the gate is closed by the one who forked
}

// shimFailure is what a shim reports before it ends.
type shimFailure struct {
	Step, Subject, Program string
	Errno                  syscall.Errno
	Text, Hint             string
}

// Self is the proof that this program called Shim, so that executing it again gives a shim and not a second daemon.
type Self struct{ usable bool }

// Shim must be the first call in the main function of every program that starts workers, and in the TestMain of its
// tests. In a program that was executed as a shim it becomes the worker and never returns; in any other it returns at
// once.
func Shim() Self {
	text, marked := os.LookupEnv(shimVariable)
	if !marked {
		return Self{usable: true}
	}
	fd, err := strconv.Atoi(text)
	target, linkErr := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || linkErr != nil || !strings.HasPrefix(target, "/memfd:"+shimPlan) {
		os.Unsetenv(shimVariable) // somebody else's variable
		return Self{usable: true}
	}
	becomeWorker(fd)
	panic("unreachable")
}

// becomeWorker does what the plan says, in the order in which the rights for it last, and executes the program.
func becomeWorker(fd int) {
	runtime.LockOSThread() // identity and signal mask belong to the thread that executes the program
	unix.CloseRange(uint(fd), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	status := os.NewFile(uintptr(fd+1), "status")
	fail := func(f shimFailure) {
		gob.NewEncoder(status).Encode(f)
		os.Exit(1)
	}
	var p plan
	if err := gob.NewDecoder(os.NewFile(uintptr(fd), "plan")).Decode(&p); err != nil {
		fail(shimFailure{Step: "shim", Text: err.Error()})
	}
	if p.Gate {
		var buf [1]byte
		if n, _ := os.NewFile(uintptr(fd+2), "gate").Read(buf[:]); n != 1 {
			os.Exit(1) // the daemon has ended, or could not bring us into the cgroup
		}
	}
	for _, limit := range p.Limits {
		if f := limit.set(); f != nil {
			fail(*f)
		}
	}
	if p.Change {
		if err := dropPrivileges(p.UID, p.GID, p.Groups); err != nil {
			fail(shimFailure{Step: "user", Subject: p.User, Errno: toErrno(err)})
		}
	}
	if err := os.Chdir(p.Dir); err != nil {
		fail(shimFailure{Step: "working directory", Subject: p.Dir, Errno: toErrno(err)})
	}
	if p.OwnPID {
		p.Env = append(p.Env, "LISTEN_PID="+strconv.Itoa(os.Getpid()))
	}
	unix.Umask(0o022)
	cleanSignals()
	if _, err := status.Write([]byte{shimReady}); err != nil {
		os.Exit(1) // the daemon has ended: it is no worker of anybody's
	}
	fail(p.execute())
}

// execute tries the programs in turn and returns only with the first failure.
func (p *plan) execute() shimFailure {
	var first *shimFailure
	for _, program := range p.Programs {
		errno := toErrno(syscall.Exec(program, p.Argv, p.Env))
		if first == nil {
			first = &shimFailure{Step: "exec", Program: program, Errno: errno}
		}
		if errno != unix.EACCES {
			break
		}
	}
	return *first
}

// rlimit is one limit, soft and hard.
type rlimit struct {
	Name     string
	Resource int
	Value    uint64
}

// rlimits lists the ones that a command asks for.
func rlimits(l *tree.Limits) []rlimit {
	var list []rlimit
	add := func(name string, resource int, value *int64) {
		switch {
		case value == nil:
		case *value == tree.Unlimited:
			list = append(list, rlimit{name, resource, unix.RLIM_INFINITY})
		default:
			list = append(list, rlimit{name, resource, uint64(*value)})
		}
	}
	add("core", unix.RLIMIT_CORE, l.Core)
	add("file_size", unix.RLIMIT_FSIZE, l.FileSize)
	if l.OpenFiles != 0 {
		add("open_files", unix.RLIMIT_NOFILE, &l.OpenFiles)
	}
	return list
}

// set sets the limit for this process.
func (l *rlimit) set() *shimFailure {
	var now syscall.Rlimit
	err := syscall.Getrlimit(l.Resource, &now)
	if err == nil {
		// By syscall, not x/sys: it makes the runtime forget the soft limit of open files that it would put back.
		err = syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Value, Max: l.Value})
	}
	if err == nil {
		return nil
	}
	f := &shimFailure{Step: "limit", Subject: l.Name, Errno: toErrno(err)}
	if l.Value > now.Max {
		f.Hint = fmt.Sprintf("the hard limit is %s, and raising it to %s needs CAP_SYS_RESOURCE", limitText(now.Max), limitText(l.Value))
	}
	if l.Resource == unix.RLIMIT_NOFILE {
		f.Hint = strings.TrimPrefix(f.Hint+"; fs.nr_open is another bound", "; ")
	}
	return f
}

func limitText(v uint64) string {
	if v == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(v, 10)
}

// dropPrivileges takes on an identity for this thread, the one that will execute the program, and makes sure of it.
func dropPrivileges(uid, gid uint32, groups []uint32) error {
	if !setThreadGroups(groups) {
		return unix.EPERM
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno
	}
	ru, eu, su := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	now, err := unix.Getgroups()
	got, want := widen(now), slices.Clone(groups)
	slices.Sort(got)
	slices.Sort(want)
	same := err == nil && slices.Equal(slices.Compact(got), slices.Compact(want))
	if !same || ru != int(uid) || eu != int(uid) || su != int(uid) || rg != int(gid) || eg != int(gid) || sg != int(gid) {
		return unix.EPERM
	}
	return nil
}

// setThreadGroups sets the supplementary groups of this thread alone.
func setThreadGroups(groups []uint32) bool {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
	return errno == 0
}

// ownProgram is the path to execute this very program by, even if its file was replaced meanwhile.
func ownProgram() string {
	const link = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil || !filepath.IsAbs(path) {
		return link
	}
	var a, b unix.Stat_t
	if unix.Stat(path, &a) != nil || unix.Stat(link, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		return link
	}
	return path
}

func toErrno(err error) syscall.Errno {
	for {
		switch e := err.(type) {
		case syscall.Errno:
			return e
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		default:
			return unix.EIO
		}
	}
}
