package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/tree/sim"
)

// simShop names a program and a user that no machine has: a simulation needs neither.
const simShop = `
tenant "acme" {
  user = "nobody-of-this-name"
  supervise {
    intensity = 2
    period    = "1m"
  }
  app "shop" {
    root = "/no/such/folder"
    supervise {
      strategy  = "rest_for_one"
      intensity = 2
      period    = "10s"
    }
    worker "db" {
      command = ["/no/such/program"]
    }
    worker "web" {
      command = ["/no/such/program"]
      count   = 2
    }
  }
}
`

// simulate runs the command on configurations in a folder of their own, which is named DIR in what it printed.
func simulate(t *testing.T, stdin string, args ...string) (status int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shop.hcl": simShop,
		"all.hcl":  strings.Replace(simShop, "rest_for_one", "one_for_all", 1),
		"bare.hcl": "app \"shop\" {\n  worker \"db\" {\n    command = [\"/bin/true\"]\n  }\n}\n",
		"bad.hcl":  "app \"shop\" {\n  wroker \"db\" { }\n}\n",
		"f.txt":    "# two\ndb: exit 1 at 5s\n\nweb.1: signal KILL at 9s\n",
		"g.txt":    "db: exit 1 at 5s\n\tweb.1: signal KLIL at 9s\nnope: hang at 1s\ndb: exit at 2s\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	var o, e bytes.Buffer
	status = Run(context.Background(), append([]string{"simulate"}, args...), strings.NewReader(stdin), &o, &e)
	clean := func(s string) string { return strings.ReplaceAll(s, dir, "DIR") }
	return status, clean(o.String()), clean(e.String())
}

func TestSimulate(t *testing.T) {
	status, out, errs := simulate(t, "", "DIR/shop.hcl", "--script", "DIR/f.txt", "--until", "20s")
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{
		"down acme/shop/db.0#1: exit 1", "stop acme/shop/web#1: sibling db.0", "down acme/shop/web.1#2: signal KILL",
		"20s simulated, seed 1: ", "; the tree still stands", "NODE ", "\n    acme/shop ", "acme/shop/web.0×1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	status, again, errs := simulate(t, "db: exit 1 at 5s\nweb.1: signal KILL at 9s", "--until=20s", "--script", "-", "DIR/shop.hcl", "--seed", "1")
	if status != 0 || again != out {
		t.Errorf("status %d: the same faults from standard input took another course: %s\n%s", status, errs, again)
	}
	_, quiet, _ := simulate(t, "", "DIR/shop.hcl", "--script", "DIR/f.txt", "--until", "20s", "-q")
	if !strings.HasSuffix(out, "\n\n"+quiet) || !strings.HasPrefix(quiet, "20s simulated") {
		t.Errorf("--quiet prints\n%s", quiet)
	}
}

func TestSimulateCutsAndSaysSo(t *testing.T) {
	args := []string{"DIR/shop.hcl", "--fault", "db: exit 1 after ready 100ms"}
	_, out, _ := simulate(t, "", args...)
	m := regexp.MustCompile(`(?m)^… (\d+) more entries …$[\s\S]*^\(the transcript is cut: 200 of \d+ entries; --full prints all\)$`).FindString(out)
	if m == "" {
		t.Errorf("it does not say that it is cut:\n%s", out)
	}
	_, full, _ := simulate(t, "", append(args, "--full")...)
	if strings.Contains(full, "more entries") || strings.Count(full, "\n") < 2*strings.Count(out, "\n") {
		t.Errorf("--full is cut:\n%s", full)
	}
}

func TestSimulateJSON(t *testing.T) {
	status, out, errs := simulate(t, "", "DIR/shop.hcl", "--json", "--fault", "db: exit 1 after ready 100ms", "--until", "1m")
	var r sim.Report
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, errs, out)
	}
	var db *sim.NodeReport
	for i := range r.Nodes {
		sum := 0.0
		for _, s := range r.Nodes[i].States {
			sum += s
		}
		if sum < 59.999 || sum > 60.001 {
			t.Errorf("%s was %g s in all its states", r.Nodes[i].Path, sum)
		}
		if r.Nodes[i].Path == "acme/shop/db.0" {
			db = &r.Nodes[i]
		}
	}
	switch {
	case db == nil || db.Bound == nil || db.Bound.Starts != nil || db.Bound.Below != 9 || db.Bound.Level != "host":
		t.Errorf("db: %+v", db)
	case db.Starts < 9 || db.Blast["acme/shop/web.0"] == 0 || r.Until != 60 || r.GaveUp != nil:
		t.Errorf("%+v of %+v", db, r)
	}
	last := 0.0
	for _, e := range r.Events {
		if e.At < last || e.Cause >= e.Seq || e.Data == nil {
			t.Fatalf("event %+v after %g s", e, last)
		}
		last = e.At
	}
}

