package control

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// dialAsStranger connects as somebody who is neither root nor the daemon's user. The kernel notes the user of the thread.
func dialAsStranger(t *testing.T, address string) net.Conn {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		become := func(uid int) {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				t.Fatal(errno)
			}
		}
		become(65534)
		defer become(0)
	}
	c, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed tells whether the server has closed the connection, which has sent nothing and so has no answer to get.
func closed(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestOneUserCannotTakeAllConnections: who may not even ask cannot use up the daemon's descriptors, and room that is given
// back can be taken again.
func TestOneUserCannotTakeAllConnections(t *testing.T) {
	address := "@coppice-crowd-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Server{Host: &fakeHost{}, Access: Access{UID: 1 << 30, Group: -1}, Log: hclog.NewNullLogger()}.Serve(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	kept := make([]net.Conn, perUser)
	for i := range kept {
		kept[i] = dialAsStranger(t, address)
	}
	if !closed(t, dialAsStranger(t, address), 4*time.Second) {
		t.Error("one connection too many was kept")
	}
	if closed(t, kept[perUser-1], 50*time.Millisecond) {
		t.Error("the last one within the bound was closed")
	}
	kept[0].Close()
	deadline := time.Now().Add(4 * time.Second)
	for closed(t, dialAsStranger(t, address), 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("room that was given back cannot be taken")
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	c, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if closed(t, c, 50*time.Millisecond) {
		t.Error("root was kept out by a stranger")
	}
}
