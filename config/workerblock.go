package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// maxReplicas bounds one pool, and maxAll all of them together: a slip of the finger must not fill the host.
const (
	maxReplicas = 10_000
	maxAll      = 100_000
)

// workerBlock is a worker block under way: Run is one replica's.
type workerBlock struct {
	tree.Run
	app       *appBlock
	env       map[string]setting
	directory string
	address   string
	ready     readyBlock
	count     int
	after     []named
	enabled   bool
	replace   Replace
	supervise *tree.Supervise
	restart   tree.Restart
	at        places
	readyAt   places
}

func workerTable() schema[workerBlock] {
	t := schema[workerBlock]{name: "worker"}
	t.attrs = append(t.attrs, workerRunAttrs()...)
	t.attrs = append(t.attrs, workerNodeAttrs()...)
	t.subs = workerSubs()
	return t
}

// workerRunAttrs say what a replica's process is.
func workerRunAttrs() []attr[workerBlock] {
	return []attr[workerBlock]{
		{name: "command", form: "argv", class: Restarts, required: true,
			doc: "program and arguments, no shell; looked up in the worker's PATH, a relative path is taken from the app's root",
			set: func(w *workerBlock, v value) { v.argv(&w.Command) }},
		{name: "env", form: "map", standard: `{ }`, class: Restarts, doc: "added to the built environment",
			set: func(w *workerBlock, v value) { w.env = v.environment(w.env) }},
		{name: "directory", form: "folder", class: Restarts, doc: "where it runs; the app's root, from which a relative one is taken",
			set: func(w *workerBlock, v value) { v.filled(&w.directory) }},
		{name: "user", form: "user", class: Restarts, doc: "who it runs as; the tenant's", set: func(w *workerBlock, v value) { v.identity("user", &w.User) }},
		{name: "group", form: "group", class: Restarts, doc: "the tenant's", set: func(w *workerBlock, v value) { v.identity("group", &w.Group) }},
		{name: "listen", form: "word", standard: `"none"`, class: Restarts,
			doc: "unix: own socket path; tcp: a free loopback port; inherit: the daemon listens and passes it as fd 3; none",
			set: func(w *workerBlock, v value) {
				word(v, &w.Listen.Mode, tree.ListenNone, tree.ListenUnix, tree.ListenTCP, tree.ListenInherit)
			}},
		{name: "address", form: "address", class: Restarts, doc: "with listen = \"inherit\": a TCP address instead of a Unix socket",
			set: func(w *workerBlock, v value) { v.address(&w.address) }},
		{name: "watchdog", form: "duration", class: Restarts, doc: "WATCHDOG=1 must come on NOTIFY_SOCKET within it",
			set: func(w *workerBlock, v value) { v.duration(&w.Watchdog, aboveZero) }},
	}
}

// workerNodeAttrs say what the worker is to its siblings, the same for all replicas.
func workerNodeAttrs() []attr[workerBlock] {
	return []attr[workerBlock]{
		{name: "count", form: "count", standard: `1`, class: Live, whole: true, doc: "replicas; more than one makes a pool",
			set: func(w *workerBlock, v value) { v.whole(&w.count, 1, maxReplicas) }},
		{name: "after", form: "names", standard: `[]`, class: Live, whole: true, doc: "workers of the same app that must be ready before it starts",
			set: func(w *workerBlock, v value) { v.names(&w.after) }},
		{name: "enabled", form: "yes or no", standard: `true`, class: Live, whole: true, doc: "false: stopped until an operator starts it",
			set: func(w *workerBlock, v value) { v.truth(&w.enabled) }},
		{name: "replace", form: "word", class: Live, whole: true, doc: "start_first or stop_first; start_first if it listens",
			set: func(w *workerBlock, v value) { word(v, &w.replace, StartFirst, StopFirst) }},
	}
}

func workerSubs() []sub[workerBlock] {
	return []sub[workerBlock]{
		{name: "supervise", doc: "of its pool", whole: true, decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			w.supervise = d.supervisor(&d.pools, s, sc)
		}},
		{name: "restart", doc: "how it is brought back", whole: true, decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			d.restart(&w.restart, s, sc)
		}},
		{name: "ready", doc: "when it counts as up", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			w.readyAt = decode(d, &d.readies, s, &w.ready, sc)
		}},
		{name: "health", doc: "the check that goes on", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			d.health(w, s, sc)
		}},
		{name: "heartbeat", doc: "a file as its pulse", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			b := heartbeatBlock{tree.Heartbeat{Stale: 300 * time.Second}}
			decode(d, &d.heartbeats, s, &b, sc)
			w.Heartbeat = &b.Heartbeat
		}},
		{name: "stop", doc: "how it is asked to leave", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			b := stopBlock{w.Stop}
			decode(d, &d.stops, s, &b, sc)
			w.Stop = b.StopRule
		}},
		{name: "logs", doc: "how its output is kept", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			d.logsBlock(&w.Logs, s, sc)
		}},
		{name: "limits", doc: "what it may use", decode: func(d *decoder, w *workerBlock, s section, sc scope) {
			d.limitsBlock(&w.Limits, s, sc)
		}},
		{name: "scale", doc: "size by load", whole: true},
		{name: "watch", doc: "restart on changed files", whole: true},
	}
}

// identity stores a user or group that exists on this host. Only root can give a process another identity.
func (v value) identity(what string, into *string) {
	var name string
	if !v.filled(&name) {
		return
	}
	lookup := v.d.around.User
	if what == "group" {
		lookup = v.d.around.Group
	}
	if v.d.around.UID != 0 {
		v.fail(what+" needs root", "Coppice runs as a user who cannot become another. Leave "+what+" out, or run Coppice as root.")
		return
	}
	if v.exists(what, name, lookup) {
		*into = name
	}
}

