package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// write puts text into a group's file, which must exist: O_CREATE would turn a missing file into "permission denied".
func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// number reads a file that holds one number.
func number(dir, file string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// words reads a file that holds words on one line.
func words(dir, file string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b)), err
}

// entry reads one key of a flat keyed file ("oom_kill 3"); a file without it gives 0.
func entry(dir, file, key string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return strconv.Atoi(v)
		}
	}
	return 0, nil
}

// members reads the processes of one group alone. A group that is gone has none.
func members(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []int
	for line := range strings.Lines(string(b)) {
		// 0 stands for a process of another pid namespace, which has no number here.
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			all = append(all, pid)
		}
	}
	return all, nil
}

// walk calls visit for the groups below dir and then for dir itself, deepest first. Symbolic links are not followed. It
// goes on after an error and returns the first.
func walk(dir string, visit func(dir string) error) error {
	if lonely(dir) {
		return visit(dir)
	}
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil
	}
	var first error
	for _, e := range entries {
		if e.Type() != fs.ModeDir {
			continue
		}
		if err := walk(filepath.Join(dir, e.Name()), visit); err != nil && first == nil {
			first = err
		}
	}
	if first == nil {
		first = err
	}
	if err := visit(dir); err != nil && first == nil {
		first = err
	}
	return first
}

// lonely tells whether a group has no groups below it, by its link count, which is much cheaper than listing it: the kernel
// counts two and one for each.
func lonely(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 2
}

// prune removes dir and the groups below it, deepest first. It fails with EBUSY where a process still is in one; those
// without are gone all the same.
func prune(dir string) error {
	if err := rmdir(dir); err == nil {
		return nil // nearly always: a worker seldom makes groups of its own
	}
	return walk(dir, func(dir string) error { return rmdir(dir) })
}

// escape makes one directory name of any string. A dot is escaped too, so that no name that a user chooses looks like a
// file of the kernel's or like one of our suffixes.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
