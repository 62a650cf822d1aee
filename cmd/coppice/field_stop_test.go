package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of stopping: nothing of a worker outlives its stop, and no stop takes for ever.

// A helper that ignores TERM and holds a socket is gone after stop, restart and the daemon's end.
func TestFieldStopStubbornHelper(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := "stubborn-" + filepath.Base(d.dir)
	d.write("helper.py", `
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
path = "held.sock"
s = socket.socket(socket.AF_UNIX)
for how in sys.argv[2:]:
    if how == "session": os.setsid()
    if how == "double" and os.fork(): os._exit(0)
if "bind" in sys.argv:
    try:
        s.bind(path)
    except OSError:
        c = socket.socket(socket.AF_UNIX)
        try: c.connect(path); open("clash", "w").close()
        except OSError: os.unlink(path); s.bind(path)
    s.listen(1)
with open("ticks." + sys.argv[1], "a") as f:
    while True:
        f.write("%d %s\n" % (os.getpid(), time.time())); f.flush()
        time.sleep(0.05)
`)
	var b strings.Builder
	kinds := map[string]string{"group": "bind", "session": "session", "double": "double session double", "closed": "session double"}
	for name, how := range kinds {
		redirect := ""
		if name == "closed" {
			redirect = "</dev/null >/dev/null 2>&1"
		}
		fmt.Fprintf(&b, `
  worker %q {
    command = ["/bin/sh", "-c", "trap 'exit 0' TERM; python3 helper.py %s %s %s & while :; do sleep 0.1; done"]
    env     = { TAG = %q }
    stop { timeout = "1s" }
  }
`, name, name, how, redirect, tag)
	}
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf("app \"shop\" {\n  root = %q%s}\n", d.dir, b.String()))
	d.start()
	helpers := func() map[string]int {
		pids := map[string]int{}
		for name := range kinds {
			d.until("the helper of "+name, func() bool {
				text, _ := os.ReadFile(filepath.Join(d.dir, "ticks."+name))
				lines := strings.Split(strings.TrimSpace(string(text)), "\n")
				pid := 0
				fmt.Sscan(lines[len(lines)-1], &pid)
				pids[name] = pid
				return pid > 0 && alive(pid)
			})
		}
		return pids
	}
	for _, verb := range []string{"stop", "start", "restart"} {
		before := map[string]int{}
		if verb != "start" {
			before = helpers()
		}
		begun := time.Now()
		d.must(verb, "shop")
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %v", verb, took)
		}
		for name, pid := range before {
			if alive(pid) {
				t.Errorf("after %s the helper of %s runs still", verb, name)
			}
		}
		if verb == "stop" {
			if left := ours(t, "TAG="+tag); len(left) > 0 {
				t.Errorf("after stop %v run still", left)
			}
		}
	}
	before := helpers()
	if status := d.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	for name, pid := range before {
		if alive(pid) {
			t.Errorf("after the daemon's end the helper of %s runs still", name)
		}
	}
	if left := ours(t, "TAG="+tag); len(left) > 0 {
		t.Errorf("after the daemon's end %v run still", left)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "clash")); err == nil {
		t.Error("a new helper met an old one")
	}
	if !strings.Contains(d.stderr.String(), "killed what was left: path=default/shop/group.0") {
		t.Error("the log does not tell that the group had to be killed")
	}
}

// slowTree is workers in every state in which a stop must not hang.
func (d *testDaemon) slowTree(tag string) string {
	var b strings.Builder
	worker := func(name, script, rest string) {
		fmt.Fprintf(&b, `
  worker %q {
    command = ["/bin/sh", "-c", %q]
    env     = { TAG = %q }
    stop { timeout = "1s" }
    %s
  }
`, name, script, tag, rest)
	}
	for i := range 4 {
		after := ""
		if i > 0 {
			after = fmt.Sprintf("after = [\"chain%d\"]", i-1)
		}
		worker(fmt.Sprint("chain", i), "trap '' TERM; sleep 0.3; echo up; sleep 1000", `ready { log = "up" }
    `+after)
	}
	worker("never", "sleep 1000", "ready { notify = true }")
	worker("backoff", "exit 1", "restart {\n backoff = \"1h\"\n cap = \"1h\"\n}")
	worker("probing", "sleep 1000", `ready { command = ["sleep", "60"] }`)
	worker("fast", "exit 1", "restart {\n backoff = \"5ms\"\n cap = \"5ms\"\n limit = 0\n}")
	return d.hostBlock("") + "app \"shop\" {" + b.String() + "}\n"
}

