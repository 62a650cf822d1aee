package config

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/coppice-run/coppice/tree"
)

// tenantBlock and appBlock are those blocks under way.
type tenantBlock struct {
	name        string
	user, group string
	env         map[string]setting
	limits      tree.Limits
	supervise   *tree.Supervise
	restart     tree.Restart
	apps        []section
}

type appBlock struct {
	tenant    *tenantBlock
	name      string
	root      string
	env       map[string]setting
	limits    tree.Limits
	supervise *tree.Supervise
	restart   tree.Restart
	workers   []section
}

// inherited are the rlimits of app and tenant: the kernel has them for each process, so each worker gets them.
func (a *appBlock) inherited() tree.Limits {
	out := rlimits(a.tenant.limits)
	own := rlimits(a.limits)
	if own.OpenFiles != 0 {
		out.OpenFiles = own.OpenFiles
	}
	if own.FileSize != nil {
		out.FileSize = own.FileSize
	}
	if own.Core != nil {
		out.Core = own.Core
	}
	return out
}

func rlimits(l tree.Limits) tree.Limits {
	return tree.Limits{OpenFiles: l.OpenFiles, FileSize: l.FileSize, Core: l.Core}
}

func shared(l tree.Limits) tree.Limits {
	return tree.Limits{Memory: l.Memory, CPUs: l.CPUs, Tasks: l.Tasks}
}

func tenantTable() schema[tenantBlock] {
	return schema[tenantBlock]{name: "tenant", attrs: []attr[tenantBlock]{
		{name: "user", form: "user", class: Restarts, doc: "who its workers run as; needs root",
			set: func(t *tenantBlock, v value) { v.identity("user", &t.user) }},
		{name: "group", form: "group", class: Restarts, doc: "their group; needs root",
			set: func(t *tenantBlock, v value) { v.identity("group", &t.group) }},
		{name: "env", form: "map", standard: `{ }`, class: Restarts, doc: "variables for all its workers",
			set: func(t *tenantBlock, v value) { t.env = v.environment(nil) }},
	}, subs: []sub[tenantBlock]{
		{name: "limits", doc: "what all its workers together may use", decode: func(d *decoder, t *tenantBlock, s section, sc scope) {
			d.limitsBlock(&t.limits, s, sc)
		}},
		{name: "supervise", doc: "the apps' supervisor", decode: func(d *decoder, t *tenantBlock, s section, sc scope) {
			t.supervise = d.supervise(s, sc)
		}},
		{name: "restart", doc: "how it is brought back after it gave up", decode: func(d *decoder, t *tenantBlock, s section, sc scope) {
			d.restart(&t.restart, s, sc)
		}},
		{name: "app", label: "NAME", many: true, doc: "workers that belong together", decode: func(_ *decoder, t *tenantBlock, s section, _ scope) {
			t.apps = append(t.apps, s)
		}},
	}}
}

func appTable() schema[appBlock] {
	return schema[appBlock]{name: "app", attrs: []attr[appBlock]{
		{name: "root", form: "folder", standard: `"/"`, class: Restarts, doc: "working directory of its workers; a relative one is taken from the file's folder",
			set: func(a *appBlock, v value) { v.root(&a.root) }},
		{name: "env", form: "map", standard: `{ }`, class: Restarts, doc: "variables for all its workers",
			set: func(a *appBlock, v value) { a.env = v.environment(a.env) }},
	}, subs: []sub[appBlock]{
		{name: "limits", doc: "what all its workers together may use", decode: func(d *decoder, a *appBlock, s section, sc scope) {
			d.limitsBlock(&a.limits, s, sc)
		}},
		{name: "supervise", doc: "the workers' supervisor", decode: func(d *decoder, a *appBlock, s section, sc scope) {
			a.supervise = d.supervise(s, sc)
		}},
		{name: "restart", doc: "how it is brought back after it gave up", decode: func(d *decoder, a *appBlock, s section, sc scope) {
			d.restart(&a.restart, s, sc)
		}},
		{name: "worker", label: "NAME", many: true, doc: "a process and its replicas", decode: func(_ *decoder, a *appBlock, s section, _ scope) {
			a.workers = append(a.workers, s)
		}},
		{name: "schedule", label: "NAME", many: true, doc: "a command that runs at times"},
		{name: "route", many: true, doc: "requests for a worker"},
	}}
}

// root stores a folder, made absolute from the folder of the file in which it is written.
func (v value) root(into *string) {
	var path string
	if !v.filled(&path) {
		return
	}
	if !filepath.IsAbs(path) {
		folder, err := filepath.Abs(filepath.Dir(v.expr.Range().Filename))
		if err != nil {
			v.fail("root cannot be made absolute: "+causeOf(err).Error(), "Write an absolute path.")
			return
		}
		path = filepath.Join(folder, path)
	}
	*into = filepath.Clean(path)
}

