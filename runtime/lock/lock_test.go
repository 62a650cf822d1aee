//go:build linux

package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestWhatIsWrittenExcludesNobody(t *testing.T) {
	for name, text := range map[string]string{
		"own pid":      fmt.Sprintf("%d\n%s\n", os.Getpid(), time.Now().Format(time.RFC3339)),
		"init":         "1\n2006-01-02T15:04:05Z\n",
		"a living one": fmt.Sprintf("%d\n", os.Getppid()),
		"empty":        "",
		"garbage":      "\x00\xff\x1b[2J\n\n\n",
		"20 digits":    "12345678901234567890\n",
		"long":         strings.Repeat("9\n", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "lock")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			l, err := Acquire(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(got), fmt.Sprintf("%d\n", os.Getpid())) || len(got) > 40 {
				t.Errorf("the file says %q, %v: want our pid and time", got, err)
			}
			if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, want 0600: whoever can open it can lock it", info.Mode())
			}
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after a clean end the file is still there (%v)", err)
			}
			if err := l.Release(); err != nil {
				t.Errorf("a second Release: %v", err)
			}
		})
	}
}

func TestOnlyAFileOfOurOwnIsLocked(t *testing.T) {
	put := map[string]func(path string) error{
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"symbolic link": func(p string) error { return os.Symlink(filepath.Join(filepath.Dir(p), "elsewhere"), p) },
		"pipe":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
	}
	for kind, make := range put {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "lock")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			_, err := Acquire(dir)
			wantError(t, err, "cannot lock "+path+": a "+kind+" is in its place")
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("it was removed: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
				t.Error("the link was followed")
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "missing")
		_, err := Acquire(dir)
		wantError(t, err, "cannot lock "+dir+"/lock: no such file or directory")
	})
	t.Run("foreign", func(t *testing.T) {
		needRoot(t, "only root can give a file away")
		dir := t.TempDir()
		path := filepath.Join(dir, "lock")
		if err := errors.Join(os.WriteFile(path, nil, 0o666), os.Chown(path, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		_, err := Acquire(dir)
		wantError(t, err, "it belongs to uid 65534, not to uid 0")
	})
	t.Run("not permitted", func(t *testing.T) {
		dir := openDir(t)
		role := "acquire"
		if os.Geteuid() == 0 {
			role = "nobody:acquire"
		} else if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if got := start(t, role, dir).line(); got != "cannot lock "+dir+"/lock: permission denied" {
			t.Errorf("got %q", got)
		}
	})
}

func TestTheLoserKnowsWhoHoldsIt(t *testing.T) {
	dir := t.TempDir()
	o := start(t, "hold", dir)
	if line := o.line(); !strings.HasPrefix(line, "held") {
		t.Fatal(line)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "lock"))
	_, err := Acquire(dir)
	var held *Held
	if !errors.As(err, &held) {
		t.Fatalf("got %v, want *Held", err)
	}
	if held.PID != o.cmd.Process.Pid || held.What != dir || time.Since(held.Since) > time.Hour || held.Since.IsZero() {
		t.Errorf("got %+v, want pid %d", held, o.cmd.Process.Pid)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "lock")); string(after) != string(before) {
		t.Errorf("the loser changed the file from %q to %q", before, after)
	}
}

func TestHeldReads(t *testing.T) {
	since := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		held Held
		want string
	}{
		{Held{"/run/coppice", 812, since}, "another coppice (pid 812, since 2006-01-02T15:04:05Z) holds /run/coppice: "},
		{Held{"/run/coppice", 812, time.Time{}}, "another coppice (pid 812) holds /run/coppice: "},
		{Held{"/run/coppice", 0, since}, "another coppice holds /run/coppice: "},
	} {
		if got := c.held.Error(); !strings.HasPrefix(got, c.want) {
			t.Errorf("got  %s\nwant %s...", got, c.want)
		}
	}
}

// A daemon that was killed leaves its file behind and a worker running; the next one starts all the same.
func TestALockEndsWithItsHolder(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		o := start(t, "hold", dir)
		line := o.line()
		var worker int
		if _, err := fmt.Sscanf(line, "held %d", &worker); err != nil {
			t.Fatal(line)
		}
		o.kill()
		if err := syscall.Kill(worker, 0); err != nil {
			t.Fatalf("the worker is gone (%v): this proves nothing", err)
		}
		l, err := Acquire(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		o.end()
	}
}

// Release removes the file, and whoever opened it before must not believe that it holds the lock then.
func TestOneHolderWhileOthersComeAndGo(t *testing.T) {
	dir := t.TempDir()
	var inside, wins atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				l, err := Acquire(dir)
				var held *Held
				if errors.As(err, &held) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				wins.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold it at once", n)
				}
				if !l.named() {
					t.Error("the holder's file has no name")
				}
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if wins.Load() == 0 {
		t.Error("nobody ever got it")
	}
}

func TestReleaseLeavesAnothersFile(t *testing.T) {
	dir := t.TempDir()
	a, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "lock")) // by an operator who knows better
	b, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	if !b.named() {
		t.Error("the second holder's file was removed")
	}
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestALockIsInherited(t *testing.T) {
	dir := t.TempDir()
	l, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(l.File().Fd())) // without close-on-exec, as after an exec
	if err != nil {
		t.Fatal(err)
	}
	l.file.Close()
	heir, err := Inherit(dir, os.NewFile(uintptr(fd), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var held *Held
	if _, err := Acquire(dir); !errors.As(err, &held) {
		t.Fatalf("got %v, want *Held", err)
	}
	if flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); flags&syscall.FD_CLOEXEC == 0 {
		t.Error("a worker would inherit it")
	}
	if err := heir.Release(); err != nil {
		t.Fatal(err)
	}

	f, err := os.Create(filepath.Join(dir, "another"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Inherit(dir, f)
	wantError(t, err, "cannot inherit the lock of "+dir)
}

func TestALockHasAnyName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nightly.lock")
	l, err := AcquireFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = AcquireFile(path)
	wantError(t, err, "holds "+path)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("812\n2006-01-02T15:04:05Z\n"))
	f.Add([]byte("-1\n"))
	f.Add([]byte("99999999999999999999\n\n"))
	file, err := os.CreateTemp(f.TempDir(), "lock")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		file.WriteAt(text, 0)
		if held := read(file); held.PID < 0 || held.PID == 0 && !held.Since.IsZero() {
			t.Errorf("%q gives %+v", text, held)
		}
	})
}
