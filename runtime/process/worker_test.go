//go:build linux

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-run/coppice/tree"
)

// both runs a test on the plain path and through the shim.
func both(t *testing.T, test func(t *testing.T, change func(Command) Command)) {
	t.Run("plain", func(t *testing.T) { test(t, func(c Command) Command { return c }) })
	t.Run("shim", func(t *testing.T) {
		test(t, func(c Command) Command {
			none := int64(0)
			c.Limits.Core = &none
			return c
		})
	})
}

func TestArgumentsAndEnvironmentAreByteExact(t *testing.T) {
	values := []string{"", " ", "*", "~", ";|&&", "a\nb", "\t", "100%", "%(x)s", "$HOME", "${X}", `"q"`, "it's", `\n\\`, "\U0001f600",
		"\xff\xfe", strings.Repeat("x", 100_000)}
	both(t, func(t *testing.T, change func(Command) Command) {
		cmd := Command{Argv: append([]string{"/bin/sh", "-c", `cat /proc/$$/cmdline /proc/$$/environ`}, values...), Env: []string{}}
		var want strings.Builder
		for _, arg := range cmd.Argv {
			want.WriteString(arg + "\x00")
		}
		for i, value := range values {
			cmd.Env = append(cmd.Env, "V"+strconv.Itoa(i)+"="+value)
		}
		cmd.Env = append(cmd.Env, "dot.and-dash=1")
		for _, entry := range cmd.Env {
			want.WriteString(entry + "\x00")
		}
		_, got := run(t, change(cmd))
		if got != want.String() {
			t.Errorf("got  %q\nwant %q", got, want.String())
		}
	})
}

func TestNothingElseIsInherited(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	both(t, func(t *testing.T, change func(Command) Command) {
		_, out := run(t, change(Command{Argv: []string{"/usr/bin/env"}, Env: []string{}}))
		if out != "" {
			t.Errorf("environment: %q", out)
		}
		// The shell has no descriptor but those that it was given; ls lists the shell's.
		_, out = run(t, change(shell("ls /proc/$$/fd; readlink /proc/$$/fd/0; pwd; umask; cat /proc/$$/comm")))
		if want := "0\n1\n2\n/dev/null\n/\n0022\nsh\n"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}

func TestOwnSessionAndGroup(t *testing.T) {
	both(t, func(t *testing.T, change func(Command) Command) {
		table := NewTable(self)
		p := start(t, table, change(shell("exec sleep 1000")))
		session, err := unix.Getsid(p.PID())
		if err != nil || session != p.PID() {
			t.Errorf("session %d, %v", session, err)
		}
		if group, err := unix.Getpgid(p.PID()); err != nil || group != p.PID() {
			t.Errorf("group %d, %v", group, err)
		}
		if !slices.Equal(p.Members(), []int{p.PID()}) {
			t.Errorf("members %v of %d", p.Members(), p.PID())
		}
	})
}

func TestProgramIsFoundFromTheWorkersPlaces(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "hello"), []byte("#!/bin/sh\necho \"$0\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, change func(Command) Command) {
		for _, cmd := range []Command{
			{Argv: []string{"hello"}, Env: []string{"PATH=/no/such:" + dir + "/bin"}},
			{Argv: []string{"hello"}, Env: []string{"PATH=bin"}, Dir: dir},
			{Argv: []string{"./bin/hello"}, Dir: dir},
			{Argv: []string{"bin/hello"}, Dir: dir},
		} {
			exit, out := run(t, change(cmd))
			if exit.Code != 0 || !strings.HasSuffix(out, "bin/hello\n") {
				t.Errorf("%v in %q: %v, %q", cmd.Argv, cmd.Dir, exit, out)
			}
		}
	})
}

