package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Send tells the supervisor that started this process, by NOTIFY_SOCKET, each state being KEY=VALUE. It waits until the
// supervisor has taken the message in (BARRIER=1), so that the caller may exit at once, or until ctx ends.
func Send(ctx context.Context, state ...string) error {
	if err := send(ctx, os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		return fmt.Errorf("cannot notify: %w", err)
	}
	return nil
}

func send(ctx context.Context, socket string, state []string) error {
	message, err := compose(state)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A full socket blocks: the end of ctx must unblock it, whether it is a deadline or not.
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write([]byte(message)); err != nil {
		if ctx.Err() != nil {
			return errors.New("the supervisor does not read its socket")
		}
		return fmt.Errorf("%s: %w", socket, reason(err))
	}
	if err := barrier(ctx, conn); err != nil {
		return fmt.Errorf("the message was sent, but the supervisor did not confirm it: %w", err)
	}
	return nil
}

// compose refuses what would arrive as something else than was asked for.
func compose(state []string) (string, error) {
	if len(state) == 0 {
		return "", errors.New("nothing to say: give at least one KEY=VALUE, as in READY=1")
	}
	for _, s := range state {
		key, _, ok := strings.Cut(s, "=")
		switch {
		case !ok || key == "":
			return "", fmt.Errorf("%q is not KEY=VALUE, as in READY=1", s)
		case strings.ContainsAny(s, "\n\x00"):
			return "", fmt.Errorf("%q has a line break or a zero byte in it", s)
		case key == "BARRIER":
			return "", errors.New("BARRIER is sent after every message: leave it out")
		}
	}
	message := strings.Join(state, "\n")
	if len(message) > maxMessage {
		return "", fmt.Errorf("a message has at most %d bytes, this one has %d", maxMessage, len(message))
	}
	return message, nil
}

// dial knows the two forms of address that are in use; "@" is an abstract socket, for net as for sd_notify.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	switch {
	case socket == "":
		return nil, errors.New("NOTIFY_SOCKET is not set: this process was not started by a supervisor that listens " +
			"(in Coppice: a worker with ready { notify = true } or a watchdog)")
	case socket[0] != '/' && socket[0] != '@':
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q: it must begin with / or @", socket)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixgram", socket)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, reason(err))
	}
	return c.(*net.UnixConn), nil
}

// reason leaves of net's errors what this package has not said already.
func reason(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	if errno == unix.ECONNREFUSED {
		return fmt.Errorf("nobody listens there: %w", errno)
	}
	return errno
}

// barrier hands over one end of a pipe. Messages are read in order, so when the supervisor closes it, it has read all that
// came before.
func barrier(ctx context.Context, conn *net.UnixConn) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.SetDeadline(time.Unix(1, 0)) })()
	err = pass(conn, w)
	w.Close()
	if err == nil {
		// Nothing is ever written: what ends this is the end of the file.
		if _, err = r.Read(make([]byte, 1)); err != nil && ctx.Err() == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pass sends what net refuses to on a connected datagram socket: a message with a descriptor. It uses the file's
// descriptor within Control, so that it stays as it is: Fd would make it blocking.
func pass(conn *net.UnixConn, f *os.File) error {
	file, err := f.SyscallConn()
	if err != nil {
		return err
	}
	socket, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var werr, serr error
	err = file.Control(func(passed uintptr) {
		werr = socket.Write(func(fd uintptr) bool {
			serr = unix.Sendmsg(int(fd), []byte("BARRIER=1"), unix.UnixRights(int(passed)), nil, unix.MSG_NOSIGNAL)
			return serr != unix.EAGAIN && serr != unix.EINTR
		})
	})
	return errors.Join(err, werr, serr)
}
