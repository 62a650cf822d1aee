package place

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"golang.org/x/sys/unix"
)

// deepFolder makes folders in one another, deeper than there may be descriptors, with a file beside each.
func deepFolder(t *testing.T, path string, depth int) {
	t.Helper()
	at, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		var file, next int
		if file, err = unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err != nil {
			break
		}
		unix.Close(file)
		if err = unix.Mkdirat(at, ".moved-1", 0o700); err != nil { // the name that the remover would like to give
			break
		}
		next, err = unix.Openat(at, ".moved-1", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at = next
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(at)
}

// fewDescriptors leaves this process so few that a removal which opens every level fails.
func fewDescriptors(t *testing.T) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

func stopFileRun() *tree.Run {
	run := unixRun()
	run.Stop.File = true
	return run
}

// TestADeepFolderTakesNoDescriptors: a worker owns its folder, and may make it as deep as it likes.
func TestADeepFolderTakesNoDescriptors(t *testing.T) {
	d := open(t)
	in, err := d.Incarnation("w", 1, stopFileRun(), os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	deepFolder(t, in.Folder(), 1000)
	precious := filepath.Join(d.path, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(d.path, filepath.Join(in.Folder(), "link")); err != nil {
		t.Fatal(err)
	}
	fewDescriptors(t)
	in.Remove()
	if _, err := os.Lstat(in.Folder()); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if _, err := os.Lstat(precious); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestTheNextDaemonSweepsDeepFolders: what a worker of a killed daemon made keeps nobody from starting.
func TestTheNextDaemonSweepsDeepFolders(t *testing.T) {
	d := open(t)
	in, err := d.Incarnation("w", 1, stopFileRun(), os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	deepFolder(t, in.Folder(), 1000)
	fewDescriptors(t)
	next, err := Open(d.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Close)
	if err := next.Sweep(); err != nil {
		t.Fatal(err)
	}
	again, err := next.Incarnation("w", 1, stopFileRun(), os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	again.Remove()
}

func TestRemovalHasAnEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(path, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(path, -time.Second); err == nil {
		t.Error("a removal without patience was done")
	}
	if err := removeTree(path, time.Minute); err != nil {
		t.Error(err)
	}
}
