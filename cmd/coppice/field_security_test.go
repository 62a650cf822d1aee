package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
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
	"unicode"

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

// environ reads what a worker copied from its /proc/self/environ, sorted; TAB stands for the end of an entry.
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
      ready { command = ["cp", "/proc/self/environ", "env-ready"] }
      health {
        command  = ["cp", "/proc/self/environ", "env-health"]
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

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes another user")
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
	needRoot(t)
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

// TestFieldNoMomentForStrangers starts the daemon again and again while a stranger knocks at its door, whatever the umask:
// nothing but a refusal ever comes back.
func TestFieldNoMomentForStrangers(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := newDaemon(t, `app "a" {
  worker "w" { command = ["sleep", "1000"] }
}`)
	knock := stranger(t, nobody, `
import socket, sys
count = 0
print("up", flush=True)
while True:
    s = socket.socket(socket.AF_UNIX); s.settimeout(10)
    try:
        s.connect(sys.argv[1])
        s.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = s.recv(100)
        if answer and b" 403 " not in answer: print("LET IN", answer, flush=True)
        elif answer:
            count += 1
            print("refused", count, flush=True)
    except OSError: pass
    s.close()
`, filepath.Join(d.run, "control.sock"))
	heard := new(transcript)
	knock.Stdout, knock.Stderr = heard, heard
	if err := knock.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { knock.Process.Kill(); knock.Wait() }()
	d.until("the stranger", func() bool { return strings.Contains(heard.String(), "up") })
	for i := range 8 {
		umask := []string{"000", "077", "022", "777"}[i%4]
		cmd := program()
		exe := cmd.Path
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "umask " + umask + `; exec "$0" "$@"`, exe, "run", filepath.Join(d.dir, "coppice.hcl")}
		d.launch(cmd)
		d.waitUp()
		before := strings.Count(heard.String(), "refused")
		d.until("the stranger to be refused", func() bool { return strings.Count(heard.String(), "refused") > before })
		for path, mode := range map[string]fs.FileMode{"": 0o711 | fs.ModeDir, "control.sock": 0o666 | fs.ModeSocket, "s": 0o1733&0o777 | fs.ModeSticky | fs.ModeDir} {
			if info, err := os.Stat(filepath.Join(d.run, path)); err != nil || info.Mode() != mode {
				t.Errorf("umask %s: %s is %v (%v), want %v", umask, path, info.Mode(), err, mode)
			}
		}
		if info, err := os.Stat(d.state); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("umask %s: state is %v (%v)", umask, info.Mode(), err)
		}
		d.running("default/a/w.0")
		// Whatever the daemon's own umask, a worker's is 022.
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.node("default/a/w.0").PID))
		if !bytes.Contains(status, []byte("Umask:\t0022\n")) {
			t.Errorf("umask %s: the worker's is not 022:\n%s", umask, status)
		}
		if status := d.stop(); status != 0 {
			t.Fatalf("the daemon ended with %d", status)
		}
	}
	if strings.Contains(heard.String(), "LET IN") {
		t.Errorf("a stranger was let in:\n%s", heard)
	}
}

