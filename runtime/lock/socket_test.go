//go:build linux

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNobodyComesInBeforeTheModeIsRight(t *testing.T) {
	needRoot(t, "the one who tries must be another user")
	for _, mask := range []int{0, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", mask), func(t *testing.T) {
			path := filepath.Join(openDir(t), "s")
			umask(t, mask)
			o := start(t, "nobody:connect", path)
			if line := o.line(); line != "trying" {
				t.Fatalf("got %q", line)
			}
			for range 500 {
				l, err := ListenUnix(path, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				wantMode(t, path, 0o600)
				l.Close()
			}
			// It says so at once if it came in, and ends with its input.
			o.stdin.Close()
			if line := o.line(); line != "" {
				t.Fatalf("a stranger %s", line)
			}
			open, err := ListenUnix(path, 0o666)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			witness := start(t, "nobody:connect", path)
			for line := witness.line(); line != "connected"; line = witness.line() {
				if line == "" {
					t.Fatal("nobody cannot connect at all: this test proves nothing")
				}
			}
		})
	}
}

func TestASocketHasItsModeUnderAnyUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
			t.Run(fmt.Sprintf("umask %03o %v", mask, mode), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "s")
				umask(t, mask)
				l, err := ListenUnix(path, mode)
				if err != nil {
					t.Fatal(err)
				}
				wantMode(t, path, mode)
				if got := l.Addr().String(); got != path {
					t.Errorf("the address is %s, want %s", got, path)
				}
				greet(t, l)
				l.Close()
				if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a closed socket stays: %v", err)
				}
			})
		}
	}
}

// greet proves that the listener accepts what connects to its path.
func greet(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		path := filepath.Join(t.TempDir(), "s")
		leave(t, network, path)
		l, err := ListenUnix(path, 0o600)
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		greet(t, l)
		l.Close()
	}
	if err := ReplaceSocket(filepath.Join(t.TempDir(), "nothing")); err != nil {
		t.Error(err)
	}
}

// leave makes the socket file of a process that is gone.
func leave(t *testing.T, network, path string) {
	t.Helper()
	c := occupy(t, network, path)
	if u, ok := c.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	c.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func occupy(t *testing.T, network, path string) interface{ Close() error } {
	t.Helper()
	if network == "unixgram" {
		c, err := net.ListenUnixgram(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	l, err := net.Listen(network, path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWhatSomebodyUsesStays(t *testing.T) {
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		path := filepath.Join(t.TempDir(), "s")
		c := occupy(t, network, path)
		_, err := ListenUnix(path, 0o600)
		wantError(t, err, "cannot listen on "+path+": another process listens there")
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: it was removed: %v", network, err)
		}
		c.Close()
	}
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	leave(t, "unix", stale)
	for kind, make := range map[string]func(path string) error{
		"regular file":  func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"symbolic link": func(p string) error { return os.Symlink(stale, p) },
	} {
		path := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-"))
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		_, err := ListenUnix(path, 0o600)
		wantError(t, err, "cannot listen on "+path+": a "+kind+" is in its place: remove it")
		for _, p := range []string{path, stale} {
			if _, err := os.Lstat(p); err != nil {
				t.Errorf("%s: removed: %v", kind, err)
			}
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 120))
	_, err := ListenUnix(long, 0o600)
	wantError(t, err, "cannot listen on "+long+": a socket's path has at most 107 bytes, this one has")
}

// A socket that may not be connected to may well be somebody's.
func TestNoProofNoRemoval(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, "s")
	l, err := ListenUnix(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	role := "replace"
	if os.Geteuid() == 0 {
		role = "nobody:replace"
		if err := os.Chmod(dir, 0o777); err != nil { // nobody could remove it
			t.Fatal(err)
		}
	}
	got := start(t, role, path).line()
	if !strings.Contains(got, "whether anybody uses it is not known: ") || !strings.HasSuffix(got, "permission denied") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	a, err := ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	b, err := ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a.Close()
	greet(t, b)
}

func TestASocketIsInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	a, err := ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path) // queued before the heir looks
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a.UnixListener.Close() // as an exec does: the file stays
	b, err := InheritUnix(path, f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	greet(t, b)
	b.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed socket stays: %v", err)
	}
}
