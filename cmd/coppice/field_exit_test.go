package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of a process that ends.

// scrape is one number of the daemon's metrics.
func (d *testDaemon) scrape(name string) float64 {
	d.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(d.run, "control.sock"))
	}}}
	answer, err := client.Get("http://coppice/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (.*)$`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// descriptors counts what the daemon has open.
func (d *testDaemon) descriptors() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	return len(entries)
}

// A leader's end is told with its code, whoever holds its pipes, and nothing of it is there when the next one starts.
func TestFieldExitHelpers(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	tag := "helper-" + filepath.Base(d.dir)
	workers := map[string]string{
		"zero":    `echo last words; sleep 7200 & exit 0`,
		"three":   `echo last words; sleep 7200 & exit 3`,
		"session": `echo last words; setsid sleep 7200 & exit 3`,
		"double":  `echo last words; (setsid sh -c "sleep 7200 & exec sleep 7200" &); exit 3`,
		"printer": `echo last words; (while :; do echo still here; sleep 0.2; done) & exit 3`,
	}
	var b strings.Builder
	for name, script := range workers {
		fmt.Fprintf(&b, `
  worker %q {
    command = ["/bin/sh", "-c", %q, %q]
    env     = { TAG = %q }
    restart {
      backoff = "150ms"
      cap     = "150ms"
      limit   = 0
    }
    stop { timeout = "1s" }
  }
`, name, script, name, tag)
	}
	d.write("coppice.hcl", d.hostBlock("")+"app \"shop\" {"+b.String()+"}\n")
	d.start()
	cycles := func(n int) {
		for name := range workers {
			d.until(fmt.Sprint(name, " to end ", n, " times"), func() bool { return d.count("default/shop/"+name+".0", tree.EventExited) >= n })
		}
	}
	// Counted at rest: a worker that runs has descriptors of its own.
	cycles(3)
	d.must("stop", "shop")
	fds, goroutines := d.descriptors(), d.scrape("go_goroutines")
	d.must("start", "shop", "--no-wait")
	cycles(20)
	// Of each worker one incarnation at the most: leader, helper, its helper, and a sleep.
	if got := ours(t, "TAG="+tag); len(got) > 4*len(workers) {
		t.Errorf("%d processes of %d workers run", len(got), len(workers))
	}
	d.must("stop", "shop")
	if n := d.descriptors(); n > fds+10 {
		t.Errorf("the daemon has %d descriptors open, after 3 cycles it had %d", n, fds)
	}
	if n := d.scrape("go_goroutines"); n > goroutines+10 {
		t.Errorf("the daemon has %v goroutines, after 3 cycles it had %v", n, goroutines)
	}
	for name := range workers {
		want := "exit 3"
		if name == "zero" {
			want = "exit 0"
		}
		path := "default/shop/" + name + ".0"
		printed, exited, stops := strings.Count(d.must("logs", "-n", "100000", path), "last words"), 0, 0
		for _, e := range d.events(path) {
			if e.Kind == tree.EventExited {
				exited++
				if e.Reason == "signal TERM" && stops < 2 {
					stops++ // each of the two stops may have been quicker than the script
				} else if e.Reason != want {
					t.Errorf("%s: %q, want %q", name, e.Reason, want)
				}
			}
		}
		if printed < exited-stops && printed < 19 {
			t.Errorf("%s: %d last words of %d", name, printed, exited)
		}
	}
	if status := d.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	d.gone("TAG=" + tag)
}

// An exit status and a signal are two facts, and transient judges by both.
func TestFieldExitSignals(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	var b strings.Builder
	worker := func(name, script string) {
		fmt.Fprintf(&b, `
  worker %q {
    command = ["/bin/sh", "-c", %q]
    restart {
      policy  = "transient"
      backoff = "10ms"
      limit   = 0
    }
  }
`, name, script)
	}
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "SEGV": syscall.SIGSEGV,
		"HUP": syscall.SIGHUP, "PIPE": syscall.SIGPIPE, "INT": syscall.SIGINT}
	for name := range signals {
		worker("s"+strings.ToLower(name), "exec sleep 1000")
	}
	codes := []int{0, 1, 137, 143, 255}
	for _, code := range codes {
		once := filepath.Join(d.dir, fmt.Sprint("once", code))
		worker(fmt.Sprint("c", code), fmt.Sprintf("if [ -e %s ]; then exec sleep 1000; fi; touch %[1]s; exit %d", once, code))
	}
	d.write("coppice.hcl", d.hostBlock("")+"app \"shop\" {"+b.String()+"}\n")
	d.start()
	for name, sig := range signals {
		path := "default/shop/s" + strings.ToLower(name) + ".0"
		first := d.running(path)
		syscall.Kill(first.PID, sig)
		n := d.untilNode(path, "to run again", func(n tree.Node) bool { return n.State == tree.StateRunning && n.Incarnation == 2 })
		if n.LastExit == nil || n.LastExit.Code != -1 || n.LastExit.Signal != name || n.LastExit.Reason != "signal "+name {
			t.Errorf("%s: %+v", name, n.LastExit)
		}
	}
	for _, code := range codes {
		path := fmt.Sprintf("default/shop/c%d.0", code)
		want := func(n tree.Node) bool { return n.State == tree.StateRunning && n.Incarnation == 2 }
		if code == 0 {
			want = func(n tree.Node) bool { return n.State == tree.StateDone }
		}
		n := d.untilNode(path, "to settle", want)
		if n.LastExit == nil || n.LastExit.Code != code || n.LastExit.Signal != "" || n.LastExit.Reason != fmt.Sprint("exit ", code) {
			t.Errorf("%d: %+v", code, n.LastExit)
		}
	}
	d.must("stop", "default/shop/sterm.0")
	n := d.node("default/shop/sterm.0")
	if n.State != tree.StateStopped || n.Restarts != 1 || d.count(n.Path, tree.EventBackoff) != 1 {
		t.Errorf("a TERM by stop counts as a failure: %s, %d restarts", n.State, n.Restarts)
	}
	if !regexp.MustCompile(`exited: path=default/shop/skill.0 incarnation=1 reason="signal KILL" pid=\d+ signal=KILL uptime=`).MatchString(d.stderr.String()) {
		t.Error("the log line of an exit misses pid, signal or uptime")
	}
}
