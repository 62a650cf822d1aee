package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of secrets, of strangers at the control socket, and of output that pretends to be something else.

// get asks the daemon's API, with further headers.
func (d *testDaemon) get(path string, headers ...string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), "GET", "http://coppice"+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.run, "control.sock"))
	}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp
}

// body reads an answer of the API.
func (d *testDaemon) body(path string) string {
	d.t.Helper()
	resp := d.get(path)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// environ reads what a worker copied of the environment that it was started with, sorted.
func (d *testDaemon) environ(name string) []string {
	d.t.Helper()
	var text string
	d.until(name+" to be written", func() bool {
		b, err := os.ReadFile(filepath.Join(d.dir, name))
		text = string(b)
		return err == nil && strings.HasSuffix(text, "\x00")
	})
	vars := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	slices.Sort(vars)
	return vars
}

func TestFieldNothingOfTheDaemonReachesAWorker(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("coppice.hcl", d.hostBlock(`log_level = "trace"`)+fmt.Sprintf(`
tenant "one" {
  env = { SECRET_TENANT = "tenant-secret-7f3a" }
  app "a" {
    root = %[1]q
    env  = { SECRET_A = "app-secret-91bd" }
    worker "w" {
      command = ["sh", "-c", "cat /proc/$$/environ > env-w; exec sleep 1000"]
      env     = { SECRET_W = "worker-secret-02ce" }
      ready { command = ["sh", "-c", "cat /proc/$$/environ > env-ready"] }
      health {
        command  = ["sh", "-c", "cat /proc/$$/environ > env-health"]
        interval = "100ms"
      }
      restart { backoff = "10ms" }
    }
  }
}
tenant "two" {
  app "b" {
    root = %[1]q
    worker "w" {
      command = ["sh", "-c", "cat /proc/$$/environ > env-b; exec sleep 1000"]
      ready {
        notify  = true
        timeout = "100ms"
      }
      watchdog = "1m"
    }
  }
}
`, d.dir))
	outer, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(d.dir, "outer"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	d.start("SECRET_TOKEN=daemon-secret-55aa", "LD_PRELOAD=", "GOTRACEBACK=all", "NOTIFY_SOCKET="+filepath.Join(d.dir, "outer"),
		"LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=x", "WATCHDOG_USEC=30000000", "SSH_AUTH_SOCK=/tmp/agent", "TMPDIR=/tmp", "LANG=de_DE.UTF-8",
		"LC_ALL=C", "PATH="+os.Getenv("PATH")+":/daemon/only", "PWD=/somewhere", "COPPICE_CONTROL=/elsewhere")
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	d.running("one/a/w.0")
	common := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=de_DE.UTF-8", "HOME=" + home}
	one := append(slices.Clone(common), "COPPICE_TENANT=one", "COPPICE_APP=a", "COPPICE_WORKER=w", "COPPICE_INDEX=0", "COPPICE_PATH=one/a/w.0",
		"COPPICE_INCARNATION=1", "SECRET_TENANT=tenant-secret-7f3a", "SECRET_A=app-secret-91bd", "SECRET_W=worker-secret-02ce")
	slices.Sort(one)
	for _, name := range []string{"env-w", "env-ready", "env-health"} {
		if got := d.environ(name); !slices.Equal(got, one) {
			t.Errorf("%s:\n%q, want\n%q", name, got, one)
		}
	}
	var two []string
	for _, v := range d.environ("env-b") {
		key, value, _ := strings.Cut(v, "=")
		if key == "NOTIFY_SOCKET" && !strings.HasPrefix(value, d.run) {
			t.Errorf("the socket of the supervisor above was passed on: %s", v)
		}
		two = append(two, key)
	}
	if want := strings.Fields("COPPICE_APP COPPICE_INCARNATION COPPICE_INDEX COPPICE_PATH COPPICE_TENANT COPPICE_WORKER HOME LANG NOTIFY_SOCKET PATH WATCHDOG_USEC"); !slices.Equal(two, want) {
		t.Errorf("b has %q, want %q", two, want)
	}
	// A failed start, a crash and all that people can ask for show no value.
	d.until("a failed start", func() bool { return d.count("two", tree.EventBackoff) > 0 })
	syscall.Kill(d.node("one/a/w.0").PID, syscall.SIGSEGV)
	d.untilNode("one/a/w.0", "to be back", func(n tree.Node) bool { return n.Incarnation == 2 && n.State == tree.StateRunning })
	shown := map[string]string{"log": d.stderr.String(), "stdout": d.stdout.String(), "metrics": d.body("/metrics")}
	for _, args := range []string{"status", "status --json", "events", "events --json", "logs -n 100000", "why one/a/w --json", "why two/b/w"} {
		shown[args] = d.must(strings.Fields(args)...)
	}
	secrets := []string{"tenant-secret-7f3a", "app-secret-91bd", "worker-secret-02ce", "daemon-secret-55aa"}
	for _, dir := range []string{d.run, d.state} {
		filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				b, _ := os.ReadFile(path)
				if info, err := e.Info(); err == nil && info.Mode().Perm()&0o077 != 0 || !strings.HasPrefix(path, d.state) {
					shown[path] = string(b)
				}
			}
			return nil
		})
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.cmd.Process.Pid))
	shown["command line"] = string(cmdline)
	for where, text := range shown {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", where, secret)
			}
		}
	}
	// The supervisor above hears READY=1 once, and pings.
	ready := 0
	outer.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for stopped := false; !stopped; {
		n, err := outer.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		message := string(buf[:n])
		ready += strings.Count(message, "READY=1")
		if strings.Contains(message, "STOPPING=1") {
			stopped = true
		} else if ready == 1 {
			d.signal(syscall.SIGTERM)
		}
	}
	if ready != 1 {
		t.Errorf("READY=1 came %d times", ready)
	}
}

