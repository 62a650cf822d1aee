package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is what fits a Unix socket's address: the kernel has 108 bytes, one of them for the final zero.
const maxPath = 107

// Listener accepts on a Unix socket and removes it when it is closed.
type Listener struct {
	*net.UnixListener
	path     string
	dev, ino uint64
}

// ListenUnix listens on a Unix stream socket with exactly this mode, whatever the umask is. A stale socket in its place is
// replaced (see ReplaceSocket, and its condition). Nobody can connect before the mode is right, because the socket does
// not listen before. The folder must be one in which nobody else can take files away.
func ListenUnix(path string, mode fs.FileMode) (*Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("cannot listen on %s: a socket's path has at most %d bytes, this one has %d",
			path, maxPath, len(path))
	}
	if err := ReplaceSocket(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := bind(fd, path, bits(mode)); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	l, err := listen(fd, f, path)
	if err != nil {
		unix.Unlink(path)
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return l, nil
}

// bind gives the socket its name and mode. Linux makes the file with the mode of the unbound socket less the umask, so
// there is no moment with more rights than asked for; what the umask took is given back before anybody can connect.
func bind(fd int, path string, mode uint32) error {
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	if err := chmod(path, mode); err != nil {
		unix.Unlink(path)
		return err
	}
	return nil
}

// chmod changes the socket at the path, and nothing that a link in its place leads to.
func chmod(path string, mode uint32) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return errors.New("somebody put another file in its place")
	}
	if st.Mode&0o7777 == mode {
		return nil
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

func listen(fd int, f *os.File, path string) (*Listener, error) {
	// The kernel cuts the length of the queue to its own bound.
	if err := unix.Listen(fd, 4096); err != nil {
		return nil, err
	}
	return wrap(path, f)
}

func wrap(path string, f *os.File) (*Listener, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("the descriptor is not a Unix stream socket")
	}
	u.SetUnlinkOnClose(false) // Close knows better whose file it is
	return &Listener{UnixListener: u, path: path, dev: st.Dev, ino: st.Ino}, nil
}

// InheritUnix is ListenUnix for a process that was given the listening descriptor by its predecessor: clients have
// queued meanwhile. It takes the file over, also on an error.
func InheritUnix(path string, f *os.File) (*Listener, error) {
	defer f.Close()
	l, err := wrap(path, f)
	if err != nil {
		return nil, fmt.Errorf("cannot inherit the socket %s: %w", path, err)
	}
	return l, nil
}

// Close removes the socket, if the path still leads to it, and ends the listening.
func (l *Listener) Close() error {
	var st unix.Stat_t
	if unix.Lstat(l.path, &st) == nil && st.Dev == l.dev && st.Ino == l.ino {
		os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// ReplaceSocket removes a stale socket: one on which nobody listens, as an attempt to connect proves. Nothing at the path
// is fine too. Anything but a socket, and a socket that somebody listens on, stays and is an error.
//
// The caller must be the only one who makes sockets at this path (it holds the lock): between another's bind and listen
// this proof would hold.
func ReplaceSocket(path string) error {
	switch kind := inPlace(path); kind {
	case "":
		return nil
	case "socket":
	default:
		return fmt.Errorf("cannot listen on %s: a %s is in its place: remove it, or name another path", path, kind)
	}
	switch err := connect(path); {
	case err == nil:
		return fmt.Errorf("cannot listen on %s: another process listens there", path)
	case errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("cannot listen on %s: a socket is in its place, and whether anybody uses it is not known: %w", path, plain(err))
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove the stale socket %s: %w", path, err)
	}
	return nil
}

// plain leaves of net's errors the kernel's word: the path has been said.
func plain(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// connect tries each kind of socket, because which one left the file is not known. A full queue is somebody's, too.
func connect(path string) error {
	var err error
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		var c net.Conn
		c, err = net.DialTimeout(network, path, 2*time.Second)
		switch {
		case err == nil:
			c.Close()
			return nil
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case !errors.Is(err, unix.EPROTOTYPE):
			return err
		}
	}
	return err
}
