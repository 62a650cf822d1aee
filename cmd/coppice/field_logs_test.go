package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/tree"
)

// The field's cases of output: no line and no reader ever blocks a worker, and what is lost is counted.

// lines returns the kept lines of a path, notices excepted.
func (d *testDaemon) lines(path string) (all []output.Line) {
	d.t.Helper()
	err := d.client.Logs(context.Background(), control.StreamQuery{Paths: []string{path}, N: 1_000_000}, func(b []byte) error {
		var l output.Line
		if err := json.Unmarshal(b, &l); err != nil {
			return fmt.Errorf("%q: %w", b, err)
		}
		if l.Dropped == 0 && l.Gap == 0 {
			all = append(all, l)
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// resident is the daemon's memory in bytes.
func (d *testDaemon) resident() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return n * os.Getpagesize()
}

// A line of any length, and any bytes, neither stop the capture nor the worker.
func TestFieldLogsLongLines(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("long.py", `
import sys
out = sys.stdout.buffer
out.write(b"before\n" + b"a" * (1024 * 1024 + 1) + b"\n")
for i in range(2000): out.write(b"line %d\n" % i)
out.flush()
open("long.done", "w").close()
import time; time.sleep(1000)
`)
	d.write("endless.py", `
import sys, time
for i in range(2048): sys.stdout.buffer.write(b"b" * 65536)
sys.stdout.flush()
open("endless.done", "w").close()
time.sleep(1000)
`)
	d.write("binary.py", `
import os, time
os.write(1, bytes(range(256)) + b"\n")
os.write(1, b"lone\rcarriage\x00nul\n")
os.write(1, b"split \xf0\x9f"); time.sleep(0.2); os.write(1, b"\x8c\xb2 tree\n")
os.write(2, "\u202eturned\n".encode()); os.write(1, b"no newline at the end")
`)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "long" {
    command = ["python3", "long.py"]
    logs {
      rate  = 1000000
      burst = 1000000
    }
  }
  worker "endless" { command = ["python3", "endless.py"] }
  worker "binary" {
    command = ["python3", "binary.py"]
    restart { policy = "temporary" }
  }
}`, d.dir))
	d.start()
	before := d.resident()
	for _, done := range []string{"long.done", "endless.done"} {
		d.until(done, func() bool { _, err := os.Stat(filepath.Join(d.dir, done)); return err == nil })
	}
	if grown := d.resident() - before; grown > 48<<20 {
		t.Errorf("the daemon grew by %d MiB", grown>>20)
	}
	d.until("the last line", func() bool {
		l := d.lines("default/shop/long.0")
		return len(l) > 0 && string(l[len(l)-1].Text) == "line 1999"
	})
	long := d.lines("default/shop/long.0")
	if len(long) != 2002 {
		t.Fatalf("%d lines", len(long))
	}
	if string(long[0].Text) != "before" || long[1].Cut+int64(len(long[1].Text)) != 1<<20+1 || len(long[1].Text) > 8<<10 {
		t.Errorf("the long line is %d bytes and %d cut", len(long[1].Text), long[1].Cut)
	}
	for i, l := range long[2:] {
		if want := fmt.Sprint("line ", i); string(l.Text) != want {
			t.Fatalf("line %d is %q", i, l.Text)
		}
	}
	if !strings.Contains(d.must("logs", "-n", "3000", "long"), " [cut 1040385 bytes]\n") {
		t.Error("people do not see that the line was cut")
	}
	d.until("an endless line to show before it ends", func() bool { return len(d.lines("default/shop/endless.0")) > 0 })

	d.untilNode("default/shop/binary.0", "to be done", func(n tree.Node) bool { return n.State == tree.StateDone })
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	first, rest, _ := bytes.Cut(all[:], []byte("\n"))
	want := map[string]bool{string(first): true, string(rest): true, "lone\rcarriage\x00nul": true, "split \U0001f332 tree": true,
		"\u202eturned": true, "no newline at the end": true}
	for _, l := range d.lines("default/shop/binary.0") {
		if !want[string(l.Text)] {
			t.Errorf("a line that nobody wrote: %q", l.Text)
		}
		delete(want, string(l.Text))
	}
	if len(want) > 0 {
		t.Errorf("lines that are missing: %v", want)
	}
}

// A worker that floods, and a follower that has stopped reading, disturb nobody; each line is kept or counted.
func TestFieldLogsFlood(t *testing.T) {
	t.Parallel()
	const lines = 1_000_000
	d := newDaemon(t, "")
	d.write("flood.py", fmt.Sprintf(`
import sys, time, os
while not os.path.exists("go"): time.sleep(0.02)
chunk = b"".join(b"a short line of the flood\n" for _ in range(1000))
for i in range(%d // 1000): sys.stdout.buffer.write(chunk)
sys.stdout.flush()
open("flood.done", "w").close()
time.sleep(1000)
`, lines))
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "flood" {
    command = ["python3", "flood.py"]
    logs {
      rate  = 1000
      burst = 1000
    }
  }
  worker "clock" { command = ["python3", "-u", "-c", "import time\nwhile True: print(time.time()); time.sleep(0.1)"] }
}`, d.dir))
	d.start()
	d.running("default/shop/flood.0")
	follower := program("--socket", filepath.Join(d.run, "control.sock"), "logs", "-f", "flood")
	seen := new(transcript)
	follower.Stdout = seen
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { follower.Process.Kill(); follower.Wait() })
	d.until("the follower to be there", func() bool { return d.descriptors() > 0 && alive(follower.Process.Pid) && d.followers() > 0 })
	follower.Process.Signal(syscall.SIGSTOP)
	before := d.resident()
	d.write("go", "")
	begun := time.Now()
	d.until("the flood to be over", func() bool { _, err := os.Stat(filepath.Join(d.dir, "flood.done")); return err == nil })
	t.Logf("%d lines took %v", lines, time.Since(begun))
	kept, dropped := `coppice_log_lines_total{path="default/shop/flood.0"}`, `coppice_log_dropped_total{path="default/shop/flood.0"}`
	d.until("each line to be kept or counted", func() bool { return d.scrape(kept)+d.scrape(dropped) == lines })
	if grown := d.resident() - before; grown > 96<<20 {
		t.Errorf("the daemon grew by %d MiB", grown>>20)
	}
	told := 0.0
	d.until("the journal to have told all that was dropped", func() bool {
		told = 0
		for _, e := range d.events("default/shop/flood.0") {
			if e.Kind == tree.EventLimitDropped {
				n, _ := e.Data["dropped"].(float64)
				told += n
			}
		}
		return told == d.scrape(dropped)
	})
	if !strings.Contains(d.must("logs", "flood"), "dropped ") {
		t.Error("the log does not tell that lines were dropped")
	}
	// The clock was heard all the while.
	last := 0.0
	for _, l := range d.lines("default/shop/clock.0") {
		at, _ := strconv.ParseFloat(string(l.Text), 64)
		if late := float64(l.Time.UnixNano())/1e9 - at; late > 5 {
			t.Errorf("a line came %.1f s late", late)
		}
		last = at
	}
	if last == 0 {
		t.Error("nothing of the clock")
	}
	follower.Process.Signal(syscall.SIGCONT)
	d.until("the follower to learn of its gap", func() bool {
		return strings.Contains(seen.String(), "missed") || strings.Contains(seen.String(), "dropped")
	})
}

