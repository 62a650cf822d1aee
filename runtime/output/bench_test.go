//go:build linux

package output

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkFile is a worker that prints b.N lines of 100 bytes, split, attributed and written to a file; BenchmarkBareGo is
// the floor: the same worker, a loop that splits its output into lines and writes what it read. Compare them in one run:
//
//	go test -run - -bench 'File|BareGo' -benchtime 10000000x ./runtime/output
func BenchmarkFile(b *testing.B) {
	dir := b.TempDir()
	logs := unlimited()
	logs.To, logs.MaxSize = "file", 0
	b.SetBytes(100)
	h := NewHub(Config{Dir: dir})
	c := open(b, h, "acme/shop/web.0", logs)
	b.ResetTimer()
	cmd := start(b, c, "lines", strconv.Itoa(b.N))
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	c.Drain(context.Background())
	c.Close()
	if err := h.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if n := h.Stats().Workers[0]; n.Lines != int64(b.N) || n.Unfiled != 0 {
		b.Fatalf("of %d lines %d were kept and %d not in the file", b.N, n.Lines, n.Unfiled)
	}
}

func BenchmarkBareGo(b *testing.B) {
	b.SetBytes(100)
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("/proc/self/exe", strconv.Itoa(b.N))
	cmd.Env = append(os.Environ(), "COPPICE_TEST_WORKER=lines")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 256<<10)
	lines, buf, held := 0, make([]byte, 64<<10), 0
	for {
		n, err := out.Read(buf[held:])
		if n == 0 && err != nil {
			break
		}
		part := buf[:held+n]
		for {
			i := bytes.IndexByte(part, '\n')
			if i < 0 {
				break
			}
			lines++
			w.Write(part[:i+1])
			part = part[i+1:]
		}
		held = copy(buf, part)
	}
	w.Flush()
	cmd.Wait()
	b.StopTimer()
	if lines != b.N {
		b.Fatalf("%d lines of %d", lines, b.N)
	}
}
