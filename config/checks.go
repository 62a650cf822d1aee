package config

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-run/coppice/tree"
)

// afters checks who waits for whom in an app, and writes it into the tree: under the names that siblings have there.
func (d *decoder) afters(app *tree.Spec, file string, workers []*workerBlock) {
	order := map[string]int{}
	for i, w := range workers {
		order[w.Worker] = i
	}
	names := slices.Sorted(maps.Keys(order))
	edges := map[string][]named{}
	for i, w := range workers {
		for _, a := range w.after {
			at, known := order[a.text]
			switch {
			case a.text == w.Worker:
				d.error(a.at, "worker "+quoted(w.Worker)+" comes after itself", "Leave it out of after.")
			case !known && d.damaged[file]:
			case !known:
				help := "There is no other worker in this app."
				if len(names) > 1 {
					help = guess(a.text, names) + "Workers of this app: " + strings.Join(names, ", ") + "."
				}
				d.error(a.at, "there is no worker "+quoted(a.text)+" in app "+quoted(app.Name), help)
			case app.Supervise.StartOr() == tree.Ordered && at > i:
				d.error(a.at, "worker "+quoted(w.Worker)+" comes after a later worker of an ordered app",
					"The app starts its workers in the order of declaration. Move "+quoted(a.text)+" above "+quoted(w.Worker)+", or write start = \"together\" in supervise.")
			default:
				edges[w.Worker] = append(edges[w.Worker], a)
				app.Children[i].After = append(app.Children[i].After, app.Children[at].Name)
			}
		}
		slices.Sort(app.Children[i].After)
	}
	d.circles(workers, edges)
}

func (d *decoder) anyDamaged() bool {
	for _, damaged := range d.damaged {
		if damaged {
			return true
		}
	}
	return false
}

// circles reports every circle of after once, at the first worker of it in the order of declaration.
func (d *decoder) circles(workers []*workerBlock, edges map[string][]named) {
	const (
		fresh = iota
		open
		closed
	)
	state := map[string]int{}
	type step struct {
		name string
		next int
	}
	for _, w := range workers {
		if state[w.Worker] != fresh {
			continue
		}
		state[w.Worker] = open
		for path := []step{{name: w.Worker}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(edges[top.name]) {
				state[top.name] = closed
				path = path[:len(path)-1]
				continue
			}
			a := edges[top.name][top.next]
			top.next++
			switch state[a.text] {
			case fresh:
				state[a.text] = open
				path = append(path, step{name: a.text})
			case open:
				start := slices.IndexFunc(path, func(s step) bool { return s.name == a.text })
				var words []string
				for _, s := range path[start:] {
					words = append(words, s.name)
				}
				d.error(a.at, "after goes in a circle: "+strings.Join(append(words, a.text), " -> "), "None of them could ever start. Leave one of them out of after.")
			}
		}
	}
}

// listener is a worker with a socket in runtime_dir.
type listener struct {
	at    place
	index int
}

// The kernel takes 107 bytes and a NUL as the path of a socket.
const maxSocketPath = 107

// checkSocketPaths refuses a runtime_dir in which a worker's socket would have too long a name:
// RUNTIME_DIR/s/<16 hex>-<n>.sock.
func (d *decoder) checkSocketPaths() {
	for _, l := range d.listeners {
		length := len(d.host.RuntimeDir) + len("/s/") + 16 + len("-") + len(strconv.Itoa(l.index)) + len(".sock")
		if length > maxSocketPath {
			d.error(d.host.at.or(l.at, "runtime_dir"), "runtime_dir is too long for the sockets of workers",
				"A socket's path would have "+strconv.Itoa(length)+" bytes, and the kernel takes "+strconv.Itoa(maxSocketPath)+". Write a shorter runtime_dir in the host block.")
			return
		}
	}
}

// environment makes the variables of a replica out of those of tenant, app and worker, and refuses those that Coppice
// sets itself.
func (d *decoder) environment(w *workerBlock) map[string]string {
	if w.Listen.Mode == tree.ListenUnix || w.Listen.Mode == tree.ListenInherit && w.Listen.Address == "" {
		d.listeners = append(d.listeners, listener{at: w.at.or(place{}, "listen"), index: max(w.Index, w.count-1)})
	}
	if len(w.env) == 0 {
		return nil
	}
	taken := reserved(w)
	out := make(map[string]string, len(w.env))
	for name, s := range w.env {
		if why, ok := taken[name]; ok {
			d.error(s.at, "Coppice sets "+name+" itself", "Worker "+quoted(w.Worker)+" gets it "+why+". Choose another name.")
		}
		out[name] = s.text
	}
	return out
}