// address stores a TCP address with a port.
func (v value) address(into *string) {
	var text string
	if !v.filled(&text) {
		return
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		v.fail(quoted(text)+" is not an address with a port", "Write \"127.0.0.1:8081\", or \"[::1]:8081\".")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
		v.fail("the port "+quoted(port)+" is out of range", "A port is a number from 1 to 65535.")
		return
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" && host != "" {
		v.fail(quoted(host)+" is not an IP address", "Write \"127.0.0.1:"+port+"\". Names of hosts are not looked up.")
		return
	}
	*into = text
}

// health decodes a health block, which has one kind of check.
func (d *decoder) health(w *workerBlock, s section, sc scope) {
	b := healthBlock{tree.Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3}, "restart"}
	at, before := decode(d, &d.healths, s, &b, sc), d.errors
	b.Unroute = b.then == "unroute"
	kinds := 0
	for _, given := range []bool{b.HTTP != "", len(b.Command) > 0, b.Socket} {
		if given {
			kinds++
		}
	}
	_, http := at["http"]
	_, command := at["command"]
	_, socket := at["socket"]
	const choose = "Write one of http = \"/healthz\", command = [\"/path/of/program\"] and socket = true."
	switch {
	case kinds > 1:
		d.error(here(s.head()), "health has more than one kind of check", choose)
	case kinds == 0 && !http && !command && (!socket || d.errors == before) && !d.damaged[s.head().Filename]:
		d.error(here(s.head()), "health has no check", choose)
	}
	w.Health = &b.Health
	w.at["health"] = here(s.head())
	if p, ok := at["http"]; ok {
		w.at["health.http"] = p
	}
	if p, ok := at["socket"]; ok {
		w.at["health.socket"] = p
	}
	if p, ok := at["command"]; ok {
		w.at["health.command"] = p
	}
}

// worker decodes one replica of a worker and checks what concerns it alone.
func (d *decoder) worker(app *appBlock, s section, index int) *workerBlock {
	w := &workerBlock{Run: tree.DefaultRun(), app: app, env: app.env, count: 1, enabled: true, restart: tree.DefaultRestart(), at: places{}}
	w.Tenant, w.App, w.Worker, w.Index, w.Prefix = app.tenant.name, app.name, s.label, index, d.host.EnvPrefix
	w.User, w.Group, w.Logs, w.Limits = app.tenant.user, app.tenant.group, d.host.logs, app.inherited()
	w.ready.Ready, w.Listen.Mode = w.Ready, ""
	for name, at := range decode(d, &d.workers, s, w, scope{indexed: true, index: index}) {
		w.at[name] = at
	}
	w.Directory = from(app.root, w.directory)
	if w.Heartbeat != nil && w.Heartbeat.File != "" {
		w.Heartbeat.File = from(w.Directory, w.Heartbeat.File)
	}
	d.listening(w, s)
	if w.replace == "" {
		w.replace = StopFirst
		if w.Listen.Mode != tree.ListenNone {
			w.replace = StartFirst
		}
	}
	if w.supervise != nil && w.count == 1 && w.supervise.Intensity != nil {
		d.warning(w.at["supervise"], "supervise has no effect on a single worker", "It is for the pool of a worker with count above 1.")
	}
	w.Env = d.environment(w)
	d.lookAround(w, s)
	for argv := range w.commands(s) {
		fromRoot(w, argv)
	}
	return w
}

// from makes a path absolute from a folder.
func from(folder, path string) string {
	switch {
	case path == "":
		return folder
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(folder, path)
}

// listening checks what depends on how the worker listens.
func (d *decoder) listening(w *workerBlock, s section) {
	_, written := w.at["listen"]
	unclear := written && w.Listen.Mode == "" // said already
	if w.Listen.Mode == "" {
		w.Listen.Mode = tree.ListenNone
	}
	mode := w.Listen.Mode
	w.Ready = w.ready.Ready
	w.Ready.Socket = mode == tree.ListenUnix || mode == tree.ListenTCP
	if w.ready.socket != nil {
		w.Ready.Socket = *w.ready.socket
	}
	const help = "Write listen = \"unix\", \"tcp\" or \"inherit\" in the worker."
	if mode == tree.ListenNone && !unclear {
		head := here(s.head())
		if w.Ready.Socket {
			d.error(w.readyAt.or(head, "socket"), "ready.socket needs a worker that listens", help)
		}
		if w.Ready.HTTP != "" {
			d.error(w.readyAt.or(head, "http"), "ready.http needs a worker that listens", help)
		}
		if w.Health != nil && w.Health.Socket {
			d.error(w.at.or(head, "health.socket"), "health.socket needs a worker that listens", help)
		}
		if w.Health != nil && w.Health.HTTP != "" {
			d.error(w.at.or(head, "health.http"), "health.http needs a worker that listens", help)
		}
	}
	if w.address == "" || unclear {
		return
	}
	at := w.at["address"]
	if mode != tree.ListenInherit {
		d.error(at, "address needs listen = \"inherit\"", "The daemon listens there and passes the socket on. Without it, leave address out.")
		return
	}
	w.Listen.Address = w.address
	if first, taken := d.addresses[w.address]; taken {
		d.error(at, "the address "+quoted(w.address)+" is taken", fmt.Sprintf(
			"Another instance listens there: see %s. For replicas, make it of the number: \"127.0.0.1:${8081 + index}\".", position(first.at)))
		return
	}
	d.addresses[w.address] = at
}
