//go:build linux

package notify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outside sets the variables of an outer supervisor for one test.
func outside(t *testing.T, socket, usec, pid string) {
	t.Helper()
	for key, value := range map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid} {
		t.Setenv(key, value)
		if value == "" {
			os.Unsetenv(key)
		}
	}
}

func TestTheDaemonReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	c := outer(t, path)
	outside(t, path, "30000000", strconv.Itoa(os.Getpid()))
	d := NewDaemon()
	for _, key := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(key); ok {
			t.Errorf("%s=%s is still there for workers to inherit", key, v)
		}
	}
	want := []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=30000000", "WATCHDOG_PID=" + strconv.Itoa(os.Getpid())}
	if got := d.Environ(); !slices.Equal(got, want) {
		t.Errorf("the next version gets %q, want %q", got, want)
	}
	for _, step := range []struct {
		say  func() error
		want string
	}{
		{d.Ready, "READY=1"},
		{d.Reloading, "RELOADING=1\nMONOTONIC_USEC="},
		{func() error { return d.Status("3 of 4 up\nREADY=1") }, "STATUS=3 of 4 up READY=1"},
		{d.Stopping, "STOPPING=1"},
	} {
		if err := step.say(); err != nil {
			t.Fatal(err)
		}
		if got := next(t, c); !strings.HasPrefix(got, step.want) {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

func TestTheDaemonPings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	c := outer(t, path)
	outside(t, path, "20000", "")
	d := NewDaemon()
	ctx, cancel := context.WithCancel(t.Context())
	asked, done := 0, make(chan struct{})
	go func() {
		d.Pings(ctx, func() bool { asked++; return asked > 3 })
		close(done)
	}()
	for range 3 {
		if got := next(t, c); got != "WATCHDOG=1" {
			t.Errorf("got %q", got)
		}
	}
	cancel()
	<-done
	if asked < 6 {
		t.Errorf("asked %d times for 3 pings after 3 refusals", asked)
	}
	// One that does not live says nothing.
	for {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 100)); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	asked = 0
	d.Pings(ctx, func() bool {
		if asked++; asked == 3 {
			cancel()
		}
		return false
	})
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := c.Read(make([]byte, 100)); err == nil {
		t.Errorf("it said %d bytes", n)
	}
}

func TestNoWatchdogNoPings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	outer(t, path)
	for name, env := range map[string][3]string{
		"nothing outside":      {"", "20000", ""},
		"no watchdog":          {path, "", ""},
		"another's watchdog":   {path, "20000", "1"},
		"not a number":         {path, "soon", ""},
		"not a span":           {path, "-5", ""},
		"longer than for ever": {path, "9223372036854775807", ""},
	} {
		outside(t, env[0], env[1], env[2])
		d := NewDaemon()
		// It returns, or the test times out.
		d.Pings(t.Context(), func() bool { t.Errorf("%s: asked", name); return false })
		if env[0] == "" {
			if err := errors.Join(d.Ready(), d.Reloading(), d.Status("x"), d.Stopping()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestADeadSupervisorIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	outer(t, path).Close()
	outside(t, path, "", "")
	wantError(t, NewDaemon().Ready(), "cannot notify: "+path+": nobody listens there")
}
