//go:build linux

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFolderHasItsModeUnderAnyUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077} {
		for _, mode := range []fs.FileMode{0o700, 0o711, 0o1733&^0o1000 | fs.ModeSticky} {
			t.Run(fmt.Sprintf("umask %03o %v", mask, mode), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "a", "b", "c")
				umask(t, mask)
				for range 2 { // the second time it is there
					if err := Prepare(dir, mode); err != nil {
						t.Fatal(err)
					}
				}
				wantMode(t, dir, mode)
				wantMode(t, filepath.Dir(dir), 0o755)
				wantMode(t, filepath.Dir(filepath.Dir(dir)), 0o755)
			})
		}
	}
}

func TestAFolderIsTightened(t *testing.T) {
	dir := t.TempDir()
	parent := filepath.Dir(dir)
	before, _ := os.Stat(parent)
	if err := errors.Join(os.Chmod(dir, 0o755), Prepare(dir+"/", 0o700)); err != nil {
		t.Fatal(err)
	}
	wantMode(t, dir, 0o700)
	if after, _ := os.Stat(parent); after.Mode() != before.Mode() {
		t.Errorf("a parent that was there changed from %v to %v", before.Mode(), after.Mode())
	}
}

func TestAFolderThatOthersMayTouchIsRefused(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777))
	must(os.Mkdir(at("group"), 0o700), os.Chmod(at("group"), 0o770))
	must(os.Mkdir(at("real"), 0o700), os.Symlink("real", at("link")))
	must(os.WriteFile(at("file"), nil, 0o600))
	foreign := "/usr"
	if os.Geteuid() == 0 {
		foreign = at("foreign")
		must(os.Mkdir(foreign, 0o700), os.Chown(foreign, nobody, nobody))
	}
	for _, c := range []struct {
		dir  string
		want string
	}{
		{at("open"), "others may write in it (mode 0777): look at what is in it, then run chmod 0711 " + at("open")},
		{at("group"), "others may write in it (mode 0770)"},
		{at("link"), "a symbolic link is in its place: remove it, or name another folder"},
		{at("link") + "/", "a symbolic link is in its place"},
		{at("file"), "a regular file is in its place"},
		{at("file/below"), "not a directory"},
		{foreign, fmt.Sprintf(", not to uid %d: remove it, or name another folder", os.Geteuid())},
	} {
		before, _ := os.Lstat(filepath.Clean(c.dir))
		err := Prepare(c.dir, 0o711)
		wantError(t, err, "cannot use the folder "+filepath.Clean(c.dir), c.want)
		if after, _ := os.Lstat(filepath.Clean(c.dir)); before != nil && after.Mode() != before.Mode() {
			t.Errorf("%s: the mode was changed from %v to %v", c.dir, before.Mode(), after.Mode())
		}
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode() & (fs.ModePerm | fs.ModeSticky); got != want {
		t.Errorf("%s has mode %v, want %v", path, got, want)
	}
}
