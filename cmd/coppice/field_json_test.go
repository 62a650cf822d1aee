package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// What programs read: the JSON of every command, key by key.

// decode parses strictly: one value, nothing behind it.
func decode(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %q", err, text)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one value: %q", text)
	}
	return v
}

func TestFieldJSONOfEveryCommand(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, fmt.Sprintf(apiHouse, "/nonexistent/program"))
	d.running("default/one/good.0")
	nothing := filepath.Join(d.dir, "nothing.sock")
	for _, c := range []struct {
		args, code string
		status     int
	}{
		{"status nosuch", "not_found", 4}, {"status web", "ambiguous", 4}, {"why nosuch", "not_found", 4},
		{"events nosuch", "not_found", 4}, {"logs nosuch", "not_found", 4}, {"stop nosuch", "not_found", 4},
		{"restart", "bad_request", 2}, {"status --bogus", "bad_request", 2}, {"why", "bad_request", 2},
		{"logs -n -3", "bad_request", 2}, {"events --since x", "bad_request", 2},
		{"status --socket " + nothing, "unavailable", 6}, {"start good --socket " + nothing, "unavailable", 6},
		{"restart good gone", "failed", 1}, {"start --timeout 200ms slow", "timeout", 5}, {"stop _host/control", "conflict", 1},
	} {
		for _, args := range []string{"--json " + c.args, c.args + " --json"} {
			if strings.HasPrefix(args, "--json") {
				words := strings.Fields(c.args)
				args = strings.Join(append([]string{words[0], "--json"}, words[1:]...), " ")
			}
			out, errs, status := d.cli(strings.Fields(args)...)
			got := decode(t, out)
			if status != c.status || got["code"] != c.code || got["error"] == "" || errs == "" {
				t.Errorf("coppice %s: status %d, want %d; %q, want code %s; stderr %q", args, status, c.status, out, c.code, errs)
			}
		}
	}
	out, _, _ := d.cli("restart", "good", "gone", "--json")
	results, _ := decode(t, out)["results"].([]any)
	if len(results) != 2 || results[0].(map[string]any)["error"] != nil ||
		results[1].(map[string]any)["error"].(map[string]any)["code"] != "failed" {
		t.Errorf("each target has its result: %s", out)
	}
	for _, args := range []string{"status", "status good", "why good", "why gone", "stop good", "stop good", "start good", "restart one/web"} {
		out, errs, status := d.cli(append(strings.Fields(args), "--json")...)
		decode(t, out)
		if status != 0 || errs != "" {
			t.Errorf("coppice %s --json: status %d, stderr %q", args, status, errs)
		}
	}
	for _, args := range []string{"events", "logs"} {
		for _, line := range strings.Split(strings.TrimSuffix(d.must(args, "--json"), "\n"), "\n") {
			if line != "" {
				decode(t, line)
			}
		}
	}
}

