package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of the command line: what a script learns from the exit status, stdout and stderr.

const apiHouse = `
app "one" {
  worker "good" { command = ["sleep", "1000"] }
  worker "web" {
    command = ["sleep", "1000"]
    count   = 2
  }
  worker "brief" {
    command = ["sh", "-c", "sleep 0.3; exit 3"]
    ready { notify = true }
    restart {
      backoff = "1h"
      cap     = "1h"
    }
  }
  worker "off" {
    command = ["sleep", "1000"]
    enabled = false
  }
}
app "two" {
  worker "web" { command = ["sleep", "1000"] }
  worker "never" {
    command = ["sleep", "1000"]
    ready {
      notify  = true
      timeout = "1s"
    }
    restart {
      backoff = "1h"
      cap     = "1h"
    }
  }
  worker "slow" {
    command = ["sleep", "1000"]
    enabled = false
    ready { notify = true }
  }
  worker "stubborn" {
    command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    stop { timeout = "3s" }
  }
  worker "gone" { command = [%q] }
}
`

func TestFieldExitStatuses(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	program := d.write("gone", "#!/bin/sh\nexec sleep 1000\n")
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(apiHouse, program))
	d.start()
	for _, path := range []string{"one/good.0", "one/web.0", "one/web.1", "two/web.0", "two/gone.0", "two/stubborn.0"} {
		d.running("default/" + path)
	}
	os.Remove(program)
	nothing := filepath.Join(d.dir, "nothing.sock")
	for _, c := range []struct {
		args   string
		status int
		out    string // of stdout
		errs   string // of stderr
	}{
		{"status", 0, "default/one/good.0", ""},
		{"status good", 0, "running", ""},
		{"start good", 0, "default/one/good.0: already running", ""},
		{"stop good", 0, "default/one/good.0: stopped", ""},
		{"stop good", 0, "already stopped by", ""},
		{"status good", 0, "stopped by", ""},
		{"start good", 0, "default/one/good.0: started", ""},
		{"restart good", 0, "default/one/good.0: restarted", ""},
		{"restart one/web", 0, "default/one/web: restarted", ""},
		{"restart one/web.1", 0, "default/one/web.1: restarted", ""},
		{"restart --no-wait good", 0, "asked to restart", ""},
		{"restart good --reason because", 0, "restarted", ""},
		{"stop off", 0, "off.0", ""},
		{"start off", 0, "started", ""},

		{"restart brief", 1, "", "cannot restart default/one/brief.0: exit 3"},
		{"start never", 1, "", "cannot start default/two/never.0: not ready in 1s: READY=1 has not come"},
		{"restart gone", 1, "", "gone: no such file or directory"},
		{"restart good gone", 1, "default/one/good.0: restarted", "cannot restart default/two/gone.0"},
		{"start gone good", 1, "default/one/good.0: already running", "cannot start default/two/gone.0"},
		{"stop _host/control", 1, "", "part of the daemon"},
		{"notify READY=1", 1, "", "NOTIFY_SOCKET is not set"},
		{"check " + nothing, 1, "", "no such file"},
		{"run " + nothing, 1, "", "no such file"},
		{"run " + filepath.Join(d.dir, "coppice.hcl"), 75, "", "another coppice"},
		{"reload", 1, "", "not supported yet"},

		{"", 2, "", "Usage"},
		{"bogus", 2, "", `unknown command "bogus"`},
		{"stats", 2, "", `did you mean`},
		{"stat", 2, "", `did you mean "status"`},
		{"--bogus", 2, "", "coppice: unknown flag: --bogus (coppice help tells more)"},
		{"help bogus", 2, "", "no help about"},
		{"completion", 2, "", "name a shell"},
		{"completion tcsh", 2, "", "name a shell"},
		{"restart", 2, "", "write coppice restart PATH"},
		{"why", 2, "", "write coppice why PATH"},
		{"why good web", 2, "", `"web" is too much`},
		{"version now", 2, "", "now"},
		{"status --bogus", 2, "", "--bogus"},
		{"status good --bogus", 2, "", "--bogus"},
		{"start --timeout 0s good", 2, "", "above zero"},
		{"start --timeout=-1s good", 2, "", "above zero"},
		{"start --timeout 5 good", 2, "", "--timeout"},
		{"logs -n -1", 2, "", "-n -1"},
		{"logs -n 1000000000", 2, "", "bad n"},
		{"logs -n x", 2, "", "x"},
		{"logs --since yesterday", 2, "", "bad since"},
		{"events --since -5m", 2, "", "bad since"},
		{"check a b", 2, "", ""},

		{"status nosuch", 4, "", `no such path: "nosuch"`},
		{"status goood", 4, "", "did you mean"},
		{"why nosuch", 4, "", "no such path"},
		{"events nosuch", 4, "", "no such path"},
		{"logs nosuch", 4, "", "no such path"},
		{"start nosuch", 4, "", "no such path"},
		{"stop good nosuch", 4, "", "no such path"},
		{"status web", 4, "", "default/one/web, default/two/web"},
		{"why web", 4, "", "default/one/web, default/two/web"},
		{"logs web", 4, "", "default/one/web, default/two/web"},
		{"events web", 4, "", "default/one/web, default/two/web"},
		{"restart web", 4, "", "default/one/web, default/two/web"},
		{"stop web good", 4, "", "default/one/web, default/two/web"},
		{"status //", 4, "", "no such path"},
		{"why ../one", 4, "", "no such path"},
		{"why /", 4, "", "no such path"},
		{"why one//good", 4, "", "no such path"},
		{"why one/%2e%2e", 4, "", "no such path"},

		{"start --timeout 300ms slow", 5, "", "timed out"},
		{"stop --timeout 300ms stubborn", 5, "", "timed out"},

		{"status --socket " + nothing, 6, "", "cannot reach the daemon at " + nothing},
		{"restart good --socket=" + nothing, 6, "", "cannot reach"},
		{"events --socket " + nothing, 6, "", "cannot reach"},
		{"logs --socket " + nothing, 6, "", "cannot reach"},
		{"why good --socket " + nothing, 6, "", "cannot reach"},

		// Flags stand before or after what they belong to.
		{"status --json good", 0, `"default/one/good.0"`, ""},
		{"status good --json", 0, `"default/one/good.0"`, ""},
		{"logs -n 0 good", 0, "", ""},
		{"logs good -n0", 0, "", ""},
		{"logs --since 2099-01-01T00:00:00Z", 0, "", ""},
		{"events --since 1d good", 0, "starting", ""},
		{"help", 0, "Available Commands", ""},
		{"help status", 0, "--watch", ""},
		{"restart --help", 0, "--timeout", ""},
		{"version", 0, "coppice ", ""},
		{"completion bash", 0, "__complete", ""},
		{"completion zsh", 0, "compdef", ""},
	} {
		out, errs, status := d.cli(strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("coppice %s: status %d, want %d; stdout %q, want %q; stderr %q, want %q", c.args, status, c.status, out, c.out, errs, c.errs)
		}
		if c.status != 0 && c.out == "" && out != "" || c.status == 0 && errs != "" {
			t.Errorf("coppice %s: stdout %q and stderr %q are mixed up", c.args, out, errs)
		}
		if c.status != 0 && strings.TrimSpace(errs) == "" {
			t.Errorf("coppice %s: failed and said nothing", c.args)
		}
	}
	// Nothing was stopped or restarted by a request that named something else that does not exist.
	if n := d.node("default/one/good.0"); n.State != tree.StateRunning {
		t.Errorf("good is %s: a request with a wrong path was carried out in part", n.State)
	}
	// The stop that timed out goes on; the test need not wait a minute for it.
	syscall.Kill(-d.node("default/two/stubborn.0").PID, syscall.SIGKILL)
}

