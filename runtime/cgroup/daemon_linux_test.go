package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/coppice-run/coppice/tree"
)

// daemon plays a daemon that was started in a group of its own, as a service is: it opens a Root, starts a worker in a
// leaf with all limits that it can have, and tells what came of it.
func daemon(out io.Writer) error {
	r, err := Open(hclog.NewNullLogger(), "test-daemon")
	if err != nil {
		return err
	}
	defer r.Close()
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "self %s\n", strings.TrimSpace(string(self[strings.LastIndex(string(self), "0::"):])))
	can := r.Can()
	fmt.Fprintf(out, "members %s%v\n", can.Members.Where, can.Members.Err)
	fmt.Fprintf(out, "memory %s%v\n", can.Memory.Where, can.Memory.Err)
	b, err := r.Branch("acme/shop", tree.Limits{})
	if err != nil {
		return err
	}
	l, err := b.Leaf("web.0-1", tree.Limits{})
	if err != nil {
		return err
	}
	c := exec.Command("/bin/sh", "-c", "exit 7")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
	fmt.Fprintf(out, "worker %v\n", c.Run())
	return l.Remove()
}

// container plays the first process of a container: it has a cgroup namespace of its own, mounts what it sees at dir, and
// starts a daemon beside itself in the same group.
func container(dir string, out io.Writer) error {
	runtime.LockOSThread() // and never unlocked: the thread is no longer like the others
	err := errors.Join(
		unix.Unshare(unix.CLONE_NEWCGROUP|unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("cgroup2", dir, "cgroup2", 0, ""))
	if err != nil {
		return err
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{asWorker + "=1"}
	c.Stdin = strings.NewReader("daemon\n")
	c.Stdout, c.Stderr = out, out
	return c.Run()
}

// group makes a group of v2 beside the tests' own for a daemon to start in.
func group(t *testing.T, r *Root) (dir string, fd int) {
	t.Helper()
	dir = filepath.Join(r.v2.tree, "service")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeDir(fd)
		_ = write(dir, "cgroup.kill", "1")
		eventually(t, "the service's group is removed", func() bool { return prune(dir) == nil })
	})
	return dir, fd
}

// run starts a daemon in the group and returns what it told, by its first words.
func run(t *testing.T, fd int, order string) map[string]string {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{asWorker + "=1"}
	c.Stdin = strings.NewReader(order + "\n")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		told[key] = value
	}
	return told
}

func TestADaemonAloneInItsGroupMovesIntoALeaf(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	dir, fd := group(t, r)
	told := run(t, fd, "daemon")
	if !strings.HasSuffix(told["self"], "/service/test-daemon.coppice/daemon.leaf") {
		t.Errorf("the daemon is in %s", told["self"])
	}
	if told["members"] != "cgroup v2 at "+dir+"<nil>" || told["worker"] != "exit status 7" {
		t.Errorf("got %v", told)
	}
	if r.v2 == r.by[memory] && told["memory"] != told["members"] {
		t.Errorf("alone in its group it cannot limit memory: %s", told["memory"])
	}
	left := filepath.Join(dir, "test-daemon.coppice")
	if _, err := os.Stat(left + "/" + daemonLeaf); err != nil {
		t.Errorf("the test expects its leaf to be left: %v", err)
	}

	// The next one is started where systemd puts it with DelegateSubgroup=main, since the group itself may have controlled
	// children now, and so no process. It works in the same group, and finds and sweeps what the first left.
	if err := unix.Setxattr(dir, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Skip("no extended attributes on cgroups here: ", err)
	}
	sub := filepath.Join(dir, "main")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := openDir(sub)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDir(fd)
	told = run(t, fd, "daemon")
	if !strings.HasSuffix(told["self"], "/service/main") || told["worker"] != "exit status 7" ||
		told["members"] != "cgroup v2 at "+dir+"<nil>" {
		t.Errorf("got %v", told)
	}
	if r.v2 == r.by[memory] && told["memory"] != told["members"] {
		t.Errorf("in a delegated group it cannot limit memory: %s", told["memory"])
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

func TestADaemonInAContainerTakesTheOthersAlong(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	_, fd := group(t, r)
	mount := t.TempDir()
	told := run(t, fd, "container "+mount)
	if why := told["error"]; strings.Contains(why, "not permitted") {
		t.Skip("no namespaces here: ", why)
	}
	if told["self"] != "0::/test-daemon.coppice/daemon.leaf" || told["worker"] != "exit status 7" ||
		told["members"] != "cgroup v2 at "+mount+"<nil>" {
		t.Errorf("got %v", told)
	}
	if r.v2 == r.by[memory] && told["memory"] != told["members"] {
		t.Errorf("the container's init is in the way: %s", told["memory"])
	}
}

func TestADaemonThatSharesItsGroupSaysWhoIsInTheWay(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	_, fd := group(t, r)
	neighbour := exec.Command("/proc/self/exe")
	neighbour.Env = []string{asWorker + "=1"}
	in, err := neighbour.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	neighbour.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	if err := neighbour.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = neighbour.Wait() })
	told := run(t, fd, "daemon")
	if told["worker"] != "exit status 7" {
		t.Errorf("membership works all the same; got %v", told)
	}
	if r.v2 != r.by[memory] {
		t.Skip("memory is not v2's here")
	}
	if want := fmt.Sprintf("(1 of them, as pid %d)", neighbour.Process.Pid); !strings.Contains(told["memory"], want) {
		t.Errorf("got %s\nwant %s in it", told["memory"], want)
	}
}

// The trap that FD's comment tells of: this is what it looks like, and Enter is the way around it.
func TestADaemonWhoseGroupWasKilledStartsByEnter(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{})
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sh", "-c", "exit 7")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
	born := c.Run()
	var dead *exec.ExitError
	killed := errors.As(born, &dead) && dead.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	t.Logf("born into a group that was killed: %v (killed: %v)", born, killed)

	w := exec.Command("/proc/self/exe")
	w.Env = []string{asWorker + "=1"}
	in, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Enter(w.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pids, err := l.Procs(); err != nil || !slices.Equal(pids, []int{w.Process.Pid}) {
		t.Errorf("got %v, %v", pids, err)
	}
	in.Close()
	if err := w.Wait(); err != nil {
		t.Errorf("moved in it does not live: %v", err)
	}
}

// A shim joins the v1 groups itself, by writing "0", before it executes the worker's program.
func TestAShimJoinsBeforeItExecutes(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members, r.Can().Memory, r.Can().Tasks)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Memory: 64 * mib, Tasks: 50})
	script := "cat /proc/self/cgroup"
	for _, path := range l.JoinPaths() {
		script = "echo 0 >" + path + " && " + script
	}
	c := exec.Command("/bin/sh", "-c", script)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if got, want := strings.Count(string(b), filepath.Base(l.v2)), 1+len(l.v1); got != want {
		t.Errorf("it is in %d groups of the leaf, want %d:\n%s", got, want, b)
	}
}
