package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Who may do what at the control socket, and what it takes.

// TestFieldNoMomentForStrangers starts the daemon again and again while a stranger knocks at its door, whatever the umask:
// nothing but a refusal ever comes back.
func TestFieldNoMomentForStrangers(t *testing.T) {
	needRoot(t, "to be another user")
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
	for i := range 4 {
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
	needRoot(t, "to be another user")
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