// TestFieldStdoutThatIsNotThere: a reader that leaves, a full disk and a closed stdout are told apart from success and
// from misuse, and never end in a trace of the stack.
func TestFieldStdoutThatIsNotThere(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" {
    command = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo some line $i; i=$((i+1)); done; exec sleep 1000"]
    logs {
      rate  = 100000
      burst = 100000
    }
  }
}`)
	d.until("the lines to be kept", func() bool { return strings.Contains(d.must("logs", "-n", "1"), "some line 2999") })
	socket := filepath.Join(d.run, "control.sock")
	shell := func(script string) (string, int) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(program().Env, "COPPICE_CONTROL="+socket, "COPPICE="+program().Path)
		b, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(b), cmd.ProcessState.ExitCode()
	}
	for _, verb := range []string{"status --json", "events", "logs -n 3000", "logs -n 3000 --json", "why w", "help"} {
		out, status := shell(`"$COPPICE" ` + verb + ` | head -n 1`)
		if status != 0 || strings.Count(out, "\n") != 1 || strings.Contains(out, "goroutine") {
			t.Errorf("coppice %s | head -1: status %d, %q", verb, status, out)
		}
		if verb == "help" {
			continue // cobra does not look at what became of its words
		}
		out, status = shell(`"$COPPICE" ` + verb + ` >/dev/full`)
		if status != 1 || strings.Contains(out, "goroutine") || !strings.HasPrefix(out, "coppice: ") {
			t.Errorf("coppice %s >/dev/full: status %d, %q", verb, status, out)
		}
	}
	// A follower whose reader leaves ends with the next line, and the daemon keeps nothing of it.
	before := openFiles(t, d.cmd.Process.Pid)
	if _, status := shell(`"$COPPICE" events -f | head -n 1`); status != 0 {
		t.Errorf("events -f | head: status %d", status)
	}
	d.must("restart", "w")
	d.until("the daemon to let go of its followers", func() bool {
		return openFiles(t, d.cmd.Process.Pid) <= before+2
	})
}

// openFiles counts the descriptors of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestFieldDaemonWithoutReader: what reads the daemon's own stdout may leave; the daemon and its workers stay.
func TestFieldDaemonWithoutReader(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, `app "a" {
  worker "loud" { command = ["sh", "-c", "while :; do echo line; sleep 0.02; done"] }
}`)
	cmd := program("run", filepath.Join(d.dir, "coppice.hcl"))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdout, d.stderr, d.ended = new(transcript), new(transcript), make(chan struct{})
	cmd.Stdout, cmd.Stderr = w, d.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	d.cmd = cmd
	go func() { cmd.Wait(); close(d.ended) }()
	t.Cleanup(func() {
		if status := d.stop(); status != 0 {
			t.Errorf("the daemon ended with %d: %s", status, d.stderr)
		}
	})
	d.waitUp()
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	lines := func() int { return strings.Count(d.must("logs", "-n", "100000"), "\n") }
	before := lines()
	d.until("more lines after the reader left", func() bool { return lines() > before+20 })
	if n := d.node("default/a/loud.0"); n.Incarnation != 1 {
		t.Errorf("the worker was restarted: %+v", n.Leaf)
	}
}

// TestFieldDaemonThatHangs: a daemon that takes connections and says nothing is a timeout, and not for ever.
func TestFieldDaemonThatHangs(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" { command = ["sleep", "1000"] }
}`)
	d.running("default/a/w.0")
	d.signal(syscall.SIGSTOP)
	defer d.signal(syscall.SIGCONT)
	var got [4]string
	done := make(chan int)
	for i, args := range [...]string{"status", "restart --timeout 1s w", "logs -f", "why w"} {
		go func() {
			out, errs, status := d.cli(strings.Fields(args)...)
			got[i] = fmt.Sprintf("%s: %d %q %q", args, status, out, errs)
			if status != 5 || !strings.Contains(errs, "timed out") {
				t.Error(got[i])
			}
			done <- i
		}()
	}
	for range got {
		<-done
	}
}

