package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// What is read of an HTTP answer. A worker can make a probe wait until its timeout, but not read for ever.
const (
	maxHead = 64 << 10
	maxBody = 64 << 10
)

// Target is how to reach one incarnation of a worker.
type Target struct {
	Network, Address string // as for net.Dial: "unix" or "tcp"
	// PeerUID is the user as whom whoever listens on the Unix socket must run; -1: anybody. (A socket on which the daemon
	// listens for the worker has the daemon's.)
	PeerUID int
	// Run runs a command as the worker does and returns nil if it exited with 0. It must return soon after its context has
	// ended, having killed everything of the command, and must not wait for output that a left-over child holds open.
	Run func(ctx context.Context, argv []string) error
}

// Socket succeeds if the worker's socket accepts a connection. A file without a listener does not.
func Socket(ctx context.Context, t Target) error {
	conn, err := dial(ctx, t)
	if err != nil {
		return err
	}
	return conn.Close()
}

// HTTP sends one GET for path over the worker's socket and succeeds on any status below 500. Redirects are answers like
// any other and are not followed. The answer must be complete, or 64 KiB long, before ctx ends.
func HTTP(ctx context.Context, t Target, path string) error {
	if err := get(ctx, t, path); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

func get(ctx context.Context, t Target, path string) error {
	host := "localhost"
	if t.Network != "unix" {
		host = t.Address
	}
	if !strings.HasPrefix(path, "/") {
		return errors.New("the path must begin with /")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "coppice-probe")
	req.Close = true
	conn, err := dial(ctx, t)
	if err != nil {
		return err
	}
	defer conn.Close()
	// One exchange on one connection of its own: no pool that could hold a connection to a dead incarnation, no goroutine.
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	status, err := exchange(conn, req)
	switch {
	case err != nil:
		return plain(ctx, err)
	case status >= 500:
		return fmt.Errorf("status %d", status)
	}
	return nil
}

func exchange(conn net.Conn, req *http.Request) (status int, err error) {
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	limited := &io.LimitedReader{R: conn, N: maxHead}
	r := bufio.NewReader(limited)
	for {
		res, err := http.ReadResponse(r, req)
		switch {
		case err != nil && limited.N <= 0:
			return 0, fmt.Errorf("the head of the answer is longer than %d KiB", maxHead>>10)
		case err != nil:
			return 0, unreadable(err)
		case res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols:
			continue // 100 Continue and its like come before the answer
		case res.StatusCode >= 500:
			return res.StatusCode, nil // its body makes it no better
		}
		limited.N = maxBody
		_, err = io.CopyN(io.Discard, res.Body, maxBody) // and no Close: that would read the rest
		switch {
		case err == io.EOF || limited.N <= 0:
			err = nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("the answer ended early")
		}
		return res.StatusCode, err
	}
}

// unreadable keeps the worker's own bytes out of the reason.
func unreadable(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF:
		return errors.New("the connection was closed without an answer")
	case isNet(err):
		return err
	}
	return errors.New("the answer is not HTTP")
}

// Command runs a command as the worker does and succeeds if it exits with 0.
func Command(ctx context.Context, t Target, argv []string) error {
	if t.Run == nil || len(argv) == 0 {
		return errors.New("no command can be run")
	}
	if err := t.Run(ctx, argv); err != nil {
		return plain(ctx, err)
	}
	return nil
}

// Ready is the part of a worker's readiness that is asked for: socket, HTTP and command, all of which must hold. It
// returns nil if none is configured; notify and log are told and not asked.
func Ready(r tree.Ready, t Target) func(context.Context) error {
	if !r.Socket && r.HTTP == "" && len(r.Command) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		if r.Socket && r.HTTP == "" { // an answer over the socket proves that it accepts
			if err := Socket(ctx, t); err != nil {
				return err
			}
		}
		if r.HTTP != "" {
			if err := HTTP(ctx, t, r.HTTP); err != nil {
				return err
			}
		}
		if len(r.Command) > 0 {
			return Command(ctx, t, r.Command)
		}
		return nil
	}
}

func dial(ctx context.Context, t Target) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, t.Network, t.Address)
	if err != nil {
		return nil, plain(ctx, err)
	}
	if u, ok := conn.(*net.UnixConn); ok && t.PeerUID >= 0 {
		uid, err := peer(u)
		if err == nil && uid != t.PeerUID {
			err = fmt.Errorf("its socket is held by uid %d, not by uid %d", uid, t.PeerUID)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// plain makes an error a short reason: people know which worker it is about, and its socket's name tells them nothing.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var errno syscall.Errno
	switch {
	case !isNet(err) || !errors.As(err, &errno):
		return err
	case errno == syscall.ENOENT:
		return fmt.Errorf("its socket is not there: %w", errno)
	case errno == syscall.EAGAIN:
		return fmt.Errorf("its socket's queue is full: %w", errno)
	}
	return errno
}

func isNet(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}