func TestFieldATenantSeesItsOwn(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := startDaemon(t, `
tenant "acme" {
  user = "nobody"
  app "shop" {
    worker "web" { command = ["sh", "-c", "id -u; exec sleep 1000"] }
  }
}
tenant "other" {
  app "mail" {
    worker "in" { command = ["sh", "-c", "echo others words; exec sleep 1000"] }
    worker "web2" { command = ["sleep", "1000"] }
  }
}`)
	for _, path := range []string{"acme/shop/web.0", "other/mail/in.0", "other/mail/web2.0"} {
		d.running(path)
	}
	requests := []string{"GET /v1/status", "GET /v1/events", "GET /v1/logs", "GET /v1/why/web", "GET /v1/status/web", `POST /v1/restart {"path":"web"}`,
		`POST /v1/stop {"path":"acme"}`, `POST /v1/start {"path":"acme"}`}
	for i, answer := range d.asks(nobody, requests...) {
		if !strings.HasPrefix(answer, "200 ") || strings.Contains(answer, "other") || strings.Contains(answer, "_host") || strings.Contains(answer, d.dir+"/coppice.hcl") {
			t.Errorf("%s: %s", requests[i], answer)
		}
	}
	// A foreign name and one that does not exist cannot be told apart.
	for _, form := range []string{"GET /v1/status/%s", "GET /v1/status?path=%s", "GET /v1/why/%s", "GET /v1/events?path=%s", "GET /v1/logs?path=%s",
		"GET /v1/events?follow&path=%s", `POST /v1/stop {"path":"%s"}`, `POST /v1/restart {"paths":["web","%s"]}`, `POST /v1/start {"path":"%s"}`} {
		const unknown = "elsewhere"
		var request []string
		for _, name := range []string{unknown, "other", "other/mail", "other/mail/in.0", "in", "mail", "_host", "_host/control"} {
			request = append(request, fmt.Sprintf(form, name))
		}
		answers := d.asks(nobody, request...)
		for i, answer := range answers {
			name := []string{unknown, "other", "other/mail", "other/mail/in.0", "in", "mail", "_host", "_host/control"}[i]
			if want := strings.ReplaceAll(answers[0], unknown, name); answer != want || !strings.HasPrefix(answer, "404 ") {
				t.Errorf("%s: %s, want %s", request[i], answer, want)
			}
		}
	}
	for _, answer := range d.asks(nobody, "GET /metrics") {
		if !strings.HasPrefix(answer, "403 ") {
			t.Errorf("metrics name everybody: %s", answer)
		}
	}
	for _, path := range []string{"other/mail/in.0", "other/mail/web2.0"} {
		if n := d.node(path); n.Incarnation != 1 || n.State != tree.StateRunning {
			t.Errorf("%s was touched: %+v", path, n)
		}
	}
	d.until("who asked to be told", func() bool {
		for _, e := range d.events("acme") {
			if e.Kind == tree.EventIntent && e.Data["by"] == "nobody" {
				return true
			}
		}
		return false
	})
}