func TestFieldSocketByEnvironment(t *testing.T) {
	d := startDaemon(t, `app "a" {
  worker "w" { command = ["sleep", "1000"] }
}`)
	run := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		status := Run(t.Context(), args, strings.NewReader(""), &out, &errs)
		return out.String() + errs.String(), status
	}
	t.Setenv("COPPICE_CONTROL", filepath.Join(d.run, "control.sock"))
	if out, status := run("status", "w"); status != 0 {
		t.Errorf("COPPICE_CONTROL: %d %s", status, out)
	}
	if out, status := run("status", "w", "--socket", "/nonexistent/x.sock"); status != 6 || !strings.Contains(out, "/nonexistent/x.sock") {
		t.Errorf("--socket wins: %d %s", status, out)
	}
	t.Setenv("COPPICE_CONTROL", "/nonexistent/y.sock")
	if out, status := run("--socket", filepath.Join(d.run, "control.sock"), "status", "w"); status != 0 {
		t.Errorf("--socket before the command: %d %s", status, out)
	}
	if out, status := run("status"); status != 6 || !strings.Contains(out, "/nonexistent/y.sock") {
		t.Errorf("COPPICE_CONTROL names the place: %d %s", status, out)
	}
	// A file that is no socket, and one that nobody listens on, are a daemon that cannot be reached.
	for _, path := range []string{d.write("plain", "x"), d.dir} {
		if out, status := run("--socket", path, "status"); status != 6 || !strings.Contains(out, path) {
			t.Errorf("--socket %s: %d %s", path, status, out)
		}
	}
}

func TestFieldCompletion(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `tenant "acme" {
  app "shop" {
    worker "api" { command = ["sleep", "1000"] }
    worker "web" {
      command = ["sleep", "1000"]
      count   = 2
    }
  }
}
app "mail" {
  worker "api" { command = ["sleep", "1000"] }
}`)
	for _, c := range []struct{ args, want string }{
		{"status ac", "acme acme/shop acme/shop/api.0 acme/shop/web acme/shop/web.0 acme/shop/web.1"},
		{"restart acme/shop/w", "acme/shop/web acme/shop/web.0 acme/shop/web.1"},
		{"stop acme/shop/api.0 acme/shop/a", "acme/shop/api.0"},
		{"start we", "web web.0 web.1"},
		{"why shop/w", "shop/web shop/web.0 shop/web.1"},
		{"logs api", ""}, // two have it
		{"events ma", "mail mail/api.0"},
		{"status nothing", ""},
		{"statu", "status"},
		{"help sta", "start status"},
	} {
		out := d.must(append([]string{"__complete"}, strings.Split(c.args, " ")...)...)
		var words []string
		for _, line := range strings.Split(out, "\n") {
			if word, _, _ := strings.Cut(line, "\t"); word != "" && !strings.HasPrefix(word, ":") {
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("coppice %s<TAB>: %q, want %q", c.args, got, c.want)
		}
	}
	// Without a daemon there is nothing, at once and quietly.
	var out, errs bytes.Buffer
	if status := Run(t.Context(), []string{"__complete", "--socket", "/nonexistent.sock", "status", "a"}, nil, &out, &errs); status != 0 {
		t.Errorf("without a daemon: %d %s", status, &errs)
	}
}