// TestFieldStatusFields holds the JSON of status against the contract, key by key.
func TestFieldStatusFields(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `tenant "acme" {
  app "shop" {
    supervise { strategy = "rest_for_one" }
    worker "web" {
      command = ["sleep", "1000"]
      ready { notify = true }
    }
    worker "api" {
      command = ["sleep", "1000"]
      count   = 2
      after   = ["web"]
    }
  }
  app "mail" {
    worker "bad" {
      command = ["sh", "-c", "exit 7"]
      restart {
        backoff = "1h"
        cap     = "1h"
      }
    }
    worker "in" {
      command = ["python3", "-c", "import os,socket,time\ns=socket.socket(socket.AF_UNIX); s.bind(os.environ['PORT']); s.listen(); time.sleep(1000)"]
      listen  = "unix"
    }
    worker "tcp" {
      command = ["python3", "-c", "import os,socket,time\ns=socket.socket(); s.setsockopt(1,2,1); s.bind(('127.0.0.1',int(os.environ['PORT']))); s.listen(); time.sleep(1000)"]
      listen  = "tcp"
    }
    worker "once" {
      command = ["true"]
      restart { policy = "temporary" }
    }
    worker "killed" {
      command = ["sh", "-c", "kill -9 $$"]
      restart { policy = "temporary" }
    }
    worker "off" {
      command = ["true"]
      enabled = false
    }
  }
}`)
	d.running("acme/mail/in.0")
	d.running("acme/mail/tcp.0")
	for _, path := range []string{"acme/mail/once.0", "acme/mail/killed.0"} {
		d.untilNode(path, "to be done", func(n tree.Node) bool { return n.State == tree.StateDone })
	}
	d.untilNode("acme/shop/web.0", "to start", func(n tree.Node) bool { return n.PID != 0 })
	d.untilNode("acme/mail/bad.0", "to wait", func(n tree.Node) bool { return n.State == tree.StateBackoff })
	d.must("stop", "acme/mail/tcp")
	st := decode(t, d.must("status", "--json"))
	host := st["host"].(map[string]any)
	sameKeys(t, "host", host, "pid version started_at state config")
	sameKeys(t, "config", host["config"].(map[string]any), "files hash applied_at")
	if host["pid"] != float64(d.cmd.Process.Pid) || host["state"] != "running" || host["config"].(map[string]any)["hash"] == "" {
		t.Errorf("host: %v", host)
	}
	nodes := map[string]map[string]any{}
	for _, n := range st["nodes"].([]any) {
		node := n.(map[string]any)
		nodes[node["path"].(string)] = node
		for _, at := range []any{node["since"], host["started_at"]} {
			if _, err := time.Parse(time.RFC3339, at.(string)); err != nil {
				t.Errorf("%v: %v", node["path"], err)
			}
		}
	}
	const every = "path kind state since restarts reason next_at intent "
	for path, keys := range map[string]string{
		"acme": every + "strategy degraded", "acme/shop": every + "strategy degraded", "acme/shop/api": every + "strategy",
		"acme/mail/in.0": every + "ready pid incarnation socket port last_exit",
	} {
		sameKeys(t, path, nodes[path], keys)
	}
	kinds := map[string]string{"acme": "tenant", "acme/shop": "app", "acme/shop/api": "pool", "acme/shop/api.0": "worker", "_host/control": "part"}
	for path, kind := range kinds {
		if nodes[path]["kind"] != kind {
			t.Errorf("%s: kind %v, want %s", path, nodes[path]["kind"], kind)
		}
	}
	if nodes["acme/shop/web"] != nil {
		t.Error("with count = 1 there is only web.0")
	}
	for _, c := range []struct {
		path, key string
		want      any
	}{
		{"acme/shop", "strategy", "rest_for_one"}, {"acme/shop", "degraded", true}, {"acme/mail", "degraded", true},
		{"acme/mail/bad.0", "state", "backoff"}, {"acme/mail/bad.0", "reason", "exit 7"}, {"acme/mail/bad.0", "pid", 0.0},
		{"acme/mail/bad.0", "ready", false}, {"acme/mail/bad.0", "incarnation", 1.0}, {"acme/mail/bad.0", "restarts", 0.0},
		{"acme/shop/web.0", "state", "starting"}, {"acme/shop/web.0", "ready", false}, {"acme/shop/web.0", "reason", ""},
		{"acme/shop/api.0", "state", "waiting"}, {"acme/shop/api", "state", "waiting"}, {"acme/shop/api", "reason", "after web"},
		{"acme/mail/in.0", "state", "running"}, {"acme/mail/in.0", "ready", true}, {"acme/mail/in.0", "port", 0.0},
		{"acme/mail/in.0", "last_exit", nil}, {"acme/mail/in.0", "next_at", nil}, {"acme/mail/in.0", "intent", ""},
		{"acme/mail/once.0", "state", "done"}, {"acme/mail/once.0", "next_at", nil}, {"acme/mail/killed.0", "state", "done"},
		{"acme/mail/off.0", "state", "stopped"}, {"acme/mail/off.0", "reason", "not enabled"},
		{"acme/mail/tcp.0", "state", "stopped"}, {"acme/mail/tcp.0", "intent", "stopped"},
	} {
		if got := nodes[c.path][c.key]; got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.path, c.key, got, c.want)
		}
	}
	for path, n := range nodes {
		if state := n["state"]; state == "backoff" || state == "failed" || state == "waiting" || state == "stopped" {
			if n["reason"] == "" {
				t.Errorf("%s is %v without a reason", path, state)
			}
		}
	}
	if s := nodes["acme/mail/in.0"]["socket"].(string); !strings.HasPrefix(s, filepath.Join(d.run, "s")+"/") || !strings.HasSuffix(s, "-0.sock") {
		t.Errorf("socket: %q", s)
	}
	if by, _ := nodes["acme/mail/tcp.0"]["reason"].(string); !strings.HasPrefix(by, "stopped by ") {
		t.Errorf("reason: %q", by)
	}
	last := nodes["acme/mail/bad.0"]["last_exit"].(map[string]any)
	sameKeys(t, "last_exit", last, "code signal reason at")
	if last["code"] != 7.0 || last["signal"] != "" || last["reason"] != "exit 7" {
		t.Errorf("last_exit: %v", last)
	}
	last = nodes["acme/mail/killed.0"]["last_exit"].(map[string]any)
	if last["code"] != -1.0 || last["signal"] != "KILL" || last["reason"] != "signal KILL" {
		t.Errorf("last_exit: %v", last)
	}
}

