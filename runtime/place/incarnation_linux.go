package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coppice-run/coppice/runtime/lock"
	"github.com/coppice-run/coppice/tree"
	"golang.org/x/sys/unix"
)

// Incarnation is the place of one incarnation: its socket or port, and its folder. It belongs to one goroutine at a time.
type Incarnation struct {
	dir      *Dir
	path     string
	run      *tree.Run
	uid, gid int
	socket   string
	port     int
	folder   string // "": not made
	note     *Note  // nil: none yet
}

// Incarnation prepares the place of one incarnation of the worker at path, which runs as uid and gid: a stale socket is
// removed, a free port is found, and the folder is made where the specification needs one.
func (d *Dir) Incarnation(path string, inc int, run *tree.Run, uid, gid int) (*Incarnation, error) {
	in := &Incarnation{dir: d, path: path, run: run, uid: uid, gid: gid}
	var err error
	switch {
	case run.Listen.Mode == tree.ListenUnix:
		in.socket = d.socket(path, inc, run)
		err = lock.ReplaceSocket(in.socket)
	case run.Listen.Mode == tree.ListenInherit && run.Listen.Address == "":
		in.socket = d.socket(path, inc, run)
	case run.Listen.Mode == tree.ListenTCP:
		in.port, err = d.freePort()
	}
	if err != nil {
		return nil, err
	}
	heartbeat := run.Heartbeat != nil && run.Heartbeat.File == ""
	if run.Stop.File || heartbeat || run.Ready.Notify || run.Watchdog > 0 {
		name := d.digest("folder", path, strconv.Itoa(inc)) + "-" + strconv.Itoa(run.Index)
		if in.folder, err = in.makeFolder(name); err != nil {
			in.Remove()
			return nil, err
		}
	}
	return in, nil
}

// makeFolder makes the incarnation's own folder. It is new, so nothing of an earlier one is in it.
func (in *Incarnation) makeFolder(name string) (string, error) {
	path := in.dir.in("i", name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the incarnation's folder: %w", err)
	}
	if in.uid != os.Geteuid() || in.gid != os.Getegid() {
		if err := os.Lchown(path, in.uid, in.gid); err != nil {
			return path, fmt.Errorf("cannot give the incarnation's folder to its user: %w", err)
		}
	}
	return path, nil
}

// Socket is the worker's Unix socket; "" without one. Port is its loopback port; 0 without one.
func (in *Incarnation) Socket() string { return in.socket }

// Port is the worker's loopback port; 0 without one.
func (in *Incarnation) Port() int { return in.port }

// Listener is the socket that the daemon listens on for the worker, the same over all its incarnations. The caller closes
// the file.
func (in *Incarnation) Listener() (*os.File, error) {
	return in.dir.listener(in.path, in.socket, in.uid, in.gid, in.run)
}

// Folder is the incarnation's own folder; "" if the specification needs none.
func (in *Incarnation) Folder() string { return in.folder }

// StopFile, HeartbeatFile and NotifySocket lie in the folder.
func (in *Incarnation) StopFile() string { return in.file("stop") }

// HeartbeatFile is where the worker's pulse is seen unless its specification names another file.
func (in *Incarnation) HeartbeatFile() string { return in.file("heartbeat") }

// NotifySocket is where the worker reports.
func (in *Incarnation) NotifySocket() string { return in.file("notify") }

func (in *Incarnation) file(name string) string {
	if in.folder == "" {
		return ""
	}
	return filepath.Join(in.folder, name)
}

// WriteStopFile makes the stop file, with the reason in it. The folder is the worker's: what it has put in the file's place
// is neither followed nor written to.
func (in *Incarnation) WriteStopFile(reason string) error {
	dir, err := unix.Open(in.folder, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", in.folder, err)
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, "stop", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == unix.EEXIST {
		return nil // whatever it is, the worker can see that it is there
	}
	if err != nil {
		return fmt.Errorf("cannot make %s: %w", in.StopFile(), err)
	}
	f := os.NewFile(uintptr(fd), in.StopFile())
	defer f.Close()
	_, err = f.WriteString(reason + "\n")
	return err
}

// Remove takes back what the incarnation had, when nothing of it runs any more.
func (in *Incarnation) Remove() {
	if in.run.Listen.Mode == tree.ListenUnix && in.socket != "" {
		os.Remove(in.socket) // the worker's own end may have done it
	}
	if in.port != 0 {
		in.dir.mu.Lock()
		delete(in.dir.ports, in.port)
		in.dir.mu.Unlock()
	}
	if in.folder != "" {
		_ = removeTree(in.folder, removePatience) // what is left then is the next daemon's to sweep
	}
	if in.note != nil {
		in.note.Remove()
	}
}
