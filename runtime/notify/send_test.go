//go:build linux

package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSendSaysWhyItCannot(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	c := outer(t, stale)
	c.Close()
	for _, test := range []struct{ name, socket, state, want string }{
		{"unset", "", "READY=1", "cannot notify: NOTIFY_SOCKET is not set: "},
		{"neither form", "vsock:2:1234", "READY=1", `cannot notify: NOTIFY_SOCKET is "vsock:2:1234": it must begin with / or @`},
		{"missing", dir + "/none", "READY=1", "cannot notify: " + dir + "/none: no such file or directory"},
		{"stale", stale, "READY=1", "cannot notify: " + stale + ": nobody listens there: connection refused"},
		{"no abstract one", "@coppice-test-nobody", "READY=1", "cannot notify: @coppice-test-nobody: nobody listens there"},
		{"no state", stale, "", "cannot notify: nothing to say"},
		{"no equals", stale, "READY", `cannot notify: "READY" is not KEY=VALUE, as in READY=1`},
		{"no key", stale, "=1", `cannot notify: "=1" is not KEY=VALUE`},
		{"two lines", stale, "STATUS=a\nREADY=1", `cannot notify: "STATUS=a\nREADY=1" has a line break`},
		{"barrier", stale, "BARRIER=1", "cannot notify: BARRIER is sent after every message"},
		{"long", stale, "STATUS=" + strings.Repeat("x", 5000), "cannot notify: a message has at most 4096 bytes, this one has 5007"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", test.socket)
			var state []string
			if test.state != "" {
				state = []string{test.state}
			}
			wantError(t, Send(t.Context(), state...), test.want)
		})
	}
}

// outer is a supervisor's socket that only this test reads.
func outer(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// next is the next message, with its descriptors closed.
func next(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf, oob := make([]byte, 8192), make([]byte, 1024)
	n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil {
		t.Fatal(err)
	}
	messages, _ := syscall.ParseSocketControlMessage(oob[:oobn])
	for i := range messages {
		fds, _ := syscall.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}
	return string(buf[:n])
}

func TestSendToAnAbstractSocket(t *testing.T) {
	path := fmt.Sprintf("@coppice-test-%d", os.Getpid())
	c := outer(t, path)
	t.Setenv("NOTIFY_SOCKET", path)
	sent := make(chan error)
	go func() { sent <- Send(t.Context(), "READY=1", "STATUS=x") }()
	if got := next(t, c); got != "READY=1\nSTATUS=x" {
		t.Errorf("got %q", got)
	}
	if got := next(t, c); got != "BARRIER=1" {
		t.Errorf("got %q", got)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestSendDoesNotHangWithItsSupervisor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	outer(t, path)
	stop := errors.New("that is enough")
	var last error
	// The first ones find room in the queue and wait for the barrier; then there is no room.
	for range 2000 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, stop)
		last = send(ctx, path, []string{"READY=1"})
		cancel()
		if last == nil {
			t.Fatal("confirmed by nobody")
		}
		if strings.Contains(last.Error(), "does not read") {
			break
		}
		if !errors.Is(last, stop) {
			t.Fatal(last)
		}
	}
	wantError(t, last, "the supervisor does not read its socket")
}
