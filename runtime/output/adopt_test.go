//go:build linux

package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/tree"
)

// With named pipes a worker writes on while no daemon is there, without SIGPIPE, and the next one reads all of it.
func TestAdopt(t *testing.T) {
	pipes := filepath.Join(t.TempDir(), "pipes")
	first := NewHub(Config{Pipes: pipes})
	f := first.Follow(Query{})
	flag := filepath.Join(t.TempDir(), "flag")
	c := open(t, first, "a/b/c.0", unlimited())
	cmd, in := sh(t, c, `echo one; read x; echo two; echo three >&2; >`+flag+`; read x; echo four`)
	if l := next(t, f); string(l.Text) != "one" {
		t.Fatalf("got %s", l.Text)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in) // nobody reads now
	until(t, "the worker has written", func() bool { _, err := os.Stat(flag); return err == nil })
	second := newTestHub(t, Config{Pipes: pipes})
	g := second.Follow(Query{})
	defer g.Close()
	c, err := second.Adopt("a/b/c.0", 1, unlimited(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in)
	ended(t, cmd)
	c.Drain(t.Context())
	c.Close()
	got := map[string]bool{}
	for range 3 {
		l := next(t, g)
		got[l.Stream+" "+string(l.Text)] = true
	}
	if !got["out two"] || !got["err three"] || !got["out four"] {
		t.Errorf("got %v", got)
	}
	if left, _ := os.ReadDir(pipes); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := second.Adopt("a/b/c.0", 1, unlimited(), nil); err == nil {
		t.Error("adopted what is not there")
	}
}

// What was held over an exec is not lost, though its worker ended meanwhile.
func TestHold(t *testing.T) {
	pipes := t.TempDir()
	first := NewHub(Config{Pipes: pipes})
	c := open(t, first, "a/b/c.0", unlimited())
	held, err := c.Hold()
	if err != nil || len(held) != 2 {
		t.Fatalf("held %v: %v", held, err)
	}
	cmd, in := sh(t, c, `read x; echo one; printf two >&2`)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in)
	ended(t, cmd)
	second := newTestHub(t, Config{Pipes: pipes})
	c, err = second.Adopt("a/b/c.0", 1, unlimited(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range held {
		closePipe(fd)
	}
	c.Drain(t.Context())
	c.Close()
	if got := fmt.Sprint(texts(second.Tail(Query{Last: 9}))); got != "[one two]" && got != "[two one]" {
		t.Errorf("got %s", got)
	}
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Silent workers cost two descriptors each and hardly any memory; when they are gone nothing is left of them.
func TestSilentWorkers(t *testing.T) {
	const workers = 300
	h := NewHub(Config{})
	fds, routines := descriptors(t), runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what they have over one collection
	runtime.ReadMemStats(&before)
	var list []*Capture
	for i := range workers {
		list = append(list, open(t, h, fmt.Sprintf("a/b/w%d.0", i), tree.DefaultRun().Logs))
	}
	until(t, "nobody is reading", func() bool { return runtime.NumGoroutine() <= routines+1 })
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) / workers
	t.Logf("%d bytes for each silent worker", each)
	if each > 4096 {
		t.Errorf("each silent worker costs %d bytes", each)
	}
	for _, c := range list {
		c.Close()
		c.Close()
	}
	h.Close(t.Context())
	if got := descriptors(t); got > fds {
		t.Errorf("%d descriptors, before %d", got, fds)
	}
	if _, err := h.Open("a/b/c.0", 1, unlimited(), nil); !errors.Is(err, errClosed) {
		t.Errorf("opening in a closed hub: %v", err)
	}
}

// Incarnations come and go, their helpers stay for a while, and everybody looks: for the race detector.
func TestManyIncarnations(t *testing.T) {
	h := newTestHub(t, Config{Dir: t.TempDir(), Stdout: io.Discard, Pipes: t.TempDir()})
	logs := tree.DefaultRun().Logs
	logs.To, logs.MaxSize, logs.Keep = "both", 3000, 4096
	fds := descriptors(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			path := fmt.Sprintf("a/b/w%d.0", w)
			for inc := range 50 {
				c, err := h.Open(path, inc+1, logs, func([]byte) {})
				if err != nil {
					t.Error(err)
					return
				}
				f := h.Follow(Query{Last: 3, Paths: []string{path}})
				for i := range 20 {
					fmt.Fprintf(c.Stdout(), "%d %d\n", inc, i)
				}
				fmt.Fprint(c.Stderr(), "end")
				c.CloseWriteEnds()
				c.Drain(t.Context())
				h.Tail(Query{Last: 50})
				h.Stats()
				c.Close()
				f.Close()
				if inc%10 == 9 {
					h.Forget(path)
				}
			}
		})
	}
	wg.Wait()
	for _, n := range h.Stats().Workers {
		if n.Lines+n.Dropped > 50*21 {
			t.Errorf("%+v", n)
		}
	}
	until(t, "files are closed", func() bool { return descriptors(t) <= fds+2 })
}
