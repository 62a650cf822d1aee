//go:build linux

package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roles are what the test binary does when it is started as a worker.
var roles = map[string]func(){"launcher": launcher, "daemon": daemon, "init": asInit, "heir": heir}

// patience is how long a fact may take on a loaded machine.
const patience = 20 * time.Second

func within(t *testing.T, fact <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-fact:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// shell is a command that runs a script with plain surroundings.
func shell(script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + DefaultPath}}
}

// capture gives a command a file for its output, and a function that reads it after the exit.
func capture(t *testing.T, cmd *Command) func() string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	cmd.Stdout, cmd.Stderr = file, file
	return func() string {
		data, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

// start starts a command and kills all of it at the end of the test.
func start(t *testing.T, table *Table, cmd Command) *Process {
	t.Helper()
	p, err := table.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		within(t, p.Gone(), "end of everything")
	})
	return p
}

// run starts a command and returns its exit and output.
func run(t *testing.T, cmd Command) (Exit, string) {
	t.Helper()
	output := capture(t, &cmd)
	p := start(t, NewTable(self), cmd)
	within(t, p.Exited(), "exit")
	return p.Exit(), output()
}

func TestExitCodesAndSignalsStayApart(t *testing.T) {
	for _, c := range []struct {
		script, want string
		code         int
	}{
		{"exit 0", "exit 0", 0},
		{"exit 3", "exit 3", 3},
		{"exit 137", "exit 137", 137},
		{"exit 255", "exit 255", 255},
		{"kill -KILL $$", "signal KILL", -1},
		{"kill -TERM $$", "signal TERM", -1},
		{"kill -PIPE $$", "signal PIPE", -1},
		{"kill -HUP $$", "signal HUP", -1},
	} {
		exit, _ := run(t, shell(c.script))
		if exit.String() != c.want || exit.Code != c.code {
			t.Errorf("%s: got %q with code %d, want %q with %d", c.script, exit, exit.Code, c.want, c.code)
		}
		if exit.Ran <= 0 {
			t.Errorf("%s: ran %v", c.script, exit.Ran)
		}
	}
}

func TestStartErrorsNameTheStep(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o644)
	orphan := write("orphan", "#!/no/such/shell -e\n", 0o755)
	dos := write("dos", "#!/bin/sh\r\necho\r\n", 0o755)
	text := write("text", "hello\n", 0o755)
	for _, c := range []struct {
		name string
		cmd  Command
		want string
	}{
		{"missing directory", Command{Argv: []string{"/bin/true"}, Dir: dir + "/none"},
			"cannot start: working directory " + dir + "/none: no such file or directory"},
		{"directory is a file", Command{Argv: []string{"/bin/true"}, Dir: plain},
			"cannot start: working directory " + plain + ": not a directory"},
		{"missing program", Command{Argv: []string{dir + "/none"}},
			"cannot start: exec " + dir + "/none: no such file or directory"},
		{"missing program, relative", Command{Argv: []string{"./none"}, Dir: dir},
			"cannot start: exec " + dir + "/none: no such file or directory"},
		{"not in the path", Command{Argv: []string{"none"}, Env: []string{"PATH=" + dir}},
			"cannot start: exec none: no such file or directory (looked in PATH " + dir + ")"},
		{"not executable", Command{Argv: []string{plain}}, "cannot start: exec " + plain + ": permission denied"},
		{"not executable, in the path", Command{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}},
			"cannot start: exec " + plain + ": permission denied"},
		{"a directory", Command{Argv: []string{dir}}, "cannot start: exec " + dir + ": is a directory"},
		{"missing interpreter", Command{Argv: []string{orphan}},
			"cannot start: exec " + orphan + ": interpreter /no/such/shell: no such file or directory"},
		{"carriage return", Command{Argv: []string{dos}},
			"cannot start: exec " + dos + `: interpreter "/bin/sh\r": no such file or directory (the first line of the script ends in a carriage return)`},
		{"no format", Command{Argv: []string{text}},
			"cannot start: exec " + text + ": exec format error (neither a program for this machine nor a script that begins with #!)"},
		{"long variable", Command{Argv: []string{"/bin/true"}, Env: []string{"BIG=" + strings.Repeat("x", 128<<10)}},
			"cannot start: environment BIG: argument list too long (131076 bytes with its name, at most 131071 are possible)"},
		{"long argument", Command{Argv: []string{"/bin/true", strings.Repeat("x", 128<<10)}},
			"cannot start: argument 1: argument list too long (131072 bytes, at most 131071 are possible)"},
		{"NUL", Command{Argv: []string{"/bin/true", "a\x00b"}}, "cannot start: argument 1: it holds a NUL byte"},
	} {
		for _, shim := range []bool{false, true} {
			cmd := c.cmd
			if shim {
				none := int64(0)
				cmd.Limits.Core = &none
			}
			_, err := NewTable(self).Start(cmd)
			if err == nil || err.Error() != c.want {
				t.Errorf("%s (shim %v):\n got %v\nwant %s", c.name, shim, err, c.want)
			}
			if _, ok := errors.AsType[*StartError](err); !ok {
				t.Errorf("%s: %T", c.name, err)
			}
		}
	}
}

func TestArgumentListAsAWholeTooLong(t *testing.T) {
	cmd := Command{Argv: []string{"/bin/true"}}
	for range 60 {
		cmd.Env = append(cmd.Env, "X="+strings.Repeat("x", 120<<10))
	}
	_, err := NewTable(self).Start(cmd)
	if err == nil || !strings.Contains(err.Error(), "exec /bin/true: argument list too long (arguments and environment take 73") {
		t.Fatal(err)
	}
}

func TestBusyFileIsTriedAgain(t *testing.T) {
	path := copyOf(t, "/bin/true")
	open, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = NewTable(self).Start(Command{Argv: []string{path}})
	if !errors.Is(err, unix.ETXTBSY) || err.Error() != "cannot start: exec "+path+": text file busy" {
		t.Fatalf("held open: %v", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	timer := time.AfterFunc(100*time.Millisecond, func() { open.Close() })
	defer timer.Stop()
	p := start(t, NewTable(self), Command{Argv: []string{path}})
	within(t, p.Exited(), "exit")
}

func copyOf(t *testing.T, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKillTakesEverything(t *testing.T) {
	table := NewTable(self)
	cmd := shell("trap '' TERM; setsid sh -c 'sleep 1000 & wait' & sleep 1001 & wait")
	p := start(t, table, cmd)
	deadline := time.Now().Add(patience)
	for len(p.Members()) < 4 && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
	if n := len(p.Members()); n != 4 {
		out, _ := exec.Command("ps", "-ejf").CombinedOutput()
		t.Fatalf("%d members\n%s", n, out)
	}
	p.Kill()
	within(t, p.Gone(), "gone")
	if p.Killed() != 4 || len(p.Left()) != 0 {
		t.Fatalf("killed %d, left %v", p.Killed(), p.Left())
	}
	if exit := p.Exit(); exit.Signal != "KILL" {
		t.Fatal(exit)
	}
}
