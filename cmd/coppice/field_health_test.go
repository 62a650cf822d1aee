package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Health checks, and listeners that outlive their worker.

// TestFieldInherit: clients queue while the worker restarts, on a socket that stays.
func TestFieldInherit(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	d := newDaemon(t, "")
	const serve = `
s = socket.socket(fileno=3)
me = ' '.join([str(os.getpid()), os.environ['LISTEN_PID'], os.environ['LISTEN_FDS'], os.environ['LISTEN_FDNAMES'], str(os.environ.get('COPPICE_SOCKET') == s.getsockname())])
import select, signal
while True:
    select.select([s], [], [])
    # A graceful end: whoever is accepted is served.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    c, _ = s.accept(); c.sendall(me.encode()); c.close()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
`
	d.configure(`app "a" {
  worker "unix" {
    command = $serve$
    listen  = "inherit"
  }
  worker "tcp" {
    command = $serve$
    listen  = "inherit"
    address = "`+address+`"
  }
}`, map[string]string{"serve": serve})
	d.start()
	first := d.running("default/a/unix.0")
	d.running("default/a/tcp.0")
	ask := func(network, address string) string {
		conn, err := net.DialTimeout(network, address, patience)
		if err != nil {
			t.Errorf("%s refused: %v", network, err)
			return ""
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		b, err := io.ReadAll(conn)
		if err != nil || len(b) == 0 {
			t.Errorf("%s: no answer: %v", network, err)
		}
		return string(b)
	}
	for _, c := range []struct{ name, network, address, named string }{
		{"unix", "unix", first.Socket, "True"}, {"tcp", "tcp", address, "False"},
	} {
		pids := map[int]bool{}
		for i := range 4 {
			n := d.running("default/a/" + c.name + ".0")
			pids[n.PID] = true
			if want := fmt.Sprintf("%d %d 1 %s %s", n.PID, n.PID, c.name, c.named); ask(c.network, c.address) != want {
				t.Errorf("%s: not %q", c.name, want)
			}
			if i == 3 {
				break
			}
			// Clients that come while nobody accepts are served by the next one.
			stop, done := make(chan struct{}), make(chan int)
			go func() {
				answers := 0
				for {
					select {
					case <-stop:
						done <- answers
						return
					default:
						ask(c.network, c.address)
						answers++
					}
				}
			}()
			if i == 0 {
				syscall.Kill(n.PID, syscall.SIGSTOP) // so that somebody waits for sure
				syscall.Kill(n.PID, syscall.SIGCONT)
			}
			if i%2 == 0 {
				d.must("restart", c.name)
			} else {
				inc := n.Incarnation
				syscall.Kill(n.PID, syscall.SIGTERM)
				d.untilNode("default/a/"+c.name+".0", "to be back", func(n tree.Node) bool { return n.Incarnation > inc && n.Ready })
			}
			ask(c.network, c.address)
			close(stop)
			<-done
		}
		if len(pids) != 4 {
			t.Errorf("%d incarnations", len(pids))
		}
	}
	if n := d.node("default/a/unix.0"); n.Socket != first.Socket {
		t.Errorf("the socket moved from %s to %s", first.Socket, n.Socket)
	}
}

// healthWorker answers as a file says: 200, 302, 500, hang, drip, flood. Without the file it does not listen yet.
const healthWorker = `
mode = '%s/mode-' + os.environ['COPPICE_WORKER'] + os.environ['COPPICE_INCARNATION']
while not os.path.exists(mode): time.sleep(0.01)
class H(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_GET(self):
        m = open(mode).read()
        if m == 'hang': time.sleep(1000)
        self.send_response(302 if m == '302' else 500 if m == '500' else 200)
        if m == '302': self.send_header('Location', '%s')
        self.end_headers()
        if m == 'drip':
            while True: self.wfile.write(b'x'); self.wfile.flush(); time.sleep(0.01)
        while m == 'flood': self.wfile.write(b'x' * 65536)
class S(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
H.address_string = lambda self: 'x'
S(os.environ['PORT'], H).serve_forever()
`

func TestFieldHealth(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer foreign.Close()
	d := newDaemon(t, "")
	worker := func(name, more string) string {
		return `  worker "` + name + `" {
    command = $health$
    listen  = "unix"
    restart { backoff = "10ms" }
    health {
      http     = "/health"
      interval = "50ms"
      timeout  = "300ms"
      ` + more + `
    }
  }
`
	}
	d.configure(`app "a" {
`+worker("w", "failures = 3")+worker("patient", "failures = 1000")+worker("unroute", "failures = 2\nthen = \"unroute\"")+`}`,
		map[string]string{"health": fmt.Sprintf(healthWorker, d.dir, foreign.URL)})
	mode := func(worker, what string) { d.write("mode-"+worker, what) }
	pulse := func(path, what string, holds func(p *tree.Pulse) bool) tree.Node {
		return d.untilNode("default/a/"+path+".0", what, func(n tree.Node) bool { return n.Leaf != nil && n.Health != nil && holds(n.Health) })
	}
	healthy := func(p *tree.Pulse) bool { return p.OK && p.Failures == 0 }
	d.start()
	// Nothing is checked before it is ready, however long that takes.
	n := d.untilNode("default/a/w.0", "to start", func(n tree.Node) bool { return n.PID != 0 })
	if n.Health != nil || n.State != tree.StateStarting {
		t.Errorf("checked before it was ready: %+v", n.Leaf)
	}
	for _, name := range []string{"w1", "patient1", "unroute1"} {
		mode(name, "200")
	}
	for _, name := range []string{"w", "patient", "unroute"} {
		pulse(name, "to be healthy", healthy)
	}
	// A hang is seen, and over with the first success.
	pid := d.node("default/a/patient.0").PID
	for _, bad := range []string{"hang", "500", "drip"} {
		mode("patient1", bad)
		if bad == "drip" { // the status came: a body that goes on is not waited for
			pulse("patient", "to be healthy though it drips", healthy)
		} else if n := pulse("patient", "to fail by "+bad, func(p *tree.Pulse) bool { return !p.OK && p.Failures >= 2 }); n.Health.Detail == "" || time.Since(n.Health.At) > time.Minute {
			t.Errorf("%s: %+v", bad, n.Health)
		}
		mode("patient1", "200")
		pulse("patient", "to recover", healthy)
	}
	// A redirect is an answer, and nobody goes where it points. A body without end is not read.
	for _, odd := range []string{"302", "flood"} {
		mode("patient1", odd)
		at := time.Now()
		pulse("patient", "to answer "+odd, func(p *tree.Pulse) bool { return p.OK && p.At.After(at) })
	}
	if n := d.node("default/a/patient.0"); n.PID != pid || n.Restarts != 0 {
		t.Errorf("patient was restarted: %+v", n)
	}
	if followed.Load() != 0 {
		t.Error("a redirect to a foreign host was followed")
	}
	// What stays bad is restarted, counted, and comes back.
	mode("w2", "200")
	mode("w1", "500")
	n = d.untilNode("default/a/w.0", "to be back", func(n tree.Node) bool { return n.Incarnation == 2 && n.State == tree.StateRunning && n.Ready })
	stopping := d.first("default/a/w.0", tree.EventStopping)
	if n.Restarts != 1 || n.Intent != "" || !strings.HasPrefix(stopping.Reason, "unhealthy: ") || !strings.Contains(stopping.Reason, "500") {
		t.Errorf("restarted: %+v, %+v", n, stopping)
	}
	// Where it asks for no restart it only loses its readiness.
	pid = d.node("default/a/unroute.0").PID
	mode("unroute1", "500")
	n = d.untilNode("default/a/unroute.0", "to be unready", func(n tree.Node) bool { return !n.Ready })
	if n.PID != pid || n.State != tree.StateRunning || !strings.HasPrefix(n.Reason, "unhealthy: ") || !d.node("default/a").Degraded {
		t.Errorf("unready: %+v", n)
	}
	mode("unroute1", "200")
	if n := d.running("default/a/unroute.0"); n.PID != pid || n.Reason != "" {
		t.Errorf("ready again: %+v", n)
	}
	if d.count("default/a/unroute", tree.EventUnready) != 1 || d.count("default/a/unroute", tree.EventReady) != 2 {
		t.Errorf("the journal does not tell it: %v", d.events("default/a/unroute"))
	}
}
