//go:build linux

package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-run/coppice/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker answers each connection with answer, which reads the request itself, and counts them.
type worker struct {
	target Target
	mu     sync.Mutex
	conns  int
}

func serve(t *testing.T, network string, answer func(c net.Conn)) *worker {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{target: Target{Network: network, Address: l.Addr().String(), PeerUID: -1}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns++
			w.mu.Unlock()
			wg.Go(func() { defer c.Close(); answer(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return w
}

// request reads one request's head and returns its first line.
func request(c net.Conn) string {
	r := bufio.NewReader(c)
	first, _ := r.ReadString('\n')
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return strings.TrimSpace(first)
		}
	}
}

// says is a worker that answers with these bytes and closes.
func says(text string) func(net.Conn) {
	return func(c net.Conn) { request(c); io.WriteString(c, text) }
}

// hangs until the other side goes.
func hangs(c net.Conn) { io.Copy(io.Discard, c) }

func TestHTTP(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", ""},
		{"to the end", "HTTP/1.0 200 OK\r\n\r\nhello", ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ""},
		{"unauthorised", "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", ""},
		{"499", "HTTP/1.1 499 Odd\r\nContent-Length: 0\r\n\r\n", ""},
		{"a redirect elsewhere", "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", ""},
		{"continue first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\n\r\n", "GET /healthz: status 503"},
		{"500", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "GET /healthz: status 500"},
		{"nothing", "", "GET /healthz: the connection was closed without an answer"},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Length: 1", "GET /healthz: the connection was closed without an answer"},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "GET /healthz: the answer ended early"},
		{"another language", "\x1b[2JSSH-2.0\r\n\r\n", "GET /healthz: the answer is not HTTP"},
		{"a head without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<17), "GET /healthz: the head of the answer is longer than 64 KiB"},
		{"a big body", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1000000), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, network := range []string{"unix", "tcp"} {
				w := serve(t, network, says(c.answer))
				got := ""
				if err := HTTP(within(t, 20*time.Second), w.target, "/healthz"); err != nil {
					got = err.Error()
				}
				if got != c.want {
					t.Errorf("%s: got %q, want %q", network, got, c.want)
				}
				if w.conns != 1 {
					t.Errorf("%s: %d connections", network, w.conns)
				}
			}
		})
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestARequestIsPlain(t *testing.T) {
	got := make(chan *http.Request, 1)
	w := serve(t, "unix", func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Error(err)
		}
		got <- req
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	if err := HTTP(within(t, 20*time.Second), w.target, "/a%20b?c=d"); err != nil {
		t.Fatal(err)
	}
	req := <-got
	if req.Method != "GET" || req.RequestURI != "/a%20b?c=d" || req.Host != "localhost" || !req.Close {
		t.Errorf("got %s %s, Host %s, close %v", req.Method, req.RequestURI, req.Host, req.Close)
	}
	for _, path := range []string{"", "healthz", "/\r\nX: y", "/%zz"} {
		if err := HTTP(t.Context(), w.target, path); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	if w.conns != 1 {
		t.Errorf("%d connections", w.conns)
	}
}

// A worker can hang at every step; each is cut.
func TestAHungWorkerIsCut(t *testing.T) {
	drip := func(c net.Conn) {
		request(c)
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"); err != nil {
			return
		}
		for range time.Tick(time.Millisecond) {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]func(net.Conn){
		"accepts and is silent": hangs,
		"half a head":           func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200"); hangs(c) },
		"byte by byte":          drip,
	} {
		w := serve(t, "unix", answer)
		check := func(ctx context.Context) error { return HTTP(ctx, w.target, "/") }
		err := attempt(t.Context(), 50*time.Millisecond, check)
		if err == nil || err.Error() != "no answer in 50ms" {
			t.Errorf("%s: got %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := check(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSocket(t *testing.T) {
	live := serve(t, "unix", hangs)
	if err := Socket(t.Context(), live.target); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		stale:         "connection refused",
		plain:         "connection refused",
		dir + "/none": "its socket is not there: no such file or directory",
	} {
		if err := Socket(t.Context(), Target{Network: "unix", Address: path, PeerUID: -1}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestAnotherUsersSocketIsNotTheWorkers(t *testing.T) {
	w := serve(t, "unix", says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	w.target.PeerUID = os.Geteuid()
	if err := HTTP(t.Context(), w.target, "/"); err != nil {
		t.Error(err)
	}
	w.target.PeerUID = os.Geteuid() + 1
	want := fmt.Sprintf("its socket is held by uid %d, not by uid %d", os.Geteuid(), os.Geteuid()+1)
	if err := Socket(t.Context(), w.target); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := HTTP(t.Context(), w.target, "/"); err == nil || err.Error() != "GET /: "+want {
		t.Errorf("got %v", err)
	}
}

func TestReadyIsAllOfIt(t *testing.T) {
	w := serve(t, "unix", says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	var verdict error
	ran := 0
	w.target.Run = func(_ context.Context, argv []string) error { ran++; return verdict }
	argv := []string{"true"}
	nowhere := w.target
	nowhere.Address += "x"
	for _, c := range []struct {
		name    string
		ready   tree.Ready
		target  Target
		verdict error
		ok      bool
		ran     int
	}{
		{"socket", tree.Ready{Socket: true}, w.target, nil, true, 0},
		{"no socket", tree.Ready{Socket: true, Command: argv}, nowhere, nil, false, 0},
		{"http", tree.Ready{HTTP: "/"}, w.target, nil, true, 0},
		{"no http", tree.Ready{HTTP: "/", Command: argv}, nowhere, nil, false, 0},
		{"command", tree.Ready{Command: argv}, nowhere, nil, true, 1},
		{"all", tree.Ready{Socket: true, HTTP: "/", Command: argv}, w.target, nil, true, 1},
		{"all but the command", tree.Ready{Socket: true, HTTP: "/", Command: argv}, w.target, errors.New("exit 1"), false, 1},
	} {
		verdict, ran = c.verdict, 0
		if err := Ready(c.ready, c.target)(t.Context()); (err == nil) != c.ok || ran != c.ran {
			t.Errorf("%s: got %v, and %d commands", c.name, err, ran)
		}
	}
	if Ready(tree.Ready{Notify: true, Log: "up"}, w.target) != nil {
		t.Error("there is nothing to ask")
	}
	if err := Command(t.Context(), Target{}, argv); err == nil {
		t.Error("no error of a target that cannot run commands")
	}
}
