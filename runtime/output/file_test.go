//go:build linux

package output

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// until waits for a condition that nothing announces, with a deadline.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func toFile() tree.Logs {
	logs := unlimited()
	logs.To = "file"
	return logs
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	h := NewHub(Config{Dir: dir})
	c := open(t, h, "acme/shop/web", toFile())
	fmt.Fprint(c.Stdout(), "a\rb\xff\x1b[2J\nlast")
	fmt.Fprintln(c.Stderr(), "oh")
	c.Drain(t.Context())
	c.Close()
	h.Close(t.Context())
	name := filepath.Join(dir, "acme/shop/web.0.log")
	record := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z 1 `
	got := read(t, name)
	for _, want := range []string{"out a\rb.\x1b\\[2J", "out last", "err oh"} {
		if !regexp.MustCompile("(?m)^" + record + want + "$").MatchString(got) {
			t.Errorf("no record %q in %q", want, got)
		}
	}
	if strings.Count(got, "\n") != 3 || !strings.Contains(got, "\xff") {
		t.Errorf("file: %q", got)
	}
	for path, mode := range map[string]os.FileMode{name: 0o640, filepath.Dir(name): 0o750, dir: 0o750} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm()&^mode != 0 || st.Mode().Perm()&0o700 != mode&0o700 {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
}

// Rotation never splits a record, loses none of those that max_files has room for, and keeps the sizes.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	logs := toFile()
	logs.MaxSize, logs.MaxFiles, logs.MaxLine = 5000, 3, 100_000
	h := NewHub(Config{Dir: dir})
	s := func() *source { _, s, _ := h.source("a/b/c.2", logs); return s }()
	n := 0
	add := func(count int) {
		var spans []span
		for range count {
			spans = append(spans, span{text: fmt.Appendf(nil, "n%d", n)})
			n++
		}
		s.accept(1, Out, spans)
	}
	for _, count := range []int{1, 500, 7, 7, 1000, 3} {
		add(count)
		s.fileSink.flush(nil)
	}
	h.Close(t.Context())
	name := filepath.Join(dir, "a/b/c.2.log")
	var joined string
	for _, f := range []string{name + ".2", name + ".1", name} {
		text := read(t, f)
		if len(text) > 5000 || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %d bytes, ends in %q", f, len(text), text[len(text)-5:])
		}
		joined += text
	}
	if _, err := os.Lstat(name + ".3"); err == nil {
		t.Error("there are more files than max_files")
	}
	records := strings.Split(strings.TrimSuffix(joined, "\n"), "\n")
	for i, r := range records {
		if want := fmt.Sprintf(" 1 out n%d", n-len(records)+i); !strings.HasSuffix(r, want) {
			t.Fatalf("record %d is %q, want it to end in %q", i, r, want)
		}
	}
	if len(records) < 2*4500/40 {
		t.Errorf("only %d records are left", len(records))
	}
}

func TestRotationOfALargeRecordAndOneFile(t *testing.T) {
	dir := t.TempDir()
	logs := toFile()
	logs.MaxSize, logs.MaxFiles = 100, 1
	h := NewHub(Config{Dir: dir})
	_, s, _ := h.source("a/b/c.0", logs)
	s.accept(1, Out, []span{{text: []byte("first")}, {text: bytes.Repeat([]byte{'x'}, 500)}, {text: []byte("last")}})
	h.Close(t.Context())
	if got := read(t, filepath.Join(dir, "a/b/c.0.log")); !strings.HasSuffix(got, " out last\n") || len(got) > 100 {
		t.Errorf("file: %q", got)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "a/b/*")); len(list) != 1 {
		t.Errorf("files: %v", list)
	}
}

// Nothing that is planted in the folders makes the daemon write elsewhere.
func TestFileFollowsNoLink(t *testing.T) {
	for _, plant := range []struct {
		name string
		do   func(dir, victim string) error
	}{
		{"link as file", func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "a/b/c.0.log")) }},
		{"second name", func(dir, victim string) error { return os.Link(victim, filepath.Join(dir, "a/b/c.0.log")) }},
		{"link as folder", func(dir, victim string) error {
			os.Remove(filepath.Join(dir, "a/b"))
			return os.Symlink(filepath.Dir(victim), filepath.Join(dir, "a/b"))
		}},
		{"folder as file", func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, "a/b/c.0.log"), 0o700) }},
	} {
		t.Run(plant.name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			victim := filepath.Join(other, "c.0.log")
			os.WriteFile(victim, []byte("mine"), 0o600)
			os.MkdirAll(filepath.Join(dir, "a/b"), 0o700)
			if err := plant.do(dir, victim); err != nil {
				t.Fatal(err)
			}
			h := NewHub(Config{Dir: dir})
			_, s, _ := h.source("a/b/c.0", toFile())
			s.accept(1, Out, []span{{text: []byte("x")}})
			h.Close(t.Context())
			if read(t, victim) != "mine" || h.Stats().Workers[0].Unfiled != 1 {
				t.Errorf("the file elsewhere: %q, %+v", read(t, victim), h.Stats())
			}
		})
	}
	h := newTestHub(t, Config{Dir: t.TempDir()})
	for _, path := range []string{"", "../x", "a/../b", "a//b", "a/b/\x00", "/a"} {
		if _, err := h.Open(path, 1, toFile(), nil); err == nil {
			t.Errorf("path %q was taken", path)
		}
	}
}

// While the folder cannot be written lines stay in memory; it is told once, counted, and writing begins again by itself.
func TestFileRecovers(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "acme")
	os.WriteFile(blocked, nil, 0o600)
	var log bytes.Buffer
	h := NewHub(Config{Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &log})})
	_, s, _ := h.source("acme/shop/web.0", toFile())
	for i := range 3 {
		s.accept(1, Out, []span{{text: fmt.Appendf(nil, "early %d", i)}})
		s.fileSink.flush(nil)
	}
	if got := len(h.Tail(Query{Last: 9})); got != 3 || s.count().Unfiled != 3 {
		t.Fatalf("%d lines in memory, %d not in the file", got, s.count().Unfiled)
	}
	os.Remove(blocked)
	name, n := filepath.Join(dir, "acme/shop/web.0.log"), int64(3)
	until(t, "the file is written", func() bool {
		s.accept(1, Out, []span{{text: []byte("late")}})
		n++
		s.fileSink.flush(nil)
		_, err := os.Stat(name)
		return err == nil
	})
	h.Close(t.Context())
	got := read(t, name)
	lost := s.count().Unfiled
	if !strings.Contains(got, fmt.Sprintf("dropped %d lines", lost)) || strings.Count(got, "late") != int(n-lost) {
		t.Errorf("lost %d of %d: %s", lost, n, got)
	}
	if c := strings.Count(log.String(), "could not write"); c != 1 {
		t.Errorf("%d warnings: %s", c, log.String())
	}
}
