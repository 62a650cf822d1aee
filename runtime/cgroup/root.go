package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/coppice-run/coppice/tree"
)

const (
	rootSuffix   = ".coppice"
	branchSuffix = ".tree"
	leafSuffix   = ".leaf"
	daemonLeaf   = "daemon" + leafSuffix
)

// Ability tells whether this host lets the daemon do one thing with groups.
type Ability struct {
	Where string // "cgroup v2 at /sys/fs/cgroup/system.slice/coppice.service"; "" where it cannot
	Err   error  // why it cannot; nil where it can
}

// Abilities is what a Root can do.
type Abilities struct {
	Members             Ability // know and kill all processes of a leaf, by cgroup v2, limits or not
	Memory, CPUs, Tasks Ability // enforce these limits
}

// Root is where one daemon makes its groups. Its methods may be called by any goroutine.
type Root struct {
	log    hclog.Logger
	v2     *place // where membership is; never nil, but maybe with an error
	by     [controllers]*place
	opened []*place // those with a tree that we hold

	mu       sync.Mutex
	branches map[string]*Branch
}

// place is a hierarchy together with where in it the daemon makes its groups.
type place struct {
	v2   bool
	base string   // the daemon's own group
	tree string   // the folder in it that is all ours
	held *os.File // tree, with the shared lock that says that its daemon lives
	err  error    // why nothing can be made here
}

func (p *place) String() string {
	if p.v2 {
		return "cgroup v2 at " + p.base
	}
	return "cgroup v1 at " + p.base
}

// Open finds where this daemon may make groups and makes a folder of its own there; name should stay the same over
// restarts of one daemon and differ between daemons. Empty groups that dead daemons left are removed; those with
// processes are kept for [Root.Reopen].
//
// In v2 a daemon whose own group is not the top one moves itself into a leaf below it: the kernel gives controllers only
// to groups whose parent holds no process, and a daemon that runs in a group which was killed once (cgroup.kill) could
// not have children born in fresh ones.
//
// A host where nothing can be done is no error: [Root.Can] says why, and a leaf that asks for a limit is refused. The
// error of Open is reserved for a name that cannot be one.
func Open(log hclog.Logger, name string) (*Root, error) {
	if name == "" || len(name) > 100 {
		return nil, fmt.Errorf("cannot use %q as the name of a cgroup: it has 1 to 100 bytes", name)
	}
	all, err := detect()
	if err == nil && len(all) == 0 {
		err = errors.New("no cgroup file system is mounted here")
	}
	r := &Root{log: log, branches: map[string]*Branch{}}
	r.v2 = &place{v2: true, err: err}
	if err == nil {
		r.v2.err = errors.New("no cgroup v2 is mounted here")
	}
	file := escape(name) + rootSuffix
	for i := range all {
		if all[i].v2 {
			r.v2 = r.open(&all[i], file)
		}
	}
	r.assign(all, file)
	r.branches[""] = &Branch{root: r}
	for _, a := range []struct {
		what string
		Ability
	}{{"members", r.Can().Members}, {"memory", r.Can().Memory}, {"cpus", r.Can().CPUs}, {"tasks", r.Can().Tasks}} {
		if a.Err != nil {
			log.Info("found no cgroup", "for", a.what, "why", a.Err)
		} else {
			log.Debug("found a cgroup", "for", a.what, "where", a.Where)
		}
	}
	return r, nil
}

// assign chooses for each controller between v2 and its v1 hierarchy.
func (r *Root) assign(all []hierarchy, file string) {
	v1 := map[int]*place{} // cpu and memory may share one hierarchy, which is opened once
	for c := range controllers {
		err := r.v2.err
		if err == nil {
			if err = r.v2.offer(c); err == nil {
				r.by[c] = r.v2
				continue
			}
		}
		for i := range all {
			if all[i].v2 || !all[i].has(names[c]) {
				continue
			}
			if v1[i] == nil {
				v1[i] = r.open(&all[i], file)
			}
			r.by[c], err = v1[i], nil
			if v1[i].err != nil {
				err = v1[i].err
			}
		}
		if err != nil {
			r.by[c] = &place{err: err}
		}
	}
}

// open makes the daemon's folder in one hierarchy.
func (r *Root) open(h *hierarchy, file string) *place {
	p := &place{v2: h.v2, base: base(h)}
	p.tree = filepath.Join(p.base, file)
	if p.err = p.take(h); p.err != nil {
		p.err = fmt.Errorf("no writable cgroup here (%w)", p.err)
		return p
	}
	r.opened = append(r.opened, p)
	if h.has(names[memory]) {
		// Old kernels do not count what is below a group as the group's unless told so.
		if on, err := number(p.tree, "memory.use_hierarchy"); err == nil && on == 0 {
			p.err = write(p.tree, "memory.use_hierarchy", "1")
		}
	}
	return p
}

// base is the group below which the daemon works. A daemon that moved itself into a leaf (and was then executed anew)
// finds its old base again; one that systemd put into a subgroup of what it delegated (DelegateSubgroup=) works in the
// delegated group, which holds no process.
func base(h *hierarchy) string {
	if !h.v2 || h.path == "/" {
		return h.dir
	}
	parent := filepath.Dir(h.dir)
	if filepath.Base(h.dir) == daemonLeaf && strings.HasSuffix(parent, rootSuffix) {
		return filepath.Dir(parent)
	}
	if delegated(parent) && !delegated(h.dir) {
		return parent
	}
	return h.dir
}

