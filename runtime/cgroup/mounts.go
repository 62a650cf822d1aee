package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
)

// hierarchy is one mounted cgroup hierarchy and where in it this process is.
type hierarchy struct {
	v2          bool
	controllers []string // of a v1 hierarchy: "memory", or "cpu" and "cpuacct", or "name=systemd"
	path        string   // as /proc/self/cgroup gives it: seen from the cgroup namespace's root
	dir         string   // the same group in the file system
	readOnly    bool
}

// has tells whether a v1 hierarchy carries the controller.
func (h *hierarchy) has(controller string) bool {
	for _, c := range h.controllers {
		if c == controller {
			return true
		}
	}
	return false
}

// hierarchies matches the mounts in mountinfo with the memberships in self (the texts of /proc/self/mountinfo and
// /proc/self/cgroup). A hierarchy that is not mounted, or mounted only at a part that does not hold this process, is left
// out. Of several mounts of one hierarchy the first writable one wins.
func hierarchies(mountinfo, self string) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(self) {
		h, ok := membership(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		found := false
		for mount := range strings.Lines(mountinfo) {
			m, ok := cgroupMount(strings.TrimSuffix(mount, "\n"))
			if !ok || !m.carries(&h) {
				continue
			}
			rel, ok := below(h.path, m.root)
			if !ok || found && !h.readOnly || found && m.readOnly {
				continue
			}
			h.dir, h.readOnly, found = filepath.Join(m.point, rel), m.readOnly, true
		}
		if found {
			all = append(all, h)
		}
	}
	return all
}

// membership reads one line of /proc/self/cgroup: "ID:CONTROLLERS:PATH".
func membership(line string) (hierarchy, bool) {
	parts := strings.SplitN(line, ":", 3)
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
		return hierarchy{}, false
	}
	// The kernel marks a group that was removed under its members so; nothing can be made in it.
	if strings.HasSuffix(parts[2], " (deleted)") {
		return hierarchy{}, false
	}
	h := hierarchy{path: parts[2]}
	switch {
	case parts[0] == "0" && parts[1] == "":
		h.v2 = true
	case parts[1] == "":
		return hierarchy{}, false
	default:
		h.controllers = strings.Split(parts[1], ",")
	}
	return h, true
}

// mount is one cgroup line of /proc/self/mountinfo.
type mount struct {
	root, point string // the part of the hierarchy that is mounted, and where
	v2          bool
	options     []string // of the file system: a v1 hierarchy's controllers are among them
	readOnly    bool
}

func (m *mount) carries(h *hierarchy) bool {
	if m.v2 != h.v2 {
		return false
	}
	for _, c := range h.controllers {
		for _, o := range m.options {
			if o == c {
				return true
			}
		}
	}
	return m.v2
}

// cgroupMount reads one line of mountinfo:
// "ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS".
func cgroupMount(line string) (mount, bool) {
	head, tail, ok := strings.Cut(line, " - ")
	if !ok {
		return mount{}, false
	}
	h, t := strings.Fields(head), strings.Fields(tail)
	if len(h) < 6 || len(t) < 3 || t[0] != "cgroup" && t[0] != "cgroup2" {
		return mount{}, false
	}
	m := mount{root: unescape(h[3]), point: unescape(h[4]), v2: t[0] == "cgroup2", options: strings.Split(t[2], ",")}
	for _, options := range [][]string{strings.Split(h[5], ","), m.options} {
		for _, o := range options {
			m.readOnly = m.readOnly || o == "ro"
		}
	}
	return m, true
}

// below returns path seen from root, or false when it is not below it. A root with ".." lies outside of the cgroup
// namespace, and so does a path with it.
func below(path, root string) (string, bool) {
	if strings.Contains(path, "/..") || strings.Contains(root, "/..") {
		return "", false
	}
	if root == "/" {
		return path, true
	}
	rel, ok := strings.CutPrefix(path, root)
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}
	return rel, true
}

// unescape undoes mountinfo's octal escapes of blanks and backslashes ("\040").
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
