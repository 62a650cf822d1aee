//go:build linux

package process

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkStart compares a start with the floor for a Go program: fork, exec and a parked pidfd, and nothing else.
func BenchmarkStart(b *testing.B) {
	argv, env := []string{"/bin/sleep", "1000"}, []string{"PATH=" + DefaultPath}
	b.Run("bare", func(b *testing.B) {
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer null.Close()
		var children []*bareChild
		for b.Loop() {
			c, err := startBare(argv, env, null)
			if err != nil {
				b.Fatal(err)
			}
			children = append(children, c)
		}
		for _, c := range children {
			unix.Kill(c.pid, unix.SIGKILL)
			<-c.done
		}
	})
	for _, c := range []struct {
		name string
		shim bool
	}{{"process", false}, {"shim", true}} {
		b.Run(c.name, func(b *testing.B) {
			table := NewTable(self)
			if err := table.Subreaper(); err != nil {
				b.Fatal(err)
			}
			cmd := Command{Argv: argv, Env: env}
			if c.shim {
				cmd.Limits.OpenFiles = 256
			}
			var processes []*Process
			for b.Loop() {
				p, err := table.Start(cmd)
				if err != nil {
					b.Fatal(err)
				}
				processes = append(processes, p)
			}
			for _, p := range processes {
				unix.Kill(p.pid, unix.SIGKILL)
				<-p.exited
			}
		})
	}
}

// BenchmarkCycle is a start, a stop by TERM, and the wait until nothing is left, as a subreaper.
func BenchmarkCycle(b *testing.B) {
	argv, env := []string{"/bin/sleep", "1000"}, []string{"PATH=" + DefaultPath}
	b.Run("bare", func(b *testing.B) {
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer null.Close()
		for b.Loop() {
			c, err := startBare(argv, env, null)
			if err != nil {
				b.Fatal(err)
			}
			unix.Kill(-c.pid, unix.SIGTERM)
			<-c.done
		}
	})
	b.Run("process", func(b *testing.B) {
		table := NewTable(self)
		if err := table.Subreaper(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			p, err := table.Start(Command{Argv: argv, Env: env})
			if err != nil {
				b.Fatal(err)
			}
			p.Signal("TERM")
			<-p.Gone()
		}
	})
}

type bareChild struct {
	pid  int
	done chan struct{}
}

func startBare(argv, env []string, null *os.File) (*bareChild, error) {
	pidfd, fd := -1, null.Fd()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: "/", Env: env, Files: []uintptr{fd, fd, fd},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}})
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(pidfd, true)
	file := os.NewFile(uintptr(pidfd), "pidfd")
	c := &bareChild{pid: pid, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer file.Close()
		conn, _ := file.SyscallConn()
		conn.Read(func(uintptr) bool {
			got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			return got == pid || (err != nil && err != unix.EINTR)
		})
	}()
	return c, nil
}
