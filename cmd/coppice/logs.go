package main

import (
	"encoding/json"
	"fmt"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/spf13/cobra"
)

func (c *console) logsCommand() *cobra.Command {
	var asJSON, raw bool
	var q control.StreamQuery
	cmd := &cobra.Command{
		Use:   "logs [PATH…]",
		Short: "Print workers' output, merged by time",
		Long: `Print the newest lines of workers' output, merged by time. On a terminal control characters are shown as visible
escapes, so that a worker cannot draw on your screen; --raw, or a pipe, gets them as they are.`,
		ValidArgsFunction: c.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.N < 0 {
				return usagef("logs: -n %d: write a number from 0 up", q.N)
			}
			client := c.client()
			defer client.Close()
			q.Paths = args
			escape := isTerminal(c.out) && !raw
			ctx, done := c.whileRead(cmd.Context())
			defer done()
			return client.Logs(ctx, q, func(line []byte) error {
				if asJSON {
					_, err := c.out.Write(line)
					return err
				}
				var l output.Line
				if err := json.Unmarshal(line, &l); err != nil {
					return fmt.Errorf("cannot read a line of output: %w", err)
				}
				text := string(l.Raw())
				if escape {
					text = output.Escape(l.Raw())
				}
				_, err := fmt.Fprintf(c.out, "%s %s %s | %s\n", l.Time.Local().Format(timeFormat), l.Path, l.Stream, text)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&raw, "raw", false, "leave control characters as they are, on a terminal too")
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVarP(&q.N, "lines", "n", 100, "how many lines, in all")
	cmd.Flags().StringVar(&q.Since, "since", "", "only since then: a duration (10m) or a time (RFC 3339)")
	return cmd
}
