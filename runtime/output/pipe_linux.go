package output

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// pipeName names a pipe after its identity. The hash keeps it short and the separators of a path out of it.
func pipeName(path string, incarnation int, stream string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8]) + "-" + strconv.Itoa(incarnation) + "." + stream
}

// makePipe makes a pipe whose reading end does not block and whose writing end, for the worker, does.
func makePipe(folder, name string) (ends, error) {
	if folder != "" {
		return makeNamed(filepath.Join(folder, name))
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return ends{}, fmt.Errorf("pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return ends{}, fmt.Errorf("pipe: %w", err)
	}
	return ends{read: fds[0], write: os.NewFile(uintptr(fds[1]), "pipe")}, nil
}

// makeNamed makes a named pipe. The worker's end is open for reading too, so that the worker can write on without
// SIGPIPE, and what it wrote stays, while no daemon reads.
func makeNamed(name string) (ends, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return ends{}, err
	}
	err := unix.Mkfifo(name, 0o600)
	if err == unix.EEXIST { // of a life before the counting of incarnations began anew
		if err = unix.Unlink(name); err == nil {
			err = unix.Mkfifo(name, 0o600)
		}
	}
	if err != nil {
		return ends{}, fmt.Errorf("mkfifo %s: %w", name, err)
	}
	e, err := adoptPipe("", name)
	if err != nil {
		os.Remove(name)
		return ends{}, err
	}
	w, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		unix.Close(e.read)
		os.Remove(name)
		return ends{}, fmt.Errorf("open %s: %w", name, err)
	}
	e.write = os.NewFile(uintptr(w), name)
	return e, nil
}

// adoptPipe opens a named pipe for reading.
func adoptPipe(folder, name string) (ends, error) {
	name = filepath.Join(folder, name)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ends{}, fmt.Errorf("open %s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		return ends{}, fmt.Errorf("open %s: %w", name, errors.Join(err, errNotPipe))
	}
	return ends{read: fd, name: name}, nil
}

var errNotPipe = errors.New("not a named pipe")

// readPipe reads once. end means that nothing will ever come again.
func readPipe(fd int, buf []byte) (n int, end bool) {
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, false
		case err != nil || n == 0:
			return 0, true
		default:
			return n, false
		}
	}
}

// waiting is how many bytes are in the pipe. One that cannot say counts as full.
func waiting(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 1 << 20
	}
	return n
}

// holdPipe returns a copy that an exec does not close.
func holdPipe(fd int) (int, error) { return unix.Dup(fd) }

func closePipe(fd int) { unix.Close(fd) }

// wideSize is what a pipe may hold whose worker was once faster than its reader: fewer turns between the two.
const wideSize = 1 << 20

// widen gives the pipe more room. A user who has too many wide pipes is refused, which does no harm.
func widen(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, wideSize) }
