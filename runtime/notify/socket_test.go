//go:build linux

package notify

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAWorkerIsHeard(t *testing.T) {
	box := newInbox()
	s := listen(t, everybody, box.got)
	if info, err := os.Lstat(s.Path()); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("the socket is %v, %v", info, err)
	}
	pid, said := worker(t, "send", s.Path(), "READY=1;STATUS=42 jobs")
	// The barrier: what the sender waited for is here already.
	all := box.take()
	if want := (Message{PID: pid, UID: os.Geteuid(), Ready: true, HasStatus: true, Status: "42 jobs"}); len(all) != 1 || all[0] != want {
		t.Errorf("got %+v, want %+v", all, want)
	}
	if said != "<nil>" {
		t.Errorf("the sender says %q", said)
	}
}

// A barrier holds its sender until everything before it was dealt with.
func TestABarrierWaitsForWhatWasSentBefore(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := listen(t, everybody, func(Message) { close(entered); <-release })
	sent := make(chan error)
	go func() { sent <- send(t.Context(), s.Path(), []string{"READY=1"}) }()
	<-entered
	select {
	case err := <-sent:
		t.Fatalf("it went on, with %v", err)
	default:
	}
	close(release)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func TestWhoseWordCounts(t *testing.T) {
	box := newInbox()
	hold, entered := make(chan struct{}), make(chan struct{}, 1)
	s := listen(t, func(pid int) bool { return pid == os.Getpid() }, func(m Message) {
		if m.Status == "hold" {
			entered <- struct{}{}
			<-hold
		}
		box.got(m)
	})
	// While the socket is busy, a helper sends and goes: its word counts, as it ran as the worker's user.
	raw(t, s.Path(), []byte("STATUS=hold"))
	<-entered
	gone, said := worker(t, "drop", s.Path(), "READY=1")
	if said != "<nil>" {
		t.Fatal(said)
	}
	close(hold)
	if all := box.wait(t, 2); !all[1].Ready || all[1].Refused != "" || all[1].PID != gone {
		t.Errorf("of a sender that is gone: %+v", all[1])
	}
	// A stranger that waits for its answer is there to be looked at.
	pid, said := worker(t, "send", s.Path(), "READY=1;STATUS=I am it")
	all := box.take()
	if len(all) != 1 || all[0].Ready || all[0].HasStatus || !strings.HasSuffix(all[0].Refused, "does not belong to the worker") || all[0].PID != pid {
		t.Errorf("of a stranger: %+v", all)
	}
	if said != "<nil>" {
		t.Errorf("a stranger is held: %q", said)
	}
}

func TestAnotherUsersLastWordDoesNotCount(t *testing.T) {
	needRoot(t, "it takes another user")
	box := newInbox()
	hold, entered := make(chan struct{}), make(chan struct{}, 1)
	dir := openDir(t)
	s, err := Listen(dir, -1, -1, func(pid int) bool { return pid == os.Getpid() }, func(m Message) {
		if m.Status == "hold" {
			entered <- struct{}{}
			<-hold
		}
		box.got(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Chmod(s.Path(), 0o666); err != nil { // as if the folder did not protect it
		t.Fatal(err)
	}
	raw(t, s.Path(), []byte("STATUS=hold"))
	<-entered
	if _, said := worker(t, "drop:65534", s.Path(), "READY=1"); said != "<nil>" {
		t.Fatal(said)
	}
	close(hold)
	if all := box.wait(t, 2); all[1].Ready || !strings.HasSuffix(all[1].Refused, "has ended and ran as another user (uid 65534)") {
		t.Errorf("got %+v", all[1])
	}
}

func TestTheSocketIsTheWorkers(t *testing.T) {
	needRoot(t, "only root can give a socket away")
	dir := openDir(t)
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	box := newInbox()
	s, err := Listen(dir, nobody, nobody, everybody, box.got)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := os.Lstat(s.Path())
	if st := info.Sys().(*syscall.Stat_t); err != nil || st.Uid != nobody || st.Gid != nobody || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %+v, %v", st, err)
	}
	if _, said := worker(t, "send:65534", s.Path(), "READY=1"); said != "<nil>" {
		t.Errorf("the worker's user: %s", said)
	}
	if all := box.take(); len(all) != 1 || !all[0].Ready || all[0].UID != nobody {
		t.Errorf("got %+v", all)
	}
	if _, said := worker(t, "send:65533", s.Path(), "READY=1"); !strings.HasSuffix(said, "permission denied") {
		t.Errorf("another user: %q", said)
	}
	if all := box.take(); len(all) != 0 {
		t.Errorf("of another user: %+v", all)
	}
}

// openDir is a folder that other users may pass through, as those of t.TempDir may not be.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The folder is the worker's: it may put a link there in the moment between bind and chown.
func TestNothingElseIsGivenAway(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hard, soft := filepath.Join(dir, "hard"), filepath.Join(dir, "soft")
	if err := errors.Join(os.Link(precious, hard), os.Symlink(precious, soft)); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(dir, "control")
	defer outer(t, control).Close()
	linked := filepath.Join(dir, "linked")
	if err := os.Link(control, linked); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{hard, soft, linked} {
		wantError(t, give(path, nobody, nobody), "another file in its place")
	}
	info, err := os.Stat(precious)
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("it was given away: %+v, %v", info, err)
	}
}

func TestWhatStandsInItsPlaceIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	precious := filepath.Join(dir, "precious")
	if err := errors.Join(os.WriteFile(precious, []byte("x"), 0o600), os.Symlink(precious, path)); err != nil {
		t.Fatal(err)
	}
	var before *Socket
	for range 2 { // a link of the worker's, then the socket of a daemon that was killed
		box := newInbox()
		s, err := Listen(dir, -1, -1, everybody, box.got)
		if err != nil {
			t.Fatal(err)
		}
		mustSend(t, path, "READY=1")
		if all := box.take(); len(all) != 1 || !all[0].Ready {
			t.Errorf("got %+v", all)
		}
		if before != nil {
			before.Close()
		}
		before = s
	}
	before.Close()
	before.Close()
	if got, err := os.ReadFile(precious); err != nil || string(got) != "x" {
		t.Errorf("the link was followed: %q, %v", got, err)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(dir, -1, -1, everybody, func(Message) {})
	wantError(t, err, "cannot listen on "+path+": what is in its place cannot be removed: ")
	_, err = Listen(dir+"/"+strings.Repeat("x", 108), -1, -1, everybody, func(Message) {})
	wantError(t, err, "has at most 107 bytes")
	_, err = Listen(dir+"/missing", -1, -1, everybody, func(Message) {})
	wantError(t, err, "no such file or directory")
}

func TestEveryDescriptorIsClosed(t *testing.T) {
	box := newInbox()
	var ours atomic.Bool
	ours.Store(true)
	s := listen(t, func(int) bool { return ours.Load() }, box.got)
	mustSend(t, s.Path(), "READY=1") // so that the runtime has opened all that it wants
	box.take()
	before := openFds(t)
	for name, data := range map[string][]byte{
		"stored":   []byte("FDSTORE=1\nFDNAME=x"),
		"ready":    []byte("READY=1"),
		"too long": bytes.Repeat([]byte("x"), 5000),
		"empty":    {},
	} {
		for _, n := range []int{1, 4, 5, 100, 253} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			fds := make([]int, n)
			for i := range fds {
				fds[i] = int(w.Fd())
			}
			raw(t, s.Path(), data, fds...)
			w.Close()
			r.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := r.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: of %d descriptors one is still open (%v)", name, n, err)
			}
			r.Close()
		}
	}
	ours.Store(false)
	for range 20 {
		mustSend(t, s.Path(), "READY=1")
	}
	if after := openFds(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestHostileMessages(t *testing.T) {
	box := newInbox()
	s := listen(t, everybody, box.got)
	raw(t, s.Path(), append(bytes.Repeat([]byte("x"), 4090), "\nREADY=1"...))
	if all := box.wait(t, 1); all[0].Ready || all[0].Refused != "it is longer than 4096 bytes" {
		t.Errorf("got %+v", all)
	}
	raw(t, s.Path(), nil)
	raw(t, s.Path(), bytes.Repeat([]byte{0xff}, 4096))
	raw(t, s.Path(), append(bytes.Repeat([]byte("\n"), 4089), "READY=1"...))
	if all := box.wait(t, 1); !all[0].Ready || len(all) != 1 {
		t.Errorf("got %+v", all)
	}
}

// A worker that never stops talking waits for itself.
func TestAFloodIsSlowed(t *testing.T) {
	box := newInbox()
	s := listen(t, everybody, box.got)
	const n = burst + perSecond/2
	began := time.Now()
	for range n {
		raw(t, s.Path(), []byte("WATCHDOG=1"))
	}
	box.wait(t, n)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("%d messages were taken in %s", n, took)
	}
	// And it can be left in the middle.
	done := make(chan struct{})
	go func() { s.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Close hangs")
	}
}

func TestASocketIsInherited(t *testing.T) {
	dir := t.TempDir()
	a, err := Listen(dir, -1, -1, everybody, func(Message) {})
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	raw(t, a.Path(), []byte("READY=1")) // while nobody looks
	box := newInbox()
	b, err := Inherit(dir, f, -1, everybody, box.got)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if all := box.wait(t, 1); !all[0].Ready {
		t.Errorf("got %+v", all)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = Inherit(dir, r, -1, everybody, box.got)
	wantError(t, err, "cannot inherit the socket ")
}
