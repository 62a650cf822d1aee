package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// A worker that sends more than this waits: its own sendmsg blocks on the full socket. Nobody else does.
const (
	perSecond = 100
	burst     = 200
)

// Socket is where one incarnation of a worker reports. It holds one parked goroutine and no buffer while nothing comes.
type Socket struct {
	path   string
	conn   *net.UnixConn
	uid    int
	owns   func(pid int) bool
	got    func(Message)
	limit  *rate.Limiter
	done   chan struct{}
	closed atomic.Bool
}

// Listen opens the socket "notify" in the folder of an incarnation, which exists, and gives it to the worker's user: uid
// and gid, or -1 for this process's own. What an earlier daemon left there is replaced, so that an adopted worker goes
// on reporting to the same path.
//
// owns tells whether a process belongs to the worker; it may look in /proc. got gets each message in order, refused ones
// too, and none that says nothing. Both run on the socket's goroutine and must not block: what is behind waits. A sender that asked for a barrier
// goes on when got has returned.
func Listen(dir string, uid, gid int, owns func(pid int) bool, got func(Message)) (*Socket, error) {
	path := filepath.Join(dir, "notify")
	s, err := open(path, uid, gid)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	s.run(uid, owns, got)
	return s, nil
}

// Inherit is Listen for a daemon that was given the descriptor by its predecessor (see File): nothing that was sent in
// between is lost. It takes the file over, also on an error.
func Inherit(dir string, f *os.File, uid int, owns func(pid int) bool, got func(Message)) (*Socket, error) {
	path := filepath.Join(dir, "notify")
	s, err := wrap(path, f)
	if err != nil {
		return nil, fmt.Errorf("cannot inherit the socket %s: %w", path, err)
	}
	s.run(uid, owns, got)
	return s, nil
}

func open(path string, uid, gid int) (*Socket, error) {
	if len(path) > 107 {
		return nil, fmt.Errorf("a socket's path has at most 107 bytes, this one has %d", len(path))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	// Before there is a name to send to, so that no message comes without its sender's credentials.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		f.Close()
		return nil, err
	}
	// Older kernels have no pidfd to give; then /proc has to do.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1)
	if err := bind(fd, path, uid, gid); err != nil {
		f.Close()
		return nil, err
	}
	return wrap(path, f)
}

// bind makes the socket's file with mode 0600 whatever the umask leaves of more (Linux takes the mode of the unbound
// socket), and gives it to the worker's user.
func bind(fd int, path string, uid, gid int) error {
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("what is in its place cannot be removed: %w", err)
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	if err := give(path, uid, gid); err != nil {
		unix.Unlink(path)
		return err
	}
	return nil
}

// give changes the owner of the very file that was just made. The folder is the worker's: by now a hard link to somebody
// else's file may stand there.
func give(path string, uid, gid int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return errors.New("somebody put another file in its place")
	}
	if (uid < 0 || uid == int(st.Uid)) && (gid < 0 || gid == int(st.Gid)) {
		return nil
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

// wrap takes the file over.
func wrap(path string, f *os.File) (*Socket, error) {
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("the descriptor is not a Unix datagram socket")
	}
	return &Socket{path: path, conn: conn}, nil
}

func (s *Socket) run(uid int, owns func(pid int) bool, got func(Message)) {
	if uid < 0 {
		uid = os.Geteuid()
	}
	s.uid, s.owns, s.got = uid, owns, got
	s.limit = rate.NewLimiter(perSecond, burst)
	s.done = make(chan struct{})
	go s.read()
}

// Path is the worker's NOTIFY_SOCKET.
func (s *Socket) Path() string { return s.path }

// File is a duplicate of the descriptor, for handing it over an exec of the same process. It is closed on exec unless
// the caller clears that flag.
func (s *Socket) File() (*os.File, error) { return s.conn.File() }

// Close ends the socket and waits until got runs no more; got must not call it. The file is left to whoever removes the
// folder. A second Close does nothing.
func (s *Socket) Close() {
	if s.closed.CompareAndSwap(false, true) {
		s.conn.Close()
	}
	<-s.done
}

func (s *Socket) read() {
	defer close(s.done)
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return
	}
	for {
		var d datagram
		var rerr error
		// The buffers live for one attempt: a parked socket costs none.
		err := raw.Read(func(fd uintptr) bool {
			d, rerr = receive(int(fd))
			return rerr != unix.EAGAIN
		})
		if err != nil {
			return // closed
		}
		if rerr != nil && !transient(rerr) {
			return
		}
		if rerr == nil {
			s.handle(d)
		}
		// After the message, so that a flood is slowed before its next one: by 10 ms at most, which Close waits out.
		if s.limit.Wait(context.Background()) != nil {
			return
		}
	}
}

// transient errors say something about one message or one moment, not about the socket.
func transient(err error) bool {
	return errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EMFILE) ||
		errors.Is(err, unix.ENFILE)
}

func (s *Socket) handle(d datagram) {
	defer d.close()
	m := parse(d.data)
	if m == (Message{}) && d.fault == "" {
		return // a barrier, or nothing that we know
	}
	why := d.fault
	if why == "" {
		why = s.judge(d)
	}
	if why != "" {
		m = Message{Refused: why}
	}
	m.PID, m.UID = int(d.cred.Pid), int(d.cred.Uid)
	s.got(m)
}

// judge applies the rule of the package comment: "" if the sender's word counts.
func (s *Socket) judge(d datagram) string {
	pid, uid := int(d.cred.Pid), int(d.cred.Uid)
	if pid <= 0 {
		return "its sender is outside this pid namespace"
	}
	owned := s.owns(pid)
	// Asked after owns: if the sender is there still, owns was answered about it and not about a successor of its pid.
	if d.alive() {
		if owned {
			return ""
		}
		return fmt.Sprintf("process %d does not belong to the worker", pid)
	}
	if uid == s.uid || uid == os.Geteuid() || uid == 0 {
		return ""
	}
	return fmt.Sprintf("process %d has ended and ran as another user (uid %d)", pid, uid)
}
