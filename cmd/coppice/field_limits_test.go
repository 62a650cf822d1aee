package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of limits: they hold, their reason is told, or the worker does not start.

// groupsOf lists the folders of the cgroups that a process is in, below those of the daemon's.
func groupsOf(t *testing.T, pid int) (dirs []string) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(path, ":")
		if !strings.Contains(path, ".leaf") {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup/" + controllers, "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
			if _, err := os.Stat(filepath.Join(root, path)); err == nil {
				dirs = append(dirs, filepath.Join(root, path))
				break
			}
		}
	}
	return dirs
}

// needLimits skips where the machine does not let us enforce limits by cgroup.
func (d *testDaemon) needLimits(worker string) {
	d.t.Helper()
	n := d.untilNode(worker, "to start", func(n tree.Node) bool { return n.PID != 0 || n.State == tree.StateBackoff })
	if n.State == tree.StateBackoff && strings.Contains(n.Reason, "cannot start: limits") {
		d.t.Skipf("this machine has no cgroups for us: %s", n.Reason)
	}
}

const hungry = `
import os, sys, time
def eat():
    b = bytearray(300 << 20)
    for i in range(0, len(b), 4096): b[i] = 1
    time.sleep(1000)
`

func TestFieldOutOfMemory(t *testing.T) {
	needRoot(t, "to limit by cgroup")
	t.Parallel()
	d := newDaemon(t, "")
	limited := `
    limits { memory = "48MiB" }
    ` + once + `
  }
`
	d.configure(`app "a" {
  worker "sober" {
    command = ["sleep", "1000"]
    limits { memory = "48MiB" }
  }
  worker "main" {
    command = $main$`+limited+`
  worker "child" {
    command = $child$`+limited+`
  worker "killed" {
    command = ["sh", "-c", "kill -9 $$"]`+limited+`
  worker "cache" {
    command = ["sh", "-c", "head -c 150000000 /dev/zero >$dir$/big && cat $dir$/big $dir$/big >/dev/null && exit 17"]`+limited+`
}`, map[string]string{
		"main": hungry + "eat()",
		// The one that others look at is the parent, and it takes no harm.
		"child": hungry + "if os.fork() == 0: eat()\nif os.fork() == 0: time.sleep(1000)\ntime.sleep(1000)",
	})
	d.start()
	d.needLimits("default/a/sober.0")
	for path, reason := range map[string]string{"main": "out of memory", "child": "out of memory", "killed": "signal KILL", "cache": "exit 17"} {
		n := d.untilNode("default/a/"+path+".0", "to end", func(n tree.Node) bool { return n.State == tree.StateBackoff })
		if n.Reason != reason || n.LastExit == nil || n.LastExit.Reason != reason {
			t.Errorf("%s: %q, want %q (%+v)", path, n.Reason, reason, n.LastExit)
		}
		if e := d.first("default/a/"+path+".0", tree.EventExited); e.Reason != reason || reason == "out of memory" && e.Data["oom"] != true {
			t.Errorf("%s: %+v", path, e)
		}
	}
	if n := d.node("default/a/sober.0"); n.Incarnation != 1 || n.State != tree.StateRunning {
		t.Errorf("another worker was touched: %+v", n)
	}
}

func TestFieldForkBomb(t *testing.T) {
	needRoot(t, "to limit by cgroup")
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "sober" { command = ["sleep", "1000"] }
  worker "bomb" {
    command = ["sh", "-c", "trap '' TERM; while :; do (trap '' TERM; sleep 1000) 2>/dev/null & done"]
    limits { tasks = 12 }
    stop { timeout = "200ms" }
    `+once+`
  }
  worker "slow" {
    command = ["sh", "-c", "while :; do :; done"]
    limits { cpus = 0.2 }
  }
}`)
	d.needLimits("default/a/bomb.0")
	bomb := d.node("default/a/bomb.0")
	dirs := groupsOf(t, bomb.PID)
	if len(dirs) == 0 {
		t.Fatal("no cgroup")
	}
	members := func() int {
		most := 0
		for _, dir := range dirs {
			b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			most = max(most, strings.Count(string(b), "\n"))
		}
		return most
	}
	d.until("the bomb to go off", func() bool { return members() >= 8 || d.node("default/a/bomb.0").State != tree.StateRunning })
	if n := members(); n > 13 {
		t.Errorf("%d processes", n)
	}
	if n := d.running("default/a/sober.0"); n.Incarnation != 1 {
		t.Error("another worker was touched")
	}
	d.must("stop", "bomb")
	if n := members(); n != 0 {
		t.Errorf("%d processes after the stop", n)
	}
	// A group that a limit is set on says so itself.
	for _, dir := range groupsOf(t, d.running("default/a/slow.0").PID) {
		if b, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us")); err == nil && strings.TrimSpace(string(b)) != "20000" {
			t.Errorf("quota %s", b)
		}
	}
}

// TestFieldGroupsAreRemoved restarts a worker a hundred times; nothing of it piles up, in the kernel or in the daemon.
func TestFieldGroupsAreRemoved(t *testing.T) {
	needRoot(t, "to limit by cgroup")
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "stays" {
    command = ["sleep", "1000"]
    limits { tasks = 64 }
  }
  worker "w" {
    command = ["sh", "-c", "exit 0"]
    limits { tasks = 64 }
    listen = "unix"
    ready { command = ["true"] }
    restart {
      backoff = "0s"
      limit   = 0
    }
  }
  worker "x" {
    command = ["true"]
    restart {
      backoff = "0s"
      limit   = 0
    }
  }
}`)
	d.needLimits("default/a/stays.0")
	dirs := groupsOf(t, d.running("default/a/stays.0").PID)
	if len(dirs) == 0 {
		t.Fatal("no cgroup")
	}
	d.until("some restarts", func() bool { return d.node("default/a/w.0").Incarnation > 2 && d.node("default/a/x.0").Incarnation > 5 })
	files, goroutines := openFiles(t, d.cmd.Process.Pid), d.metric("go_goroutines")
	// w and its check cost two starts of this slow binary each time; x none.
	d.until("a hundred restarts", func() bool {
		return d.node("default/a/w.0").Incarnation > 6 && d.node("default/a/x.0").Incarnation > 100
	})
	d.must("stop", "w", "x")
	for _, dir := range dirs {
		// A group is given back after its worker's end was told, when the kernel lets go of it.
		d.until("the groups of ended workers to go", func() bool {
			leaves, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*.leaf"))
			return len(leaves) == 1
		})
	}
	if got := openFiles(t, d.cmd.Process.Pid); got > files+10 {
		t.Errorf("%d files are open, %d were", got, files)
	}
	d.until("goroutines to end", func() bool { return d.metric("go_goroutines") <= goroutines+10 })
	left, _ := os.ReadDir(filepath.Join(d.run, "s"))
	for _, e := range left {
		t.Errorf("a socket was left: %s", e.Name())
	}
	if status := d.stop(); status != 0 {
		t.Errorf("the daemon ended with %d", status)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			t.Errorf("%s was left", filepath.Dir(dir))
		}
	}
}

