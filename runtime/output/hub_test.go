//go:build linux

package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// sh starts a shell whose output c captures, and returns its stdin.
func sh(t *testing.T, c *Capture, script string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout, cmd.Stderr = c.Stdout(), c.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.CloseWriteEnds()
	t.Cleanup(func() { in.Close() })
	return cmd, in
}

// ended waits for the process alone; its pipes may be held by others.
func ended(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestLongLineBetweenOthers(t *testing.T) {
	h := newTestHub(t, Config{})
	logs := unlimited()
	logs.Keep = 1 << 20
	c := open(t, h, "a/b/c.0", logs)
	defer c.Close()
	cmd, _ := sh(t, c, `echo before; head -c 1048577 /dev/zero | tr '\0' a; echo; seq 2000; printf 'x\0y\rz\377\n'; printf end`)
	ended(t, cmd)
	c.Drain(t.Context())
	got := texts(h.Tail(Query{Last: MaxTail}))
	want := []string{"before", strings.Repeat("a", 8192) + " [cut 1040385 bytes]"}
	for i := range 2000 {
		want = append(want, strconv.Itoa(i+1))
	}
	want = append(want, "x\x00y\rz\xff", "end")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("line %d is %.40q, want %.40q", i, got[i], want[i])
		}
	}
}