// raw sends bytes to the control socket and returns all that comes back.
func (d *testDaemon) raw(request string) string {
	d.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(d.run, "control.sock"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	go io.WriteString(conn, request) // a server that has heard enough reads no further
	b, _ := io.ReadAll(conn)
	return string(b)
}

func TestFieldHostileRequests(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" { command = ["sleep", "1000"] }
}`)
	first := d.running("default/a/w.0")
	goroutines := d.metric("go_goroutines")
	// A peer that begins a request and never ends it holds up nobody.
	for range 20 {
		conn, err := net.Dial("unix", filepath.Join(d.run, "control.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	}
	const end = "Connection: close\r\n\r\n"
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n%s%s", path, headers, len(body), end, body)
	}
	const js = "Content-Type: application/json\r\n"
	stop := `{"path":"w"}`
	for _, c := range []struct{ about, request, want string }{
		{"a form", post("/v1/stop", "Content-Type: application/x-www-form-urlencoded\r\n", "path=w"), "400"},
		{"a form of plain text", post("/v1/stop", "Content-Type: text/plain\r\n", stop), "400"},
		{"no type", post("/v1/stop", "", stop), "400"},
		{"a web page", post("/v1/stop", js+"Origin: http://evil.example\r\n", stop), "403"},
		{"a web page that hides", post("/v1/stop", js+"Sec-Fetch-Site: cross-site\r\n", stop), "403"},
		{"GET for a change", "GET /v1/stop?path=w HTTP/1.1\r\nHost: x\r\n" + end, "405"},
		{"POST for a look", post("/v1/status", js, "{}"), "405"},
		{"an unknown method", "FROB /v1/status HTTP/1.1\r\nHost: x\r\n" + end, "405"},
		{"an unknown route", "GET /v2/status HTTP/1.1\r\nHost: x\r\n" + end, "404"},
		{"a double slash", "GET //v1/status HTTP/1.1\r\nHost: x\r\n" + end, "400"},
		{"dots", "GET /v1/../v1/status HTTP/1.1\r\nHost: x\r\n" + end, "400"},
		{"hidden dots", "GET /v1/%2e%2e/v1/status HTTP/1.1\r\nHost: x\r\n" + end, "400"},
		{"hidden slash", "GET /v1/status/a%2fw HTTP/1.1\r\nHost: x\r\n" + end, ""},
		{"a null in a path", "GET /v1/status/%00 HTTP/1.1\r\nHost: x\r\n" + end, "404"},
		{"an escape in a path", "GET /v1/status/%1b%5b2J HTTP/1.1\r\nHost: x\r\n" + end, "404"},
		{"a bad escape", "GET /v1/status/%zz HTTP/1.1\r\nHost: x\r\n" + end, "400"},
		{"no JSON", post("/v1/stop", js, "path=w"), "400"},
		{"half of JSON", post("/v1/stop", js, `{"path":`), "400"},
		{"two bodies", post("/v1/stop", js, stop+stop), "400"},
		{"a list", post("/v1/stop", js, "[1]"), "400"},
		{"an unknown key", post("/v1/stop", js, `{"path":"w","force":true}`), "400"},
		{"no path", post("/v1/stop", js, `{}`), "400"},
		{"an empty path", post("/v1/stop", js, `{"path":""}`), "400"},
		{"an empty path among others", post("/v1/stop", js, `{"paths":[""]}`), ""},
		{"a bad time", post("/v1/stop", js, `{"path":"w","timeout":"-1s"}`), "400"},
		{"a body without end", post("/v1/stop", js, strings.Repeat(" ", 1<<20)+stop), "400"},
		{"a deep body", post("/v1/stop", js, strings.Repeat("[", 30000)), "400"},
		{"headers without end", "GET /v1/status HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 100) + end, "431"},
		{"two lengths", "POST /v1/stop HTTP/1.1\r\nHost: x\r\n" + js + "Content-Length: 5\r\nContent-Length: 12\r\n" + end + stop, "400"},
		{"a negative length", "POST /v1/stop HTTP/1.1\r\nHost: x\r\n" + js + "Content-Length: -1\r\n" + end, "400"},
		{"not HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		{"another host", "GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n" + end, ""},
	} {
		answer := d.raw(c.request)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.want) {
			t.Errorf("%s: %.200q, want %s", c.about, answer, c.want)
		}
		if strings.Contains(answer, "\x1b") || strings.Contains(answer, "goroutine") {
			t.Errorf("%s: %.200q", c.about, answer)
		}
		if n := d.node("default/a/w.0"); n.PID != first.PID {
			t.Fatalf("%s: the worker was touched", c.about)
		}
	}
	d.until("the goroutines of those who left to end", func() bool { return d.metric("go_goroutines") <= goroutines+25 })
}

// metric reads one number of /metrics.
func (d *testDaemon) metric(name string) float64 {
	d.t.Helper()
	var v float64
	for line := range strings.Lines(d.body("/metrics")) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			fmt.Sscan(rest, &v)
		}
	}
	return v
}

// forger prints what pretends to be something else, then tells the same as its status, and stays.
const forger = `
import os, socket, sys
lines = [
    b'2026-01-01T00:00:00.000Z [ERROR] coppice: failed: path=default/a/other.0 state=failed',
    b'{"@level":"error","@message":"failed","path":"default/a/other.0"}',
    b'"},{"level":"error","path":"x"}',
    b'over\rwritten\x08\x08\x08', b'\x1b[2Jcleared', b'\x1b]0;title\x07', b'\x1b]52;c;ZXZpbA==\x07', b'\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\',
    b'sep\xe2\x80\xa8arator', b'bidi\xe2\x80\xaeevil', b'c1 \xc2\x9b2J and raw \x9b2J', b'nul \x00 byte', b'',
    bytes(b for b in range(256) if b != 10), 'UTF-16'.encode('utf-16'), b'lone \xed\xa0\x80 surrogate', b'record \x1e separator',
    b'z' * 20 + '\u00e9'.encode()[:1], 'cut '.encode() + '\u00e9'.encode() * 200,
]
for l in lines: sys.stdout.buffer.write(l + b'\n')
sys.stdout.buffer.flush()
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'STATUS=evil \x1b[2J\r"},{ \xe2\x80\xae status\nREADY=1', os.environ['NOTIFY_SOCKET'])
import time; time.sleep(1000)
`

const forgedLines = 19

func TestFieldForgedOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	script := d.write("forger.py", forger)
	d.write("coppice.hcl", d.hostBlock(`log_format = "json"`)+fmt.Sprintf(`
app "a" {
  worker "w" {
    command = ["python3", %q]
    ready { notify = true }
    logs { max_line = "300B" }
  }
  worker "odd" { command = ["/nonexistent/\u001b[2J\rtool"] }
  worker "sick" {
    command = ["sleep", "1000"]
    ready {
      command = ["sh", "-c", "exit 9"]
      timeout = "200ms"
    }
  }
}`, script))
	d.start()
	d.running("default/a/w.0")
	d.must("stop", "odd", "--reason", "because \x1b]0;x\x07 \u202e \x9b")
	d.until("sick to fail", func() bool { return d.count("default/a/sick", tree.EventBackoff) > 0 })

	// The daemon's stdout: one JSON object a line, as many as were printed, and the worker's bytes all inside one field.
	var records []map[string]any
	d.until("all lines on stdout", func() bool {
		records = nil
		for line := range strings.Lines(d.stdout.String()) {
			records = append(records, decode(t, line))
		}
		return len(records) >= forgedLines
	})
	if len(records) != forgedLines {
		t.Errorf("%d records for %d lines", len(records), forgedLines)
	}
	for _, r := range records {
		if r["path"] != "default/a/w.0" || r["stream"] != "out" || r["incarnation"] != 1.0 || r["level"] != nil || r["@level"] != nil {
			t.Errorf("a record is not what the daemon said: %v", r)
		}
	}
	_, logged, _ := strings.Cut(d.stderr.String(), "\n{") // before it are warnings about the configuration
	for line := range strings.Lines("{" + logged) {
		if r := decode(t, line); r["path"] == "default/a/other.0" {
			t.Errorf("forged: %s", line)
		}
	}

	// The same over the API, where the bytes can be had back.
	sent := printed(t, script)
	var lines []string
	for line := range strings.Lines(d.must("logs", "w", "--json", "-n", "100000")) {
		r := decode(t, line)
		sameKeys(t, line, r, strings.TrimSpace("time path incarnation stream line cut "+map[bool]string{true: "raw"}[r["raw"] != nil]))
		text := r["line"].(string)
		if cut := r["cut"].(float64); cut > 0 {
			mark := fmt.Sprintf(" [cut %.0f bytes]", cut)
			if !strings.HasSuffix(text, mark) {
				t.Errorf("a cut line without its mark: %s", line)
			}
			text = strings.TrimSuffix(text, mark)
			if strings.ContainsRune(text, unicode.ReplacementChar) {
				t.Errorf("cut in the middle of a character: %q", text)
			}
		}
		if raw, ok := r["raw"].(string); ok {
			b, err := base64.StdEncoding.DecodeString(raw)
			if err != nil {
				t.Error(err)
			}
			text = string(b)
		}
		lines = append(lines, text)
	}
	if len(lines) != len(sent) {
		t.Fatalf("%d lines of %d", len(lines), len(sent))
	}
	for i := range sent {
		if lines[i] != sent[i] && !(len(sent[i]) > 300 && strings.HasPrefix(sent[i], lines[i])) {
			t.Errorf("line %d: %q, want %q", i, lines[i], sent[i])
		}
	}
	// Piped, text is raw, the mark included.
	piped := d.must("logs", "w", "-n", "100000")
	if !strings.Contains(piped, "\x1b[2Jcleared") || !strings.Contains(piped, " bytes]\n") {
		t.Errorf("piped logs: %q", piped)
	}
	// Server-sent events: every frame is one line of data.
	resp := d.get("/v1/logs?follow&n=100000", "Accept: text/event-stream")
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for frames := 0; frames < forgedLines && in.Scan(); {
		if in.Text() == "" {
			continue
		}
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			t.Fatalf("not a frame: %q", in.Text())
		}
		decode(t, data)
		frames++
	}
	// What people read has no control character that is not a line's end, and as many rows as there are nodes.
	for _, args := range []string{"status", "events", "why odd", "why sick", "why w"} {
		out := d.must(strings.Fields(args)...)
		for _, r := range out {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("coppice %s prints %q: %q", args, r, out)
				break
			}
		}
	}
	var st struct{ Nodes []tree.Node }
	if err := json.Unmarshal([]byte(d.must("status", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(d.must("status"), "\n"); rows != len(st.Nodes)+1 {
		t.Errorf("%d rows for %d nodes", rows, len(st.Nodes))
	}
	if n := d.node("default/a/w.0"); n.Status != "evil \x1b[2J\r\"},{ \u202e status" {
		t.Errorf("the worker's status words: %q", n.Status)
	}
	// A name that somebody typed comes back as visible escapes.
	for _, args := range [][]string{{"status", "\x1b[2J"}, {"\x1b]0;x\x07"}, {"status", "--\x1b[2J"}, {"help", "\x1b[2J"}, {"logs", "--since", "\x1b[2J"}, {"start", "a\u202eb"}} {
		_, errs, status := d.cli(args...)
		if status == 0 || strings.ContainsAny(errs, "\x1b\x07\u202e") {
			t.Errorf("coppice %q: %d %q", args, status, errs)
		}
	}
	// Metrics stay parseable, whatever was printed.
	for line := range strings.Lines(d.body("/metrics")) {
		if !strings.HasPrefix(line, "#") && strings.Count(line, " ") < 1 || strings.ContainsAny(line, "\x1b\r") {
			t.Errorf("metrics: %q", line)
		}
	}
}

// printed is what the script prints, line by line.
func printed(t *testing.T, script string) []string {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "s = socket.socket")
	out, err := exec.Command("python3", "-c", head).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != forgedLines {
		t.Fatalf("the script prints %d lines, not %d", len(lines), forgedLines)
	}
	return lines
}

// TestFieldTail asks for odd numbers of lines.
func TestFieldTail(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" {
    command = ["sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; printf 'half'; exec sleep 1000"]
    logs {
      rate  = 100000
      burst = 100000
    }
  }
}`)
	d.until("all lines", func() bool { return strings.Contains(d.must("logs", "-n", "1000"), "line 999\n") })
	for n, want := range map[string]int{"0": 0, "1": 1, "100": 100, "1000000": 1000} {
		out := d.must("logs", "-n", n)
		got := strings.Count(out, "\n")
		if got != want || want > 0 && want < 1000 && !strings.Contains(out, fmt.Sprintf("| line %d\n", 1000-want)) {
			t.Errorf("-n %s: %d lines", n, got)
		}
	}
	if out := d.must("logs"); strings.Count(out, "\n") != 100 {
		t.Errorf("without -n: %d lines", strings.Count(out, "\n"))
	}
	for _, query := range []string{"n=-1", "n=1000000000", "n=1e3", "n=x", "since=x", "since=-1m"} {
		resp := d.get("/v1/logs?" + query)
		if resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("?%s: %s", query, resp.Status)
		}
	}
}