// take sweeps what dead daemons left, makes and holds our folder, and in v2 moves the daemon out of the way.
func (p *place) take(h *hierarchy) error {
	if h.readOnly {
		return fmt.Errorf("%s is mounted read-only", h.dir)
	}
	if err := writable(p.base); err != nil {
		return err
	}
	p.sweep()
	// Another daemon that starts may sweep ours away between mkdir and lock: then it is made again.
	for range 10 {
		if err := os.Mkdir(p.tree, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		f, err := os.Open(p.tree)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := lock(f, false); err != nil {
			f.Close()
			return err
		}
		ours, err1 := f.Stat()
		there, err2 := os.Stat(p.tree)
		if err1 == nil && err2 == nil && os.SameFile(ours, there) {
			p.held = f
			break
		}
		f.Close()
	}
	if p.held == nil {
		return fmt.Errorf("%s vanishes as often as it is made", p.tree)
	}
	if p.v2 && h.dir == p.base && !p.top() {
		return p.moveSelf(h.path == "/")
	}
	return nil
}

// top tells whether the base is the kernel's own first group, which may have both processes and controlled children.
func (p *place) top() bool {
	_, err := os.Stat(filepath.Join(p.base, "cgroup.events"))
	return gone(err)
}

// moveSelf takes the daemon out of its base. At the root of a cgroup namespace (a container) everybody else there is
// taken along: they are the container's init and the like, and nobody else could give us the controllers.
func (p *place) moveSelf(everybody bool) error {
	dir := filepath.Join(p.tree, daemonLeaf)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := write(dir, "cgroup.procs", "0"); err != nil {
		return err
	}
	if !everybody {
		return nil
	}
	for range 10 {
		pids, err := members(p.base)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			// One that is gone, or a kernel thread, stays where it is; offer then says that it was in the way.
			_ = write(dir, "cgroup.procs", fmt.Sprint(pid))
		}
	}
	return nil
}

// offer makes the controller available to the groups in the base, or says why it is not.
func (p *place) offer(c controller) error {
	have, err := words(p.base, "cgroup.controllers")
	if err != nil {
		return err
	}
	if !slices.Contains(have, names[c]) {
		return fmt.Errorf("%s has no %s controller in cgroup.controllers", p.base, names[c])
	}
	if err := enable(p.base, c); err != nil {
		if pids, _ := members(p.base); len(pids) > 0 {
			return fmt.Errorf("other processes share the daemon's cgroup %s (%d of them, as pid %d); start the daemon "+
				"as a service or scope with Delegate=yes: %w", p.base, len(pids), pids[0], err)
		}
		return err
	}
	return enable(p.tree, c)
}

// enable gives the children of dir the controller. Doing so again is no error.
func enable(dir string, c controller) error {
	if have, err := words(dir, "cgroup.subtree_control"); err == nil && slices.Contains(have, names[c]) {
		return nil
	}
	return write(dir, "cgroup.subtree_control", "+"+names[c])
}

// sweep removes the empty groups of daemons that are dead: whoever lives holds its folder's lock.
func (p *place) sweep() {
	entries, err := os.ReadDir(p.base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasSuffix(e.Name(), rootSuffix) {
			continue
		}
		dir := filepath.Join(p.base, e.Name())
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if lock(f, true) == nil {
			clear(dir)
		}
		f.Close()
	}
}

// clear removes the empty leaves below dir, and then dir and its branches where nothing is left. A leaf with processes
// stays as it is, with the empty groups in it: they are the worker's own.
func clear(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		below := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
		case !strings.HasSuffix(e.Name(), leafSuffix):
			clear(below)
		case len(population(below)) == 0:
			_ = prune(below)
		}
	}
	_ = rmdir(dir)
}

// population returns who is in a group or below it.
func population(dir string) []int {
	pids, _ := (&Leaf{v2: dir}).Procs()
	return pids
}

// Can tells what the host lets this daemon do.
func (r *Root) Can() Abilities {
	say := func(p *place) Ability {
		if p.err != nil {
			return Ability{Err: p.err}
		}
		return Ability{Where: p.String()}
	}
	return Abilities{Members: say(r.v2), Memory: say(r.by[memory]), CPUs: say(r.by[cpu]), Tasks: say(r.by[pids])}
}

// need returns where the limits l are enforced, or the first that is not.
func (r *Root) need(l *tree.Limits) ([controllers]bool, error) {
	var need [controllers]bool
	for c := range controllers {
		if value(l, c) == 0 && (c != cpu || l.CPUs == 0) {
			continue
		}
		if err := check(l, c); err != nil {
			return need, err
		}
		if r.by[c].err != nil {
			return need, refuse(l, c, r.by[c].err)
		}
		need[c] = true
	}
	return need, nil
}

// Close removes what is empty and lets go of the rest. Leaves with processes stay and can be reopened by the next daemon;
// so does the leaf of the daemon itself, which the next Open removes. Nothing else of the Root may be used afterwards.
func (r *Root) Close() {
	for _, p := range r.opened {
		clear(p.tree)
		p.held.Close()
	}
	r.opened = nil
}
