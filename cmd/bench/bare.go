//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bareGo is the floor for a supervisor written in Go: a loop that starts children with two pipes each, one parked goroutine
// per pipe and per pidfd, and a restart as soon as a child ends. It runs as a process of its own, for its memory to be seen.
type bareGo struct {
	cmd *os.Process
	in  *os.File
	out *bufio.Reader
}

func (*bareGo) name() string { return "bare Go" }

func (g *bareGo) start(b *bench, n int) error { return g.run(b, strconv.Itoa(n), "0") }

func (g *bareGo) flood(b *bench, lines int) (bool, error) {
	return true, g.run(b, "1", strconv.Itoa(lines))
}

func (g *bareGo) run(b *bench, args ...string) error {
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g.cmd, err = os.StartProcess(self, append([]string{self, "-bare", b.child, b.fifo, b.dir}, args...),
		&os.ProcAttr{Files: []*os.File{inR, outW, os.Stderr}, Env: os.Environ()})
	inR.Close()
	outW.Close()
	g.in, g.out = inW, bufio.NewReader(outR)
	return err
}

func (g *bareGo) supervisor() []int { return []int{g.cmd.Pid} }

func (g *bareGo) stop() error {
	fmt.Fprintln(g.in, "stop")
	_, err := g.out.ReadString('\n')
	return err
}

func (g *bareGo) close() {
	if g.cmd != nil {
		g.in.Close() // it kills its children and ends
		g.cmd.Wait()
		g.cmd = nil
	}
}

// bareMain is the bare loop itself: child, fifo, dir, number, lines.
func bareMain(args []string) {
	n, _ := strconv.Atoi(args[3])
	s := &bareLoop{argv: []string{args[0], args[1]}, lines: args[4], dir: args[2], pids: make([]int, n)}
	for i := range n {
		s.spawn(i)
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		s.end(syscall.SIGTERM)
		fmt.Println("stopped")
	}
	s.end(syscall.SIGKILL)
}

type bareLoop struct {
	argv       []string
	lines, dir string
	mu         sync.Mutex
	stopping   bool
	pids       []int
	alive      sync.WaitGroup
}

func (s *bareLoop) spawn(i int) {
	argv := append(s.argv[:2:2], "w"+strconv.Itoa(i))
	if s.lines != "0" {
		argv = append(argv, s.lines)
	}
	null, _ := os.Open("/dev/null")
	outR, outW, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	errR, errW, _ := os.Pipe()
	pidfd := -1
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=/bin"},
		Files: []uintptr{null.Fd(), outW.Fd(), errW.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}})
	if err != nil {
		panic(err)
	}
	for _, f := range []*os.File{null, outW, errW} {
		f.Close()
	}
	s.mu.Lock()
	s.pids[i] = pid
	s.alive.Add(1)
	s.mu.Unlock()
	go s.copy(outR, i)
	go s.copy(errR, i)
	go s.watch(i, pid, pidfd)
}

// copy splits what comes into lines and writes each with the worker's name to a file.
func (s *bareLoop) copy(r *os.File, i int) {
	defer r.Close()
	conn, err := r.SyscallConn()
	if err != nil {
		return
	}
	var out *bufio.Writer
	for {
		var buf []byte
		n := 0
		conn.Read(func(fd uintptr) bool {
			if buf == nil {
				buf = make([]byte, 64<<10) // only when there is something: an idle child costs no buffer
			}
			var err error
			n, err = syscall.Read(int(fd), buf)
			if err == syscall.EAGAIN {
				buf = nil
				return false
			}
			return true
		})
		if n <= 0 {
			break
		}
		if out == nil {
			f, err := os.Create(s.dir + "/bare." + strconv.Itoa(i) + ".log")
			if err != nil {
				return
			}
			defer f.Close()
			out = bufio.NewWriterSize(f, 64<<10)
		}
		stamp := time.Now().AppendFormat(nil, time.RFC3339Nano)
		for line := range bytes.Lines(buf[:n]) {
			out.Write(stamp)
			out.WriteString(" w out ")
			out.Write(line)
		}
	}
	if out != nil {
		out.Flush()
	}
}

func (s *bareLoop) watch(i, pid, pidfd int) {
	unix.SetNonblock(pidfd, true)
	f := os.NewFile(uintptr(pidfd), "pidfd")
	conn, _ := f.SyscallConn()
	conn.Read(func(fd uintptr) bool {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		return got == pid || err != nil
	})
	f.Close()
	s.mu.Lock()
	again := !s.stopping
	s.mu.Unlock()
	s.alive.Done()
	if again {
		s.spawn(i)
	}
}

func (s *bareLoop) end(sig syscall.Signal) {
	s.mu.Lock()
	s.stopping = true
	for _, pid := range s.pids {
		syscall.Kill(-pid, sig)
	}
	s.mu.Unlock()
	s.alive.Wait()
}
