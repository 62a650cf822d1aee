package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leftovers returns the leaves below this daemon's own folders in which something runs. Called after Open and before the
// first Leaf is made, these are what a dead daemon of the same name has left: the folder is ours alone.
func (r *Root) Leftovers() []*Leaf {
	var all []*Leaf
	for _, p := range r.opened {
		for _, dir := range populated(p.tree) {
			l := &Leaf{fd: -1, reopened: true}
			l.add(p.v2, dir)
			all = append(all, l)
		}
	}
	return all
}

// Abandoned returns the leaves with processes that dead daemons of other names have left beside this one's: what became
// of a daemon whose runtime directory was removed. They are nobody's, and nothing is done to them.
func (r *Root) Abandoned() []string {
	var all []string
	for _, p := range r.opened {
		entries, _ := os.ReadDir(p.base)
		for _, e := range entries {
			dir := filepath.Join(p.base, e.Name())
			if !e.IsDir() || !strings.HasSuffix(e.Name(), rootSuffix) || dir == p.tree {
				continue
			}
			f, err := os.Open(dir)
			if err != nil {
				continue
			}
			if lock(f, true) == nil { // whoever lives holds it
				all = append(all, populated(dir)...)
			}
			f.Close()
		}
	}
	slices.Sort(all)
	return all
}

// populated returns the leaves below dir in which something runs, the daemon's own excepted.
func populated(dir string) []string {
	var all []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		below := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir() || e.Name() == daemonLeaf:
		case !strings.HasSuffix(e.Name(), leafSuffix):
			all = append(all, populated(below)...)
		case len(population(below)) > 0:
			all = append(all, below)
		}
	}
	return all
}

// Refers tells whether two references name a group in common.
func (r Ref) Refers(other Ref) bool {
	return r.V2 != "" && r.V2 == other.V2 || slices.ContainsFunc(r.V1, func(dir string) bool { return slices.Contains(other.V1, dir) })
}
