package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of starting a program.

// fileText waits until a file of the test's is there with a full last line, and returns it.
func (d *testDaemon) fileText(name string) (text string) {
	d.t.Helper()
	d.until("the file "+name, func() bool {
		b, _ := os.ReadFile(filepath.Join(d.dir, name))
		text = string(b)
		return strings.HasSuffix(text, "\n")
	})
	return text
}

// A program that was copied into place a moment ago starts, while everybody forks.
func TestFieldSpawnFreshPrograms(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "flapper" {
    command = ["true"]
    count   = 8
    restart {
      backoff = "20ms"
      cap     = "20ms"
      limit   = 0
    }
  }
  worker "fresh" {
    command = ["./fresh", "1000"]
    enabled = false
  }
}`, d.dir))
	d.start()
	stop := make(chan struct{})
	var forkers sync.WaitGroup
	forkers.Go(func() { // as a deployment tool would, the one who copies forks too
		for {
			select {
			case <-stop:
				return
			default:
				exec.Command("true").Run()
			}
		}
	})
	defer forkers.Wait()
	defer close(stop)
	binary, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(d.dir, "fresh")
	copied := time.Now()
	for i := 0; i < 60 && (i < 15 || time.Since(copied) < 8*time.Second); i++ { // fewer on a busy machine
		os.Remove(fresh)
		if err := os.WriteFile(fresh, binary, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, errs, status := d.cli("restart", "fresh"); status != 0 {
			t.Fatalf("start %d: %s", i, errs)
		}
	}
	if n := d.count("default/shop/fresh.0", tree.EventBackoff) + d.node("default/shop/fresh.0").Restarts; n != 0 {
		t.Errorf("%d starts were counted as failures", n)
	}
	// One that stays open for writing is told by its name.
	os.Remove(fresh)
	if err := os.WriteFile(fresh, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(fresh, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_, errs, status := d.cli("restart", "fresh")
	if status != 1 || !strings.Contains(errs, fresh) && !strings.Contains(errs, "./fresh") || !strings.Contains(errs, "text file busy") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// Whatever launched the daemon, a worker gets clean signals, three descriptors, the umask and its folder.
func TestFieldSpawnLaunchers(t *testing.T) {
	t.Parallel()
	const python = `
import os, signal, sys
for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD): signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGTERM})
os.umask(0o077)
for fd in (40, 41): os.dup2(1, fd)   # inheritable
os.chdir("/usr")
os.execv(sys.argv[1], sys.argv[1:])
`
	for name, launcher := range map[string][]string{
		"plain":  nil,
		"nohup":  {"nohup"},
		"python": {"python3", "-c", python},
		"stdin":  {"sh", "-c", `exec "$0" "$@" <&-`},
		"all":    {"sh", "-c", `exec "$0" "$@" <&- >&- 2>&-`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, "")
			d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "api" {
    command = ["/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exec sleep 1000"]
    stop { signal = "HUP" }
  }
}`, d.dir))
			p := program("run", filepath.Join(d.dir, "coppice.hcl"))
			if launcher != nil {
				path, err := exec.LookPath(launcher[0])
				if err != nil {
					t.Skip(err)
				}
				p = &exec.Cmd{Path: path, Args: append(launcher, append([]string{p.Path}, p.Args[1:]...)...), Env: p.Env}
			}
			d.launch(p)
			d.waitUp()
			pid := 0
			d.until("the program to run", func() bool {
				pid = d.node("default/shop/api.0").PID
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				return strings.HasPrefix(string(b), "sleep")
			})
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			for _, want := range []string{"SigBlk:\t0000000000000000\n", "SigIgn:\t0000000000000000\n", "Umask:\t0022\n"} {
				if !strings.Contains(string(status), want) {
					t.Errorf("no %q in the worker's status:\n%s", want, status)
				}
			}
			if dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); dir != d.dir {
				t.Errorf("it runs in %s, want %s", dir, d.dir)
			}
			var open []string
			d.until("it to have three descriptors", func() bool { // its loader opens libraries for a moment
				fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				open = nil
				for _, fd := range fds {
					target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
					open = append(open, fd.Name()+" "+target)
				}
				return len(open) == 3
			})
			if open[0] != "0 /dev/null" || !strings.HasPrefix(open[1], "1 pipe:") || !strings.HasPrefix(open[2], "2 pipe:") {
				t.Errorf("descriptors: %q", open)
			}
			d.until("the output", func() bool {
				out := d.must("logs", "api")
				return strings.Contains(out, "to stdout") && strings.Contains(out, "to stderr")
			})
			d.must("stop", "api")
			if exit := d.node("default/shop/api.0").LastExit; exit == nil || exit.Signal != "HUP" {
				t.Errorf("HUP did not stop it: %+v", exit)
			}
		})
	}
}

