package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/spf13/cobra"
)

func (c *console) whyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "why PATH",
		Short:             "Tell the chain of causes that led to the present state",
		Args:              takes(1, 1),
		ValidArgsFunction: c.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			client := c.client()
			defer client.Close()
			why, err := client.Why(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.out, why)
			}
			return printWhy(c.out, why, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printWhy(out io.Writer, why control.Why, now time.Time) error {
	w := bufio.NewWriter(out)
	n := why.Node
	fmt.Fprintf(w, "%s is %s", n.Path, n.State)
	if n.Reason != "" {
		fmt.Fprintf(w, ": %s", output.Escape([]byte(n.Reason)))
	}
	if !n.Since.IsZero() {
		fmt.Fprintf(w, " (for %s)", age(now, n.Since))
	}
	if s := next(now, n); s != "" {
		fmt.Fprintf(w, "; it is tried again %s", s)
	}
	fmt.Fprintln(w)
	for i, e := range why.Chain {
		word := "because"
		if i == 0 {
			word = "since"
		}
		fmt.Fprintf(w, "  %-7s %s\n", word, eventLine(e))
	}
	if !why.Complete {
		fmt.Fprintln(w, "  what came before is no longer in the journal, or not yours to see")
	}
	return w.Flush()
}
