//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/tree"
)

// soak runs the daemon with 900 workers that stay and 100 that crash at random, and looks every ten seconds whether its
// memory, descriptors and goroutines stay flat and every state that it tells is true. Then it stops all of it.
func soak(b *bench, length time.Duration) error {
	c := &coppice{}
	if err := c.run(b, fmt.Sprintf(soakConfig, "/bin/sleep")); err != nil {
		return err
	}
	defer c.close()
	pid := c.cmd.Process.Pid
	fmt.Println("   time  PSS MiB  fds  goroutines  threads  running  backoff  other  lies  restarts")
	began := now()
	lies := 0
	for now()-began < length {
		time.Sleep(min(10*time.Second, length))
		st, err := c.client.Status(context.Background())
		if err != nil {
			return err
		}
		s := look(st)
		lies += s.lies
		fmt.Printf("%7s  %7.1f  %3d  %10s  %7d  %7d  %7d  %5d  %4d  %8d\n", (now() - began).Truncate(time.Second), pss([]int{pid}),
			entries(fmt.Sprintf("/proc/%d/fd", pid)), metric(c, "go_goroutines"), entries(fmt.Sprintf("/proc/%d/task", pid)),
			s.running, s.backoff, s.other, s.lies, s.restarts)
	}
	children := descendants(pid, "")[1:]
	stopping := now()
	c.close()
	left := 0
	for _, child := range children {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", child)); err == nil {
			left++
		}
	}
	fmt.Printf("stopped %d processes in %s; %d are left; %d states were untrue\n", len(children), (now() - stopping).Truncate(time.Millisecond), left, lies)
	if left > 0 || lies > 0 {
		return fmt.Errorf("something was left, or untrue")
	}
	return nil
}

const soakConfig = `tenant "steady" {
  app "a" {
    worker "w" {
      count = 900
      command = [%q, "100000"]
    }
  }
}
tenant "shaky" {
  app "a" {
    worker "w" {
      count = 100
      command = ["/bin/bash", "-c", "sleep $((RANDOM %% 20)).$((RANDOM %% 10)); echo leaving; exit $((RANDOM %% 3))"]
      restart {
        limit = 0
        cap = "5s"
      }
    }
  }
}
`

// sample is what one look at the tree found.
type sample struct{ running, backoff, other, lies, restarts int }

// look compares what the daemon tells with what the kernel does. A worker may end between the two: a state is untrue only
// if it still is when asked for again, and that is left to the next look.
func look(st control.Status) sample {
	var s sample
	for _, n := range st.Nodes {
		if n.Kind != tree.KindWorker {
			continue
		}
		s.restarts += n.Restarts
		switch n.State {
		case tree.StateRunning:
			s.running++
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", n.PID)); err != nil && strings.HasPrefix(n.Path, "steady") {
				s.lies++
			}
		case tree.StateBackoff:
			s.backoff++
			if n.PID != 0 || n.NextAt == nil || n.Reason == "" {
				s.lies++
			}
		default:
			s.other++
			// Stopping: it has ended, and what it left is being killed.
			if n.State != tree.StateStarting && n.State != tree.StateStopping {
				fmt.Printf("untrue: %s is %s: %s\n", n.Path, n.State, n.Reason)
				s.lies++
			}
		}
	}
	return s
}

func entries(dir string) int {
	all, _ := os.ReadDir(dir)
	return len(all)
}

// metric reads one metric of the daemon.
func metric(c *coppice, name string) string {
	socket := filepath.Join(c.runtimeDir, "control.sock")
	hc := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := hc.Get("http://coppice/metrics")
	if err != nil {
		return "?"
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strings.TrimSpace(string(rest))
		}
	}
	return "?"
}
