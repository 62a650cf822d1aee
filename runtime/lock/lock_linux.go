package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Acquire takes the single-instance lock of a folder: the file "lock" in it, mode 0600. It never waits. If another
// process holds the lock the error is a *Held and nothing was touched. The folder must exist (see Prepare).
//
// The descriptor is closed on exec, so no worker inherits the lock; it is free as soon as this process is gone.
func Acquire(dir string) (*Lock, error) { return acquire(filepath.Join(dir, "lock"), dir) }

// AcquireNext is Acquire for the successor of a holder that was killed. What the holder had just forked keeps the lock until
// it executes its program, so while whoever wrote the file is dead the lock is asked for again, for at most patience.
func AcquireNext(dir string, patience time.Duration) (*Lock, error) {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		l, err := Acquire(dir)
		var held *Held
		if !errors.As(err, &held) || !gone(held.PID) || time.Now().Add(pause).After(deadline) {
			return l, err
		}
		<-time.After(pause)
	}
}

// gone tells whether there is no process of this pid. It decides only how long to wait, never who has the lock.
func gone(pid int) bool { return pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// AcquireFile is Acquire for a lock file of any name.
func AcquireFile(path string) (*Lock, error) { return acquire(path, path) }

func acquire(path, what string) (*Lock, error) {
	// A holder that ends cleanly removes the file while it still has the lock. Whoever opened that file before gets its
	// lock afterwards, and holds a file without a name: it must try again with the one that has the name now.
	for range 1000 {
		l, err := attempt(path, what)
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, fmt.Errorf("cannot lock %s: the file is being replaced all the time", path)
}

// attempt returns nil and no error if the file lost its name meanwhile.
func attempt(path, what string) (*Lock, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		held := read(f)
		held.What = what
		f.Close()
		return nil, held
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	l := &Lock{path: path, what: what, file: f}
	if !l.named() {
		f.Close()
		return nil, nil
	}
	if err := l.write(); err != nil {
		l.Release()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return l, nil
}

// open refuses all but a regular file of our own: whoever owns the file could hold its lock for ever.
func open(path string) (*os.File, error) {
	// Non-blocking, because a pipe in the file's place must not hang the start.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		if kind := inPlace(path); kind != "" && kind != "regular file" {
			return nil, fmt.Errorf("cannot lock %s: a %s is in its place: remove it", path, kind)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("a %s is in its place: remove it", kindOf(st.Mode))
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("it belongs to uid %d, not to uid %d: remove it", st.Uid, os.Geteuid())
	case st.Mode&0o7777 != 0o600:
		err = unix.Fchmod(fd, 0o600)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// named tells whether the path still leads to the file that is open.
func (l *Lock) named() bool {
	var mine, there unix.Stat_t
	return unix.Fstat(int(l.file.Fd()), &mine) == nil && unix.Lstat(l.path, &there) == nil &&
		mine.Dev == there.Dev && mine.Ino == there.Ino
}

// write says who we are. The new text is there before the rest of an old, longer one is cut off: a reader that comes in
// between sees our line, never an empty file.
func (l *Lock) write() error {
	text := fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if _, err := l.file.WriteAt(text, 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(text)))
}

// read takes what it can of a holder's text, and no byte of it that is not a number or a time.
func read(f *os.File) *Held {
	buf := make([]byte, 128)
	n, _ := f.ReadAt(buf, 0)
	pid, rest, _ := bytes.Cut(buf[:n], []byte("\n"))
	since, _, _ := bytes.Cut(rest, []byte("\n"))
	held := &Held{}
	if p, err := strconv.ParseInt(string(pid), 10, 32); err == nil && p > 0 {
		held.PID = int(p)
		held.Since, _ = time.Parse(time.RFC3339, string(since))
	}
	return held
}

// Release gives the lock up and removes its file. It is the holder's last act: what the lock protects must be at rest.
// A second Release does nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	var err error
	// Removed before it is unlocked, and only if it is still ours: after somebody deleted it by hand another daemon may
	// have made its own.
	if l.named() {
		err = os.Remove(l.path)
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	if err != nil {
		return fmt.Errorf("cannot release %s: %w", l.what, err)
	}
	return nil
}

// File is the descriptor that holds the lock, for handing it over an exec of the same process (see Inherit). It is
// closed on exec unless the caller clears that flag. The Lock still owns it.
func (l *Lock) File() *os.File { return l.file }

// Inherit is Acquire for a process that was given the lock's descriptor by its predecessor: the lock was never free in
// between. It takes the file over, also on an error, and sets it to be closed on exec again.
func Inherit(dir string, f *os.File) (*Lock, error) {
	l := &Lock{path: filepath.Join(dir, "lock"), what: dir, file: f}
	unix.CloseOnExec(int(f.Fd()))
	if !l.named() {
		f.Close()
		return nil, fmt.Errorf("cannot inherit the lock of %s: the descriptor is of another file", dir)
	}
	// The lock belongs to the open file, so asking again through it succeeds if we have it, and takes it if nobody does.
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot inherit the lock of %s: %w", dir, err)
	}
	return l, nil
}

// inPlace names what stands at a path, without following a link: "" if nothing does.
func inPlace(path string) string {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return ""
	}
	return kindOf(st.Mode)
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "regular file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symbolic link"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFIFO:
		return "pipe"
	}
	return "device"
}

// bits are the kernel's mode bits of a Go mode.
func bits(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		m |= unix.S_ISVTX
	}
	if mode&fs.ModeSetgid != 0 {
		m |= unix.S_ISGID
	}
	return m
}
