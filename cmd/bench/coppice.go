//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
)

// coppice is the program under test.
type coppice struct {
	cmd        *exec.Cmd
	client     *control.Client
	runtimeDir string
}

func (*coppice) name() string { return "coppice" }

func (c *coppice) start(b *bench, n int) error {
	per := min(n, 100)
	var apps strings.Builder
	for i := range n / per {
		fmt.Fprintf(&apps, "  app \"a%d\" {\n    worker \"w\" {\n      count = %d\n      command = [%q, %q, format(\"a%d.%%d\", index)]\n"+
			"      restart {\n        backoff = \"0s\"\n        limit = 0\n      }\n    }\n  }\n", i, per, b.child, b.fifo, i)
	}
	return c.run(b, "tenant \"bench\" {\n"+apps.String()+"}\n")
}

func (c *coppice) flood(b *bench, lines int) (bool, error) {
	return true, c.run(b, fmt.Sprintf("app \"log\" {\n  worker \"w\" {\n    command = [%q, %q, \"w\", \"%d\"]\n    logs {\n      to = \"file\"\n"+
		"      rate = 2147483647\n        burst = 2147483647\n      max_size = \"10GB\"\n    }\n  }\n}\n", b.child, b.fifo, lines))
}

func (c *coppice) run(b *bench, hcl string) error {
	// As /run is on a real host, the runtime directory is in memory where that can be.
	runtimeDir, err := os.MkdirTemp("/dev/shm", "coppice-bench")
	if err != nil {
		if runtimeDir, err = os.MkdirTemp("", "coppice-bench"); err != nil {
			return err
		}
	}
	c.runtimeDir = runtimeDir
	dir, err := os.MkdirTemp(b.dir, "c")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "c.hcl")
	host := fmt.Sprintf("host {\n  runtime_dir = %q\n  state_dir = %q\n  log_level = \"error\"\n}\n", runtimeDir, filepath.Join(dir, "s"))
	if err := os.WriteFile(file, []byte(host+hcl), 0o644); err != nil {
		return err
	}
	c.cmd = exec.Command(b.coppice, "run", file)
	c.cmd.Stderr = os.Stderr
	c.client = control.NewClient(filepath.Join(runtimeDir, "control.sock"))
	return c.cmd.Start()
}

func (c *coppice) supervisor() []int { return []int{c.cmd.Process.Pid} }

func (c *coppice) stop() error {
	st, err := c.client.Status(context.Background())
	if err != nil {
		return err
	}
	var apps []string
	for _, n := range st.Nodes {
		if strings.HasPrefix(n.Path, "bench/") && strings.Count(n.Path, "/") == 1 {
			apps = append(apps, n.Path)
		}
	}
	_, err = c.client.Operate(context.Background(), control.VerbStop, apps, control.Ask{Wait: true, Timeout: time.Minute})
	return err
}

func (c *coppice) close() {
	if c.cmd == nil {
		return
	}
	c.client.Close()
	c.cmd.Process.Signal(syscall.SIGTERM)
	c.cmd.Wait()
	os.RemoveAll(c.runtimeDir)
	c.cmd = nil
}