func TestSimulateDraws(t *testing.T) {
	status, out, errs := simulate(t, "", "DIR/shop.hcl", "--script", "DIR/f.txt", "--svg", "-")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	}
	status, _, errs = simulate(t, "", "DIR/shop.hcl", "--svg", "DIR/no/such/x.svg")
	if status != 1 || !strings.Contains(errs, "cannot draw: open DIR/no/such/x.svg: no such file or directory") {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestSimulateCompares(t *testing.T) {
	status, out, errs := simulate(t, "", "--compare", "DIR/shop.hcl", "DIR/bare.hcl", "--fault", "web.1: exit 1 at 5s", "--fault", "db: exit 1 at 9s")
	if status != 0 || !strings.Contains(errs, `note: DIR/bare.hcl: "web.1: exit 1 at 5s" does nothing here: no node is called "web.1"`) {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{"A  DIR/shop.hcl: 10m simulated", "B  DIR/bare.hcl: 10m simulated", "acme/shop/db.0 ", "default/shop/db.0 ", "leaves, in all", "% up"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	_, out, _ = simulate(t, "", "--compare", "DIR/shop.hcl", "DIR/all.hcl", "--fault", "web.1: exit 1 at 5s", "--json")
	var both map[string]sim.Report
	if err := json.Unmarshal([]byte(out), &both); err != nil || len(both["a"].Nodes) != 7 || len(both["b"].Nodes) != 7 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSimulateSweeps(t *testing.T) {
	fault := []string{"DIR/shop.hcl", "--fault", "db: exit 1 after ready 100ms", "--until", "2m"}
	status, out, errs := simulate(t, "", append(fault, "--sweep", "intensity=1..10", "--csv")...)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || status != 0 || len(rows) != 11 || rows[0][0] != "intensity" || rows[10][0] != "10" || len(rows[5]) != 9 {
		t.Fatalf("status %d, %v: %s%s", status, err, errs, out)
	}
	if rows[1][2] == rows[3][2] {
		t.Errorf("the intensity changes nothing: %v", rows)
	}
	for _, sweep := range []string{"period=5s,10s,30s", "backoff=0s,1s", "limit=1,2,5..7", "acme:intensity=0..2", "shop:backoff=1s", "web:limit=3", "acme/shop/db.0:backoff=2s"} {
		if status, out, errs := simulate(t, "", append(fault, "--sweep", sweep)...); status != 0 || !strings.Contains(out, "LONGEST OUTAGE OF") {
			t.Errorf("%s: status %d: %s%s", sweep, status, out, errs)
		}
	}
	_, out, _ = simulate(t, "", append(fault, "--sweep", "limit=1,2", "--json")...)
	var list []struct {
		Limit  string
		Result sim.Report
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[1].Limit != "2" || len(list[1].Result.Nodes) != 7 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSimulateRefuses is wrong usage, status 2, and what cannot be done, status 1.
func TestSimulateRefuses(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"DIR/shop.hcl --script DIR/g.txt", 2, "DIR/g.txt:2:16: unknown word \"KLIL\": did you mean \"KILL\"?"},
		{"DIR/shop.hcl --script DIR/g.txt", 2, "\n    \tweb.1: signal KLIL at 9s\n    \t              ^\n"},
		{"DIR/shop.hcl --script DIR/g.txt", 2, "DIR/g.txt:4:10: an exit status is a number from 0 to 255, not \"at\""},
		{"DIR/shop.hcl --fault nope:hang@at@1s", 2, "--fault:1:1: no node is called \"nope\"; the leaves are acme/shop/db.0, acme/shop/web.0, acme/shop/web.1\n    nope:hang at 1s\n    ^\n"},
		{"DIR/shop.hcl --script DIR/none.txt", 1, "cannot read the script: open DIR/none.txt: no such file or directory"},
		{"DIR/none.hcl", 1, "DIR/none.hcl"},
		{"DIR/bad.hcl", 1, "wroker"},
		{"DIR/shop.hcl DIR/all.hcl", 2, "two configurations need --compare"},
		{"--compare DIR/shop.hcl", 2, "--compare needs two configurations"},
		{"DIR/shop.hcl --csv", 2, "--csv is for --sweep"},
		{"DIR/shop.hcl --sweep intensty=1..3", 2, `did you mean "intensity"?`},
		{"DIR/shop.hcl --sweep period=5", 2, `"5" is no duration`},
		{"DIR/shop.hcl --sweep intensity=3..1", 2, `"3..1" is no number and no range`},
		{"DIR/shop.hcl --sweep nope:intensity=1", 2, `no node is called "nope"`},
		{"DIR/shop.hcl --sweep db:intensity=1", 2, `it is no supervisor`},
		{"DIR/bare.hcl --sweep intensity=1..3", 2, `no supervisor has an intensity; name one, as in PATH:intensity=`},
		{"DIR/shop.hcl --svg x --sweep intensity=1", 2, "--svg draws one tree"},
		{"DIR/shop.hcl --svg - --json", 2, "there is one standard output"},
		{"DIR/shop.hcl --fault db:\x1b[2J", 2, "\n    db:?[2J\n       ^\n"},
		{"DIR/shop.hcl --until 0s", 2, "--until needs more than no time"},
		{"DIR/shop.hcl --until soon", 2, "--until"},
		{"a b c", 2, `"c" is too much`},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "@", " ")
		}
		status, out, errs := simulate(t, "", args...)
		if strings.Contains(c.args, "--json") {
			out = "" // says the same to programs
		}
		if status != c.status || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", c.args, status, c.status, c.want, errs, out)
		}
	}
}

func TestSimulateWarnsFromTheSpecification(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.hcl")
	text := strings.Replace(simShop, `period    = "1m"`, `period    = "2s"`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Run(context.Background(), []string{"simulate", "-q", file}, strings.NewReader(""), &out, &errs)
	if status != 0 || !strings.HasPrefix(errs.String(), "warning: acme: intensity 2 within 2s can never be exceeded: 3 restarts take at least ") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// TestSimulateEnds: no tree and no signal can keep it.
func TestSimulateEnds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "loop.hcl")
	text := "app \"shop\" {\n  worker \"db\" {\n    command = [\"/bin/true\"]\n    restart {\n      backoff = \"0s\"\n      limit   = 0\n    }\n  }\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Run(context.Background(), []string{"simulate", "-q", file, "--fault", "db: exit 1 after ready"}, strings.NewReader(""), &out, &errs)
	if status != 1 || !strings.Contains(errs.String(), "cannot finish the simulation: time stands still at 0s: ") {
		t.Errorf("status %d: %s", status, errs.String())
	}
	out.Reset()
	status = Run(context.Background(), []string{"simulate", "--json", file, "--fault", "db: exit 1 after ready"}, strings.NewReader(""), &out, &errs)
	var r sim.Report
	d := json.NewDecoder(&out)
	if err := d.Decode(&r); err != nil || status != 1 || d.More() || len(r.Nodes) == 0 {
		t.Errorf("status %d, %v: not one answer", status, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	errs.Reset()
	status = Run(ctx, []string{"simulate", "-q", file, "--fault", "db: exit 1 after ready 1ms", "--until", "9000h"}, strings.NewReader(""), &out, &errs)
	if status != 1 || !strings.Contains(errs.String(), "interrupted at ") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

func TestSimulateHelpHasTheLanguage(t *testing.T) {
	var out, errs bytes.Buffer
	status := Run(context.Background(), []string{"help", "simulate"}, strings.NewReader(""), &out, &errs)
	if status != 0 || !strings.Contains(out.String(), sim.Grammar) {
		t.Errorf("status %d: %s%s", status, out.String(), errs.String())
	}
}