func TestLimitsAreSoftAndHard(t *testing.T) {
	size, core := int64(1<<20), int64(0)
	cmd := Command{Argv: []string{"/bin/grep", "-E", "open files|file size|core file", "/proc/self/limits"},
		Limits: tree.Limits{OpenFiles: 64, FileSize: &size, Core: &core}}
	_, out := run(t, cmd)
	want := []string{
		"Max file size 1048576 1048576 bytes",
		"Max core file size 0 0 bytes",
		"Max open files 64 64 files",
	}
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimitThatCannotBeRaisedFailsTheStart(t *testing.T) {
	cmd := shell("exit 0")
	cmd.Limits.OpenFiles = 1 << 40 // above what any kernel allows, for root too
	_, err := NewTable(self).Start(cmd)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot start: limit open_files: operation not permitted (the hard limit is ") {
		t.Fatal(err)
	}
}

func TestListenersComeAsSystemdPassesThem(t *testing.T) {
	var files []*os.File
	for range 2 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		files = append(files, file)
	}
	cmd := shell(`echo $LISTEN_FDS $LISTEN_FDNAMES; [ "$LISTEN_PID" = $$ ] && echo pid; ls /proc/$$/fd`)
	cmd.Listeners, cmd.ListenNames = files, []string{"web", "admin"}
	_, out := run(t, cmd)
	if want := "2 web:admin\npid\n0\n1\n2\n3\n4\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestPipeGivenToAWorkerBlocks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	both(t, func(t *testing.T, change func(Command) Command) {
		cmd := shell("grep flags /proc/self/fdinfo/1 >&2")
		output := capture(t, &cmd)
		cmd.Stdout = w
		p := start(t, NewTable(self), change(cmd))
		within(t, p.Exited(), "exit")
		fields := strings.Fields(output())
		if len(fields) != 2 {
			t.Fatal(fields)
		}
		flags, err := strconv.ParseUint(fields[1], 8, 64)
		if err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("flags %v, %v", fields, err)
		}
	})
	w.Close()
}

func TestIdentityIsTakenOnCompletely(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change the user")
	}
	id := &Identity{UID: 65534, GID: 65533, Groups: []uint32{65531, 65532}, Name: "nobody"}
	both(t, func(t *testing.T, change func(Command) Command) {
		cmd := Command{Argv: []string{"/bin/grep", "-E", "^(Uid|Gid|Groups|CapEff|CapPrm)", "/proc/self/status"}, Identity: id}
		_, out := run(t, change(cmd))
		want := "Uid:\t65534\t65534\t65534\t65534\nGid:\t65533\t65533\t65533\t65533\nGroups:\t65531 65532 \n" +
			"CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
		if out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}

func TestAccessIsCheckedAsTheWorkersUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change the user")
	}
	id := &Identity{UID: 65534, GID: 65534, Name: "nobody"}
	outer, err := os.MkdirTemp("/tmp", "coppice")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(outer)
	os.Chmod(outer, 0o755)
	private, open := filepath.Join(outer, "private"), filepath.Join(outer, "open")
	os.Mkdir(private, 0o700)
	os.Mkdir(open, 0o755)
	os.WriteFile(filepath.Join(private, "tool"), []byte("#!/bin/sh\necho private\n"), 0o755)
	os.WriteFile(filepath.Join(open, "tool"), []byte("#!/bin/sh\necho open\n"), 0o755)
	os.WriteFile(filepath.Join(open, "mine"), []byte("#!/bin/sh\n"), 0o700)
	both(t, func(t *testing.T, change func(Command) Command) {
		for _, c := range []struct {
			cmd  Command
			want string
		}{
			{Command{Argv: []string{"/bin/true"}, Dir: private}, "cannot start: working directory " + private + ": permission denied"},
			{Command{Argv: []string{private + "/tool"}}, "cannot start: exec " + private + "/tool: permission denied"},
			{Command{Argv: []string{open + "/mine"}}, "cannot start: exec " + open + "/mine: permission denied"},
		} {
			c.cmd.Identity = id
			_, err := NewTable(self).Start(change(c.cmd))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		}
		cmd := Command{Argv: []string{"tool"}, Env: []string{"PATH=" + private + ":" + open}, Identity: id}
		if _, out := run(t, change(cmd)); out != "open\n" {
			t.Errorf("ran %q: a place in the PATH that the user cannot reach is passed over", out)
		}
	})
	if got := unix.Geteuid(); got != 0 {
		t.Fatal(got)
	}
}

func TestAnotherUserNeedsRoot(t *testing.T) {
	if mayChangeUser() {
		t.Skip("this user may become another")
	}
	cmd := shell("exit 0")
	cmd.Identity = &Identity{UID: 1, GID: 1, Name: "daemon"}
	both(t, func(t *testing.T, change func(Command) Command) {
		_, err := NewTable(self).Start(change(cmd))
		if err == nil || !strings.HasPrefix(err.Error(), "cannot start: user daemon: operation not permitted") {
			t.Error(err)
		}
	})
}

func TestShimNeedsToBeCalledFirst(t *testing.T) {
	cmd := shell("exit 0")
	cmd.Limits.OpenFiles = 10
	_, err := NewTable(Self{}).Start(cmd)
	if err == nil || err.Error() != "cannot start: shim: this program does not call process.Shim first" {
		t.Fatal(err)
	}
}