// reserved are the variables that Coppice sets for a worker, with the reason.
func reserved(w *workerBlock) map[string]string {
	names := map[string]string{}
	prefixed := func(why string, suffixes ...string) {
		for _, s := range suffixes {
			names[w.Prefix+"_"+s] = why
		}
	}
	prefixed("as every worker does", "TENANT", "APP", "WORKER", "INDEX", "PATH", "INCARNATION")
	mode := "for listen = " + quoted(string(w.Listen.Mode))
	switch w.Listen.Mode {
	case tree.ListenUnix:
		prefixed(mode, "SOCKET")
		names["PORT"] = mode
	case tree.ListenTCP:
		names["PORT"] = mode
	case tree.ListenInherit:
		if w.Listen.Address == "" {
			prefixed(mode, "SOCKET")
		}
		names["LISTEN_FDS"], names["LISTEN_PID"], names["LISTEN_FDNAMES"] = mode, mode, mode
	}
	if w.Stop.File {
		prefixed("for stop.file", "STOP_FILE")
	}
	if w.Heartbeat != nil {
		prefixed("for its heartbeat", "HEARTBEAT_FILE")
	}
	if w.Ready.Notify {
		names["NOTIFY_SOCKET"] = "for ready.notify"
	}
	if w.Watchdog != 0 {
		names["NOTIFY_SOCKET"], names["WATCHDOG_USEC"] = "for its watchdog", "for its watchdog"
	}
	return names
}

// workerPath is the PATH of a worker that sets none itself.
const workerPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookAround warns of programs and folders that are not there now. They may be by the time the worker starts, so it is
// no error.
func (d *decoder) lookAround(w *workerBlock, s section) {
	if d.around.Stat == nil {
		return
	}
	head := here(s.head())
	if why := d.look(w.Directory, true); why != "" {
		d.warning(w.at.or(head, "directory"), "the folder "+w.Directory+" "+why, "The worker cannot start until it is there.")
	}
	for argv, at := range w.commands(s) {
		d.lookFor(w, argv, at)
	}
}

// commands are all programs of a worker, with where they are written.
func (w *workerBlock) commands(s section) func(func([]string, place) bool) {
	head := here(s.head())
	return func(yield func([]string, place) bool) {
		if !yield(w.Command, w.at.or(head, "command")) || !yield(w.Ready.Command, w.readyAt.or(head, "command")) {
			return
		}
		if w.Health != nil {
			yield(w.Health.Command, w.at.or(head, "health.command"))
		}
	}
}

// fromRoot makes the program of a command absolute if it is a relative path and the worker runs elsewhere than in the
// app's root, from which such a path is taken: a run knows only where it runs.
func fromRoot(w *workerBlock, argv []string) {
	if len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) && w.Directory != w.app.root {
		argv[0] = filepath.Join(w.app.root, argv[0])
	}
}

// lookFor warns if a command's program is not found where the worker would find it.
func (d *decoder) lookFor(w *workerBlock, argv []string, at place) {
	if len(argv) == 0 {
		return
	}
	program, search := argv[0], workerPath
	if own, ok := w.Env["PATH"]; ok {
		search = own
	}
	if strings.Contains(program, "/") {
		if why := d.look(from(w.app.root, program), false); why != "" {
			d.warning(at, "the program "+from(w.app.root, program)+" "+why, "The worker cannot start until it is there.")
		}
		return
	}
	for _, dir := range filepath.SplitList(search) {
		if d.look(from(w.app.root, filepath.Join(dir, program)), false) == "" {
			return
		}
	}
	d.warning(at, "the program "+quoted(program)+" is not found in PATH", "PATH is "+search+". Write the whole path of the program, or set PATH in env.")
}

// look says in a few words what is wrong with a program or folder, "" for nothing.
func (d *decoder) look(path string, folder bool) string {
	key := "program " + path
	if folder {
		key = "folder " + path
	}
	if why, known := d.looks[key]; known {
		return why
	}
	why := ""
	stat, err := d.around.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "is missing"
	case err != nil:
		why = "cannot be looked at: " + causeOf(err).Error()
	case folder && !stat.IsDir():
		why = "is not a folder"
	case !folder && stat.IsDir():
		why = "is a folder"
	case !folder && stat.Mode()&0o111 == 0:
		why = "is not executable"
	}
	d.looks[key] = why
	return why
}
