//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "embed"

	"golang.org/x/sys/unix"
)

//go:embed child/child.c
var childSource []byte

// stamp is one line that a child wrote.
type stamp struct {
	what, name string
	pid        int
	at         time.Duration // on the monotonic clock
}

// bench is one run: the child's program and the pipe that all children write to.
type bench struct {
	dir     string
	child   string // the child's program
	fifo    string
	stamps  chan stamp
	coppice string // the program under test
}

func newBench(coppice string) (*bench, error) {
	dir, err := os.MkdirTemp("", "coppice-bench")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, child: filepath.Join(dir, "child"), fifo: filepath.Join(dir, "stamps"), coppice: coppice,
		stamps: make(chan stamp, 1<<16)}
	source := filepath.Join(dir, "child.c")
	if err := os.WriteFile(source, childSource, 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-O2", "-static", "-o", b.child, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the child, which needs a C compiler: %v: %s", err, out)
	}
	if err := unix.Mkfifo(b.fifo, 0o622); err != nil {
		return nil, err
	}
	// For reading and writing, so that it never ends while no child has it open.
	f, err := os.OpenFile(b.fifo, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var s stamp
			var at int64
			if _, err := fmt.Sscanf(lines.Text(), "%s %s %d %d", &s.what, &s.name, &s.pid, &at); err == nil {
				s.at = time.Duration(at)
				b.stamps <- s
			}
		}
	}()
	return b, nil
}

// now is the time on the clock that the children read.
func now() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// collect waits for n stamps and returns the newest pid of each name, and the latest time.
func (b *bench) collect(n int, pids map[string]int) (time.Duration, error) {
	last := time.Duration(0)
	deadline := time.After(2 * time.Minute)
	for range n {
		select {
		case s := <-b.stamps:
			pids[s.name] = s.pid
			last = max(last, s.at)
		case <-deadline:
			return 0, fmt.Errorf("waited in vain for children to start")
		}
	}
	return last, nil
}

// drain throws away what stamps are there.
func (b *bench) drain() {
	for {
		select {
		case <-b.stamps:
		default:
			return
		}
	}
}
