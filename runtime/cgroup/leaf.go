package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Leaf is the group of one incarnation. Its methods may be called by any goroutine; none keeps a lock while it waits for
// the kernel.
type Leaf struct {
	v2       string   // its group in v2, "" for none
	v1       []string // its groups in v1 hierarchies, for limits only
	memory   string   // the one of them that counts memory, "" for none
	memory2  bool     // and whether that is v2
	reopened bool     // the branches above may be a dead daemon's

	mu sync.Mutex
	fd int // of v2; -1 for none
}

// Ref is what a daemon writes down to find a leaf again after it was replaced or killed. The zero Ref is the leaf that
// does nothing.
type Ref struct {
	V2 string   `json:"v2,omitempty"`
	V1 []string `json:"v1,omitempty"`
}

func (l *Leaf) add(v2 bool, dir string) {
	if v2 {
		l.v2 = dir
	} else {
		l.v1 = append(l.v1, dir)
	}
}

// Ref returns what [Root.Reopen] needs.
func (l *Leaf) Ref() Ref { return Ref{V2: l.v2, V1: l.v1} }

// Reopen returns the leaf of an incarnation that an earlier daemon started. It refuses what is not a leaf of Coppice's on
// a cgroup file system, so that a damaged record never makes it kill strangers. Groups that are gone are left out.
func (r *Root) Reopen(ref Ref) (*Leaf, error) {
	l := &Leaf{fd: -1, reopened: true}
	for i, dir := range append([]string{ref.V2}, ref.V1...) {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || !strings.HasSuffix(dir, leafSuffix) ||
			!strings.Contains(dir, rootSuffix+"/") || filepath.Base(dir) == daemonLeaf {
			return nil, fmt.Errorf("cannot reopen the cgroup %q: not a worker's", dir)
		}
		if _, err := os.Lstat(dir); gone(err) {
			continue
		}
		if !isCgroup(dir) {
			return nil, fmt.Errorf("cannot reopen the cgroup %q: not on a cgroup file system", dir)
		}
		l.add(i == 0, dir)
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				l.memory, l.memory2 = dir, i == 0
			}
		}
	}
	return l, nil
}

// Active tells whether there is a group at all. Where there is none the leaf's methods do nothing, successfully, and what
// belongs to the incarnation must be known by other means.
func (l *Leaf) Active() bool { return l.v2 != "" || len(l.v1) > 0 }

// FD returns a descriptor of the v2 group, for CLONE_INTO_CGROUP, or -1 where there is none. It stays the leaf's and is
// closed by Remove. A reopened leaf has none: nothing more is started in it.
//
// A process that is born dead of KILL without having run met a trap of the kernel's (the daemon's own group was killed
// once): start it again without FD, and move it by [Leaf.Enter].
func (l *Leaf) FD() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 && l.v2 != "" && !l.reopened {
		if fd, err := openDir(l.v2); err == nil {
			l.fd = fd
		}
	}
	return l.fd
}

// Rest closes the descriptor of FD, which is seldom needed again; FD opens another. It must not be called while a process
// is being started by FD.
func (l *Leaf) Rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 {
		closeDir(l.fd)
		l.fd = -1
	}
}

// JoinPaths returns the files to which a process that was started by FD still has to write "0" before it executes the
// worker's program, so that no fork of the program's escapes a limit. They are the v1 groups; with v2 alone there are
// none. The writer needs the daemon's rights, so it writes before it changes its user.
func (l *Leaf) JoinPaths() []string {
	paths := make([]string, 0, len(l.v1))
	for _, dir := range l.v1 {
		paths = append(paths, filepath.Join(dir, "cgroup.procs"))
	}
	return paths
}

// Enter moves a process, all its threads but none of its children, into all groups of the leaf, v2 too: doing so twice is
// no error. What it forked before stays outside, so a process should not have run its program yet.
func (l *Leaf) Enter(pid int) error {
	dirs := l.v1
	if l.v2 != "" {
		dirs = append([]string{l.v2}, dirs...)
	}
	for _, dir := range dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cannot move process %d into its cgroup: %w", pid, err)
		}
	}
	return nil
}

// Procs returns the processes of the leaf and of groups that the worker made below it, zombies that were not reaped yet
// excluded in v2, where the kernel leaves them out. A leaf that is removed has none.
func (l *Leaf) Procs() ([]int, error) {
	seen := map[int]bool{}
	var all []int
	for _, dir := range l.membership() {
		err := walk(dir, func(dir string) error {
			pids, err := members(dir)
			for _, pid := range pids {
				if !seen[pid] {
					seen[pid] = true
					all = append(all, pid)
				}
			}
			return err
		})
		if err != nil {
			return all, fmt.Errorf("cannot read who is in the cgroup: %w", err)
		}
	}
	return all, nil
}

// membership returns the groups that tell who belongs to the leaf: v2's where there is one.
func (l *Leaf) membership() []string {
	if l.v2 != "" {
		return []string{l.v2}
	}
	return l.v1
}

// Kill sends KILL to all processes of the leaf and of groups below it, and to those that they fork meanwhile. It does not
// wait for them to end. Nothing can be started in the leaf by FD afterwards.
func (l *Leaf) Kill() error {
	if !l.Active() {
		return nil
	}
	if l.v2 != "" {
		err := write(l.v2, "cgroup.kill", "1")
		if err == nil {
			return nil
		}
		if _, there := os.Stat(l.v2); gone(there) {
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) { // kernels before 5.14 have no such file
			return fmt.Errorf("cannot kill the cgroup: %w", err)
		}
	}
	return killAll(l.Procs)
}

// Remove removes the leaf's groups and those that the worker made below it. Where a process still is in one it fails with
// EBUSY and the caller may come back ([Leaf.RemoveWhenEmpty]); the kernel takes a moment after the last process ended.
// A leaf that is removed stays so: removing it again is no error.
func (l *Leaf) Remove() error {
	var all error
	for _, dir := range append([]string{l.v2}, l.v1...) {
		if dir == "" {
			continue
		}
		err := prune(dir)
		if err == nil && l.reopened {
			tidy(filepath.Dir(dir))
		}
		all = errors.Join(all, err)
	}
	if all != nil {
		return fmt.Errorf("cannot remove the cgroup: %w", all)
	}
	l.mu.Lock()
	fd := l.fd
	l.fd = -1
	l.mu.Unlock()
	if fd >= 0 {
		closeDir(fd)
	}
	return nil
}

// RemoveWhenEmpty is Remove for a leaf whose processes are ending: it tries until it succeeds, fails with something else
// than EBUSY, or ctx ends, and then returns the last error. It blocks for so long.
func (l *Leaf) RemoveWhenEmpty(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := l.Remove()
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// tidy removes the empty branches and the folder of a daemon that is dead, from below. A daemon that lives holds its
// folder's lock, and its branches carry limits even while they are empty.
func tidy(dir string) {
	top := dir
	for strings.HasSuffix(top, branchSuffix) {
		top = filepath.Dir(top)
	}
	f, err := os.Open(top)
	if err != nil {
		return
	}
	defer f.Close()
	if !strings.HasSuffix(top, rootSuffix) || lock(f, true) != nil {
		return
	}
	for ; len(dir) >= len(top); dir = filepath.Dir(dir) {
		if rmdir(dir) != nil {
			return
		}
	}
}

// discard removes a leaf that was not finished.
func (l *Leaf) discard() { _ = l.Remove() }
