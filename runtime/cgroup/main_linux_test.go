package cgroup

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// asWorker in the environment makes the test binary play a worker: it does what the lines on its standard input say.
const asWorker = "COPPICE_TEST_CGROUP_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		work(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// work obeys one order a line and answers each with a line, so that a test waits for facts.
func work(in io.Reader, out io.Writer) {
	var kept [][]byte
	var children []*exec.Cmd
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "daemon":
			if err := daemon(out); err != nil {
				fmt.Fprintln(out, "error", err)
			}
		case "container":
			if err := container(rest, out); err != nil {
				fmt.Fprintln(out, "error", err)
			}
		case "hello":
			fmt.Fprintln(out, "hello")
		case "eat": // megabytes of memory, every page touched
			n, _ := strconv.Atoi(rest)
			for range n {
				// Not of Go's heap, which the race detector would count several times.
				b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
				if err != nil {
					fmt.Fprintln(out, "cannot", err)
					return
				}
				kept = append(kept, b)
			}
			fmt.Fprintln(out, "ate", len(kept))
		case "fork": // a child that does nothing, or one that obeys us
			c := exec.Command("/proc/self/exe")
			c.Env = []string{asWorker + "=1"}
			c.Stdin, _ = os.Open("/dev/zero")
			if rest != "" {
				c.Stdin = strings.NewReader(rest + "\n")
			}
			if r, w, err := os.Pipe(); err == nil && rest == "" {
				c.Stdin = r // kept open by us, so that it stays
				defer w.Close()
			}
			if err := c.Start(); err != nil {
				fmt.Fprintln(out, "cannot", err)
				continue
			}
			children = append(children, c)
			fmt.Fprintln(out, "forked", c.Process.Pid)
		case "wait": // for the last child
			err := children[len(children)-1].Wait()
			fmt.Fprintln(out, "waited", err)
		case "sh":
			b, err := exec.Command("/bin/sh", "-c", rest).CombinedOutput()
			fmt.Fprintf(out, "sh %q %v\n", b, err)
		case "read": // the file, as page cache
			f, err := os.Open(rest)
			if err == nil {
				_, err = io.Copy(io.Discard, f)
				f.Close()
			}
			fmt.Fprintln(out, "read", err)
		case "burn": // this many milliseconds of processor time, however long that takes
			n, _ := strconv.Atoi(rest)
			var now, then unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &then)
			for now = then; now.Utime.Nano()-then.Utime.Nano() < int64(n)*1e6; {
				_ = unix.Getrusage(unix.RUSAGE_SELF, &now)
			}
			fmt.Fprintln(out, "burnt")
		}
	}
}

// worker is the test binary that plays a worker in a leaf.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	done bool
}

// start puts a worker into the leaf the way the launcher does: by FD, and into v1 before it is given anything to do.
func start(t *testing.T, l *Leaf) *worker {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{asWorker + "=1", "GOMAXPROCS=1"}
	c.Stderr = os.Stderr
	if l.FD() >= 0 {
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, cmd: c, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { w.end() })
	if l.FD() < 0 || len(l.JoinPaths()) > 0 {
		if err := l.Enter(c.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.ask("hello"); got != "hello" {
		t.Fatalf("the worker said %q", got)
	}
	return w
}

// ask gives the worker an order and returns its answer, "" when it ended instead.
func (w *worker) ask(order string) string {
	fmt.Fprintln(w.in, order)
	if !w.out.Scan() {
		return ""
	}
	return w.out.Text()
}

// end kills the worker if it still runs and returns how it ended.
func (w *worker) end() syscall.WaitStatus {
	if !w.done {
		w.done = true
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
	return w.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// wait returns how the worker ended by itself.
func (w *worker) wait() syscall.WaitStatus {
	w.t.Helper()
	if w.done {
		w.t.Fatal("waited twice")
	}
	w.done = true
	late := time.AfterFunc(20*time.Second, func() { _ = w.cmd.Process.Kill() })
	_ = w.cmd.Wait()
	if !late.Stop() {
		w.t.Fatal("the worker still lived after 20 s")
	}
	return w.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// eventually waits until what holds, which the kernel brings about on its own and tells nobody.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after 20 s: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// remove removes a leaf whose processes are ending.
func remove(t *testing.T, l *Leaf) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := l.RemoveWhenEmpty(ctx); err != nil {
		t.Fatal(err)
	}
}

// root opens a Root under a name of the test's own.
func root(t *testing.T) *Root {
	t.Helper()
	r, err := Open(hclog.NewNullLogger(), fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// able skips the test where the host lets this user do too little.
func able(t *testing.T, abilities ...Ability) {
	t.Helper()
	for _, a := range abilities {
		if a.Err != nil {
			t.Skip("this host does not let this user do it: " + a.Err.Error())
		}
	}
}
