//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// scanned is a supervisor of the daemontools kind: a folder of services, each with a run script.
type scanned struct {
	title   string
	program string                        // that watches the folder
	down    func(dirs []string) *exec.Cmd // stops services and waits
	child   string
	dir     string
	dirs    []string
	cmd     *exec.Cmd
}

func runit() *scanned {
	return &scanned{title: "runit", program: "runsvdir", down: func(dirs []string) *exec.Cmd {
		return exec.Command("sv", append([]string{"-w", "30", "stop"}, dirs...)...)
	}}
}

func s6() *scanned {
	return &scanned{title: "s6", program: "s6-svscan", down: func(dirs []string) *exec.Cmd {
		script := "for d in \"$@\"; do s6-svc -d \"$d\"; done; exec s6-svwait -D \"$@\""
		return exec.Command("sh", append([]string{"-c", script, "sh"}, dirs...)...)
	}}
}

func (s *scanned) name() string { return s.title }

func (s *scanned) start(b *bench, n int) (err error) {
	s.child, s.dirs = b.child, nil
	if s.dir, err = os.MkdirTemp(b.dir, s.title); err != nil {
		return err
	}
	for i := range n {
		dir := filepath.Join(s.dir, fmt.Sprintf("w%d", i))
		s.dirs = append(s.dirs, dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		run := fmt.Sprintf("#!/bin/sh\nexec %s %s w%d\n", b.child, b.fifo, i)
		if err := os.WriteFile(filepath.Join(dir, "run"), []byte(run), 0o755); err != nil {
			return err
		}
	}
	args := []string{s.dir}
	if s.program == "s6-svscan" {
		args = []string{"-c", "5000", s.dir}
	}
	s.cmd = exec.Command(s.program, args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return s.cmd.Start()
}

func (s *scanned) supervisor() []int { return descendants(s.cmd.Process.Pid, s.child) }

func (s *scanned) stop() error {
	out, err := s.down(s.dirs).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %.200s", err, out)
	}
	return nil
}

// flood is left out: the loggers of these programs are programs of their own, with other formats.
func (s *scanned) flood(*bench, int) (bool, error) { return false, nil }

func (s *scanned) close() {
	if s.cmd == nil {
		return
	}
	all := descendants(s.cmd.Process.Pid, "")
	for _, pid := range all {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.cmd.Wait()
	s.cmd = nil
	endAll(s.child)
}

// supervisord is supervisor.
type supervisord struct {
	cmd    *exec.Cmd
	config string
	child  string
}

func (*supervisord) name() string { return "supervisord" }

func (s *supervisord) start(b *bench, n int) error { return s.run(b, n, 0) }

func (s *supervisord) flood(b *bench, lines int) (bool, error) {
	return true, s.run(b, 1, lines)
}

func (s *supervisord) run(b *bench, n, lines int) error {
	dir, err := os.MkdirTemp(b.dir, "sup")
	if err != nil {
		return err
	}
	var c strings.Builder
	fmt.Fprintf(&c, "[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=%[1]s/pid\nminfds=15000\nchildlogdir=%[1]s\n"+
		"[unix_http_server]\nfile=%[1]s/s\n[supervisorctl]\nserverurl=unix://%[1]s/s\n"+
		"[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n", dir)
	extra := ""
	if lines > 0 {
		extra = fmt.Sprintf(" %d", lines)
	}
	for i := range n {
		fmt.Fprintf(&c, "[program:w%d]\ncommand=%s %s w%d%s\nautorestart=true\nstartsecs=0\nstdout_logfile_maxbytes=0\n", i, b.child, b.fifo, i, extra)
	}
	s.config, s.child = filepath.Join(dir, "c.conf"), b.child
	if err := os.WriteFile(s.config, []byte(c.String()), 0o644); err != nil {
		return err
	}
	s.cmd = exec.Command("/usr/bin/supervisord", "-c", s.config)
	return s.cmd.Start()
}

func (s *supervisord) supervisor() []int { return []int{s.cmd.Process.Pid} }

func (s *supervisord) stop() error {
	out, err := exec.Command("/usr/bin/supervisorctl", "-c", s.config, "stop", "all").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %.200s", err, out)
	}
	return nil
}

func (s *supervisord) close() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
	endAll(s.child)
}

// endAll kills every process that runs the child's program: some supervisors leave them.
func endAll(child string) {
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		if exe, err := os.Readlink(link); err == nil && exe == child {
			var pid int
			fmt.Sscanf(link, "/proc/%d/exe", &pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
