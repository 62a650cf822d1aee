//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eventually waits for a fact that announces itself to nobody.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !fact() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// host makes a table that takes orphans, as the daemon's does, until the end of the test.
func host(t *testing.T) *Table {
	t.Helper()
	table := NewTable(self)
	if err := table.Subreaper(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		table.Reap(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	})
	return table
}

// marked gives a command the marks that Environ gives.
func marked(cmd Command) Command {
	cmd.Marks = []string{"COPPICE_PATH=acme/shop/" + strconv.FormatInt(time.Now().UnixNano(), 36), "COPPICE_INCARNATION=1"}
	cmd.Env = append(cmd.Env, cmd.Marks...)
	return cmd
}

func alive(pid int) bool {
	s, err := readStat(pid)
	return err == nil && !s.dead()
}

func TestExitIsKnownWhileAHelperHoldsThePipe(t *testing.T) {
	for name, script := range map[string]string{
		"same session": "sleep 1000 & exit 3",
		"own session":  "setsid sleep 1000 & exit 3",
		"double fork":  "(setsid sh -c 'sleep 1000 & exit 0' &); exit 3",
	} {
		t.Run(name, func(t *testing.T) {
			table := host(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := marked(shell(script))
			cmd.Stdout = w
			p := start(t, table, cmd)
			w.Close()
			within(t, p.Exited(), "exit")
			if got := p.Exit().String(); got != "exit 3" {
				t.Error(got)
			}
			helpers := p.Members()
			if len(helpers) == 0 {
				t.Fatal("no helper found")
			}
			select {
			case <-p.Gone():
				t.Error("gone while a helper runs")
			default:
			}
			p.Kill()
			within(t, p.Gone(), "gone")
			if left := p.Left(); len(left) != 0 || p.Killed() < 1 {
				t.Errorf("left %v, killed %d", left, p.Killed())
			}
			for _, pid := range helpers {
				if alive(pid) {
					t.Errorf("helper %d lives", pid)
				}
			}
			// The pipe's end proves it for those that nobody listed.
			if _, err := r.Read(make([]byte, 1)); err == nil {
				t.Error("the pipe is still held")
			}
		})
	}
}

func TestGoneComesByItselfWhenTheHelpersEnd(t *testing.T) {
	table := host(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	// The helpers end when the pipe's write end is closed here.
	cmd := marked(shell("cat <&3 >/dev/null & setsid cat <&3 >/dev/null & exit 0"))
	cmd.Listeners, cmd.ListenNames = []*os.File{r}, []string{"r"}
	p := start(t, table, cmd)
	within(t, p.Exited(), "exit")
	eventually(t, "two helpers", func() bool { return len(p.Members()) == 2 })
	w.Close()
	within(t, p.Gone(), "gone")
	if p.Killed() != 0 {
		t.Errorf("killed %d", p.Killed())
	}
}

func TestSignalReachesGroupAndOwnSessions(t *testing.T) {
	table := host(t)
	cmd := marked(shell("setsid sh -c 'sleep 1000 & wait' & sleep 1001 & wait"))
	p := start(t, table, cmd)
	eventually(t, "four members", func() bool { return len(p.Members()) == 4 })
	reached, err := p.Signal("TERM")
	if err != nil || reached != 4 {
		t.Errorf("reached %d, %v", reached, err)
	}
	within(t, p.Gone(), "gone")
	if got := p.Exit().String(); got != "signal TERM" {
		t.Error(got)
	}
	if reached, err := p.Signal("TERM"); err != nil || reached != 0 {
		t.Errorf("after the end: %d, %v", reached, err)
	}
}

func TestSignalWakesTheStopped(t *testing.T) {
	p := start(t, NewTable(self), shell("exec sleep 1000"))
	if _, err := p.Signal("SIGSTOP"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stopped", func() bool { s, err := readStat(p.PID()); return err == nil && s.state == 'T' })
	if _, err := p.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	within(t, p.Gone(), "gone")
}

func TestSignalNames(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"TERM": 15, "SIGTERM": 15, "term": 15, "USR1": 10, "RTMIN": 34, "RTMIN+3": 37, "SIGRTMAX-1": 63, "RTMAX": 64, "WINCH": 28} {
		if got, err := signalNumber(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "SIG", "NOPE", "RTMIN+31", "RTMAX-31", "RTMIN+x", "RTMAX+1", "15"} {
		if got, err := signalNumber(name); err == nil {
			t.Errorf("%q: %d", name, got)
		}
	}
	for sig := syscall.Signal(1); sig <= rtMax; sig++ {
		if sig == 32 || sig == 33 {
			continue
		}
		if got, err := signalNumber(signalName(sig)); err != nil || got != sig {
			t.Errorf("%d is %q is %d, %v", sig, signalName(sig), got, err)
		}
	}
}

func TestOwns(t *testing.T) {
	table := host(t)
	p := start(t, table, marked(shell("setsid sh -c 'sleep 1000 & wait' & wait")))
	other := start(t, table, marked(shell("exec sleep 1000")))
	eventually(t, "three members", func() bool { return len(p.Members()) == 3 })
	for _, pid := range p.Members() {
		if !p.Owns(pid) || other.Owns(pid) {
			t.Errorf("%d: %v, by the other %v", pid, p.Owns(pid), other.Owns(pid))
		}
	}
	for _, pid := range []int{0, -1, 1, os.Getpid(), other.PID()} {
		if p.Owns(pid) {
			t.Errorf("owns %d", pid)
		}
	}
}

func TestOrphansAreReapedAndStatusesAreNot(t *testing.T) {
	table := host(t)
	pids := "" // of orphans that have ended
	for range 20 {
		cmd := marked(shell("for i in 1 2 3; do (setsid sh -c 'echo $$; exit 9' &); done; exit 5"))
		output := capture(t, &cmd)
		p := start(t, table, cmd)
		within(t, p.Exited(), "exit")
		if got := p.Exit().String(); got != "exit 5" {
			t.Fatal(got)
		}
		within(t, p.Gone(), "gone")
		pids += output()
	}
	fields := strings.Fields(pids)
	if len(fields) == 0 {
		t.Fatal("no orphan was seen")
	}
	for _, field := range fields {
		pid, _ := strconv.Atoi(field)
		eventually(t, "orphan "+field+" reaped", func() bool {
			s, err := readStat(pid)
			return err != nil || s.ppid != os.Getpid()
		})
	}
}

func TestUnrelatedChildrenKeepTheirStatus(t *testing.T) {
	host(t)
	for range 50 {
		child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 4"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := child.Wait()
		if err != nil || state.ExitCode() != 4 {
			t.Fatal(state, err)
		}
	}
}

func TestOnlyOrphansAreAmongTheMainThreadsChildren(t *testing.T) {
	table := host(t)
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for range 25 {
				p, err := table.Start(shell("exec sleep 1000"))
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { p.Kill(); <-p.Gone() }()
				if slices.Contains(adopted(), p.PID()) {
					t.Errorf("%d was forked on the main thread", p.PID())
				}
			}
		})
	}
	starts.Wait()
}