// A start that fails says at which step and with what.
func TestFieldSpawnErrors(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("interp", "#!/no/such/interpreter -x\n")
	d.write("crlf", "#!/bin/sh\r\necho hello\r\n")
	d.write("data", "just text")
	os.Chmod(filepath.Join(d.dir, "data"), 0o644)
	d.write("format", "\x7fELF nothing more")
	d.write("bin/tool", "#!/bin/sh\necho \"$0 in $(pwd)\" >>"+d.dir+"/tool.said; exec sleep 1000\n")
	d.write("down/here", "")
	worker := func(name, body string) string {
		return "\n  worker \"" + name + "\" {\n    " + strings.ReplaceAll(body, "; ", "\n    ") + `
    restart {
      limit    = 1
      on_limit = "stop"
    }
  }`
	}
	var many []string
	for range 20 {
		many = append(many, `"`+strings.Repeat("y", 120_000)+`"`)
	}
	var b strings.Builder
	for _, w := range [][2]string{
		{"folder", `command = ["sleep", "1000"]; directory = "/no/such/folder"`},
		{"file-folder", fmt.Sprintf(`command = ["sleep", "1000"]; directory = "%s/data"`, d.dir)},
		{"program", `command = ["/no/such/program"]`},
		{"lookup", `command = ["no-such-program-anywhere"]`},
		{"interpreter", `command = ["./interp"]`},
		{"crlf", `command = ["./crlf"]`},
		{"mode", `command = ["./data"]`},
		{"format", `command = ["./format"]`},
		{"is-folder", `command = ["./down"]`},
		{"one-long", fmt.Sprintf(`command = ["sleep", "1000"]; env = { BIG = "%s" }`, strings.Repeat("x", 200_000))},
		{"all-long", `command = ["sleep", ` + strings.Join(many, ", ") + `]`},
		{"relative", `command = ["./bin/tool"]; directory = "` + d.dir + `/down"`},
		{"path", `command = ["tool"]; env = { PATH = "/nowhere:` + d.dir + `/bin:/usr/bin:/bin" }`},
	} {
		b.WriteString(worker(w[0], w[1]))
	}
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf("app \"shop\" {\n  root = %q%s\n}\n", d.dir, b.String()))
	d.start()
	for name, want := range map[string]string{
		"folder":      "cannot start: working directory /no/such/folder: no such file or directory",
		"file-folder": "cannot start: working directory " + d.dir + "/data: not a directory",
		"program":     "cannot start: exec /no/such/program: no such file or directory",
		"lookup":      "cannot start: exec no-such-program-anywhere: no such file or directory",
		"interpreter": "/no/such/interpreter",
		"crlf":        `/bin/sh\r`,
		"mode":        "permission denied",
		"format":      "exec format error",
		"is-folder":   "cannot start: exec " + d.dir + "/./down: ",
		"one-long":    "BIG",
		"all-long":    "argument list too long",
	} {
		n := d.untilNode("default/shop/"+name+".0", "to fail", func(n tree.Node) bool { return n.State == tree.StateFailed })
		if !strings.HasPrefix(n.Reason, "cannot start: ") || !strings.Contains(strings.ReplaceAll(n.Reason, "/./", "/"), strings.ReplaceAll(want, "/./", "/")) {
			t.Errorf("%s: the reason is %q, want %q in it", name, n.Reason, want)
		}
	}
	d.running("default/shop/relative.0")
	d.running("default/shop/path.0")
	d.until("both tools to say where they are", func() bool { return strings.Count(d.fileText("tool.said"), "\n") == 2 })
	said := d.fileText("tool.said")
	if !strings.Contains(said, "in "+d.dir+"/down\n") || !strings.Contains(said, d.dir+"/bin/tool in "+d.dir+"\n") {
		t.Error(said)
	}
}

// A daemon that has hardly any descriptors left says so, and starts again when there are some.
func TestFieldSpawnWithoutDescriptors(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, `
app "shop" {
  worker "many" {
    command = ["sleep", "1000"]
    count   = 40
    restart {
      backoff = "100ms"
      limit   = 0
    }
  }
}`)
	p := program("run", filepath.Join(d.dir, "coppice.hcl"))
	d.launch(&exec.Cmd{Path: "/bin/sh", Args: append([]string{"sh", "-c", `ulimit -n 90; exec "$0" "$@"`, p.Path}, p.Args[1:]...), Env: p.Env})
	select {
	case <-d.ended:
		t.Fatalf("the daemon ended with %d", d.cmd.ProcessState.ExitCode())
	case <-time.After(3 * time.Second): // no fact says that it goes on: this only gives it time to fail
	}
	if !strings.Contains(d.stderr.String(), "too many open files") {
		t.Errorf("the log does not say what is missing")
	}
	d.signal(syscall.SIGTERM)
	if status := d.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
}
