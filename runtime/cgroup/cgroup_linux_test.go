package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/coppice-run/coppice/tree"
)

const mib = 1 << 20

// mustLeaf makes a leaf below acme/shop.
func mustLeaf(t *testing.T, r *Root, name string, limits tree.Limits) *Leaf {
	t.Helper()
	b, err := r.Branch("acme/shop", tree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Leaf(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Kill()
		remove(t, l)
	})
	return l
}

func TestMembersAreKnownAndKilledTogether(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{})
	w := start(t, l)
	w.ask("fork")
	w.ask("fork")
	// The worker makes a group of its own and hides a process in it.
	if got := w.ask(fmt.Sprintf("sh mkdir -p %[1]s/own/deep && (sleep 1000 >/dev/null 2>&1 & echo $! > %[1]s/own/deep/cgroup.procs)",
		l.v2)); !strings.HasSuffix(got, "<nil>") {
		t.Fatal(got)
	}
	pids, err := l.Procs()
	if err != nil || len(pids) != 4 {
		t.Fatalf("got %v, %v; want the worker, two children and a sleep", pids, err)
	}
	if !slices.Contains(pids, w.cmd.Process.Pid) || slices.Contains(pids, os.Getpid()) {
		t.Fatalf("got %v", pids)
	}
	if err := l.Remove(); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("a populated leaf was removed with %v, want EBUSY", err)
	}
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	if ws := w.wait(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the worker ended with %v", ws)
	}
	if l.OOM() != 0 {
		t.Error("a kill of ours counts as an OOM kill")
	}
	remove(t, l)
	if _, err := os.Stat(l.v2); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
	if pids, err := l.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("a removed leaf has %v, %v", pids, err)
	}
	if err := errors.Join(l.Kill(), l.Remove()); err != nil {
		t.Errorf("a removed leaf fails: %v", err)
	}
}

// A group that was killed kills what is born in it later, so a leaf is never used twice.
func TestEveryIncarnationGetsAFreshGroup(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	first := mustLeaf(t, r, "web.0-1", tree.Limits{})
	w := start(t, first)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	w.wait()
	second := mustLeaf(t, r, "web.0-1", tree.Limits{})
	if first.v2 == second.v2 {
		t.Fatal("the same group again")
	}
	start(t, second)
}

func TestNothingIsLeftAfterManyRestarts(t *testing.T) {
	r := root(t)
	able(t, r.Can().Members)
	limits := tree.Limits{}
	if r.Can().Memory.Err == nil {
		limits.Memory = 64 * mib
	}
	b, err := r.Branch("acme/shop", tree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		l, err := b.Leaf(fmt.Sprintf("web.0-%d", i), limits)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("/bin/sh", "-c", "exec sleep 1000")
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Enter(c.Process.Pid), l.Kill()); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		remove(t, l)
	}
	for _, p := range r.opened {
		if entries, _ := os.ReadDir(filepath.Join(p.tree, b.rel)); slices.ContainsFunc(entries, os.DirEntry.IsDir) {
			t.Errorf("left behind in %s: %v", p.tree, entries)
		}
	}
	if err := b.Remove(); err != nil {
		t.Error(err)
	}
}

