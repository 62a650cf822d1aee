package place

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/runtime/lock"
	"github.com/coppice-run/coppice/tree"
	"golang.org/x/sys/unix"
)

// longest is what fits a Unix socket's address beside its final zero.
const longest = 107

// Dir is the runtime directory of one daemon, which holds its lock. Its methods may be called by any goroutine.
type Dir struct {
	path   string
	secret []byte
	boot   string // the kernel's boot id

	mu        sync.Mutex
	listeners map[string]net.Listener // of listen = "inherit", by path in the tree: they outlive incarnations
	ports     map[int]bool            // given to an incarnation that lives
}

// Open makes the folders below the runtime directory, which exists and belongs to the daemon. The caller holds the
// directory's lock.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path, listeners: map[string]net.Listener{}, ports: map[int]bool{}}
	sockets := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		sockets = 0o733 | fs.ModeSticky
	}
	for _, f := range []struct {
		name string
		mode fs.FileMode
	}{{"s", sockets}, {"i", 0o711}, {"r", 0o700}} {
		if err := makeFolder(d.in(f.name), f.mode); err != nil {
			return nil, err
		}
	}
	var err error
	if d.boot, err = bootID(); err != nil {
		return nil, err
	}
	d.secret, err = readSecret(d.in("secret"))
	return d, err
}

func (d *Dir) in(names ...string) string { return filepath.Join(append([]string{d.path}, names...)...) }

// makeFolder makes a folder with exactly this mode, or takes the one that is there if it is the daemon's own.
func makeFolder(path string, mode fs.FileMode) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		err = os.Chmod(path, 0o700) // a umask may have left not even us in
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", path, err)
	}
	folder := os.NewFile(uintptr(fd), path)
	defer folder.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("cannot use %s: it belongs to user %d", path, st.Uid)
	}
	if err := folder.Chmod(mode); err != nil {
		return fmt.Errorf("cannot use %s: %w", path, err)
	}
	return nil
}

// readSecret returns the key of this runtime directory's names, and makes it the first time.
func readSecret(path string) ([]byte, error) {
	const size = 32
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("cannot use %s: it must belong to the daemon and be readable by nobody else", path)
	}
	secret := make([]byte, size)
	if n, _ := f.ReadAt(secret, 0); n == size {
		return secret, nil
	}
	rand.Read(secret) // it never fails
	if _, err := f.WriteAt(secret, 0); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", path, err)
	}
	return secret, nil
}

// Name is one that no other runtime directory has and that stays the same over restarts of the daemon.
func (d *Dir) Name() string { return "coppice-" + d.digest("name")[:8] }

func (d *Dir) digest(parts ...string) string {
	h := hmac.New(sha256.New, d.secret)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// socket is where an incarnation's socket is.
func (d *Dir) socket(path string, inc int, run *tree.Run) string {
	digits := ""
	if run.Listen.Mode == tree.ListenInherit {
		digits = d.digest("inherit", path)
	} else {
		spec, err := json.Marshal(run)
		if err != nil {
			panic(err) // a Run is plain data
		}
		digits = d.digest("socket", path, string(spec), strconv.Itoa(inc))
	}
	return d.in("s", digits+"-"+strconv.Itoa(run.Index)+".sock")
}

// Check tells whether every worker's socket fits an address, so that a directory that is too long is refused before
// anything starts.
func (d *Dir) Check(root *tree.Spec) error {
	var check func(path string, spec *tree.Spec) error
	check = func(path string, spec *tree.Spec) error {
		if spec.Run != nil && (spec.Run.Listen.Mode == tree.ListenUnix || spec.Run.Listen.Mode == tree.ListenInherit) {
			if s := d.socket(path, 1, spec.Run); len(s) > longest {
				return fmt.Errorf("%s: cannot listen on %s: a socket's path has at most %d bytes, this one has %d: choose a shorter runtime_dir",
					path, s, longest, len(s))
			}
		}
		for i := range spec.Children {
			if err := check(tree.ChildPath(path, spec.Kind, spec.Children[i].Name), &spec.Children[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return check("", root)
}

// socketName is the name of a worker's socket.
var socketName = regexp.MustCompile(`^[0-9a-f]{16}-[0-9]+\.sock$`)

// Sweep removes what a dead daemon left of incarnations, and the workers' sockets on which nobody listens any more. Call
// it when nothing of a dead daemon runs, and before anything is started. What is no socket stays beside them: it is not
// of our making.
func (d *Dir) Sweep() error {
	if err := d.sweepFolders(); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.in("s"))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", d.in("s"), err)
	}
	for _, e := range entries {
		if e.Type() == fs.ModeSocket && socketName.MatchString(e.Name()) {
			// One that somebody listens on is found in the way by the worker whose socket it is, if it ever is.
			_ = lock.ReplaceSocket(d.in("s", e.Name()))
		}
	}
	return nil
}

// sweepFolders removes the folders of incarnations. One that cannot be removed gets a name that is in nobody's way: what a
// worker made must not keep the daemon from starting.
func (d *Dir) sweepFolders() error {
	entries, err := os.ReadDir(d.in("i"))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", d.in("i"), err)
	}
	until := time.Now().Add(removePatience)
	for _, e := range entries {
		if removeTree(d.in("i", e.Name()), time.Until(until)) == nil || strings.HasPrefix(e.Name(), "left-") {
			continue
		}
		if err := os.Rename(d.in("i", e.Name()), d.in("i", "left-"+rand.Text())); err != nil {
			return fmt.Errorf("cannot move what a dead daemon left: %w", err)
		}
	}
	return nil
}

// Close ends the listeners that workers inherited and removes their sockets.
func (d *Dir) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, l := range d.listeners {
		l.Close()
		delete(d.listeners, path)
	}
}

// listener returns the socket that the daemon listens on for a worker, and makes it the first time.
func (d *Dir) listener(path, socket string, uid, gid int, run *tree.Run) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.listeners[path]
	if l == nil {
		var err error
		if run.Listen.Address != "" {
			l, err = net.Listen("tcp", run.Listen.Address)
		} else {
			l, err = listenFor(socket, uid, gid)
		}
		if err != nil {
			return nil, err
		}
		d.listeners[path] = l
	}
	return l.(interface{ File() (*os.File, error) }).File()
}

// listenFor listens on a worker's behalf on a socket that belongs to its user, as if the worker had bound it.
func listenFor(socket string, uid, gid int) (net.Listener, error) {
	l, err := lock.ListenUnix(socket, 0o755)
	if err != nil {
		return nil, err
	}
	if uid != os.Geteuid() || gid != os.Getegid() {
		if err := os.Lchown(socket, uid, gid); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// freePort finds a free loopback port that no living incarnation was given. Another program may still take it before the
// worker does; the worker then fails to bind, and its next incarnation gets another.
func (d *Dir) freePort() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		d.mu.Lock()
		taken := d.ports[port]
		d.ports[port] = true
		d.mu.Unlock()
		if !taken {
			return port, nil
		}
	}
	return 0, errors.New("no free port found")
}
