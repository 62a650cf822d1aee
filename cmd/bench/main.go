//go:build linux

// Command bench measures Coppice beside the floor for a supervisor written in Go and beside runit, s6 and supervisord where
// they are installed: the same children, the same work, in one run. Only the ratios between its columns mean anything: the
// machine that you run it on is noisy, and its neighbour's is another.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"
)

type options struct {
	children, kills, lines int
	idle                   time.Duration
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-bare" {
		bareMain(os.Args[2:])
		return
	}
	var o options
	program := flag.String("coppice", "bin/coppice", "the program to measure")
	only := flag.String("only", "", "comma-separated contestants (bare Go, coppice, runit, s6, supervisord, fair); default all")
	flag.IntVar(&o.children, "children", 1000, "how many children start at once and idle")
	flag.IntVar(&o.kills, "kills", 30, "how many single kills (1 to 100)")
	flag.IntVar(&o.lines, "lines", 5_000_000, "lines of 100 bytes for the log figure")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long to watch an idle supervisor")
	soaking := flag.Duration("soak", 0, "instead: run 1,000 workers, 100 of which crash at random, for this long")
	flag.Parse()
	if err := run(*program, *only, *soaking, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(program, only string, soaking time.Duration, o options) error {
	b, err := newBench(program)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if soaking > 0 {
		return soak(b, soaking)
	}
	wanted := func(name string) bool {
		return only == "" || strings.Contains(","+only+",", ","+name+",")
	}
	var names []string
	results := map[string]figures{}
	for _, c := range contestants() {
		if !wanted(c.name()) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s...\n", c.name())
		f, err := measure(b, c, o)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.name(), err)
		}
		names = append(names, c.name())
		results[c.name()] = f
	}
	print(names, results, o)
	if wanted("fair") {
		return fairness(b)
	}
	return nil
}

// contestants are those that are installed.
func contestants() []contestant {
	all := []contestant{&bareGo{}, &coppice{}}
	for _, p := range []struct {
		program string
		c       contestant
	}{{"runsvdir", runit()}, {"s6-svscan", s6()}, {"/usr/bin/supervisord", &supervisord{}}} {
		if _, err := exec.LookPath(p.program); err == nil {
			all = append(all, p.c)
		} else {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed: left out\n", p.c.name())
		}
	}
	return all
}

// print writes the table, each figure with its ratio to bare Go's.
func print(names []string, results map[string]figures, o options) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "N = %d, idle watched for %s\t%s\n", o.children, o.idle, strings.Join(names, "\t"))
	for _, row := range rows {
		fmt.Fprint(tw, row.about)
		for _, name := range names {
			v, ok := results[name][row.key]
			if !ok {
				fmt.Fprint(tw, "\t-")
				continue
			}
			fmt.Fprintf(tw, "\t%.4g", v)
			if base, ok := results["bare Go"][row.key]; ok && base > 0 && name != "bare Go" {
				fmt.Fprintf(tw, " (%.2fx)", v/base)
			}
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}