// TERM ends the daemon at any moment of its life, once is enough, and nothing is started afterwards.
func TestFieldStopWhileStarting(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(d *testDaemon){
		"before it answers": func(d *testDaemon) {
			d.until("the lock", func() bool { _, err := os.Stat(filepath.Join(d.run, "lock")); return err == nil })
		},
		"when the socket is there": func(d *testDaemon) {
			d.until("the socket", func() bool { _, err := os.Stat(filepath.Join(d.run, "control.sock")); return err == nil })
		},
		"at the first start": func(d *testDaemon) {
			d.until("the first start", func() bool { return strings.Contains(d.stderr.String(), "chain0.0") })
		},
		"in the chain": func(d *testDaemon) {
			d.waitUp()
			d.untilNode("default/shop/chain1.0", "to be started", func(n tree.Node) bool { return n.Incarnation > 0 })
		},
		"in backoff": func(d *testDaemon) {
			d.waitUp()
			d.untilNode("default/shop/backoff.0", "to back off", func(n tree.Node) bool { return n.State == tree.StateBackoff })
			d.running("default/shop/chain3.0")
		},
	} {
		for _, second := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGINT} {
			t.Run(fmt.Sprint(name, ", then ", second), func(t *testing.T) {
				t.Parallel()
				d := newDaemon(t, "")
				tag := "slow-" + filepath.Base(d.dir)
				d.write("coppice.hcl", d.slowTree(tag))
				d.launch(program("run", filepath.Join(d.dir, "coppice.hcl")))
				when(d)
				begun := time.Now()
				d.signal(syscall.SIGTERM)
				if second != 0 {
					d.signal(second)
				}
				status := d.wait()
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if status != 0 && (second == 0 || status != 1) {
					t.Errorf("status %d", status)
				}
				if left := ours(t, "TAG="+tag); len(left) > 0 {
					t.Errorf("%v run still", left)
				}
				// A start that was decided at the same moment may be told after the stop; its spawn is cancelled, so that nothing of
				// it comes to run: the log's order proves nothing, what is ready afterwards does.
				_, after, _ := strings.Cut(d.stderr.String(), "daemon began to stop")
				for line := range strings.Lines(after) {
					if strings.Contains(line, "became ready: ") && strings.Contains(line, "chain3") {
						t.Errorf("the chain went on after TERM: %s", line)
					}
				}
				for _, name := range []string{"control.sock", "lock"} {
					if _, err := os.Lstat(filepath.Join(d.run, name)); err == nil {
						t.Errorf("%s is left", name)
					}
				}
				if left, _ := filepath.Glob(filepath.Join(d.run, "[sir]", "*")); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// Single workers stop from every state, by the ways that they were promised.
func TestFieldStopStates(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := "states-" + filepath.Base(d.dir)
	d.write("coppice.hcl", d.slowTree(tag)+fmt.Sprintf(`
app "more" {
  root = %[1]q
  worker "frozen" {
    command = ["/bin/sh", "-c", "kill -STOP $$; sleep 1000"]
    env     = { TAG = %[2]q }
  }
  worker "file" {
    command = ["/bin/sh", "-c", "trap 'echo TERM >file.term' TERM; while [ ! -e $COPPICE_STOP_FILE ]; do sleep 0.05; done; echo bye >file.bye; exit 0"]
    env     = { TAG = %[2]q }
    stop {
      file  = true
      grace = "20s"
    }
  }
  worker "deaf" {
    command = ["/bin/sh", "-c", "trap 'echo TERM >deaf.term; exit 0' TERM; touch deaf.up; while :; do sleep 0.05; done"]
    env     = { TAG = %[2]q }
    stop {
      file  = true
      grace = "300ms"
    }
  }
  worker "quit" {
    command = ["/bin/sh", "-c", "trap '' TERM INT HUP; trap 'echo QUIT >quit.said; exit 0' QUIT; touch quit.up; while :; do sleep 0.05; done"]
    env     = { TAG = %[2]q }
    stop { signal = "QUIT" }
  }
}`, d.dir, tag))
	d.start()
	d.untilNode("default/shop/never.0", "to start", func(n tree.Node) bool { return n.PID != 0 })
	d.untilNode("default/shop/backoff.0", "to back off", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	d.untilNode("default/shop/probing.0", "to be probed", func(n tree.Node) bool { return n.PID != 0 && len(ours(t, "sleep\x0060")) > 0 })
	for _, up := range []string{"deaf.up", "quit.up"} {
		d.until(up, func() bool { _, err := os.Stat(filepath.Join(d.dir, up)); return err == nil })
	}
	d.running("default/more/file.0")
	d.until("frozen to be frozen", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.node("default/more/frozen.0").PID))
		return strings.Contains(string(stat), ") T ")
	})
	for _, path := range []string{"shop/never", "shop/backoff", "shop/probing", "shop/fast", "more/frozen", "more/file", "more/deaf", "more/quit"} {
		begun := time.Now()
		d.must("stop", path)
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("%s took %v", path, took)
		}
		n := d.node("default/" + path + ".0")
		if n.State != tree.StateStopped || n.PID != 0 || !strings.HasPrefix(n.Reason, "stopped by ") {
			t.Errorf("%s: state %s, pid %d, reason %q", path, n.State, n.PID, n.Reason)
		}
	}
	if exit := d.node("default/more/frozen.0").LastExit; exit == nil || exit.Signal != "TERM" {
		t.Errorf("a frozen worker was not asked: %+v", exit)
	}
	for name, want := range map[string]bool{"file.bye": true, "file.term": false, "deaf.term": true, "quit.said": true} {
		if _, err := os.Stat(filepath.Join(d.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", name, err, want)
		}
	}
	d.must("stop", "shop")
	if left := ours(t, "TAG="+tag); len(left) > 0 {
		t.Errorf("%v run still", left)
	}
}

// drain_timeout bounds the end of the daemon, whatever the workers ask for.
func TestFieldStopDrainTimeout(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := "drain-" + filepath.Base(d.dir)
	d.write("coppice.hcl", d.hostBlock(`drain_timeout = "1s"`)+fmt.Sprintf(`
app "shop" {
  worker "a" {
    command = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]
    env     = { TAG = %[1]q }
    ready { log = "up" }
    stop { timeout = "1h" }
  }
  worker "b" {
    command = ["/bin/sh", "-c", "echo up; while :; do sleep 0.1; done"]
    env     = { TAG = %[1]q }
    ready { log = "up" }
    stop {
      file  = true
      grace = "1h"
    }
  }
}`, tag))
	d.start()
	d.running("default/shop/a.0")
	d.running("default/shop/b.0")
	begun := time.Now()
	d.stop()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	if left := ours(t, "TAG="+tag); len(left) > 0 {
		t.Errorf("%v run still", left)
	}
}
