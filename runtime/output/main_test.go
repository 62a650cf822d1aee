//go:build linux

package output

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"go.uber.org/goleak"
)

// The test binary is also the worker: COPPICE_TEST_WORKER says which.
func TestMain(m *testing.M) {
	if what := os.Getenv("COPPICE_TEST_WORKER"); what != "" {
		os.Exit(worker(what, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func worker(what string, args []string) int {
	n := 0
	if len(args) > 0 {
		n, _ = strconv.Atoi(args[0])
	}
	switch what {
	case "lines": // n lines of 100 bytes
		flood(os.Stdout, n)
	case "endless": // n MiB without a newline, then wait for stdin to end
		part := bytes.Repeat([]byte{'a'}, 1<<20)
		for range n {
			if _, err := os.Stdout.Write(part); err != nil {
				return 1
			}
		}
		fmt.Fprintln(os.Stderr, "written")
		os.Stdin.Read(make([]byte, 1))
	}
	return 0
}

// flood writes n lines of 100 bytes in writes of 64 KiB or less.
func flood(f *os.File, n int) {
	line := append(bytes.Repeat([]byte{'x'}, 99), '\n')
	block := bytes.Repeat(line, 655)
	for n > 0 {
		k := min(n, 655)
		f.Write(block[:k*100])
		n -= k
	}
}

// start runs the test binary as a worker whose output c captures.
func start(t testing.TB, c *Capture, what string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "COPPICE_TEST_WORKER="+what)
	cmd.Stdout, cmd.Stderr = c.Stdout(), c.Stderr()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.CloseWriteEnds()
	return cmd
}

func newTestHub(t testing.TB, cfg Config) *Hub {
	t.Helper()
	h := NewHub(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("closing the hub: %v", err)
		}
	})
	return h
}

func open(t testing.TB, h *Hub, path string, logs tree.Logs) *Capture {
	t.Helper()
	c, err := h.Open(path, 1, logs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// unlimited is the default without a rate, into memory only.
func unlimited() tree.Logs {
	logs := tree.DefaultRun().Logs
	logs.Rate, logs.To = 0, "none"
	return logs
}
