package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/coppice-run/coppice/tree"
)

// Config is a configuration that can be run.
type Config struct {
	Host    Host
	Tree    tree.Spec          // of KindHost: tenants, in them apps, in them workers and pools
	Replace map[string]Replace // how each worker is replaced, by its path without the replica's number
	Owners  map[string]string  // the user of each tenant that has one of its own, by the tenant's name
	Files   []string           // that it was read from, absolute
	Hash    string             // of what the files mean: the same for another order, other comments, or a default written out
}

// Host is the host block, with the defaults filled in.
type Host struct {
	RuntimeDir   string
	StateDir     string
	EnvPrefix    string
	LogLevel     string // "trace", "debug", "info", "warn" or "error"
	LogFormat    string // "text" or "json"
	DrainTimeout time.Duration
	OnDaemonLoss string // "keep" or "stop"
	Control      Control
	Gateway      Gateway
}

// Control is who may reach the API beside the Unix socket's owner.
type Control struct {
	HTTP  string // the TCP address, "" for none
	Group string // whose members may do all, "" for none
}

// Gateway is the HTTP front. No address: it is off.
type Gateway struct {
	Listen []string
}

// Replace is how reload and restart bring a changed worker in.
type Replace string

// The ways to replace a worker.
const (
	StartFirst Replace = "start_first"
	StopFirst  Replace = "stop_first"
)

// Load reads the configuration at path, a file or a folder, and says everything that is wrong with it. The Config is nil
// exactly if there is an error among the diagnostics. It reads files, and asks around for nothing but what a
// Surroundings has.
func Load(path string, around Surroundings) (config *Config, diags Diagnostics) {
	defer func() {
		// The parser is not ours. A file that breaks it must not take a daemon with it that runs on an older one.
		if failure := recover(); failure != nil {
			r := newReport()
			r.fileError(path, fmt.Sprintf("cannot understand this configuration: %v", failure), "This is a mistake in Coppice. Please report it.")
			config, diags = nil, r.done()
		}
	}()
	d := newDecoder(around)
	files := d.files(path)
	var bodies []*hclsyntax.Body
	for _, f := range files {
		if body := d.parse(f); body != nil {
			bodies = append(bodies, body)
		}
	}
	return d.load(path, files, bodies)
}

// decoder is one load under way.
type decoder struct {
	*report
	language
	around      Surroundings
	damaged     map[string]bool // files with syntax errors: what seems to be missing in them may be there
	locals      map[string]*local
	localNames  []string
	reading     []string // the chain of locals being evaluated
	functionsOf map[string]map[string]function.Function
	host        hostBlock
	replicas    int
	addresses   map[string]place
	looked      map[string]error  // users and groups that were asked for
	looks       map[string]string // programs and folders that were looked for, with what is wrong
	replace     map[string]Replace
	owners      map[string]string
	listeners   []listener
}

func newDecoder(around Surroundings) *decoder {
	return &decoder{
		report: newReport(), language: newLanguage(), around: around, damaged: map[string]bool{},
		functionsOf: map[string]map[string]function.Function{}, addresses: map[string]place{},
		looked: map[string]error{}, looks: map[string]string{}, replace: map[string]Replace{}, owners: map[string]string{},
	}
}

// load decodes what was parsed.
func (d *decoder) load(path string, files []string, bodies []*hclsyntax.Body) (*Config, Diagnostics) {
	root := d.root(bodies)
	d.collectLocals(root.locals)
	d.evaluateLocals()
	d.decodeHost(root.host)
	spec := d.build(root)
	d.nothingToRun(path, files, &spec)
	d.checkSocketPaths()
	diags := d.done()
	if diags.HasErrors() {
		return nil, diags
	}
	config := &Config{Host: d.host.Host, Tree: spec, Replace: d.replace, Owners: d.owners}
	for _, f := range files {
		if abs, err := filepath.Abs(f); err == nil {
			f = abs
		}
		config.Files = append(config.Files, f)
	}
	config.Hash = config.hash()
	return config, diags
}

// nothingToRun refuses a configuration without a worker: it would read as "stop everything", which nobody says by
// leaving something out.
func (d *decoder) nothingToRun(path string, files []string, spec *tree.Spec) {
	if d.errors > 0 {
		return
	}
	for i := range spec.Children {
		for j := range spec.Children[i].Children {
			if len(spec.Children[i].Children[j].Children) > 0 {
				return
			}
		}
	}
	if len(files) == 1 {
		path = files[0]
	}
	d.fileError(path, "nothing to run: there is no app with a worker", "Write app \"NAME\" { … } with worker \"NAME\" { … } in it.")
}
