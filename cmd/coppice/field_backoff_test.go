package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of crash loops: each end counts, whatever its reason, nobody spins, and siblings are left alone.

// starts counts the lines that workers wrote for each of their starts: from outside, whatever the journal says.
func (d *testDaemon) starts(name string) int {
	b, _ := os.ReadFile(filepath.Join(d.dir, "starts-"+name))
	return strings.Count(string(b), "\n")
}

func TestFieldCrashLoops(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	begin := func(name string) string { return "echo start >>$dir$/starts-" + name + "; " }
	const loop = `restart {
      backoff = "40ms"
      cap     = "100ms"
      limit   = 5
    }`
	d.configure(`app "a" {
  worker "x" {
    command = ["sh", "-c", "`+begin("x")+`sleep 0.1; exit 1"]
    `+strings.Replace(loop, `"100ms"`, `"1h"`, 1)+`
  }
  worker "y" {
    command = ["sh", "-c", "`+begin("y")+`echo ready; sleep 0.1; exit 1"]
    ready { log = "^ready$" }
    `+strings.Replace(loop, `"100ms"`, `"1h"`, 1)+`
  }
  worker "z" {
    command = ["sh", "-c", "`+begin("z")+`sleep 0.5; exit 1"]
    restart {
      backoff     = "40ms"
      reset_after = "200ms"
      limit       = 3
      within      = "500ms"
    }
  }
  worker "mixed" {
    command = ["sh", "-c", "`+begin("mixed")+`case $COPPICE_INCARNATION in 1) exit 1;; 2) kill -9 $$;; 3) exit 0;; 4) sleep 1000;; 5) exit 137;; esac"]
    ready {
      notify  = true
      timeout = "300ms"
    }
    `+strings.Replace(loop, `"100ms"`, `"1h"`, 1)+`
  }
  worker "gives_up" {
    command = ["sh", "-c", "`+begin("gives_up")+`exit 1"]
    restart {
      backoff  = "0s"
      limit    = 4
      on_limit = "stop"
    }
  }
  worker "slowly" {
    command = ["sh", "-c", "`+begin("slowly")+`exit 1"]
    restart {
      backoff = "5ms"
      cap     = "80ms"
      limit   = 3
    }
  }
  worker "once" {
    command = ["sh", "-c", "`+begin("once")+`exit 1"]
    restart { policy = "temporary" }
  }
  worker "fine" {
    command = ["sh", "-c", "`+begin("fine")+`exit 0"]
    restart { policy = "transient" }
  }
  worker "sibling" { command = ["sleep", "1000"] }
}`, nil)
	d.start()
	sibling := d.running("default/a/sibling.0")
	for name, wanted := range map[string]int{"x": 5, "y": 5, "mixed": 5, "gives_up": 4} {
		n := d.untilNode("default/a/"+name+".0", "to fail", func(n tree.Node) bool { return n.State == tree.StateFailed })
		if got := d.starts(name); got != wanted || n.Incarnation != wanted || n.Restarts != wanted-1 || n.LastExit == nil {
			t.Errorf("%s failed after %d starts: %+v", name, got, n)
		}
		limit := fmt.Sprintf("start limit %d/60s hit", wanted)
		d.until(limit, func() bool { return strings.Contains(d.stderr.String(), limit+": path=default/a/"+name+".0") })
		if got := strings.Count(d.stderr.String(), limit+": path=default/a/"+name+".0"); got != 1 {
			t.Errorf("%s: the limit is told %d times", name, got)
		}
		if (n.NextAt == nil) != (name == "gives_up") {
			t.Errorf("%s: next at %v", name, n.NextAt)
		}
	}
	// The reasons as they were: a number is a number, a signal is one.
	var reasons []string
	for _, e := range d.events("default/a/mixed") {
		if e.Kind == tree.EventBackoff || e.Kind == tree.EventFailed {
			reasons = append(reasons, e.Reason)
		}
	}
	if got, want := strings.Join(reasons, ", "), "exit 1, signal KILL, exit 0, not ready in 300ms, exit 137"; got != want {
		t.Errorf("mixed: %s, want %s", got, want)
	}
	// Slow is not never: it is tried again every cap.
	d.until("slow attempts", func() bool { return d.starts("slowly") >= 6 })
	if n := d.node("default/a/slowly.0"); n.State == tree.StateBackoff {
		t.Errorf("slowly: %+v", n)
	}
	// One that lives long enough each time never fails and begins with the base each time.
	d.until("z to have crashed often", func() bool { return d.count("default/a/z", tree.EventBackoff) >= 4 })
	if d.count("default/a/z", tree.EventFailed) != 0 {
		t.Error("z failed")
	}
	for _, e := range d.events("default/a/z") {
		if delay, _ := e.Data["delay"].(float64); e.Kind == tree.EventBackoff && (e.Data["attempt"] != 1.0 || delay < 0.040 || delay > 0.0441) {
			t.Errorf("z's delay does not begin again: %+v", e)
		}
	}
	// Steps double up to the cap, each with at most a tenth more.
	for name, top := range map[string]float64{"x": 3600, "slowly": 0.080} {
		for _, e := range d.events("default/a/" + name) {
			delay, ok := e.Data["delay"].(float64)
			if !ok {
				continue
			}
			base := map[string]float64{"x": 0.040, "slowly": 0.005}[name]
			step := min(base*float64(int(1)<<(int(e.Data["attempt"].(float64))-1)), top)
			if e.Kind == tree.EventFailed {
				step = top
			}
			if delay < step-0.0005 || delay > step*1.1+0.0005 {
				t.Errorf("%s: delay %v is not in [%v, %v]: %+v", name, delay, step, step*1.1, e)
			}
		}
	}
	for name, state := range map[string]tree.State{"once": tree.StateDone, "fine": tree.StateDone} {
		n := d.untilNode("default/a/"+name+".0", "to be done", func(n tree.Node) bool { return n.State == state })
		if d.starts(name) != 1 || n.Incarnation != 1 {
			t.Errorf("%s: %d starts", name, d.starts(name))
		}
	}
	if n := d.node("default/a/sibling.0"); n.PID != sibling.PID || n.Incarnation != 1 {
		t.Error("the sibling was touched")
	}
	// An operator's start wipes the counts: four more, and it fails again.
	d.cli("start", "gives_up")
	d.until("another four", func() bool {
		return d.starts("gives_up") == 8 && d.node("default/a/gives_up.0").State == tree.StateFailed
	})
}

