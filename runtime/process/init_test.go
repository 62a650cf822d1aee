//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asInit is a daemon that is PID 1: every orphan of its namespace comes to it.
func asInit() {
	if err := CleanSelf(); err != nil {
		fmt.Println("clean:", err)
		return
	}
	table := NewTable(self)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	reaped := make(chan struct{})
	go func() { defer close(reaped); table.Reap(ctx) }()
	for i := range 30 {
		cmd := shell(fmt.Sprintf("for i in 1 2 3; do (setsid true &); done; exit %d", i))
		p, err := table.Start(cmd)
		if err != nil {
			fmt.Println(err)
			return
		}
		<-p.Gone()
		if p.Exit().Code != i {
			fmt.Println("got", p.Exit(), "want", i)
		}
	}
	deadline := time.Now().Add(patience)
	for len(adopted()) > 0 && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
	fmt.Println("pid", os.Getpid(), "children", len(adopted()))
	stop()
	<-reaped
}

func TestAsProcessOne(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a pid namespace")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// /proc must be the new namespace's, so a shell mounts it before it becomes the daemon.
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "mount --make-rprivate / && mount -t proc proc /proc && exec \"$0\"", exe}, &os.ProcAttr{
		Env: []string{"PROCESS_TEST_ROLE=init", "PATH=" + DefaultPath}, Files: []*os.File{nil, w, w},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS},
	})
	w.Close()
	if err != nil {
		t.Skip("no pid namespace here:", err)
	}
	guard := time.AfterFunc(2*patience, func() { child.Kill() })
	defer guard.Stop()
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	child.Wait()
	if strings.Contains(out.String(), "mount:") {
		t.Skip("/proc cannot be mounted here:", out.String())
	}
	if out.String() != "pid 1 children 0\n" {
		t.Errorf("%q", out.String())
	}
}

// A file that is written here while others fork is open for writing in their children until these execute.
func TestFreshProgramsStartWhileOthersFork(t *testing.T) {
	table := NewTable(self)
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var forkers sync.WaitGroup
	for range 4 {
		forkers.Go(func() {
			for ctx.Err() == nil {
				if p, err := table.Start(Command{Argv: []string{"/bin/true"}}); err == nil {
					<-p.Gone()
				}
			}
		})
	}
	dir := t.TempDir()
	for i := range 100 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := table.Start(Command{Argv: []string{path}})
		if err != nil {
			t.Error(err)
			continue
		}
		<-p.Gone()
		if p.Exit().Code != 0 {
			t.Error(p.Exit())
		}
	}
	stop()
	forkers.Wait()
}