func TestFieldResourceLimits(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  limits { open_files = 200 }
  worker "w" {
    command = ["sh", "-c", "cat /proc/self/limits; exec sleep 1000"]
    limits {
      open_files = 100
      file_size  = "1MiB"
      core       = "0B"
    }
  }
  worker "heir" { command = ["sh", "-c", "cat /proc/self/limits; exec sleep 1000"] }
}`)
	for path, want := range map[string][]string{
		"w": {`Max open files +100 +100 `, `Max file size +1048576 +1048576 `, `Max core file size +0 +0 `}, "heir": {`Max open files +200 +200 `},
	} {
		var text string
		d.until("the limits of "+path, func() bool {
			text = d.must("logs", path)
			return strings.Contains(text, "Max realtime timeout")
		})
		for _, line := range want {
			if !regexp.MustCompile(line).MatchString(text) {
				t.Errorf("%s: no %q in\n%s", path, line, text)
			}
		}
	}
}

// TestFieldLimitsWithoutRights: where a limit cannot be enforced the worker does not start, and says why.
func TestFieldLimitsWithoutRights(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, `app "a" {
  worker "memory" {
    command = ["sleep", "1000"]
    limits { memory = "64MiB" }
  }
  worker "tasks" {
    command = ["sleep", "1000"]
    limits { tasks = 64 }
  }
  worker "cpus" {
    command = ["sleep", "1000"]
    limits { cpus = 0.5 }
  }
  worker "free" { command = ["sleep", "1000"] }
}
app "b" {
  limits { memory = "64MiB" }
  worker "below" { command = ["sleep", "1000"] }
}`)
	if os.Geteuid() == 0 {
		d.asNobody()
	} else {
		d.start()
	}
	d.running("default/a/free.0")
	for path, limit := range map[string]string{"a/memory": "memory", "a/tasks": "tasks", "a/cpus": "cpus", "b/below": "memory"} {
		n := d.untilNode("default/"+path+".0", "to be decided", func(n tree.Node) bool {
			return n.State == tree.StateBackoff || n.State == tree.StateFailed || n.State == tree.StateRunning
		})
		if n.State == tree.StateRunning {
			if os.Geteuid() != 0 {
				continue // this user was given a cgroup to do with as it likes
			}
			t.Errorf("%s runs without its limit", path)
		} else if !strings.HasPrefix(n.Reason, "cannot start: limits: ") || !strings.Contains(n.Reason, limit) || n.PID != 0 {
			t.Errorf("%s: %q", path, n.Reason)
		}
		if _, errs, status := d.cli("start", path); n.State != tree.StateRunning && (status != 1 || !strings.Contains(errs, limit)) {
			t.Errorf("start %s: %d %s", path, status, errs)
		}
	}
}

// asNobody runs the daemon as a user without rights.
func (d *testDaemon) asNobody() {
	d.t.Helper()
	exe, err := os.ReadFile(program().Path)
	if err != nil {
		d.t.Fatal(err)
	}
	copied := filepath.Join(d.dir, "coppice")
	if err := os.WriteFile(copied, exe, 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Chown(d.dir, nobody, nobody); err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(copied, "run", filepath.Join(d.dir, "coppice.hcl"))
	cmd.Env, cmd.Dir = []string{asCoppice + "=1"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}}
	d.launch(cmd)
	d.waitUp()
}
