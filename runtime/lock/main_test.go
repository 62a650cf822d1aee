//go:build linux

package lock

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the other process: another daemon, or another user.
func TestMain(m *testing.M) {
	if role := os.Getenv("LOCK_TEST_ROLE"); role != "" {
		play(role, os.Getenv("LOCK_TEST_PATH"))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const nobody = 65534

func play(role, path string) {
	if role, ok := strings.CutPrefix(role, "nobody:"); ok {
		// Given up here and not at birth: the test binary lies where nobody may not go.
		if err := syscall.Setuid(nobody); err != nil {
			fmt.Println("cannot become nobody:", err)
			os.Exit(1)
		}
		play(role, path)
		return
	}
	switch role {
	case "hold": // until killed, with a worker that outlives it
		l, err := Acquire(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		worker := exec.Command("/bin/cat")
		worker.Stdin = os.Stdin
		if err := worker.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held", worker.Process.Pid)
		worker.Wait()
		l.Release()
	case "acquire":
		_, err := Acquire(path)
		fmt.Println(err)
	case "replace":
		fmt.Println(ReplaceSocket(path))
	case "connect":
		connectAlways(path)
	}
}

// connectAlways tries until its input ends, and says once that it tries and once that it came in.
func connectAlways(path string) {
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	in := false
	for tries := 0; ; tries++ {
		if tries == 100 {
			fmt.Println("trying")
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			if !in {
				fmt.Println("connected")
			}
			in = true
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

// other is another process, known by the lines that it prints.
type other struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func start(t *testing.T, role, path string) *other {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// A race-detecting binary lingers for a second unless it is told not to.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "LOCK_TEST_ROLE="+role, "LOCK_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &other{t: t, cmd: cmd, stdin: in, lines: bufio.NewScanner(out)}
	t.Cleanup(o.end)
	return o
}

// line is the next line, or "" at the end.
func (o *other) line() string {
	o.lines.Scan()
	return o.lines.Text()
}

func (o *other) kill() {
	o.cmd.Process.Kill()
	o.cmd.Process.Wait()
}

// end lets it, and its worker, go. A process that was killed already is no error here.
func (o *other) end() {
	o.stdin.Close()
	for o.lines.Scan() {
	}
	o.cmd.Wait()
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

// umask sets the process's umask for the test. Tests that use it do not run in parallel.
func umask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

// openDir is a folder that other users may pass through, as those of t.TempDir may not be.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q lacks %q", err, p)
		}
	}
}
