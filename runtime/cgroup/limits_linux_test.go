package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

func TestMemoryLimitKillsTheWorkerAndSaysSo(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Memory: 64 * mib})
	w := start(t, l)
	if got := w.ask("eat 200"); got != "" {
		t.Fatalf("the worker lived: %q", got)
	}
	if ws := w.wait(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the worker ended with %v", ws)
	}
	// The kernel counts before it kills, so nobody has to wait for the number.
	if l.OOM() == 0 {
		t.Error("no OOM kill was counted")
	}
	// The kernel charges some pages ahead, so the peak may lie a little above the limit.
	if m, ok := l.Memory(); !ok || m.Limit != 64*mib || m.Peak > 65*mib || m.Peak < 60*mib {
		t.Errorf("got %+v, %v", m, ok)
	}
}

func TestOOMOfOneChildEndsAll(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Memory: 64 * mib})
	w := start(t, l)
	w.ask("fork")
	w.ask("fork eat 200")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !l.memory2 {
		if err := l.AwaitOOM(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if ws := w.wait(); ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the worker ended with %v", ws)
	}
	eventually(t, "the whole leaf is gone", func() bool { pids, err := l.Procs(); return err == nil && len(pids) == 0 })
	if l.OOM() == 0 {
		t.Error("no OOM kill was counted")
	}
}

func TestSomebodysKillIsNoOOM(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Memory: 64 * mib})
	w := start(t, l)
	w.ask("eat 10")
	if err := syscall.Kill(w.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.wait()
	if n := l.OOM(); n != 0 {
		t.Errorf("got %d OOM kills", n)
	}
}

func TestPageCacheAloneDoesNotKill(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory)
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, make([]byte, 100*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Memory: 32 * mib})
	w := start(t, l)
	for range 3 {
		if got := w.ask("read " + file); got != "read <nil>" {
			t.Fatalf("the reader said %q", got)
		}
	}
	if got := w.ask("sh dd if=/dev/zero of=" + file + " bs=1M count=100 2>/dev/null"); got != `sh "" <nil>` {
		t.Fatalf("the writer said %q", got)
	}
	if n := l.OOM(); n != 0 {
		t.Errorf("got %d OOM kills", n)
	}
}

func TestTenantsShareTheBranchsLimit(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory)
	if _, err := r.Branch("acme", tree.Limits{Memory: 96 * mib}); err != nil {
		t.Fatal(err)
	}
	one := mustLeaf(t, r, "web.0-1", tree.Limits{})
	two := mustLeaf(t, r, "web.1-2", tree.Limits{})
	other, err := r.Branch("umbrella", tree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	three, err := other.Leaf("web.0-3", tree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := start(t, one), start(t, two), start(t, three)
	if got := a.ask("eat 50"); got != "ate 50" {
		t.Fatalf("within the limit: %q", got)
	}
	if got := c.ask("eat 100"); got != "ate 100" {
		t.Errorf("another tenant has nothing to do with it: %q", got)
	}
	// Which of the two the kernel takes is its choice: the larger, as a rule.
	answer := b.ask("eat 60")
	eventually(t, "one of the two was killed", func() bool { return one.OOM()+two.OOM() > 0 })
	if answer != "" && one.OOM() == 0 || answer == "" && two.OOM() == 0 {
		t.Errorf("the second said %q; OOM kills: %d and %d", answer, one.OOM(), two.OOM())
	}
	c.end()
	remove(t, three)
}

func TestTasksLimitRefusesForks(t *testing.T) {
	r := root(t)
	able(t, r.Can().Tasks)
	l := mustLeaf(t, r, "web.0-1", tree.Limits{Tasks: 20})
	w := start(t, l)
	refused := false
	for range 20 {
		if got := w.ask("fork"); strings.HasPrefix(got, "cannot") {
			if !strings.Contains(got, "resource temporarily unavailable") {
				t.Errorf("the worker saw %q", got)
			}
			refused = true
			break
		}
	}
	if !refused {
		t.Fatal("20 children with threads fit into 20 tasks")
	}
	// The daemon's own forks are not bound by it.
	free := mustLeaf(t, r, "web.1-2", tree.Limits{})
	start(t, free).ask("fork")
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	w.wait()
	remove(t, l)
}

func TestCPULimitHoldsBack(t *testing.T) {
	r := root(t)
	able(t, r.Can().CPUs)
	// 5 ms in 100: even on a machine with much else to do a turn is longer than that.
	l := mustLeaf(t, r, "web.0-1", tree.Limits{CPUs: 0.05})
	w := start(t, l)
	if got := w.ask("burn 50"); got != "burnt" {
		t.Fatal(got)
	}
	used, held, ok := l.CPU()
	t.Logf("used %v, held back for %v", used, held)
	if !ok || held == 0 {
		t.Errorf("never held back (%v)", ok)
	}
	free := mustLeaf(t, r, "web.1-2", tree.Limits{})
	if got := start(t, free).ask("burn 50"); got != "burnt" {
		t.Fatal(got)
	}
	if _, held, _ := free.CPU(); held != 0 {
		t.Errorf("a leaf without a limit is held back for %v", held)
	}
}

// In v1 a child group must not have more processor time than its parent; in a configuration it may say more.
func TestALeafMayAskForMoreThanItsBranchHas(t *testing.T) {
	r := root(t)
	able(t, r.Can().CPUs, r.Can().Memory, r.Can().Tasks)
	if _, err := r.Branch("acme", tree.Limits{CPUs: 0.5, Memory: 64 * mib, Tasks: 100}); err != nil {
		t.Fatal(err)
	}
	start(t, mustLeaf(t, r, "web.0-1", tree.Limits{CPUs: 2, Memory: 128 * mib, Tasks: 200}))
}

func TestLimitsOfABranchChangeWhileItRuns(t *testing.T) {
	r := root(t)
	able(t, r.Can().Memory, r.Can().CPUs)
	if _, err := r.Branch("acme", tree.Limits{Memory: 64 * mib, CPUs: 1}); err != nil {
		t.Fatal(err)
	}
	l := mustLeaf(t, r, "web.0-1", tree.Limits{CPUs: 0.9})
	w := start(t, l)
	for _, limits := range []tree.Limits{{Memory: 256 * mib, CPUs: 0.5}, {Memory: 128 * mib, CPUs: 1.5}, {Memory: 512 * mib}} {
		if _, err := r.Branch("acme", limits); err != nil {
			t.Fatalf("%+v: %v", limits, err)
		}
	}
	if got := w.ask("eat 100"); got != "ate 100" {
		t.Fatalf("the raised limit still binds: %q", got)
	}
}
