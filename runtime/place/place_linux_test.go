package place

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// open makes a runtime directory with a short name, since a test's own folder may be too long for a socket.
func open(t *testing.T) *Dir {
	t.Helper()
	path, err := os.MkdirTemp("", "place")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode() & (fs.ModePerm | fs.ModeSticky)
}

func unixRun() *tree.Run {
	r := tree.DefaultRun()
	r.Command = []string{"/bin/true"}
	r.Listen.Mode = tree.ListenUnix
	return &r
}

func TestModesHoldUnderAnyUmask(t *testing.T) {
	path := open(t).path + "/again"
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	before := syscall.Umask(0o777)
	d, err := Open(path)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	sockets := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		sockets = 0o733 | fs.ModeSticky
	}
	if got := mode(t, d.in("s")); got != sockets {
		t.Errorf("s is %v", got)
	}
	if got := mode(t, d.in("i")); got != 0o711 {
		t.Errorf("i is %v", got)
	}
	if got := mode(t, d.in("secret")); got&0o077 != 0 {
		t.Errorf("secret is %v", got)
	}
}

// TestNames: a replacement never has the socket of what it replaces, and nothing can be guessed without the secret.
func TestNames(t *testing.T) {
	d := open(t)
	form := regexp.MustCompile(`/s/[0-9a-f]{16}-3\.sock$`)
	run := unixRun()
	run.Index = 3
	first := d.socket("a/b/w.3", 1, run)
	if !form.MatchString(first) {
		t.Errorf("a socket is called %s", first)
	}
	changed := *run
	changed.Command = []string{"/bin/false"}
	other := open(t)
	seen := map[string]string{}
	for what, s := range map[string]string{"the first": first, "the next incarnation": d.socket("a/b/w.3", 2, run),
		"another specification": d.socket("a/b/w.3", 1, &changed), "another worker": d.socket("a/c/w.3", 1, run),
		"another directory": strings.Replace(other.socket("a/b/w.3", 1, run), other.path, d.path, 1)} {
		if twin, ok := seen[s]; ok {
			t.Errorf("%s has the socket of %s", what, twin)
		}
		seen[s] = what
	}
	inherit := *run
	inherit.Listen.Mode = tree.ListenInherit
	changed.Listen.Mode = tree.ListenInherit
	if d.socket("a/b/w.3", 1, &inherit) != d.socket("a/b/w.3", 9, &changed) {
		t.Error("an inherited socket does not stay the same")
	}
	again, err := Open(d.path)
	if err != nil {
		t.Fatal(err)
	}
	if again.socket("a/b/w.3", 1, run) != first || again.Name() != d.Name() || other.Name() == d.Name() {
		t.Error("the secret does not stay with its directory")
	}
}

func TestTooLongIsRefusedBeforeAnythingStarts(t *testing.T) {
	d := open(t)
	d.path += "/" + strings.Repeat("x", 100)
	spec := tree.Spec{Kind: tree.KindHost, Children: []tree.Spec{{Name: "w", Kind: tree.KindWorker, Run: unixRun()}}}
	if err := d.Check(&spec); err == nil || !strings.Contains(err.Error(), "runtime_dir") {
		t.Errorf("Check says %v", err)
	}
	spec.Children[0].Run.Listen.Mode = tree.ListenNone
	if err := d.Check(&spec); err != nil {
		t.Errorf("a worker without a socket is refused: %v", err)
	}
}

func TestOnlyAStaleSocketIsReplaced(t *testing.T) {
	d := open(t)
	run := unixRun()
	path := d.socket("w", 1, run)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Incarnation("w", 1, run, os.Geteuid(), os.Getegid()); err == nil {
		t.Error("a socket that somebody listens on was taken")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	in, err := d.Incarnation("w", 1, run, os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatalf("a stale socket stands in the way: %v", err)
	}
	in.Remove()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Incarnation("w", 1, run, os.Geteuid(), os.Getegid()); err == nil {
		t.Error("a file was taken for a stale socket")
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
}

func TestFolderIsTheWorkersOwn(t *testing.T) {
	d := open(t)
	run := unixRun()
	run.Stop.File = true
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 65534, 65534
	}
	in, err := d.Incarnation("w", 1, run, uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(in.Folder())
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v of %d", info.Mode(), st.Uid)
	}
	// A worker that makes the stop file's name lead elsewhere makes the daemon write nowhere.
	target := filepath.Join(d.path, "target")
	if err := os.Symlink(target, in.StopFile()); err != nil {
		t.Fatal(err)
	}
	if err := in.WriteStopFile("stopped by root"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the stop file was written where the worker wanted it")
	}
	os.Remove(in.StopFile())
	if err := in.WriteStopFile("stopped by root"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(in.StopFile()); string(text) != "stopped by root\n" {
		t.Errorf("the stop file says %q", text)
	}
	in.Remove()
	if _, err := os.Lstat(in.Folder()); err == nil {
		t.Error("the folder is left")
	}
}

// TestInheritedListenerQueuesClients: the socket is the same over incarnations, and who connects in between waits.
func TestInheritedListenerQueuesClients(t *testing.T) {
	d := open(t)
	run := unixRun()
	run.Listen.Mode = tree.ListenInherit
	start := func(inc int) *os.File {
		in, err := d.Incarnation("w", inc, run, os.Geteuid(), os.Getegid())
		if err != nil {
			t.Fatal(err)
		}
		f, err := in.Listener()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(in.Remove)
		return f
	}
	start(1).Close() // the first incarnation is gone
	client, err := net.DialTimeout("unix", d.socket("w", 1, run), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := start(2)
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestPortsAreGivenOnce(t *testing.T) {
	d := open(t)
	run := unixRun()
	run.Listen.Mode = tree.ListenTCP
	seen := map[int]bool{}
	for i := range 200 {
		in, err := d.Incarnation("w", i+1, run, os.Geteuid(), os.Getegid())
		if err != nil {
			t.Fatal(err)
		}
		if in.Port() == 0 || seen[in.Port()] {
			t.Fatalf("port %d was given twice", in.Port())
		}
		seen[in.Port()] = true
	}
}

func TestForeignFoldersAndSecretsAreRefused(t *testing.T) {
	d := open(t)
	for name, spoil := range map[string]func(path string) error{
		"a link in place of s": func(p string) error {
			os.Remove(filepath.Join(p, "s"))
			return os.Symlink("/tmp", filepath.Join(p, "s"))
		},
		"a secret that others can read": func(p string) error {
			os.Remove(filepath.Join(p, "s"))
			return os.Chmod(filepath.Join(p, "secret"), 0o644)
		},
	} {
		if err := spoil(d.path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(d.path); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
