package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/process"
	"github.com/coppice-run/coppice/tree"
)

// asCoppice makes a process of this test binary be the program. It is told by the environment, so that every test runs
// the very code that main runs, built with the race detector where the tests are.
const asCoppice = "COPPICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	process.Shim() // this binary is also what becomes the workers that need one
	if os.Getenv(asCoppice) != "" {
		main() // the variable stays: the daemon may have to execute itself again
		return
	}
	os.Exit(m.Run())
}

// patience bounds every wait for a fact. It is long, because the machine may be busy; no test passes by waiting.
const patience = 60 * time.Second

// program returns a command that runs coppice with the arguments.
func program(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asCoppice+"=1")
	return cmd
}

// testDaemon is a running `coppice run` in a folder of its own.
type testDaemon struct {
	t      *testing.T
	dir    string // configuration and all that belongs to the test
	run    string // runtime_dir
	state  string // state_dir
	cmd    *exec.Cmd
	client *control.Client
	stderr *transcript
	stdout *transcript
	ended  chan struct{} // closed when the daemon has ended
}

// hostBlock is the host block that a test's configuration starts with. extra goes into it.
func (d *testDaemon) hostBlock(extra string) string {
	return fmt.Sprintf("host {\n  runtime_dir = %q\n  state_dir = %q\n  %s\n}\n", d.run, d.state, extra)
}

// newDaemon prepares a daemon with this configuration (without a host block) and does not start it.
func newDaemon(t *testing.T, hcl string) *testDaemon {
	t.Helper()
	// Not t.TempDir: a socket's path must stay below 108 bytes.
	dir, err := os.MkdirTemp("", "cop")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &testDaemon{t: t, dir: dir, run: filepath.Join(dir, "run"), state: filepath.Join(dir, "state")}
	d.write("coppice.hcl", d.hostBlock("")+hcl)
	d.client = control.NewClient(filepath.Join(d.run, "control.sock"))
	t.Cleanup(d.client.Close)
	return d
}

// startDaemon runs a daemon with this configuration until the test ends, when it must stop cleanly, and leave no process.
func startDaemon(t *testing.T, hcl string, env ...string) *testDaemon {
	t.Helper()
	d := newDaemon(t, hcl)
	d.start(env...)
	return d
}

// write puts a file into the daemon's folder and returns its path.
func (d *testDaemon) write(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// start runs the daemon and waits until it answers.
func (d *testDaemon) start(env ...string) {
	d.t.Helper()
	d.launch(program("run", filepath.Join(d.dir, "coppice.hcl")), env...)
	d.waitUp()
}

// launch runs the daemon by a command of the test's choice.
func (d *testDaemon) launch(cmd *exec.Cmd, env ...string) {
	d.t.Helper()
	d.stdout, d.stderr, d.ended = new(transcript), new(transcript), make(chan struct{})
	cmd.Stdout, cmd.Stderr = d.stdout, d.stderr
	cmd.WaitDelay = time.Second // a worker of a daemon that was killed may hold the pipes
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.cmd = cmd
	ended := d.ended
	go func() { cmd.Wait(); close(ended) }()
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("the daemon's log:\n%s", d.stderr)
		}
		d.stop()
	})
}

// waitUp waits until the daemon answers.
func (d *testDaemon) waitUp() {
	d.t.Helper()
	d.until("the daemon to answer", func() bool {
		select {
		case <-d.ended:
			d.t.Fatalf("the daemon ended with status %d:\n%s", d.cmd.ProcessState.ExitCode(), d.stderr)
		default:
		}
		_, err := d.client.Status(context.Background())
		return err == nil
	})
}

// signal sends a signal to the daemon itself.
func (d *testDaemon) signal(sig syscall.Signal) { d.cmd.Process.Signal(sig) }

// wait waits for the daemon's end and returns its exit status.
func (d *testDaemon) wait() int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.cmd.Process.Kill()
		d.t.Fatalf("the daemon did not end; its log:\n%s", d.stderr)
	}
	return d.cmd.ProcessState.ExitCode()
}

// stop asks the daemon to stop, if it runs, and returns its exit status.
func (d *testDaemon) stop() int {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	return d.wait()
}

// until polls for a fact that nothing announces, and fails the test if it does not come about.
func (d *testDaemon) until(what string, holds func() bool) {
	d.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			d.t.Fatalf("waited in vain for %s; the tree:\n%s", what, d.picture())
		}
	}
}

// picture is the status as people see it.
func (d *testDaemon) picture() string {
	st, err := d.client.Status(context.Background())
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	printStatus(&b, st, time.Now(), false)
	return b.String()
}

// node returns the node at the path now.
func (d *testDaemon) node(path string) tree.Node {
	d.t.Helper()
	st, err := d.client.Status(context.Background(), path)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, n := range st.Nodes {
		if n.Path == path {
			return n
		}
	}
	d.t.Fatalf("no node at %q", path)
	return tree.Node{}
}

// untilNode waits until the node at the path is as wanted, and returns it.
func (d *testDaemon) untilNode(path, what string, holds func(tree.Node) bool) tree.Node {
	d.t.Helper()
	var n tree.Node
	d.until(path+" "+what, func() bool {
		n = d.node(path)
		return holds(n)
	})
	return n
}

// running waits until the worker runs and is ready.
func (d *testDaemon) running(path string) tree.Node {
	d.t.Helper()
	return d.untilNode(path, "to run", func(n tree.Node) bool { return n.State == tree.StateRunning && n.Leaf != nil && n.Ready })
}

// events returns the journal of the subtree, oldest first.
func (d *testDaemon) events(path string) []tree.Event {
	d.t.Helper()
	var got []tree.Event
	q := control.StreamQuery{N: -1}
	if path != "" {
		q.Paths = []string{path}
	}
	if err := d.client.Events(context.Background(), q, func(e tree.Event) error { got = append(got, e); return nil }); err != nil {
		d.t.Fatal(err)
	}
	return got
}

// count counts the journal entries of a kind in the subtree.
func (d *testDaemon) count(path string, kind tree.EventKind) int {
	n := 0
	for _, e := range d.events(path) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// cli runs a command against this daemon in this process.
func (d *testDaemon) cli(args ...string) (stdout, stderr string, status int) {
	d.t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"--socket", filepath.Join(d.run, "control.sock")}, args...)
	status = Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), status
}

// must runs a command that has to succeed and returns what it printed.
func (d *testDaemon) must(args ...string) string {
	d.t.Helper()
	out, errs, status := d.cli(args...)
	if status != 0 {
		d.t.Fatalf("coppice %s: status %d: %s", strings.Join(args, " "), status, errs)
	}
	return out
}

// alive tells whether the process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// transcript collects what a process prints while others read it.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*transcript)(nil)

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
