//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// stray starts a program in a session of its own that nobody waits for but the test, and returns it once it runs.
func stray(t *testing.T, script string, env ...string) (pid int, started uint64) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "echo; "+script)
	cmd.Env = append([]string{"PATH=" + DefaultPath}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
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
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Process.Kill(); cmd.Wait() })
	s, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, s.started
}

func lives(pid int) bool {
	s, err := readStat(pid)
	return err == nil && !s.dead()
}

func TestOnlyWhatIsProvenIsStopped(t *testing.T) {
	uid := uint32(os.Getuid())
	mark := fmt.Sprintf("STRAY=%d-%d", os.Getpid(), time.Now().UnixNano())
	marked, _ := stray(t, "exec sleep 1000", mark)
	keyed, _ := stray(t, "exec sleep 1000", mark+"-keyed")
	reused, started := stray(t, "exec sleep 1000")
	leader, leaderStarted := stray(t, "trap '' TERM; sleep 1000 & wait; sleep 1000")
	traces := []Trace{
		{PID: leader, Started: leaderStarted, UID: uid, Signal: "TERM"},
		{PID: reused, Started: started - 1, UID: uid, Signal: "TERM"},
		{UID: uid, Marks: []string{mark}, Signal: "TERM"},
		{UID: uid, Marks: []string{mark + "-keyed"}, Keyed: true, Signal: "TERM"},
		{UID: uid + 1, Marks: []string{mark + "-keyed"}, Keyed: true, Signal: "TERM"},
		{PID: os.Getpid(), UID: uid, Started: 1, Signal: "TERM"},
	}
	got := StopLeftovers(t.Context(), traces, 100*time.Millisecond)
	if lives(leader) || !slices.Contains(got[0].Found, leader) || !slices.Contains(got[0].Killed, leader) || len(got[0].Left) > 0 {
		t.Errorf("the leader: %+v", got[0])
	}
	if !lives(reused) || len(got[1].Found) > 0 {
		t.Errorf("a stranger with the leader's pid: %+v", got[1])
	}
	if !lives(marked) || len(got[2].Found) > 0 || len(got[2].Doubts) != 1 || got[2].Doubts[0].PID != marked {
		t.Errorf("one with marks that another may have: %+v", got[2])
	}
	if lives(keyed) || !slices.Equal(got[3].Found, []int{keyed}) || len(got[3].Killed) > 0 {
		t.Errorf("one with marks that nobody else has: %+v", got[3])
	}
	if len(got[4].Found)+len(got[5].Found) > 0 {
		t.Errorf("nobody's: %+v %+v", got[4], got[5])
	}
}

// heir is a daemon that was started from what the dead one has left: its parent, a shell, is the leader of a trace.
func heir() {
	parent, _ := readStat(os.Getppid())
	got := StopLeftovers(context.Background(), []Trace{{PID: os.Getppid(), Started: parent.started, UID: uint32(os.Getuid())}}, 0)
	fmt.Println(len(got[0].Found), len(got[0].Doubts), got[0].Doubts[0].PID == os.Getppid(), got[0].Doubts[0].Why)
}

func TestThisProgramAndItsParentsAreSpared(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `sleep 1000 & "$0"; kill $! 2>/dev/null || echo the other child was stopped`, exe)
	cmd.Env = append(os.Environ(), "PROCESS_TEST_ROLE=heir")
	out, err := cmd.Output()
	if want := "1 1 true this daemon runs below it\nthe other child was stopped\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

func TestAnEndedGraceIsShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pid, started := stray(t, "trap '' TERM; exec sleep 1000")
	begun := time.Now()
	got := StopLeftovers(ctx, []Trace{{PID: pid, Started: started, UID: uint32(os.Getuid()), Signal: "TERM"}}, time.Hour)
	if lives(pid) || len(got[0].Killed) != 1 || time.Since(begun) > time.Minute {
		t.Errorf("%+v after %v", got[0], time.Since(begun))
	}
}