// stranger runs a Python script as another user: it may read what the test's folder shows to all.
func stranger(t *testing.T, uid uint32, script string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", append([]string{"-c", script}, args...)...) // one that strangers may execute
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{}}}
	cmd.WaitDelay = time.Second
	return cmd
}

const nobody = 65534

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

// askScript sends each request given to it on a connection of its own and prints the answers' first lines and bodies.
const askScript = `
import socket, sys
for request in sys.argv[2:]:
    method, path, *body = request.split(' ', 2)
    body = body[0] if body else ''
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
    answer = b''
    while True:
        b = s.recv(65536)
        if not b: break
        answer += b
    head, _, rest = answer.partition(b'\r\n\r\n')
    print(head.split(b' ')[1].decode(), rest.decode().replace('\n', ' '))
`

// asks sends requests as another user and returns "STATUS BODY" of each.
func (d *testDaemon) asks(uid uint32, requests ...string) []string {
	d.t.Helper()
	cmd := stranger(d.t, uid, askScript, append([]string{filepath.Join(d.run, "control.sock")}, requests...)...)
	b, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if err != nil || len(lines) != len(requests) {
		d.t.Fatalf("%v: %s", err, b)
	}
	return lines
}

func TestFieldStrangersAreRefused(t *testing.T) {
	needRoot(t, "to be another user")
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" { command = ["sleep", "1000"] }
}`)
	d.running("default/a/w.0")
	requests := []string{"GET /v1/status", "GET /v1/events", "GET /v1/events?follow", "GET /v1/logs", "GET /v1/why/w", "GET /v1/openapi.json", "GET /metrics",
		`POST /v1/stop {"path":"w"}`, `POST /v1/start {"path":"w"}`, `POST /v1/restart {"path":"nosuch"}`}
	for i, answer := range d.asks(nobody, requests...) {
		status, body, _ := strings.Cut(answer, " ")
		if status != "403" || decode(t, body)["code"] != "forbidden" || strings.Contains(body, "default/a") {
			t.Errorf("%s: %s", requests[i], answer)
		}
	}
	if n := d.node("default/a/w.0"); n.State != tree.StateRunning || n.Incarnation != 1 {
		t.Errorf("a stranger changed something: %+v", n)
	}
	d.until("the audit line", func() bool {
		for line := range strings.Lines(d.stderr.String()) {
			if strings.Contains(line, "uid=65534") && strings.Contains(line, "pid=") && strings.Contains(line, "POST /v1/stop") {
				return true
			}
		}
		return false
	})
	for _, answer := range d.asks(nobody, "GET /healthz", "GET /readyz") {
		if !strings.HasPrefix(answer, "200 ") {
			t.Errorf("health is nobody's secret: %s", answer)
		}
	}
	// The command says so with its own status.
	copied := filepath.Join(d.dir, "coppice")
	exe, err := os.ReadFile(program().Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "--socket", filepath.Join(d.run, "control.sock"), "stop", "w", "--json")
	cmd.Env, cmd.Dir = []string{asCoppice + "=1"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || decode(t, string(out))["code"] != "forbidden" {
		t.Errorf("coppice stop as a stranger: %v, %s", err, out)
	}
}
