//go:build linux

package notify

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the process that reports.
func TestMain(m *testing.M) {
	if role := os.Getenv("NOTIFY_TEST_ROLE"); role != "" {
		play(role, strings.Split(os.Getenv("NOTIFY_TEST_STATE"), ";"))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const nobody = 65534

func play(role string, state []string) {
	// Given up here and not at birth: the test binary lies where others may not go.
	if name, uid, ok := strings.Cut(role, ":"); ok {
		n, _ := strconv.Atoi(uid)
		if err := syscall.Setuid(n); err != nil {
			fmt.Println(err)
			return
		}
		role = name
	}
	switch role {
	case "send": // waits until it was heard
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		fmt.Println(Send(ctx, state...))
	case "drop": // and is gone
		c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
		if err == nil {
			_, err = c.Write([]byte(strings.Join(state, "\n")))
		}
		fmt.Println(err)
	}
}

// worker runs a process that reports to path, to its end, and returns its pid and what it said.
func worker(t *testing.T, role, path, state string) (pid int, said string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// A race-detecting binary lingers for a second unless it is told not to.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "NOTIFY_TEST_ROLE="+role, "NOTIFY_TEST_STATE="+state, "NOTIFY_SOCKET="+path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, strings.TrimSpace(string(out))
}

// inbox keeps what a socket got.
type inbox struct {
	mu   sync.Mutex
	all  []Message
	news chan struct{}
}

func newInbox() *inbox { return &inbox{news: make(chan struct{}, 1)} }

func (b *inbox) got(m Message) {
	b.mu.Lock()
	b.all = append(b.all, m)
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

// wait is take, once n messages are there.
func (b *inbox) wait(t *testing.T, n int) []Message {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		have := len(b.all)
		b.mu.Unlock()
		if have >= n {
			return b.take()
		}
		select {
		case <-b.news:
		case <-late:
			t.Fatalf("%d messages after 20 s, want %d", have, n)
		}
	}
}

func listen(t *testing.T, owns func(int) bool, got func(Message)) *Socket {
	t.Helper()
	s, err := Listen(t.TempDir(), -1, -1, owns, got)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func everybody(int) bool { return true }

func mustSend(t *testing.T, path string, state ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := send(ctx, path, state); err != nil {
		t.Fatal(err)
	}
}

// raw sends a datagram as it is, with descriptors.
func raw(t *testing.T, path string, data []byte, fds ...int) {
	t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	socket, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var serr error
	err = socket.Write(func(fd uintptr) bool {
		serr = syscall.Sendmsg(int(fd), data, oob, nil, 0)
		return serr != syscall.EAGAIN
	})
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

// openFds counts this process's descriptors.
func openFds(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q lacks %q", err, p)
		}
	}
}
