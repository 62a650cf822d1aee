package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of a daemon that was killed: nothing that is left of it keeps the next one from its work, and nobody
// else is harmed by what it left.

const oneWorker = `
app "shop" {
  worker "api" { command = ["sleep", "1000"] }
}`

// crash kills the daemon and waits for its end.
func (d *testDaemon) crash() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	d.wait()
}

// ours lists the living processes that were executed with this entry in their environment, or whose command line holds it.
func ours(t *testing.T, needle string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !alive(pid) {
			continue
		}
		for _, file := range []string{"environ", "cmdline"} {
			if b, _ := os.ReadFile(filepath.Join("/proc", e.Name(), file)); strings.Contains(string(b), needle) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// gone waits until nothing that carries the needle runs.
func (d *testDaemon) gone(needle string) {
	d.t.Helper()
	var left []int
	d.until("nothing of "+needle+" to run", func() bool { left = ours(d.t, needle); return len(left) == 0 })
}

const serveSocket = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(os.environ["COPPICE_SOCKET"])
s.listen(8)
while True:
    c, _ = s.accept()
    c.close()
`

// Fifty daemons are killed, each with a worker that listens. Every next one comes up in time, beside one generation only.
func TestFieldLockFiftyKilledDaemons(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := filepath.Base(d.dir)
	d.write("serve.py", serveSocket)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "api" {
    command = ["/bin/sh", "-c", "sleep 1000 & exec python3 serve.py %[2]s"]
    listen  = "unix"
  }
  worker "plain" { command = ["/bin/sh", "-c", "sleep 1000 & wait # %[2]s"] }
}`, d.dir, tag))
	slowest, kills, all := time.Duration(0), 0, time.Now()
	for ; kills < 50 && (kills < 10 || time.Since(all) < 12*time.Second); kills++ { // fewer on a busy machine
		begun := time.Now()
		d.start()
		slowest = max(slowest, time.Since(begun))
		d.crash()
	}
	d.start()
	t.Logf("the slowest start after %d kills took %v", kills, slowest)
	// Two seconds are the field's bound; the machine that tests may be busy.
	if slowest > 10*time.Second {
		t.Errorf("a start took %v", slowest)
	}
	d.running("default/shop/api.0")
	plain := d.running("default/shop/plain.0")
	if n := len(ours(t, "serve.py\x00"+tag)); n != 1 {
		t.Errorf("%d generations of api run", n)
	}
	if got := ours(t, "# "+tag); len(got) != 1 || got[0] != plain.PID {
		t.Errorf("plain runs as %v, status says %d", got, plain.PID)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	d.gone("COPPICE_SOCKET=" + d.run)
	d.gone("# " + tag)
	var left []string
	filepath.WalkDir(d.run, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "secret" {
			left = append(left, path)
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("a clean end left %v", left)
	}
}

// What a killed daemon left is stopped before the next one starts its own, whatever it has done to hide.
func TestFieldLockLeftovers(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := "leftover-" + filepath.Base(d.dir)
	d.write("stubborn.py", `
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
open(sys.argv[1] + ".up", "w").close()
while True: time.sleep(100)
`)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "plain"    { command = ["/bin/sh", "-c", "sleep 1000 & wait", "%[2]s"] }
  worker "stubborn" { command = ["python3", "stubborn.py", "stubborn", "%[2]s"] }
  worker "session"  { command = ["/bin/sh", "-c", "setsid python3 stubborn.py session %[2]s & wait", "%[2]s"] }
  worker "orphan"   {
    command = ["/bin/sh", "-c", "(setsid python3 stubborn.py orphan %[2]s &) ; exec sleep 1000", "%[2]s"]
    listen  = "inherit"
  }
  worker "frozen"   { command = ["/bin/sh", "-c", "kill -STOP $$; sleep 1000", "%[2]s"] }
  # Its shell would tell of its killed sleep, to a pipe that nobody reads any more, and end by that.
  worker "hup"      {
    command = ["/bin/sh", "-c", "exec 2>/dev/null; trap 'echo asked >hup.said; exit' HUP; touch hup.up; while :; do sleep 0.1; done", "%[2]s"]
    stop { signal = "HUP" }
  }
}`, d.dir, tag))
	d.start()
	for _, name := range []string{"stubborn", "session", "orphan", "hup"} {
		d.until(name+" to be there", func() bool { _, err := os.Stat(filepath.Join(d.dir, name+".up")); return err == nil })
	}
	d.until("frozen to be frozen", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.node("default/shop/frozen.0").PID))
		return strings.Contains(string(stat), ") T ")
	})
	// A stranger of the same name is nobody's leftover.
	stranger := exec.Command("/bin/sh", "-c", "exec sleep 1000")
	stranger.Env = []string{"COPPICE_PATH=default/shop/plain.0", "COPPICE_INCARNATION=1"}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	before := ours(t, tag)
	d.crash()
	for _, pid := range before {
		if !alive(pid) {
			t.Logf("%d ended with the daemon", pid)
		}
	}
	d.start()
	for _, pid := range before {
		if alive(pid) {
			t.Errorf("%d outlived the start of the next daemon", pid)
		}
	}
	if !alive(stranger.Process.Pid) {
		t.Error("a stranger was killed")
	}
	if _, err := os.Stat(filepath.Join(d.dir, "hup.said")); err != nil {
		t.Error("a leftover was not asked by its own signal")
	}
	for _, name := range []string{"plain", "stubborn", "session", "orphan", "frozen", "hup"} {
		if !strings.Contains(d.stderr.String(), "a killed daemon left running: path=default/shop/"+name+".0 incarnation=1 pid=") {
			t.Errorf("the log does not tell of %s", name)
		}
	}
	d.cli("stop", "default")
	d.gone(tag)
}

// A record whose pid has another owner now, and damaged records, harm nobody.
func TestFieldLockReusedPids(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, oneWorker)
	d.start()
	d.running("default/shop/api.0")
	records, _ := filepath.Glob(filepath.Join(d.run, "r", "*"))
	if len(records) != 1 {
		t.Fatalf("records: %v", records)
	}
	text, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	old := d.node("default/shop/api.0").PID
	d.crash()
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	folder := filepath.Join(d.run, "r")
	first, _, _ := strings.Cut(string(text), "\n")
	for name, text := range map[string]string{
		"reused.json":  first + fmt.Sprintf("\n{\"pid\":%d,\"started\":7}\n", stranger.Process.Pid),
		"self.json":    first + fmt.Sprintf("\n{\"pid\":%d,\"started\":7}\n", os.Getpid()),
		"init.json":    first + "\n{\"pid\":1,\"started\":1}\n",
		"minus.json":   first + "\n{\"pid\":-1,\"started\":1}\n",
		"torn.json":    first[:len(first)/2],
		"garbage.json": "\x00\xff{{{",
		"empty.json":   "",
		"boot.json":    strings.Replace(first, `"boot":"`, `"boot":"0`, 1) + fmt.Sprintf("\n{\"pid\":%d,\"started\":7}\n", stranger.Process.Pid),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.start()
	d.running("default/shop/api.0")
	if !alive(stranger.Process.Pid) {
		t.Error("a stranger with a recorded pid was killed")
	}
	if alive(old) {
		t.Error("the old generation runs still")
	}
	if records, _ = filepath.Glob(filepath.Join(folder, "*")); len(records) != 1 {
		t.Errorf("records afterwards: %v", records)
	}
}

// The text in the lock files excludes nobody, and what cannot be a lock file is an error that names it.
func TestFieldLockFiles(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, oneWorker)
	if err := os.MkdirAll(d.run, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.run, "lock")
	for _, text := range []string{"1\n", fmt.Sprint(os.Getpid()), "garbage \x00\xff", "", "12345678901234567890", strings.Repeat("x", 1<<16)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.start()
		if text != "" {
			// One proof is enough: it takes a start of its own.
		} else if second, status := d.second(); status != exitBusy || !strings.Contains(second, fmt.Sprint(d.cmd.Process.Pid)) || !strings.Contains(second, d.run) {
			t.Errorf("a second daemon ended with %d: %s", status, second)
		}
		if status := d.stop(); status != 0 {
			t.Errorf("status %d", status)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the lock file is left: %v", err)
		}
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, status := d.second(); status != exitFailed || !strings.Contains(out, file) {
		t.Errorf("with a directory in the lock file's place: %d, %s", status, out)
	}
}

// second runs a daemon that has to end by itself.
func (d *testDaemon) second() (stderr string, status int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := program("run", filepath.Join(d.dir, "coppice.hcl"))
	cmd := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
	cmd.Env = p.Env
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// A socket without a listener is replaced; one with a listener, and anything else in its place, stays.
func TestFieldLockStaleSockets(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, oneWorker)
	if err := os.MkdirAll(filepath.Join(d.run, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(d.run, "control.sock")
	if err := os.WriteFile(control, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := d.second(); status != exitFailed || !strings.Contains(out, control) || !strings.Contains(out, "regular file") {
		t.Errorf("with a regular file in the socket's place: %d, %s", status, out)
	}
	if b, err := os.ReadFile(control); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(d.run, "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a start that failed left its lock file")
	}
	os.Remove(control)
	listener, err := net.Listen("unix", control)
	if err != nil {
		t.Fatal(err)
	}
	if out, status := d.second(); status != exitFailed || !strings.Contains(out, "another process listens") {
		t.Errorf("with a living listener: %d, %s", status, out)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	stale := filepath.Join(d.run, "s", "0123456789abcdef-0.sock")
	other := filepath.Join(d.run, "s", "0123456789abcdef-1.sock")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.running("default/shop/api.0")
	if _, err := os.Lstat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a stale socket is left")
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error("a regular file in a socket's place was removed")
	}
	d.stop()
	if _, err := os.Lstat(control); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a clean end left the control socket")
	}
}

// Workers on a port and on an inherited socket come back after a kill without a bind error.
func TestFieldLockListenersAfterAKill(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fixed := l.Addr().String()
	l.Close()
	d.write("own.py", `
import os, signal, socket, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try: s.bind(("127.0.0.1", int(os.environ["FIXED"])))
except OSError: time.sleep(1000)   # the other of the two has it
s.listen(8)
time.sleep(1000)
`)
	_, port, _ := net.SplitHostPort(fixed)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "own" {
    command = ["python3", "own.py"]
    env     = { FIXED = "%s" }
    ready   { command = ["python3", "-c", "import os, socket; socket.create_connection(('127.0.0.1', int(os.environ['FIXED'])))"] }
  }
  worker "inherit" {
    command = ["sleep", "1000"]
    listen  = "inherit"
  }
}`, d.dir, port))
	for range 3 {
		d.start()
		d.running("default/shop/own.0")
		d.running("default/shop/inherit.0")
		if n := d.count("default/shop", tree.EventBackoff); n != 0 {
			t.Errorf("%d failed starts after a kill", n)
		}
		d.crash()
	}
	d.start()
	d.stop()
	d.gone("FIXED=" + port)
}
