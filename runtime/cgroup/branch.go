package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coppice-run/coppice/tree"
)

// Branch is the group of a tenant or app. Everything below it shares its limits. Its methods may be called by any
// goroutine.
type Branch struct {
	root   *Root
	parent *Branch // nil for the top
	rel    string  // below a place's tree

	enabled [controllers]atomic.Bool // v2 gives our children this controller

	mu     sync.Mutex
	limits tree.Limits
	err    error // why the limits do not hold
}

// Branch returns the branch at the path of a tenant ("acme") or app ("acme/shop") and sets its limits, on what runs below
// it already too; "" is the top. Limits that cannot be enforced are an error that names one of them, and every leaf below
// is refused with it until another call succeeds. It writes a few files of the kernel and does not block otherwise.
//
// On a v1 hierarchy a limit that the branch did not have before binds only the leaves made from then on, and a leaf whose
// processor time was cut with its branch's gets it back with its next incarnation.
func (r *Root) Branch(path string, limits tree.Limits) (*Branch, error) {
	b := r.branch(path)
	b.mu.Lock()
	before := b.limits
	b.limits = limits
	b.mu.Unlock()
	err := b.apply(&before, &limits)
	if err != nil && path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b, nil
}

// branch finds or makes the branch at path and those above it.
func (r *Root) branch(path string) *Branch {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.branches[""]
	walked := ""
	for _, name := range strings.Split(path, "/") {
		if name == "" {
			continue
		}
		walked += "/" + name
		next := r.branches[walked]
		if next == nil {
			next = &Branch{root: r, parent: at, rel: filepath.Join(at.rel, escape(name)+branchSuffix)}
			r.branches[walked] = next
		}
		at = next
	}
	return at
}

// apply writes the limits that are asked for, and lifts those that were.
func (b *Branch) apply(before, now *tree.Limits) error {
	if _, err := b.root.need(now); err != nil {
		return err
	}
	for c := range controllers {
		p, v := b.root.by[c], value(now, c)
		if v == 0 && (value(before, c) == 0 || p.err != nil) {
			continue
		}
		if b.parent == nil {
			return refuse(now, c, errors.New("the top takes no limits"))
		}
		if err := b.make(p, c); err != nil {
			return refuse(now, c, err)
		}
		if err := p.set(filepath.Join(p.tree, b.rel), c, v); err != nil {
			return refuse(now, c, err)
		}
	}
	return nil
}

// make sees to it that the group exists in p and, in v2, has the files of c.
func (b *Branch) make(p *place, c controller) error {
	if err := mkdirs(p, b.rel); err != nil {
		return err
	}
	return b.parent.give(p, c)
}

// give passes a controller of v2 on to the branch's children. The folder of the daemon itself was given it by Open.
func (b *Branch) give(p *place, c controller) error {
	if !p.v2 || b.enabled[c].Load() {
		return nil
	}
	if b.parent != nil {
		if err := b.parent.give(p, c); err != nil {
			return err
		}
	}
	if err := enable(filepath.Join(p.tree, b.rel), c); err != nil {
		return err
	}
	b.enabled[c].Store(true)
	return nil
}

// mkdirs makes the group at rel and those above it. That they exist is the usual case.
func mkdirs(p *place, rel string) error {
	dir := filepath.Join(p.tree, rel)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if gone(err) && rel != "." && rel != "" {
		if err := mkdirs(p, filepath.Dir(rel)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
	}
	return err
}

// chain returns the limits that are somewhere from here up, and why one of them does not hold.
func (b *Branch) chain() (need [controllers]bool, err error) {
	for at := b; at != nil; at = at.parent {
		at.mu.Lock()
		limits, failed := at.limits, at.err
		at.mu.Unlock()
		if failed != nil {
			return need, failed
		}
		for c := range controllers {
			need[c] = need[c] || value(&limits, c) != 0
		}
	}
	return need, nil
}

// Leaf makes a fresh group for one incarnation ("web.0-17"), with limits of its own below those of its branches. A name
// that is taken, by an incarnation of an earlier daemon that still runs, gets a number. The error names the limit that
// cannot be enforced, and why. It writes a few files of the kernel and does not block otherwise.
//
// Where the host has no groups and nobody asks for limits, the leaf is one that does nothing: see [Leaf.Active].
func (b *Branch) Leaf(incarnation string, limits tree.Limits) (*Leaf, error) {
	r := b.root
	need, err := b.chain()
	if err != nil {
		return nil, err
	}
	own, err := r.need(&limits)
	if err != nil {
		return nil, err
	}
	var places []*place
	if r.v2.err == nil {
		places = append(places, r.v2)
	}
	for c := range controllers {
		need[c] = need[c] || own[c]
		if p := r.by[c]; need[c] && !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return &Leaf{fd: -1}, nil
	}
	for n := 1; n <= 1000; n++ {
		rel := filepath.Join(b.rel, escape(incarnation))
		if n > 1 {
			rel += "~" + strconv.Itoa(n)
		}
		l, err := b.leaf(rel+leafSuffix, places, need, &limits)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("cannot make a cgroup for %s: 1000 of that name are in use", incarnation)
}

// leaf makes the groups of one leaf, or none of them.
func (b *Branch) leaf(rel string, places []*place, need [controllers]bool, limits *tree.Limits) (*Leaf, error) {
	l := &Leaf{fd: -1}
	for _, p := range places {
		if err := mkdir(p, rel); err != nil {
			l.discard()
			return nil, fmt.Errorf("cannot make a cgroup: %w", err)
		}
		l.add(p.v2, filepath.Join(p.tree, rel))
	}
	for c := range controllers {
		if !need[c] {
			continue
		}
		p := b.root.by[c]
		dir := filepath.Join(p.tree, rel)
		err := b.give(p, c)
		if v := value(limits, c); err == nil && v != 0 {
			err = p.set(dir, c, v)
		}
		if err == nil && c == memory {
			l.memory, l.memory2 = dir, p.v2
			if p.v2 {
				err = optional(write(dir, "memory.oom.group", "1"))
			}
		}
		if err != nil {
			l.discard()
			if value(limits, c) == 0 {
				return nil, fmt.Errorf("cannot put it under the %s limit above it: %w", limitNames[c], err)
			}
			return nil, refuse(limits, c, err)
		}
	}
	if l.v2 != "" {
		fd, err := openDir(l.v2)
		if err != nil {
			l.discard()
			return nil, fmt.Errorf("cannot open the cgroup %s: %w", l.v2, err)
		}
		l.fd = fd
	}
	return l, nil
}

// mkdir makes a group that must not exist yet, and its branch where nobody has.
func mkdir(p *place, rel string) error {
	dir := filepath.Join(p.tree, rel)
	err := os.Mkdir(dir, 0o755)
	if gone(err) {
		if err := mkdirs(p, filepath.Dir(rel)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
	}
	return err
}

// Remove removes the branch's groups where nothing is below them. What still is there is EBUSY or ENOTEMPTY, and the
// caller may come back. A branch that is asked for again after that is made anew.
func (b *Branch) Remove() error {
	if b.parent == nil {
		return nil
	}
	var all error
	for _, p := range b.root.opened {
		all = errors.Join(all, rmdir(filepath.Join(p.tree, b.rel)))
	}
	if all != nil {
		return all
	}
	for c := range controllers {
		b.enabled[c].Store(false)
	}
	r := b.root
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, other := range r.branches {
		if other == b {
			delete(r.branches, path)
		}
	}
	return nil
}
