package process

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// explain finds the step at which a start failed. The kernel gives one number for all of them, so this looks again at
// what the program needs, with the eyes of the user that it would have run as.
func (c *Command) explain(program string, err error) *StartError {
	if fail, ok := errors.AsType[*StartError](err); ok {
		return fail
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return &StartError{Step: "exec", Subject: c.absolute(program), Err: err}
	}
	switch errno {
	case unix.E2BIG:
		return &StartError{Step: "exec", Subject: c.absolute(program), Err: errno,
			Hint: fmt.Sprintf("arguments and environment take %d bytes", c.size())}
	case unix.ETXTBSY:
		return &StartError{Step: "exec", Subject: c.absolute(program), Err: errno}
	case unix.EAGAIN:
		return &StartError{Step: "fork", Err: errno, Hint: "a limit of processes or tasks is reached"}
	case unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		return &StartError{Step: "fork", Err: errno}
	case unix.EPERM:
		if c.credential() != nil && !mayChangeUser() {
			return &StartError{Step: "user", Subject: c.Identity.Name, Err: errno, Hint: "only root may change it"}
		}
	}
	var fail *StartError
	c.asUser(func() {
		if fail = c.explainDir(); fail == nil {
			fail = c.explainProgram(program, errno)
		}
	})
	if fail != nil {
		return fail
	}
	if c.Group != nil && (errno == unix.EBUSY || errno == unix.EOPNOTSUPP || errno == unix.ENODEV ||
		errno == unix.EBADF || errno == unix.EACCES) {
		return &StartError{Step: "cgroup", Err: errno}
	}
	return &StartError{Step: "exec", Subject: c.absolute(program), Err: errno}
}

// absolute is the program's path as the kernel would find it.
func (c *Command) absolute(program string) string {
	if filepath.IsAbs(program) {
		return program
	}
	return filepath.Join(c.dir(), program)
}

// explainDir says what is wrong with the working directory, or nil.
func (c *Command) explainDir() *StartError {
	var st unix.Stat_t
	err := unix.Stat(c.dir(), &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, c.dir(), unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		return nil
	}
	return &StartError{Step: "working directory", Subject: c.dir(), Err: err}
}

// explainProgram says what is wrong with the program, or nil. Errno is what exec said.
func (c *Command) explainProgram(program string, errno syscall.Errno) *StartError {
	path := c.absolute(program)
	fail := func(err error, hint string) *StartError {
		return &StartError{Step: "exec", Subject: path, Err: err, Hint: hint}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fail(err, "")
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fail(unix.EISDIR, "")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fail(unix.EACCES, "not a regular file")
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return fail(err, "")
	}
	if errno == unix.EACCES && mountedNoExec(path) {
		return fail(errno, "its file system is mounted noexec")
	}
	if errno == unix.ENOEXEC {
		return fail(errno, "neither a program for this machine nor a script that begins with #!")
	}
	if errno != unix.ENOENT && errno != unix.EACCES && errno != unix.ENOTDIR && errno != unix.ELIBBAD {
		return nil
	}
	interpreter := interpreterOf(path)
	if interpreter == "" {
		return nil
	}
	err := unix.Faccessat(unix.AT_FDCWD, interpreter, unix.X_OK, unix.AT_EACCESS)
	if err == nil && errno == unix.EACCES {
		err = errno
	}
	if err == nil {
		return nil
	}
	hint := ""
	if strings.HasSuffix(interpreter, "\r") {
		hint = "the first line of the script ends in a carriage return"
	}
	return &StartError{Step: "exec " + printable(path) + ": interpreter", Subject: interpreter, Err: err, Hint: hint}
}

func mountedNoExec(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}

// interpreterOf reads which other program a script or a dynamic program needs; "" if none or unknown.
func interpreterOf(path string) string {
	// A named pipe put in the place of the file must not hold us up.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadBytes('\n')
	if rest, script := bytes.CutPrefix(line, []byte("#!")); script {
		rest = bytes.TrimLeft(bytes.TrimSuffix(rest, []byte("\n")), " \t")
		if end := bytes.IndexAny(rest, " \t"); end >= 0 {
			rest = rest[:end]
		}
		return string(rest)
	}
	program, err := elf.NewFile(file)
	if err != nil {
		return ""
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP && segment.Filesz < 4096 {
			name := make([]byte, segment.Filesz)
			if _, err := segment.ReadAt(name, 0); err == nil {
				return string(bytes.TrimRight(name, "\x00"))
			}
		}
	}
	return ""
}

// mayChangeUser tells whether this program has the right to set any user and group.
func mayChangeUser() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return os.Geteuid() == 0
	}
	const both = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return data[0].Effective&both == both
}

// asUser runs look on a thread whose access to files is that of the command's user. The identity of a thread is its own
// in Linux; it is put back afterwards, or else the thread is given up with its goroutine.
func (c *Command) asUser(look func()) {
	if c.credential() == nil || os.Geteuid() != 0 {
		look()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		before, err := unix.Getgroups()
		if err == nil && setFileIdentity(c.Identity.UID, c.Identity.GID, c.Identity.Groups) {
			look()
		}
		if err == nil && setFileIdentity(uint32(os.Geteuid()), uint32(os.Getegid()), widen(before)) {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// setFileIdentity changes this thread's groups and the user and group that count for access to files.
func setFileIdentity(uid, gid uint32, groups []uint32) bool {
	if !setThreadGroups(groups) {
		return false
	}
	unix.SetfsgidRetGid(int(gid))
	unix.SetfsuidRetUid(int(uid))
	// Both calls only ever return the value before: an impossible value changes nothing and reads it.
	nowGID, _ := unix.SetfsgidRetGid(-1)
	nowUID, _ := unix.SetfsuidRetUid(-1)
	return uint32(nowGID) == gid && uint32(nowUID) == uid
}

func widen(groups []int) []uint32 {
	wide := make([]uint32, len(groups))
	for i, gid := range groups {
		wide[i] = uint32(gid)
	}
	return wide
}
