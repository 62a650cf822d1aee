package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/tree"
	"github.com/spf13/cobra"
)

func (c *console) statusCommand() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status [PATH…]",
		Short: "Show the tree: state, pid, uptime, restarts, reason, what comes next",
		Long: `Show the tree, or the subtrees at the paths. PATH is tenant/app/worker.n, any prefix of it for a whole subtree,
or a shorter tail that only one path has. The exit status is 0 when the daemon answered, whatever the states are.`,
		ValidArgsFunction: c.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			client := c.client()
			defer client.Close()
			show := func(ctx context.Context) error {
				st, err := client.Status(ctx, args...)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(c.out, st)
				}
				return printStatus(c.out, st, time.Now(), colours(c.out))
			}
			if !watch {
				return show(cmd.Context())
			}
			ctx, done := c.whileRead(cmd.Context())
			defer done()
			return c.watch(ctx, asJSON, show)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second, until interrupted")
	return cmd
}

// watch shows again and again. On a terminal each picture takes the place of the one before.
func (c *console) watch(ctx context.Context, asJSON bool, show func(context.Context) error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if isTerminal(c.out) && !asJSON {
			fmt.Fprint(c.out, "\x1b[H\x1b[2J")
		}
		if err := show(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func printStatus(w io.Writer, st control.Status, now time.Time, colour palette) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.StripEscape)
	fmt.Fprintln(tw, "PATH\tSTATE\tPID\tFOR\tRESTARTS\tREASON\tNEXT")
	for _, n := range st.Nodes {
		pid := "-"
		if n.Leaf != nil && n.PID != 0 {
			pid = strconv.Itoa(n.PID)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", n.Path, colour.state(stateWord(n)), pid, age(now, n.Since),
			n.Restarts, output.Escape([]byte(n.Reason)), next(now, n))
	}
	return tw.Flush()
}

// stateWord is the state and what qualifies it.
func stateWord(n tree.Node) (word string, state tree.State) {
	word = string(n.State)
	switch {
	case n.Degraded:
		word += " (degraded)"
	case n.Leaf != nil && n.State == tree.StateRunning && !n.Ready:
		word += " (unready)"
	}
	return word, n.State
}

func age(now, since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return short(now.Sub(since))
}

// short writes a duration with its two largest units at most.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, 24*time.Hour, "d", time.Hour, "h")
}

// units writes a duration in two units; a small one of zero is left out: 1m10s, 2m.
func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	s := strconv.Itoa(int(d/large)) + largeName
	if n := int(d % large / small); n > 0 {
		s += strconv.Itoa(n) + smallName
	}
	return s
}

func next(now time.Time, n tree.Node) string {
	if n.NextAt == nil {
		return ""
	}
	return "in " + short(n.NextAt.Sub(now))
}
