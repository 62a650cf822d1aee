package sim

import (
	"fmt"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Report is a Result as JSON: durations in seconds, and what is not there is null or left out.
type Report struct {
	Seed     uint64        `json:"seed"`
	Until    float64       `json:"until"`
	GaveUp   *float64      `json:"gave_up"` // when the root ended
	Reason   string        `json:"reason"`
	Facts    uint64        `json:"facts"`
	Restarts int           `json:"restarts"`
	Warnings []string      `json:"warnings"`
	Notes    []string      `json:"notes"`
	Nodes    []NodeReport  `json:"nodes"`
	Events   []EventReport `json:"events,omitempty"`
	Missing  int           `json:"events_missing"`
}

// NodeReport is a Summary as JSON.
type NodeReport struct {
	Path        string             `json:"path"`
	Kind        tree.Kind          `json:"kind"`
	Strategy    tree.Strategy      `json:"strategy,omitempty"`
	State       tree.State         `json:"state"`
	Starts      int                `json:"starts"`
	Restarts    int                `json:"restarts"`
	Failures    int                `json:"failures"`
	Escalations int                `json:"escalations"`
	States      map[string]float64 `json:"states"`
	Downtime    float64            `json:"downtime"`
	Longest     float64            `json:"longest_outage"`
	Bound       *BoundReport       `json:"bound,omitempty"`
	Blast       map[string]int     `json:"blast"`
}

// BoundReport is a Bound as JSON. Starts is null if there is none; Below tells how many there are in each life of the node
// below the level where the loop lives for ever.
type BoundReport struct {
	Starts  *uint64 `json:"starts"`
	Below   uint64  `json:"starts_below"`
	Formula string  `json:"formula"`
	Level   string  `json:"level"`
	Why     string  `json:"why"`
}

// EventReport is a journal entry, and when it came, in seconds since the beginning.
type EventReport struct {
	At float64 `json:"at"`
	tree.Event
}

// Report returns the result as JSON has it.
func (r *Result) Report() Report {
	out := Report{Seed: r.Seed, Until: r.Until.Seconds(), Reason: r.Reason, Facts: r.Facts, Restarts: r.Restarts, Missing: r.Missing,
		Warnings: append([]string{}, r.Warnings...), Notes: append([]string{}, r.Notes...)}
	if r.Reason != "" {
		at := r.GaveUp.Seconds()
		out.GaveUp = &at
	}
	for i := range r.Nodes {
		out.Nodes = append(out.Nodes, r.Nodes[i].report())
	}
	for _, ev := range r.Events {
		out.Events = append(out.Events, EventReport{At: ev.Time.Sub(r.begin).Seconds(), Event: ev})
	}
	return out
}

func (s *Summary) report() NodeReport {
	n := NodeReport{Path: s.Path, Kind: s.Kind, Strategy: s.Strategy, State: s.State, Starts: s.Starts, Restarts: s.Restarts,
		Failures: s.Failures, Escalations: s.Escalations, States: map[string]float64{}, Downtime: s.Downtime.Seconds(),
		Longest: s.Longest.Seconds(), Blast: map[string]int{}}
	for i, d := range s.In {
		if d > 0 {
			n.States[string(States[i])] = d.Seconds()
		}
	}
	for _, h := range s.Blast {
		n.Blast[h.Path] = h.Starts
	}
	if s.Leaf() {
		n.Bound = &BoundReport{Below: s.Bound.Starts, Formula: s.Bound.Formula, Level: s.Bound.Level, Why: s.Bound.Why}
		if !s.Bound.Forever {
			n.Bound.Starts = &s.Bound.Starts
		}
	}
	return n
}

// Headline says in a line what became of the tree.
func (r *Result) Headline() string {
	end := "the tree still stands"
	if r.Reason != "" {
		end = fmt.Sprintf("the tree gave up at %s: %s", round(r.GaveUp), r.Reason)
	}
	return fmt.Sprintf("%s simulated, seed %d: %d restarts, %d facts; %s", round(r.Until), r.Seed, r.Restarts, r.Facts, end)
}

// Sum adds up what a table of several experiments shows of each.
func (r *Result) Sum() Sum {
	sum := Sum{Restarts: r.Restarts, GaveUp: -1}
	if r.Reason != "" {
		sum.GaveUp = r.GaveUp
	}
	leaves := 0
	var up time.Duration
	for i := range r.Nodes {
		s := &r.Nodes[i]
		sum.Escalations += s.Escalations
		if !s.Leaf() {
			continue
		}
		leaves++
		up += s.Up()
		sum.Starts += s.Starts
		sum.Downtime += s.Downtime
		if s.Longest > sum.Longest {
			sum.Longest, sum.LongestAt = s.Longest, s.Path
		}
	}
	if leaves > 0 && r.Until > 0 {
		sum.Up = up.Seconds() / r.Until.Seconds() / float64(leaves)
	}
	return sum
}

// Sum is an experiment in a row of a table. Starts, Downtime and Up, the part of the time in which they were up, are of the
// leaves; Longest is the longest stretch that one of them was down.
type Sum struct {
	GaveUp      time.Duration // of the root; -1: it did not
	Starts      int
	Restarts    int
	Escalations int
	Up          float64
	Downtime    time.Duration
	Longest     time.Duration
	LongestAt   string
}