// An endless line costs no memory, does not block its writer and shows before the process ends; no byte goes uncounted.
func TestEndlessLine(t *testing.T) {
	h := newTestHub(t, Config{})
	f := h.Follow(Query{})
	defer f.Close()
	c := open(t, h, "a/b/c.0", unlimited())
	defer c.Close()
	const size = 64 << 20
	cmd := exec.Command("/proc/self/exe", strconv.Itoa(size>>20))
	cmd.Env = append(os.Environ(), "COPPICE_TEST_WORKER=endless")
	cmd.Stdout, cmd.Stderr = c.Stdout(), c.Stderr()
	in, _ := cmd.StdinPipe()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.CloseWriteEnds()
	sum := int64(0)
	for sum < size {
		l := next(t, f) // stdin is open, so the process is still there
		if l.Stream == Out {
			sum += int64(len(l.Text)) + l.Cut
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	in.Close()
	ended(t, cmd)
	if sum != size {
		t.Errorf("%d bytes of %d", sum, size)
	}
}

// A flood is dropped, not waited for; kept and dropped together are what was sent, everywhere it is told, and another
// worker's lines do not suffer.
func TestFlood(t *testing.T) {
	var mu sync.Mutex
	journal := int64(0)
	h := newTestHub(t, Config{Dropped: func(path string, inc int, n int64) {
		mu.Lock()
		defer mu.Unlock()
		if journal += n; path != "a/b/flood.0" || inc != 1 {
			t.Errorf("dropped of %s, %d", path, inc)
		}
	}})
	idle := h.Follow(Query{}) // it never reads
	defer idle.Close()
	logs := unlimited()
	logs.Rate, logs.Burst, logs.Keep = 1000, 200, 1<<20
	c := open(t, h, "a/b/flood.0", logs)
	calm := open(t, h, "a/b/calm.0", logs)
	f := h.Follow(Query{Paths: []string{"a/b/calm"}})
	defer f.Close()
	const sent = 500_000
	cmd := start(t, c, "lines", strconv.Itoa(sent))
	for i := range 20 {
		fmt.Fprintln(calm.Stdout(), i)
		if l := next(t, f); string(l.Text) != strconv.Itoa(i) {
			t.Errorf("calm line %d: %s", i, l.Text)
		}
	}
	ended(t, cmd)
	c.Drain(t.Context())
	dropped := c.Dropped()
	c.Close()
	calm.Close()
	var kept, told, notices int64
	for _, l := range h.Tail(Query{Last: MaxTail, Paths: []string{"a/b/flood"}}) {
		if l.Dropped == 0 {
			kept++
			continue
		}
		told += l.Dropped
		notices++
		if l.Stream != Out || !strings.Contains(string(l.Text), fmt.Sprintf("dropped %d lines", l.Dropped)) {
			t.Errorf("notice: %+v", l)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if kept+told != sent || dropped != told || journal != told {
		t.Errorf("kept %d, told %d, counted %d, journal %d, sent %d", kept, told, dropped, journal, sent)
	}
	if kept < 200 || notices == 0 {
		t.Errorf("kept %d, notices %d", kept, notices)
	}
	if n := h.Stats().Workers[1]; n.Lines != kept || n.Dropped != dropped {
		t.Errorf("stats: %+v", n)
	}
}

// A helper that holds the pipe, silent or writing, holds nothing else; what the leader wrote is there at once.
func TestDrainWithAHelper(t *testing.T) {
	for _, helper := range []string{"sleep 60", "yes helper"} {
		t.Run(helper, func(t *testing.T) {
			h := newTestHub(t, Config{})
			var first, last atomic.Bool
			c, err := h.Open("a/b/c.0", 1, unlimited(), func(l []byte) {
				if string(l) == "first" {
					first.Store(true)
				}
				if string(l) == "last" {
					last.Store(true)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/bin/sh", "-c", "echo first; "+helper+" & printf last >&2")
			cmd.Stdout, cmd.Stderr = c.Stdout(), c.Stderr()
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			c.CloseWriteEnds()
			ended(t, cmd)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c.Drain(ctx)
			if ctx.Err() != nil {
				t.Error("the helper held it")
			}
			if !first.Load() || !last.Load() {
				t.Errorf("the leader's lines are there: %v, %v", first.Load(), last.Load())
			}
			c.Close()
		})
	}
}

// blocked is a standard output that takes nothing until it is opened.
type blocked struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.open
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.Write(p)
}

func TestBlockedStdout(t *testing.T) {
	out := &blocked{open: make(chan struct{})}
	h := NewHub(Config{Stdout: out, Format: "json"})
	logs := unlimited()
	logs.To = "stdout"
	c := open(t, h, "a/b/c.0", logs)
	const sent = 200_000
	cmd := start(t, c, "lines", strconv.Itoa(sent)) // 20 MB, and about 40 as JSON
	ended(t, cmd)
	c.Drain(t.Context())
	c.Close()
	if n := h.Stats(); n.Workers[0].Lines != sent || n.StdoutLost == 0 {
		t.Errorf("stats: %+v", n)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(short); !errors.Is(err, context.Canceled) {
		t.Errorf("closing while it is blocked: %v", err)
	}
	lost := h.Stats().StdoutLost
	close(out.open)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := out.got.String()
	if kept := int64(strings.Count(got, `"path":"a/b/c.0"`)); kept+lost != sent {
		t.Errorf("kept %d, lost %d, sent %d", kept, lost, sent)
	}
	if !strings.Contains(got, fmt.Sprintf(`"dropped":%d}`, lost)) {
		t.Errorf("no notice of %d at the end: %q", lost, got[max(0, len(got)-400):])
	}
}

func TestStdoutFormats(t *testing.T) {
	for format, want := range map[string]string{
		"text": ` a/b/c.0 out | forged\x1b[2J | x` + "\n",
		"json": `,"path":"a/b/c.0","incarnation":1,"stream":"out","line":"forged\u001b[2J | x","cut":0}` + "\n",
	} {
		var out bytes.Buffer
		h := NewHub(Config{Stdout: &out, Format: format})
		logs := unlimited()
		logs.To = "both" // without a folder that is stdout alone
		c := open(t, h, "a/b/c.0", logs)
		fmt.Fprint(c.Stdout(), "forged\x1b[2J | x\n")
		c.Drain(t.Context())
		c.Close()
		h.Close(t.Context())
		if !strings.HasSuffix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}

// The readiness check sees every line, also those over the rate, until it is told to stop.
func TestMatch(t *testing.T) {
	h := newTestHub(t, Config{})
	logs := tree.DefaultRun().Logs
	logs.Rate, logs.Burst = 1, 1
	seen := make(chan string, 100)
	c, err := h.Open("a/b/c.0", 1, logs, func(l []byte) { seen <- string(l) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c.Stderr(), "one\ntwo\nready\n")
	c.Drain(t.Context())
	c.StopMatching()
	fmt.Fprint(c.Stderr(), "more\n")
	c.Drain(t.Context())
	close(seen)
	var got []string
	for l := range seen {
		got = append(got, l)
	}
	if fmt.Sprint(got) != "[one two ready]" {
		t.Errorf("saw %v", got)
	}
}