func TestANewDaemonSweepsAndReopens(t *testing.T) {
	name := fmt.Sprintf("test-%d-sweep", os.Getpid())
	old, err := Open(hclog.NewNullLogger(), name)
	if err != nil {
		t.Fatal(err)
	}
	able(t, old.Can().Members)
	limits := tree.Limits{}
	if old.Can().Memory.Err == nil {
		limits.Memory = 64 * mib
	}
	b, _ := old.Branch("acme", tree.Limits{})
	empty, err := b.Leaf("web.0-1", limits)
	if err != nil {
		t.Fatal(err)
	}
	full, err := b.Leaf("web.1-2", limits)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, full)

	// While the old daemon lives its empty groups stay, whoever else starts.
	other := root(t)
	if _, err := os.Stat(empty.v2); err != nil {
		t.Fatalf("another daemon swept a living one's group: %v", err)
	}
	// The old one dies: the kernel closes what it had open.
	for _, p := range old.opened {
		p.held.Close()
	}
	next, err := Open(hclog.NewNullLogger(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append([]string{empty.v2}, empty.v1...) {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	l, err := next.Reopen(full.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := l.Procs(); err != nil || !slices.Equal(pids, []int{w.cmd.Process.Pid}) {
		t.Fatalf("got %v, %v", pids, err)
	}
	if got := w.ask("eat 200"); limits.Memory != 0 && (got != "" || l.OOM() == 0) {
		t.Errorf("got %q and %d OOM kills", got, l.OOM())
	}
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	w.wait()
	remove(t, l)
	next.Close()
	for _, p := range next.opened {
		if _, err := os.Stat(p.tree); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", p.tree, err)
		}
	}
	closeDir(empty.fd)
	closeDir(full.fd)
	_ = other
}

func TestReopenRefusesStrangers(t *testing.T) {
	r := root(t)
	outside := t.TempDir()
	fake := filepath.Join(outside, "x.coppice", "web.leaf")
	if err := os.MkdirAll(fake, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", "relative.coppice/x.leaf", "/sys/fs/cgroup", "/sys/fs/cgroup/x.coppice/../y.leaf",
		"/sys/fs/cgroup/x.coppice/daemon.leaf", fake} {
		for _, ref := range []Ref{{V2: dir}, {V1: []string{dir}}} {
			if l, err := r.Reopen(ref); err == nil {
				t.Errorf("%+v was reopened as %+v", ref, l)
			}
		}
	}
	l, err := r.Reopen(Ref{})
	if err != nil || l.Active() {
		t.Errorf("the zero Ref gives %+v, %v", l, err)
	}
}

func TestWithoutGroupsALeafDoesNothingAndALimitIsRefused(t *testing.T) {
	why := errors.New("no writable cgroup here (/sys/fs/cgroup: permission denied)")
	nowhere := &place{err: why}
	r := &Root{log: hclog.NewNullLogger(), v2: nowhere, by: [controllers]*place{nowhere, nowhere, nowhere},
		branches: map[string]*Branch{}}
	r.branches[""] = &Branch{root: r}
	b, err := r.Branch("acme/shop", tree.Limits{OpenFiles: 100})
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Leaf("web.0-1", tree.Limits{OpenFiles: 100})
	if err != nil {
		t.Fatal(err)
	}
	pids, err := l.Procs()
	if l.Active() || l.FD() != -1 || len(pids) != 0 || err != nil || l.OOM() != 0 || len(l.JoinPaths()) != 0 {
		t.Errorf("the leaf does something: %+v", l)
	}
	if err := errors.Join(l.Enter(1), l.Kill(), l.Remove()); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		limits tree.Limits
		want   string
	}{
		{tree.Limits{Memory: 64 * mib}, "cannot enforce limits.memory = 64MiB: " + why.Error()},
		{tree.Limits{Memory: 1000}, "cannot enforce limits.memory = 1000B: " + why.Error()},
		{tree.Limits{CPUs: 1.5}, "cannot enforce limits.cpus = 1.5: " + why.Error()},
		{tree.Limits{Tasks: 256}, "cannot enforce limits.tasks = 256: " + why.Error()},
		{tree.Limits{CPUs: 0.001}, "cannot enforce limits.cpus = 0.001: the least is 0.01"},
	} {
		if _, err := b.Leaf("web.0-1", test.limits); err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
	// What is asked of a tenant binds all below it, so nothing below it starts.
	want := "acme: cannot enforce limits.memory = 64MiB: " + why.Error()
	if _, err := r.Branch("acme", tree.Limits{Memory: 64 * mib}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := b.Leaf("web.0-1", tree.Limits{}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := r.Branch("acme", tree.Limits{}); err != nil {
		t.Error(err)
	}
	if _, err := b.Leaf("web.0-1", tree.Limits{}); err != nil {
		t.Error(err)
	}
}

// Whoever runs this: Open gives a Root, and says for each thing either where or why not.
func TestOpenAlwaysSaysWhereOrWhy(t *testing.T) {
	can := root(t).Can()
	for what, a := range map[string]Ability{"members": can.Members, "memory": can.Memory, "cpus": can.CPUs, "tasks": can.Tasks} {
		t.Logf("%s: %s%v", what, a.Where, a.Err)
		if (a.Where == "") == (a.Err == nil) {
			t.Errorf("%s: %+v", what, a)
		}
	}
}
