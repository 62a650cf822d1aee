package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/config"
	"github.com/coppice-run/coppice/tree"
)

// demo starts the demonstration as `make run` does, in folders of the test's own.
func demo(t *testing.T) *testDaemon {
	t.Helper()
	for _, program := range []string{"/usr/bin/node", "/usr/bin/python3"} {
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("the demonstration needs %s: %v", program, err)
		}
	}
	d := newDaemon(t, "")
	folder := filepath.Join(d.dir, "demo")
	if err := os.CopyFS(folder, os.DirFS("../../examples/demo")); err != nil {
		t.Fatal(err)
	}
	d.write("demo/host.hcl", d.hostBlock(""))
	d.launch(program("run", folder))
	d.waitUp()
	return d
}

// TestDemonstration is what a newcomer sees after `make run`.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	d := demo(t)
	web := d.running("acme/shop/web.0")
	for _, path := range []string{"acme/shop/web.1", "acme/shop/mailer.0", "zen/notes/api.0", "zen/trouble/stubborn.0"} {
		d.running(path)
	}
	t.Run("Node answers on its own socket", func(t *testing.T) {
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", web.Socket)
			}}}
		resp, err := c.Get("http://shop/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(body), "hello from acme/shop/web.0") {
			t.Errorf("it said %q", body)
		}
	})
	t.Run("the crasher fails after five ends and is retried", func(t *testing.T) {
		n := d.untilNode("zen/trouble/crasher.0", "to fail", func(n tree.Node) bool { return n.State == tree.StateFailed })
		if n.Reason != "exit 3" || n.NextAt == nil || n.LastExit == nil || n.LastExit.Code != 3 {
			t.Errorf("%+v %+v", n, n.Leaf)
		}
		if starts := d.count("zen/trouble/crasher.0", tree.EventStarting); starts != 5 {
			t.Errorf("it was started %d times before it failed", starts)
		}
		if out := d.must("why", "crasher"); !strings.Contains(out, "is failed: exit 3") || !strings.Contains(out, "exited") {
			t.Errorf("why says\n%s", out)
		}
	})
	t.Run("the stubborn one is killed", func(t *testing.T) {
		pid := d.node("zen/trouble/stubborn.0").PID
		d.must("stop", "stubborn")
		if alive(pid) {
			t.Error("it still runs")
		}
		if d.count("zen/trouble/stubborn.0", tree.EventKilled) != 1 {
			t.Error("nothing says that it had to be killed")
		}
	})
}

var command = regexp.MustCompile(`(?m)^    bin/coppice ([^#\n]+)`)

// TestReadmeCommands runs each command that README gives for the demonstration.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	d := demo(t)
	for _, path := range []string{"acme/shop/web.0", "acme/shop/web.1", "zen/trouble/stubborn.0"} {
		d.running(path)
	}
	found := command.FindAllStringSubmatch(string(text), -1)
	if len(found) < 6 {
		t.Fatalf("README has only %d commands", len(found))
	}
	for _, m := range found {
		args := strings.Fields(m[1])
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var out, errs bytes.Buffer
		if args[len(args)-1] == "-f" {
			// What follows ends when its reader has seen something and leaves.
			seen := writerFunc(func(p []byte) (int, error) { out.Write(p); cancel(); return len(p), nil })
			status := Run(ctx, append([]string{"--socket", filepath.Join(d.run, "control.sock")}, args...), strings.NewReader(""), seen, &errs)
			if status != 0 || out.Len() == 0 {
				t.Errorf("coppice %s: status %d, %q, %s", m[1], status, out.String(), errs.String())
			}
		} else {
			d.must(args...)
		}
		cancel()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestReadmeConfiguration loads every configuration that README shows.
func TestReadmeConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("README shows no configuration")
	}
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "readme.hcl")
		if err := os.WriteFile(file, []byte(b[1]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, diags := config.Load(file, config.Here()); diags.HasErrors() {
			t.Errorf("%v\n%s", diags, b[1])
		}
	}
}

// TestExamplesAreCanonical checks and formats every example.
func TestExamplesAreCanonical(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../examples/*/*.hcl", "../../examples/*/*/*.hcl"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	if len(files) == 0 {
		t.Fatal("there are no examples")
	}
	for _, file := range files {
		for _, args := range [][]string{{"check", file}, {"fmt", "--check", file}} {
			var out, errs bytes.Buffer
			if status := Run(context.Background(), args, strings.NewReader(""), &out, &errs); status != 0 {
				t.Errorf("coppice %s: status %d: %s%s", strings.Join(args, " "), status, out.String(), errs.String())
			}
		}
	}
}

// TestProgramEndsWhenInterrupted shows that a command that follows can be left by INT, with status 0.
func TestProgramEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "app \"a\" {\n  worker \"w\" {\n    command = [\"sleep\", \"1000\"]\n  }\n}\n")
	cmd := program("--socket", filepath.Join(d.run, "control.sock"), "events", "-f")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(os.Interrupt)
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	if exit, ok := err.(*exec.ExitError); ok {
		t.Errorf("it ended with %v", exit)
	}
}
