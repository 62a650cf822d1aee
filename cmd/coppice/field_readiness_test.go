package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of readiness and health: nobody counts as ready before they are, and a failing check neither kills for
// good nor goes unseen.

// pyWorker is what Python workers begin with. tell speaks sd_notify, sock makes the socket of PORT.
const pyWorker = `
import http.server, os, socket, socketserver, subprocess, sys, time
def tell(what):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(what, os.environ['NOTIFY_SOCKET']); s.close()
def sock(path=None):
    s = socket.socket(socket.AF_UNIX); s.bind(path or os.environ['PORT']); return s
def forever():
    while True: time.sleep(1000)
`

// python writes a worker's script and returns its command in HCL.
func (d *testDaemon) python(name, script string) string {
	d.t.Helper()
	return fmt.Sprintf(`["python3", %q]`, d.write(name+".py", pyWorker+script))
}

// configure writes the configuration, with each NAME.py of scripts as $NAME.
func (d *testDaemon) configure(hcl string, scripts map[string]string) {
	d.t.Helper()
	for name, script := range scripts {
		hcl = strings.ReplaceAll(hcl, "$"+name+"$", d.python(name, script))
	}
	d.write("coppice.hcl", d.hostBlock("")+strings.ReplaceAll(hcl, "$dir$", d.dir))
}

// once is a restart block of workers that shall not come back while a test looks.
const once = `restart {
      backoff = "1h"
      cap     = "1h"
    }`

