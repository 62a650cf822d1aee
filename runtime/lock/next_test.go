//go:build linux

package lock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// What a killed holder had just forked holds the lock on for a moment. Its successor waits for that, and for nothing else.
func TestTheSuccessorOfAKilledHolderWaits(t *testing.T) {
	dir := t.TempDir()
	l, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	heir := exec.Command("cat")
	heir.ExtraFiles = []*os.File{l.File()}
	in, err := heir.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := heir.Start(); err != nil {
		t.Fatal(err)
	}
	defer heir.Wait()
	defer in.Close()
	l.File().Close()

	// The one who wrote the file, this process, is alive.
	var held *Held
	begun := time.Now()
	if _, err := AcquireNext(dir, time.Hour); !errors.As(err, &held) {
		t.Fatalf("got %v, want a lock that is held", err)
	}
	if waited := time.Since(begun); waited > time.Minute {
		t.Errorf("waited %v for somebody who lives", waited)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/lock", fmt.Appendf(nil, "%d\n", dead.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireNext(dir, 50*time.Millisecond); !errors.As(err, &held) {
		t.Fatalf("got %v, want a lock that is held after patience", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { in.Close() })
	next, err := AcquireNext(dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	next.Release()
}
