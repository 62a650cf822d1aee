//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// realGroup is a cgroup v2 directory of the test's own.
type realGroup struct {
	dir   *os.File
	joins []string
}

func (g realGroup) FD() int             { return int(g.dir.Fd()) }
func (g realGroup) JoinPaths() []string { return g.joins }
func (g realGroup) Enter(pid int) error {
	return os.WriteFile(g.dir.Name()+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0)
}
func (g realGroup) Kill() error { return os.WriteFile(g.dir.Name()+"/cgroup.kill", []byte("1"), 0) }
func (g realGroup) Procs() ([]int, error) {
	data, err := os.ReadFile(g.dir.Name() + "/cgroup.procs")
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	return pids, err
}

// newGroup makes a cgroup below this test's own, or skips.
func newGroup(t *testing.T) realGroup {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	top := ""
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			top = fields[4]
		}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || top == "" {
		t.Skip("no cgroup v2 is mounted here")
	}
	for line := range strings.Lines(string(own)) {
		if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			top = filepath.Join(top, path)
		}
	}
	path := filepath.Join(top, fmt.Sprintf("process-test-%d", os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Skip("cgroup v2 is not writable here:", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		eventually(t, "cgroup removed", func() bool { return unix.Rmdir(path) == nil })
	})
	return realGroup{dir: dir}
}

func TestBornInACgroup(t *testing.T) {
	for name, joins := range map[string][]string{"plain": nil, "entered through the shim": {"any"}} {
		t.Run(name, func(t *testing.T) {
			group := newGroup(t)
			group.joins = joins
			// The helper has no session, parent or environment to be found by: only the cgroup holds it.
			cmd := shell("cat /proc/self/cgroup; (env -i setsid sleep 1000 &); exit 0")
			cmd.Group = group
			output := capture(t, &cmd)
			p := start(t, host(t), cmd)
			within(t, p.Exited(), "exit")
			if !strings.Contains(output(), filepath.Base(group.dir.Name())+"\n") {
				t.Error(output())
			}
			if n := len(p.Members()); n != 1 {
				t.Errorf("%d members", n)
			}
			p.Kill()
			within(t, p.Gone(), "gone")
			if p.Killed() != 1 {
				t.Errorf("killed %d", p.Killed())
			}
		})
	}
}

// A cgroup that was killed once kills what is born into it. Such a birth is no start.
func TestBirthIntoAKilledCgroup(t *testing.T) {
	group := newGroup(t)
	if err := group.Kill(); err != nil {
		t.Skip("no cgroup.kill here:", err)
	}
	for range 5 {
		cmd := shell("cat /proc/self/cgroup; exit 7")
		cmd.Group = group
		output := capture(t, &cmd)
		p := start(t, NewTable(self), cmd)
		within(t, p.Gone(), "gone")
		if got := p.Exit().String(); got != "exit 7" || !strings.Contains(output(), filepath.Base(group.dir.Name())) {
			t.Errorf("%s, %q", got, output())
		}
	}
}