// root sorts the blocks at the top of all files, and unites those of one tenant.
func (d *decoder) root(bodies []*hclsyntax.Body) root {
	var r root
	words := d.top.vocabulary()
	tenant := func(name string) *section {
		i := slices.IndexFunc(r.tenants, func(s *section) bool { return s.label == name })
		if i < 0 {
			i = len(r.tenants)
			r.tenants = append(r.tenants, &section{kind: "tenant", label: name})
		}
		return r.tenants[i]
	}
	for _, body := range bodies {
		_, blocks := d.contents(section{bodies: []*hclsyntax.Body{body}}, words, places{})
		r.host = append(r.host, blocks["host"]...)
		r.locals = append(r.locals, blocks["locals"]...)
		named := append(slices.Clone(blocks["tenant"]), blocks["app"]...)
		slices.SortStableFunc(named, func(a, b *hclsyntax.Block) int { return a.TypeRange.Start.Byte - b.TypeRange.Start.Byte })
		for _, b := range named {
			if b.Type == "tenant" {
				tenant(b.Labels[0]).add(b)
				continue
			}
			s := tenant("default") // as if the app were written there
			s.heads = append(s.heads, b.DefRange())
			s.bodies = append(s.bodies, &hclsyntax.Body{Blocks: hclsyntax.Blocks{b}, SrcRange: body.SrcRange, EndRange: body.EndRange})
		}
	}
	return r
}

// build makes the tree.
func (d *decoder) build(r root) tree.Spec {
	spec := tree.Spec{Kind: tree.KindHost, Supervise: d.host.supervise}
	for _, s := range r.tenants {
		spec.Children = append(spec.Children, d.tenant(*s))
	}
	return spec
}

func (d *decoder) tenant(s section) tree.Spec {
	t := tenantBlock{name: s.label, supervise: together(), restart: tree.DefaultRestart()}
	decode(d, &d.tenants, s, &t, scope{outside: "a tenant"})
	spec := tree.Spec{Name: t.name, Kind: tree.KindTenant, Restart: t.restart, Supervise: t.supervise, Limits: shared(t.limits)}
	if t.user != "" {
		d.owners[t.name] = t.user
	}
	first := map[string]section{}
	for _, app := range t.apps {
		if other, ok := first[app.label]; ok {
			d.twice(app.head(), app.title()+" of "+s.title(), other.head())
			continue
		}
		first[app.label] = app
		spec.Children = append(spec.Children, d.app(&t, app))
	}
	return spec
}

func together() *tree.Supervise {
	return &tree.Supervise{Strategy: tree.OneForOne, Start: tree.Together}
}

func (d *decoder) app(t *tenantBlock, s section) tree.Spec {
	a := appBlock{tenant: t, name: s.label, root: "/", env: t.env, supervise: together(), restart: tree.DefaultRestart()}
	decode(d, &d.apps, s, &a, scope{outside: "an app"})
	spec := tree.Spec{Name: a.name, Kind: tree.KindApp, Restart: a.restart, Supervise: a.supervise, Limits: shared(a.limits)}
	first := map[string]section{}
	var workers []*workerBlock
	for _, w := range a.workers {
		if other, ok := first[w.label]; ok {
			d.twice(w.head(), w.title()+" of "+s.title(), other.head())
			continue
		}
		first[w.label] = w
		block := d.worker(&a, w, 0)
		workers = append(workers, block)
		spec.Children = append(spec.Children, d.node(&a, w, block))
	}
	d.afters(&spec, s.head().Filename, workers)
	return spec
}

// node makes a worker's node: a leaf, or a pool of them.
func (d *decoder) node(a *appBlock, s section, w *workerBlock) tree.Spec {
	path := a.tenant.name + "/" + a.name + "/" + s.label
	d.replace[path] = w.replace
	d.replicas += w.count
	if d.replicas > maxAll {
		d.error(w.at.or(here(s.head()), "count"), "there are more than "+strconv.Itoa(maxAll)+" workers", "Write a smaller count.")
		return tree.Spec{Name: s.label, Kind: tree.KindWorker}
	}
	if w.count == 1 {
		leaf := d.leaf(w)
		leaf.Disabled = !w.enabled
		return leaf
	}
	pool := tree.Spec{Name: s.label, Kind: tree.KindPool, Disabled: !w.enabled, Restart: w.restart, Supervise: together()}
	pool.Supervise.Quorum = 1
	if w.supervise != nil {
		pool.Supervise.Intensity = w.supervise.Intensity
	}
	pool.Children = d.replicasOf(a, s, w)
	return pool
}

// replicasOf makes the leaves of a pool. Only a block that mentions index is evaluated for each; else they share what
// nobody changes.
func (d *decoder) replicasOf(a *appBlock, s section, w *workerBlock) []tree.Spec {
	leaves := append(make([]tree.Spec, 0, w.count), d.leaf(w))
	differ := mentionsIndex(s) || w.address != ""
	before := d.errors
	for i := 1; i < w.count && d.errors == before; i++ {
		if differ {
			leaves = append(leaves, d.leaf(d.worker(a, s, i)))
			continue
		}
		same := *w
		same.Index = i
		leaves = append(leaves, d.leaf(&same))
	}
	return leaves
}

func (d *decoder) leaf(w *workerBlock) tree.Spec {
	run := w.Run
	return tree.Spec{Name: w.Worker + "." + strconv.Itoa(w.Index), Kind: tree.KindWorker, Restart: w.restart, Run: &run}
}