// first returns the first journal entry of a kind.
func (d *testDaemon) first(path string, kind tree.EventKind) (found tree.Event) {
	d.t.Helper()
	d.until(path+" "+string(kind), func() bool {
		for _, e := range d.events(path) {
			if e.Kind == kind && e.Path == path {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func TestFieldReadyMeansReady(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.configure(`app "a" {
  worker "never" {
    command = $never$
    listen  = "unix"
    ready {
      notify  = true
      timeout = "1s"
    }
    `+once+`
  }
  worker "dies" {
    command = ["sh", "-c", "sleep 0.3; exit 1"]
    ready { notify = true }
    `+once+`
  }
  worker "good" {
    command = $good$
    ready { notify = true }
  }
  worker "after_never" {
    command = ["sleep", "1000"]
    after   = ["never"]
  }
  worker "after_dies" {
    command = ["sleep", "1000"]
    after   = ["good", "dies"]
  }
  worker "after_good" {
    command = ["sleep", "1000"]
    after   = ["good"]
  }
}`, map[string]string{
		"never": "s = sock(); s.listen(); forever()",
		"good":  "time.sleep(0.3); tell(b'READY=1'); forever()",
	})
	d.start()
	d.running("default/a/after_good.0")
	never := d.untilNode("default/a/never.0", "to be given up", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	dies := d.untilNode("default/a/dies.0", "to be given up", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	if never.Reason != "not ready in 1s" || never.Ready || never.LastExit == nil || d.count("default/a/never", tree.EventReady) != 0 {
		t.Errorf("never ready: %+v %+v", never, never.Leaf)
	}
	began, ended := d.first("default/a/never.0", tree.EventStarting), d.first("default/a/never.0", tree.EventStopping)
	if took := ended.Time.Sub(began.Time); took < time.Second || took > 5*time.Second {
		t.Errorf("given up after %s", took)
	}
	if dies.Reason != "exit 1" || d.count("default/a/dies", tree.EventReady) != 0 {
		t.Errorf("died before it was ready: %+v", dies)
	}
	for path, reason := range map[string]string{"after_never": "after never", "after_dies": "after dies"} {
		n := d.node("default/a/" + path + ".0")
		if n.State != tree.StateWaiting || n.Reason != reason || n.PID != 0 || d.count("default/a/"+path, tree.EventStarting) != 0 {
			t.Errorf("%s: %+v", path, n)
		}
	}
	if ready, start := d.first("default/a/good.0", tree.EventReady), d.first("default/a/after_good.0", tree.EventStarting); start.Seq < ready.Seq {
		t.Error("after_good started before good was ready")
	}
	asked := time.Now()
	if _, errs, status := d.cli("start", "never"); status != 1 || !strings.Contains(errs, "not ready in 1s: READY=1 has not come") {
		t.Errorf("start of one that is never ready: %d %s", status, errs)
	}
	if took := time.Since(asked); took < time.Second || took > 8*time.Second {
		t.Errorf("start returned after %s", took)
	}
	if why := d.must("why", "after_never"); !strings.Contains(why, "after never") || !strings.Contains(why, "default/a/never.0") {
		t.Errorf("why: %s", why)
	}
}

// TestFieldReadyBySocket: what counts is that it accepts, not that there is a file.
func TestFieldReadyBySocket(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.configure(`app "a" {
  worker "bound" {
    command = $bound$
    listen  = "unix"
  }
  worker "file" {
    command = $file$
    listen  = "unix"
  }
  worker "stale" {
    command = $stale$
    listen  = "unix"
    restart { backoff = "10ms" }
  }
  worker "tcp" {
    command = $tcp$
    listen  = "tcp"
  }
}`, map[string]string{
		"bound": "s = sock()\nwhile not os.path.exists('$dir$/go'): time.sleep(0.01)\ns.listen(); forever()",
		"file":  "open(os.environ['PORT'], 'w').close()\nwhile not os.path.exists('$dir$/go'): time.sleep(0.01)\nos.remove(os.environ['PORT']); s = sock(); s.listen(); forever()",
		// The second incarnation binds nothing: what the first left must not speak for it.
		"stale": "if os.environ['COPPICE_INCARNATION'] == '1':\n s = sock(); s.listen()\nforever()",
		"tcp":   "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', int(os.environ['PORT'])))\nwhile not os.path.exists('$dir$/go'): time.sleep(0.01)\ns.listen(); forever()",
	})
	for _, name := range []string{"bound", "file", "tcp"} {
		file := filepath.Join(d.dir, name+".py")
		b, _ := os.ReadFile(file)
		d.write(name+".py", strings.ReplaceAll(string(b), "$dir$", d.dir))
	}
	d.start()
	stale := d.running("default/a/stale.0")
	syscall.Kill(stale.PID, syscall.SIGKILL)
	d.untilNode("default/a/stale.0", "to be back", func(n tree.Node) bool { return n.Incarnation == 2 && n.PID != 0 })
	for _, path := range []string{"bound", "file", "tcp"} {
		d.untilNode("default/a/"+path+".0", "to be asked", func(n tree.Node) bool { return n.State == tree.StateStarting && n.PID != 0 })
	}
	d.until("the sockets to be there", func() bool {
		_, err := os.Lstat(d.node("default/a/bound.0").Socket)
		_, err2 := os.Lstat(d.node("default/a/file.0").Socket)
		return err == nil && err2 == nil
	})
	// Some probes later nobody is ready.
	for _, path := range []string{"bound", "file", "tcp", "stale"} {
		if n := d.node("default/a/" + path + ".0"); n.Ready || n.State != tree.StateStarting {
			t.Errorf("%s counts as ready: %+v", path, n)
		}
	}
	d.write("go", "")
	for _, path := range []string{"bound", "file", "tcp"} {
		d.running("default/a/" + path + ".0")
	}
	if n := d.node("default/a/stale.0"); n.State != tree.StateStarting || n.Incarnation != 2 {
		t.Errorf("stale is ready by its predecessor's socket: %+v", n)
	}
	if n := d.node("default/a/tcp.0"); n.Port == 0 {
		t.Error("no port")
	}
}

// TestFieldNotify: children of the worker may speak for it, strangers may not, and a shell can.
func TestFieldNotify(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.configure(fmt.Sprintf(`app "a" {
  worker "child" {
    command = $child$
    ready { notify = true }
  }
  worker "shell" {
    command = ["sh", "-c", "%[1]s notify READY=1 'STATUS=from a shell' && exec sleep 1000"]
    env     = { %[2]s = "1" }
    ready { notify = true }
  }
  worker "waits" {
    command = ["sh", "-c", "echo $NOTIFY_SOCKET >$dir$/address; while [ ! -e $dir$/go ]; do sleep 0.05; done; %[1]s notify READY=1; exec sleep 1000"]
    env     = { %[2]s = "1" }
    ready { notify = true }
  }
}`, program().Path, asCoppice), map[string]string{
		"child": "if os.fork() == 0:\n os.setsid(); tell(b'READY=1\\nSTATUS=from a child'); os._exit(0)\nforever()",
	})
	d.start()
	for path, words := range map[string]string{"child": "from a child", "shell": "from a shell"} {
		d.running("default/a/" + path + ".0")
		d.untilNode("default/a/"+path+".0", "to tell its status", func(n tree.Node) bool { return n.Status == words })
	}
	var address string
	d.until("the address", func() bool {
		b, _ := os.ReadFile(filepath.Join(d.dir, "address"))
		address = strings.TrimSpace(string(b))
		return address != ""
	})
	// We are of the same user and no part of the worker.
	conn, err := net.Dial("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "READY=1\nSTATUS=a stranger's"); err != nil {
		t.Fatal(err)
	}
	d.until("the stranger to be refused", func() bool { return strings.Contains(d.stderr.String(), "refused a notification") })
	if n := d.node("default/a/waits.0"); n.Ready || n.Status != "" {
		t.Errorf("a stranger spoke for it: %+v", n.Leaf)
	}
	d.write("go", "")
	d.running("default/a/waits.0")
}

// TestFieldReadyByCommandAndLog: several checks at once must all hold, commands never overlap, a hung one is cut with all of
// it, and the worker takes no harm.
func TestFieldReadyByCommandAndLog(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.configure(`app "a" {
  root = "$dir$"
  worker "all" {
    command = $all$
    ready {
      notify  = true
      log     = "^serving on [0-9]+$"
      command = ["sh", "-c", "sleep 1000 & setsid sleep 1001 & test -e command"]
    }
  }
  worker "hangs" {
    command = ["sh", "-c", "setsid sleep 1003 & exec sleep 1002"]
    ready { command = ["true"] }
    health {
      command  = ["sh", "-c", "echo begin >>overlap; trap 'echo end >>overlap' EXIT; sleep 1004 & sleep 1005"]
      interval = "50ms"
      timeout  = "100ms"
      failures = 1000
    }
  }
  worker "err" {
    command = ["sh", "-c", "echo not serving on 80 >&2; echo serving on 80 >&2; exec sleep 1000"]
    ready { log = "^serving on [0-9]+$" }
  }
}`, map[string]string{
		"all": "os.chdir('" + d.dir + "')\nfor what in ('notify', 'log'):\n while not os.path.exists(what): time.sleep(0.01)\n if what == 'log': print('serving on 8080', flush=True)\n else: tell(b'READY=1')\nforever()",
	})
	d.start()
	d.running("default/a/err.0")
	hangs := d.running("default/a/hangs.0")
	all := d.untilNode("default/a/all.0", "to be asked", func(n tree.Node) bool { return n.PID != 0 })
	for _, what := range []string{"command", "notify", "log"} {
		if n := d.node("default/a/all.0"); n.Ready || n.PID != all.PID {
			t.Errorf("before %s: %+v", what, n.Leaf)
		}
		d.write(what, "")
	}
	if n := d.running("default/a/all.0"); n.PID != all.PID || n.Incarnation != 1 {
		t.Errorf("the check harmed its worker: %+v", n.Leaf)
	}
	d.untilNode("default/a/hangs.0", "to be checked", func(n tree.Node) bool { return n.Health != nil && n.Health.Failures >= 3 })
	n := d.node("default/a/hangs.0")
	if n.PID != hangs.PID || n.Health.OK || n.Health.Detail == "" || n.Health.At.IsZero() || !alive(n.PID) {
		t.Errorf("hangs: %+v %+v", n.Leaf, n.Health)
	}
	d.must("stop", "hangs")
	overlap, _ := os.ReadFile(filepath.Join(d.dir, "overlap"))
	if strings.Contains(string(overlap), "begin\nend") == strings.Contains(string(overlap), "begin\nbegin\nend\nend") && strings.Contains(string(overlap), "end") {
		t.Errorf("two checks at once: %q", overlap)
	}
	for _, seconds := range []string{"1000", "1001", "1002", "1003", "1004", "1005"} {
		if seconds == "1000" {
			continue // others use it
		}
		d.until("nothing of the checks to be left", func() bool { return !sleeping(seconds, d.dir) })
	}
}

// sleeping tells whether a `sleep N` runs whose folder is dir.
func sleeping(seconds, dir string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		b, _ := os.ReadFile(file)
		cwd, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
		if string(b) == "sleep\x00"+seconds+"\x00" && cwd == dir {
			return true
		}
	}
	return false
}
