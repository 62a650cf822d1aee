package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coppice-run/coppice/tree/sim"
)

// simulateTwo runs two configurations under the same faults.
func (c *console) simulateTwo(s *simulation, a, b string) error {
	var results [2]*sim.Result
	for i, path := range [2]string{a, b} {
		x, err := c.experiment(s, path)
		if err != nil {
			return err
		}
		x.Lenient = true
		r, err := x.Run()
		if r == nil {
			return c.refuse(err)
		}
		if err != nil {
			return failf("cannot finish the simulation of %s: %v", path, err)
		}
		results[i] = r
		for _, text := range r.Warnings {
			fmt.Fprintf(c.err, "warning: %s: %s\n", path, text)
		}
		for _, text := range r.Notes {
			fmt.Fprintf(c.err, "note: %s: %s\n", path, text)
		}
	}
	if s.json {
		return printJSON(c.out, map[string]any{"a": results[0].Report(), "b": results[1].Report()})
	}
	fmt.Fprintf(c.out, "A  %s: %s\nB  %s: %s\n\n", a, results[0].Headline(), b, results[1].Headline())
	return compareTable(c.out, results[0], results[1])
}

// compareTable prints the summaries of two trees, a line for each path that either has.
func compareTable(out io.Writer, a, b *sim.Result) error {
	type pair [2]*sim.Summary
	var paths []string
	rows := map[string]*pair{}
	for side, r := range [2]*sim.Result{a, b} {
		for i := range r.Nodes {
			n := &r.Nodes[i]
			if rows[n.Path] == nil {
				rows[n.Path] = &pair{}
				paths = append(paths, n.Path)
			}
			rows[n.Path][side] = n
		}
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTARTS\t\tGAVE UP\t\tDOWN\t\tLONGEST\t\tEND\t")
	fmt.Fprintln(t, "\tA\tB\tA\tB\tA\tB\tA\tB\tA\tB")
	for _, path := range paths {
		cells := []string{path}
		if path == "" {
			cells[0] = "host"
		}
		for _, cell := range []func(*sim.Summary) string{
			func(n *sim.Summary) string { return strconv.Itoa(n.Starts) },
			func(n *sim.Summary) string { return strconv.Itoa(n.Escalations) },
			func(n *sim.Summary) string { return brief(n.Downtime) },
			func(n *sim.Summary) string { return brief(n.Longest) },
			func(n *sim.Summary) string { return string(n.State) },
		} {
			for side := range 2 {
				text := "-"
				if n := rows[path][side]; n != nil {
					text = cell(n)
				}
				cells = append(cells, text)
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	x, y := a.Sum(), b.Sum()
	fmt.Fprintf(t, "leaves, in all\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%.2f%% up\t%.2f%% up\n", x.Starts, y.Starts, x.Escalations,
		y.Escalations, brief(x.Downtime), brief(y.Downtime), brief(x.Longest), brief(y.Longest), 100*x.Up, 100*y.Up)
	return t.Flush()
}

func brief(d time.Duration) string {
	s := d.Round(time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// sweepHead names the columns of a sweep.
var sweepHead = []string{"gave_up", "starts", "restarts", "escalations", "up", "downtime", "longest_outage", "longest_outage_of"}

// simulateMany runs one configuration once for each value of a setting.
func (c *console) simulateMany(s *simulation, path string) error {
	sweep, err := sim.ParseSweep(s.sweep)
	if err != nil {
		return usagef("simulate: %v", err)
	}
	x, err := c.experiment(s, path)
	if err != nil {
		return err
	}
	spec := x.Spec
	rows := [][]string{append([]string{sweep.Setting}, sweepHead...)}
	var reports []any
	for i, value := range sweep.Values {
		if x.Spec, err = sweep.Apply(spec, i); err != nil {
			return usagef("simulate: %v", err)
		}
		r, err := x.Run()
		if r == nil {
			return c.refuse(err)
		}
		if err != nil {
			return failf("cannot finish the simulation with %s=%s: %v", sweep.Setting, value, err)
		}
		if i == 0 {
			for _, text := range r.Notes {
				fmt.Fprintln(c.err, "note:", text)
			}
		}
		rows = append(rows, append([]string{value}, sweepRow(r.Sum())...))
		reports = append(reports, map[string]any{sweep.Setting: value, "result": r.Report()})
	}
	switch {
	case s.json:
		return printJSON(c.out, reports)
	case s.csv:
		return csv.NewWriter(c.out).WriteAll(rows)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	rows[0] = slices.Clone(rows[0])
	for i, row := range rows {
		text := strings.Join(row, "\t")
		if i == 0 {
			text = strings.ToUpper(strings.ReplaceAll(text, "_", " "))
		}
		fmt.Fprintln(t, text)
	}
	return t.Flush()
}

// sweepRow prints durations in seconds, for people and for programs alike.
func sweepRow(sum sim.Sum) []string {
	gaveUp := ""
	if sum.GaveUp >= 0 {
		gaveUp = seconds(sum.GaveUp)
	}
	return []string{gaveUp, strconv.Itoa(sum.Starts), strconv.Itoa(sum.Restarts), strconv.Itoa(sum.Escalations),
		strconv.FormatFloat(sum.Up, 'f', 4, 64), seconds(sum.Downtime), seconds(sum.Longest), sum.LongestAt}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