func TestGivesUpAndNamesWhatIsLeft(t *testing.T) {
	table := host(t)
	stubborn := start(t, table, shell("exec sleep 1000"))
	cmd := shell("exit 0")
	cmd.Group = holds{stubborn.PID()}
	p := start(t, table, cmd)
	within(t, p.Exited(), "exit")
	p.mu.Lock()
	p.patience, p.asked = time.Now(), true // as if Kill had gone on for long enough
	if p.parked != nil {
		p.parked.SetReadDeadline(p.patience)
	}
	p.mu.Unlock()
	within(t, p.Gone(), "gone")
	if !slices.Equal(p.Left(), []int{stubborn.PID()}) {
		t.Errorf("left %v", p.Left())
	}
	if !alive(stubborn.PID()) {
		t.Error("it was killed")
	}
}

// holds is a group with one member, put there by the test.
type holds struct{ pid int }

func (holds) FD() int                 { return -1 }
func (holds) JoinPaths() []string     { return nil }
func (holds) Enter(int) error         { return nil }
func (h holds) Procs() ([]int, error) { return []int{h.pid}, nil }
func (holds) Kill() error             { return nil }

func TestManyCyclesLeaveNothingBehind(t *testing.T) {
	table := host(t)
	cycle := func() {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := marked(shell("sleep 1000 & setsid sleep 1001 & exit 0"))
		cmd.Stdout, cmd.Stderr = w, w
		p, err := table.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		within(t, p.Exited(), "exit")
		p.Kill()
		within(t, p.Gone(), "gone")
		if len(p.Left()) != 0 {
			t.Fatal(p.Left())
		}
		r.Close()
	}
	cycle()
	runtime.GC()
	fds, goroutines := len(numbersIn("/proc/self/fd")), runtime.NumGoroutine()
	for range 200 {
		cycle()
	}
	eventually(t, "goroutines back", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	if now := len(numbersIn("/proc/self/fd")); now > fds+2 {
		t.Errorf("descriptors: %d before, %d after", fds, now)
	}
	eventually(t, "no orphan left", func() bool {
		return !slices.ContainsFunc(adopted(), func(pid int) bool { return table.owner(pid) == nil && !alive(pid) })
	})
	table.mu.Lock()
	defer table.mu.Unlock()
	if len(table.owned) != 0 || table.inFlight != 0 {
		t.Error(fmt.Sprint(table.owned, table.inFlight))
	}
}
