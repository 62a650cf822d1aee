package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/coppice-run/coppice/tree"
)

// root is what stands at the top of the files: all of them together.
type root struct {
	host    []*hclsyntax.Block
	locals  []*hclsyntax.Block
	tenants []*section // in order of first appearance; "default" holds the bare apps
}

func topTable() schema[root] {
	return schema[root]{subs: []sub[root]{
		{name: "host", doc: "the daemon and its host"},
		{name: "locals", doc: "values with a name", many: true},
		{name: "tenant", label: "NAME", doc: "apps of one owner", many: true},
		{name: "app", label: "NAME", doc: "an app of the tenant \"default\"", many: true},
	}}
}

// hostBlock is the host block with the places of what it says.
type hostBlock struct {
	Host
	supervise *tree.Supervise
	logs      tree.Logs
	at        places
}

func hostTable() schema[hostBlock] {
	return schema[hostBlock]{name: "host", attrs: []attr[hostBlock]{
		{name: "runtime_dir", form: "folder", standard: `"/run/coppice"`, class: Restarts,
			doc: "sockets and live handles; lost at reboot. Not as root: $XDG_RUNTIME_DIR/coppice, else /tmp/coppice-UID",
			set: func(h *hostBlock, v value) { v.folder(&h.RuntimeDir) }},
		{name: "state_dir", form: "folder", standard: `"/var/lib/coppice"`, class: Restarts,
			doc: "intents, journal and history. Not as root: ~/.local/state/coppice",
			set: func(h *hostBlock, v value) { v.folder(&h.StateDir) }},
		{name: "env_prefix", form: "text", standard: `"COPPICE"`, class: Restarts,
			doc: "prefix of the variables that workers get", set: func(h *hostBlock, v value) { v.prefix(&h.EnvPrefix) }},
		{name: "log_level", form: "word", standard: `"info"`, class: Live, doc: "of the daemon's log: trace, debug, info, warn or error",
			set: func(h *hostBlock, v value) { word(v, &h.LogLevel, "trace", "debug", "info", "warn", "error") }},
		{name: "log_format", form: "word", standard: `"text"`, class: Live, doc: "of the daemon's log: text or json",
			set: func(h *hostBlock, v value) { word(v, &h.LogFormat, "text", "json") }},
		{name: "drain_timeout", form: "duration", standard: `"90s"`, class: Live,
			doc: "longest that stopping the whole host may take: what is left then is killed",
			set: func(h *hostBlock, v value) { v.duration(&h.DrainTimeout, aboveZero) }},
		{name: "on_daemon_loss", form: "word", standard: `"keep"`, class: Restarts,
			doc: "what becomes of workers if the daemon dies: keep (the next one adopts them) or stop",
			set: func(h *hostBlock, v value) { word(v, &h.OnDaemonLoss, "keep", "stop") }},
	}, subs: []sub[hostBlock]{
		{name: "supervise", doc: "the tenants' supervisor", decode: func(d *decoder, h *hostBlock, s section, sc scope) {
			h.supervise = d.supervise(s, sc)
		}},
		{name: "logs", doc: "defaults for the output of all workers", decode: func(d *decoder, h *hostBlock, s section, sc scope) {
			d.logsBlock(&h.logs, s, sc)
		}},
		{name: "control", doc: "who may reach the API", decode: func(d *decoder, h *hostBlock, s section, sc scope) {
			decode(d, &d.controls, s, &h.Control, sc)
		}},
		{name: "gateway", doc: "the HTTP front"},
	}}
}

func controlTable() schema[Control] {
	return schema[Control]{name: "control", attrs: []attr[Control]{
		{name: "http", form: "address", class: Restarts, set: func(_ *Control, v value) {
			v.d.error(v.at, "control.http is not supported yet", "This version of Coppice is reached over its Unix socket only. Leave http out.")
		}},
		{name: "group", form: "group", class: Live, doc: "a group whose members may do all", set: func(c *Control, v value) {
			if v.filled(&c.Group) {
				v.exists("group", c.Group, v.d.around.Group)
			}
		}},
	}}
}

// decodeHost fills the defaults in, and what the host block says on top.
func (d *decoder) decodeHost(blocks []*hclsyntax.Block) {
	h := &d.host
	h.Host = Host{RuntimeDir: "/run/coppice", StateDir: "/var/lib/coppice", EnvPrefix: "COPPICE", LogLevel: "info",
		LogFormat: "text", DrainTimeout: 90 * time.Second, OnDaemonLoss: "keep"}
	h.supervise = &tree.Supervise{Strategy: tree.OneForOne, Start: tree.Together}
	h.logs = tree.DefaultRun().Logs
	if d.around.UID != 0 {
		d.ownFolders(h)
	}
	for _, s := range unite(d, "host", false, blocks) {
		h.at = decode(d, &d.hosts, s, h, scope{})
	}
}

// ownFolders are the defaults of a daemon that is not root's.
func (d *decoder) ownFolders(h *hostBlock) {
	h.RuntimeDir = fmt.Sprintf("/tmp/coppice-%d", d.around.UID)
	if d.around.Env != nil {
		if dir, ok := d.around.Env("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) {
			h.RuntimeDir = filepath.Join(dir, "coppice")
		}
	}
	h.StateDir = filepath.Join(h.RuntimeDir, "state") // of a user without a home
	if filepath.IsAbs(d.around.Home) {
		h.StateDir = filepath.Join(d.around.Home, ".local/state/coppice")
	}
}

// folder stores an absolute path.
func (v value) folder(into *string) bool {
	var path string
	if !v.filled(&path) {
		return false
	}
	if !filepath.IsAbs(path) {
		v.fail(v.name+" must be an absolute path", "Write a path that starts with \"/\".")
		return false
	}
	*into = filepath.Clean(path)
	return true
}

func (v value) prefix(into *string) {
	var prefix string
	if !v.filled(&prefix) {
		return
	}
	for i := range len(prefix) {
		c := prefix[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			v.fail(quoted(prefix)+" cannot start the name of a variable", "Write letters, digits and \"_\", no digit first: \"COPPICE\".")
			return
		}
	}
	*into = prefix
}

// exists asks the host whether it knows a user or a group.
func (v value) exists(what, name string, lookup func(string) error) bool {
	if lookup == nil {
		return true
	}
	key := what + " " + name
	if _, known := v.d.looked[key]; !known {
		v.d.looked[key] = lookup(name)
	}
	if v.d.looked[key] == nil {
		return true
	}
	v.fail("there is no "+what+" "+quoted(name)+" on this host", "Create it first, or name one that exists.")
	return false
}