func TestFieldManyCrashTogether(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "pool" {
    command = ["sleep", "1000"]
    count   = 20
    restart { backoff = "200ms" }
  }
}`)
	var pids []int
	for i := range 20 {
		pids = append(pids, d.running(fmt.Sprintf("default/a/pool.%d", i)).PID)
	}
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	d.until("all to be back", func() bool {
		n := 0
		for _, e := range d.events("") {
			if e.Kind == tree.EventReady && e.Incarnation == 2 && e.Data["pid"] != nil {
				n++
			}
		}
		return n == 20
	})
	delays := map[float64]bool{}
	for _, e := range d.events("") {
		if e.Kind == tree.EventBackoff {
			delay := e.Data["delay"].(float64)
			if delay < 0.2 || delay > 0.2201 {
				t.Errorf("delay %v", delay)
			}
			delays[delay] = true
		}
	}
	if len(delays) < 15 {
		t.Errorf("20 that crashed together come back at %d moments", len(delays))
	}
}

func TestFieldUnspawnable(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	const loop = `
    restart {
      backoff = "200ms"
      cap     = "400ms"
      limit   = 0
    }
  }
`
	d.configure(`app "a" {
  worker "missing" {
    command = ["$dir$/missing"]`+loop+`
  worker "folder" {
    command   = ["true"]
    directory = "$dir$/nowhere"`+loop+`
  worker "denied" {
    command = ["$dir$/denied"]`+loop+`
  worker "broken" {
    command = ["$dir$/broken"]`+loop+`
  worker "good" {
    command = ["sleep", "1000"]
    count   = 20
  }
}`, nil)
	d.write("broken", "#!/nonexistent/interpreter\n")
	os.Chmod(d.write("denied", "text"), 0o644)
	began := time.Now()
	d.start()
	for i := range 20 {
		d.running(fmt.Sprintf("default/a/good.%d", i))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("20 good ones need %s beside 4 that cannot start", took)
	}
	first := d.first("default/a/missing.0", tree.EventStarting).Time
	d.until("some attempts", func() bool { return d.count("default/a/missing", tree.EventStarting) >= 6 })
	took := time.Since(first)
	if most := int(took/(200*time.Millisecond)) + 2; d.count("default/a/missing", tree.EventStarting) > most {
		t.Errorf("%d attempts in %s", d.count("default/a/missing", tree.EventStarting), took)
	}
	for path, want := range map[string]string{
		"missing": "cannot start: exec " + d.dir + "/missing: no such file or directory",
		"folder":  "cannot start: working directory " + d.dir + "/nowhere: no such file or directory",
		"denied":  "cannot start: exec " + d.dir + "/denied: permission denied",
		"broken":  "/nonexistent/interpreter",
	} {
		n := d.untilNode("default/a/"+path+".0", "to wait", func(n tree.Node) bool { return n.State == tree.StateBackoff })
		if !strings.Contains(n.Reason, want) || n.NextAt == nil || n.PID != 0 {
			t.Errorf("%s: %q, want %q", path, n.Reason, want)
		}
	}
	attempts := d.count("default/a/missing", tree.EventBackoff)
	if lines := strings.Count(d.stderr.String(), "path=default/a/missing.0"); lines > 2*attempts+2 {
		t.Errorf("%d log lines for %d attempts", lines, attempts)
	}
	var worst time.Duration
	for range 50 {
		at := time.Now()
		if _, err := d.client.Status(context.Background()); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, time.Since(at))
	}
	if worst > 5*time.Second {
		t.Errorf("status took %s", worst)
	}
	// Once it is there it starts by itself.
	d.write("missing", "#!/bin/sh\nexec sleep 1000\n")
	d.running("default/a/missing.0")
	os.Chmod(d.write("denied", "#!/bin/sh\nexec sleep 1000\n"), 0o755)
	d.running("default/a/denied.0")
	os.Mkdir(filepath.Join(d.dir, "nowhere"), 0o755)
	d.until("the folder to be used", func() bool { return d.count("default/a/folder", tree.EventReady) > 0 })
	for i := range 20 {
		if n := d.node(fmt.Sprintf("default/a/good.%d", i)); n.Incarnation != 1 {
			t.Errorf("good.%d was touched", i)
		}
	}
}

// TestFieldIntensity: an app, a tenant and the host give up when theirs is exceeded, and each tells the one above.
func TestFieldIntensity(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { os.Remove("/tmp/" + t.Name() + fmt.Sprint(os.Getpid())) })
	d := startDaemon(t, `
tenant "one" {
  app "shop" {
    supervise { intensity = 2 }
    restart {
      backoff = "1h"
      cap     = "1h"
    }
    worker "bad" {
      command = ["sh", "-c", "exit 3"]
      restart {
        backoff = "0s"
        limit   = 0
      }
    }
    worker "good" { command = ["sleep", "1000"] }
  }
  app "other" {
    worker "good" { command = ["sleep", "1000"] }
  }
}
tenant "two" {
  supervise { intensity = 0 }
  restart { backoff = "50ms" }
  app "shop" {
    supervise { intensity = 0 }
    worker "flaky" {
      command = ["sh", "-c", "mkdir /tmp/`+t.Name()+fmt.Sprint(os.Getpid())+` && exit 3; exec sleep 1000"]
      restart { backoff = "0s" }
    }
  }
  app "beside" {
    worker "good" { command = ["sleep", "1000"] }
  }
}
tenant "three" {
  app "shop" {
    restart {
      backoff = "1h"
      cap     = "1h"
    }
    worker "escalates" {
      command = ["sh", "-c", "exit 4"]
      restart {
        backoff  = "1ms"
        limit    = 3
        on_limit = "escalate"
      }
    }
    worker "good" { command = ["sleep", "1000"] }
  }
}
`)
	n := d.untilNode("one/shop", "to give up", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	if n.Reason != "intensity exceeded by bad.0" || n.NextAt == nil {
		t.Errorf("one/shop: %+v", n)
	}
	if got := d.count("one/shop/bad", tree.EventStarting); got != 3 {
		t.Errorf("bad was started %d times: an intensity of 2 allows two restarts", got)
	}
	if n := d.node("one/shop/good.0"); n.PID != 0 || n.State != tree.StateStopped {
		t.Errorf("what an app that gave up leaves: %+v", n)
	}
	if e := d.first("one/shop", tree.EventEscalated); e.Reason != "intensity exceeded by bad.0" {
		t.Errorf("escalated: %+v", e)
	}
	if n := d.running("one/other/good.0"); n.Incarnation != 1 {
		t.Error("another app was touched")
	}
	n = d.untilNode("three/shop", "to give up", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	if got := d.count("three/shop/escalates", tree.EventStarting); got != 3 || !strings.HasPrefix(n.Reason, "intensity exceeded by escalates") {
		t.Errorf("escalates was started %d times: %+v", got, n)
	}
	// The tenant goes with its app, and the host brings all of it back.
	d.until("tenant two to have come back", func() bool {
		return d.count("two", tree.EventEscalated) >= 2 && d.node("two/beside/good.0").State == tree.StateRunning
	})
	if n := d.node("two"); n.Restarts < 1 {
		t.Errorf("two: %+v", n)
	}
	if why := d.must("why", "one/shop/good"); !strings.Contains(why, "intensity exceeded by bad.0") || !strings.Contains(why, "exit 3") {
		t.Errorf("why: %s", why)
	}
}

func TestFieldHostGivesUp(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("coppice.hcl", d.hostBlock("supervise { intensity = 0 }")+fmt.Sprintf(`
tenant "t" {
  supervise { intensity = 0 }
  app "a" {
    supervise { intensity = 0 }
    worker "good" { command = ["sh", "-c", "echo $$ >%[1]s/good; exec sleep 1000"] }
    worker "bad" {
      command = ["sh", "-c", "while [ ! -e %[1]s/go ]; do sleep 0.02; done; exit 5"]
      restart { backoff = "0s" }
    }
  }
}
`, d.dir))
	d.start()
	good := d.running("t/a/good.0")
	d.write("go", "")
	if status := d.wait(); status != 70 {
		t.Errorf("the daemon ended with %d", status)
	}
	if alive(good.PID) {
		t.Error("a worker was left")
	}
	if log := d.stderr.String(); !strings.Contains(log, "gave up") || !strings.Contains(log, "intensity exceeded by") {
		t.Errorf("not told: %s", log)
	}
	if _, err := os.Stat(filepath.Join(d.run, "control.sock")); err == nil {
		t.Error("the control socket was left")
	}
}