// sameKeys wants exactly these keys.
func sameKeys(t *testing.T, what string, got map[string]any, keys string) {
	t.Helper()
	want := map[string]bool{}
	for _, k := range strings.Fields(keys) {
		want[k] = true
		if _, ok := got[k]; !ok {
			t.Errorf("%s has no %q", what, k)
		}
	}
	for k := range got {
		if !want[k] {
			t.Errorf("%s has %q, which the contract does not know", what, k)
		}
	}
}

// TestFieldEventFields: each entry has all eight keys, each kind the data that is promised, and causes point back.
func TestFieldEventFields(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "crash" {
    command = ["sh", "-c", "exit 3"]
    restart {
      backoff = "10ms"
      limit   = 3
    }
  }
  worker "stops" {
    command = ["sh", "-c", "exit 4"]
    restart {
      backoff  = "10ms"
      limit    = 2
      on_limit = "stop"
    }
  }
  worker "flood" {
    command = ["sh", "-c", "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done; exec sleep 1000"]
    logs {
      rate  = 1
      burst = 5
    }
  }
  worker "done" {
    command = ["true"]
    restart { policy = "temporary" }
  }
  worker "stubborn" {
    command = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]
    ready { log = "up" }
    stop { timeout = "50ms" }
  }
}`)
	for _, path := range []string{"crash", "stops"} {
		d.untilNode("default/a/"+path+".0", "to fail", func(n tree.Node) bool { return n.State == tree.StateFailed })
	}
	d.running("default/a/stubborn.0")
	d.must("stop", "stubborn", "--reason", "an odd \x1b[2J \"reason\"\n")
	d.until("dropped lines to be told", func() bool { return d.count("", tree.EventLimitDropped) > 0 })
	seen := map[string]map[string]any{}
	order := 0.0
	for _, line := range strings.Split(strings.TrimSuffix(d.must("events", "--json"), "\n"), "\n") {
		e := decode(t, line)
		sameKeys(t, line, e, "seq time path incarnation kind cause reason data")
		if e["seq"].(float64) != order+1 || e["cause"].(float64) >= e["seq"].(float64) {
			t.Errorf("numbers: %s", line)
		}
		order++
		if _, err := time.Parse(time.RFC3339, e["time"].(string)); err != nil {
			t.Error(err)
		}
		data := e["data"].(map[string]any)
		want := map[string]string{"exited": "code signal ran", "backoff": "delay attempt", "failed": "delay attempt", "limit_dropped": "dropped"}
		for _, k := range strings.Fields(want[e["kind"].(string)]) {
			if _, ok := data[k]; !ok && !strings.HasPrefix(e["path"].(string), "_host") {
				t.Errorf("no %q in the data: %s", k, line)
			}
		}
		seen[e["kind"].(string)+" "+e["path"].(string)] = e
	}
	for _, key := range []string{"daemon_started ", "starting default/a", "ready default/a/stubborn.0", "exited default/a/crash.0", "backoff default/a/crash.0",
		"failed default/a/crash.0", "failed default/a/stops.0", "done default/a/done.0", "intent default/a/stubborn.0", "stopping default/a/stubborn.0",
		"killed default/a/stubborn.0", "stopped default/a/stubborn.0", "limit_dropped default/a/flood.0"} {
		if seen[key] == nil {
			t.Errorf("no entry %q", key)
		}
	}
	if data := seen["failed default/a/crash.0"]["data"].(map[string]any); data["delay"].(float64) < 30 || data["attempt"] != 3.0 {
		t.Errorf("failed, slow: %v", data)
	}
	if data := seen["failed default/a/stops.0"]["data"].(map[string]any); data["delay"] != nil || data["attempt"] != 2.0 {
		t.Errorf("failed, stopped: %v", data)
	}
	if n := d.node("default/a/stops.0"); n.NextAt != nil {
		t.Error("what stays failed has no next time")
	}
	if n := d.node("default/a/crash.0"); n.NextAt == nil || time.Until(*n.NextAt) < 20*time.Second || n.Restarts != 2 {
		t.Errorf("what is retried slowly has a next time: %+v", n)
	}
	// Followed as server-sent events, each is one frame.
	resp := d.get("/v1/events?follow", "Accept: text/event-stream")
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	n, _ := io.ReadAtLeast(resp.Body, buf, 200)
	for _, frame := range strings.Split(string(buf[:n]), "\n\n")[:1] {
		if text, ok := strings.CutPrefix(frame, "data: "); !ok || decode(t, text)["seq"] != 1.0 {
			t.Errorf("frame: %q", frame)
		}
	}
}
