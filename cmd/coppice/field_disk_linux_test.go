package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk that is full costs the file's copy, and is told; the worker and the ring go on, and so does the file afterwards.
func TestFieldLogsFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	d := newDaemon(t, "")
	if err := os.MkdirAll(d.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", d.state, "tmpfs", 0, "size=256k,mode=700"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(d.state, unix.MNT_DETACH) })
	d.write("write.py", `
import os, time
n = 0
while True:
    for _ in range(100): print("a line of text that takes some room on the disk", n); n += 1
    print(end="", flush=True)
    with open("written.tmp", "w") as f: f.write("%d\n" % n)
    os.rename("written.tmp", "written")
    time.sleep(0.01)
`)
	d.write("coppice.hcl", d.hostBlock("")+fmt.Sprintf(`
app "shop" {
  root = %q
  worker "writer" {
    command = ["python3", "write.py"]
    logs {
      rate  = 1000000
      burst = 1000000
      to    = "both"
    }
  }
}`, d.dir))
	d.start()
	written := func() (n int) { fmt.Sscan(d.fileText("written"), &n); return n }
	log := filepath.Join(d.state, "logs/default/shop/writer.0.log")
	d.until("the disk to be full", func() bool {
		var st unix.Statfs_t
		return unix.Statfs(d.state, &st) == nil && st.Bfree == 0
	})
	full := written()
	d.until("the worker to write on", func() bool { return written() > full+3000 })
	d.until("the log to tell", func() bool { return strings.Contains(d.stderr.String(), "no space left on device") })
	if n := strings.Count(d.stderr.String(), "no space left on device"); n > 20 {
		t.Errorf("the log tells it %d times", n)
	}
	if err := os.Truncate(log, 0); err != nil {
		t.Fatal(err)
	}
	d.until("the file to go on", func() bool { b, _ := os.ReadFile(log); return bytes.Count(b, []byte("\n")) > 10 })
}