// followers counts the connections that the daemon has open beside its listeners.
func (d *testDaemon) followers() int {
	b, _ := os.ReadFile("/proc/net/unix")
	n := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		// The server's end of an established connection carries the listener's path: state 03.
		if f := strings.Fields(line); len(f) == 8 && f[5] == "03" && f[7] == filepath.Join(d.run, "control.sock") {
			n++
		}
	}
	return n
}

// Where output goes is what logs.to says; files rotate, and a full disk or a log file that cannot be costs only the copy.
func TestFieldLogsDestinations(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	var b strings.Builder
	for _, to := range []string{"stdout", "file", "both", "none"} {
		fmt.Fprintf(&b, "\n  worker %q {\n    command = [\"/bin/sh\", \"-c\", \"echo this is %s; exec sleep 1000\"]\n    logs { to = %q }\n  }", to, to, to)
	}
	d.write("many.py", "for i in range(20000): print('rotated line', i)\n")
	d.write("after.py", `
import os, time
if os.fork() == 0:
    os.setsid()
    try:
        while True: print("from the helper", flush=True); time.sleep(0.05)
    except BaseException as e: os._exit(0)
print("the leader's last words", flush=True)
os._exit(7)
`)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q%s
  worker "rotate" {
    command = ["python3", "many.py"]
    restart { policy = "temporary" }
    logs {
      rate      = 1000000
      burst     = 1000000
      to        = "file"
      max_size  = "64KiB"
      max_files = 3
    }
  }
  worker "after" {
    command = ["python3", "after.py"]
    restart { policy = "temporary" }
  }
}`, d.dir, b.String()))
	// The place of one log file is taken by a folder.
	d.write("state/logs/default/shop/both.0.log/x", "")
	os.Chmod(d.state, 0o700)
	d.start()
	file := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(d.state, "logs/default/shop", name))
		return string(b)
	}
	d.until("the file", func() bool { return strings.Contains(file("file.0.log"), " 1 out this is file\n") })
	d.until("stdout", func() bool {
		return strings.Contains(d.stdout.String(), "this is stdout") && strings.Contains(d.stdout.String(), "this is both")
	})
	for _, name := range []string{"stdout", "file", "both", "none"} {
		d.until("the ring of "+name, func() bool { return strings.Contains(d.must("logs", name), "this is "+name) })
	}
	if strings.Contains(d.stdout.String(), "this is file") || strings.Contains(d.stdout.String(), "this is none") {
		t.Error("stdout has what is none of its business")
	}
	if _, err := os.Stat(filepath.Join(d.state, "logs/default/shop/none.0.log")); err == nil {
		t.Error("none has a file")
	}
	d.until("the rotated files to be whole", func() bool { return strings.HasSuffix(file("rotate.0.log"), "rotated line 19999\n") })
	entries, _ := filepath.Glob(filepath.Join(d.state, "logs/default/shop/rotate.0.log*"))
	if len(entries) != 3 {
		t.Errorf("files: %v", entries)
	}
	together := file("rotate.0.log.2") + file("rotate.0.log.1") + file("rotate.0.log")
	all := strings.Split(strings.TrimSpace(together), "\n")
	for i, l := range all {
		if want := fmt.Sprint(" 1 out rotated line ", 20000-len(all)+i); !strings.HasSuffix(l, want) {
			t.Fatalf("record %d is %q, want %q", i, l, want)
		}
	}
	for _, path := range entries {
		if info, _ := os.Stat(path); info.Size() > 64<<10 || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %d bytes, %v", path, info.Size(), info.Mode())
		}
	}
	n := d.untilNode("default/shop/after.0", "to be done", func(n tree.Node) bool { return n.State == tree.StateDone })
	if n.LastExit.Code != 7 || !strings.Contains(d.must("logs", "after"), "the leader's last words") {
		t.Errorf("after its leader's end: %+v", n.LastExit)
	}
	// The last n lines are of all workers together, in the order of time.
	last := strings.Split(strings.TrimSpace(d.must("logs", "-n", "7")), "\n")
	if len(last) != 7 {
		t.Errorf("logs -n 7 has %d lines", len(last))
	}
	for i := 1; i < len(last); i++ {
		if last[i][:20] < last[i-1][:20] {
			t.Errorf("not in order: %q before %q", last[i-1], last[i])
		}
	}
}
