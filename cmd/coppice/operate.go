package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/notify"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/spf13/cobra"
)

// past is how a verb is said when it is done.
var past = map[control.Verb]string{
	control.VerbStart: "started", control.VerbStop: "stopped", control.VerbRestart: "restarted",
}

func (c *console) operateCommand(verb control.Verb, short string) *cobra.Command {
	var asJSON, noWait bool
	ask := control.Ask{Verb: verb}
	cmd := &cobra.Command{
		Use:   string(verb) + " PATH…",
		Short: short,
		Long: short + `.

A stop is remembered until start or restart, across restarts of the worker's siblings and parents. start and restart
end with status 1 at the first failed start, and say why; with 5 when --timeout passes first.`,
		Args:              takes(1, math.MaxInt),
		ValidArgsFunction: c.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ask.Timeout <= 0 {
				return usagef("%s: --timeout %s: write a duration above zero", verb, ask.Timeout)
			}
			ask.Wait = !noWait
			client := c.client()
			defer client.Close()
			results, err := client.Operate(cmd.Context(), verb, args, ask)
			if len(results) == 0 {
				return err
			}
			if werr := c.printResults(verb, results, ask.Wait, asJSON); werr != nil {
				return werr
			}
			if err != nil {
				// Each failure is said already, beside what went well.
				c.answered = true
				return &exitError{status: c.judge(err).status}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "only ask; do not wait until it is done")
	cmd.Flags().DurationVar(&ask.Timeout, "timeout", time.Minute, "how long to wait")
	cmd.Flags().StringVar(&ask.Reason, "reason", "", "why, for the journal")
	return cmd
}

// printResults says what came of each path: errors on stderr, the rest on stdout. As JSON all of it is on stdout, in the
// form of the API, and the errors on stderr too.
func (c *console) printResults(verb control.Verb, results []control.Result, waited, asJSON bool) (err error) {
	var first *control.Error
	for _, r := range results {
		word := past[verb]
		switch {
		case r.Error != nil:
			first = cmp.Or(first, r.Error)
			c.complain(r.Error.Message)
			continue
		case r.Note != "":
			word = r.Note
		case !waited:
			word = "asked to " + string(verb)
		}
		if !asJSON {
			if _, werr := fmt.Fprintf(c.out, "%s: %s\n", r.Path, output.Escape([]byte(word))); werr != nil {
				err = werr
			}
		}
	}
	if asJSON {
		return printJSON(c.out, struct {
			*control.Error
			control.Answer
		}{first, control.Answer{Results: results}})
	}
	return err
}

// notifyPatience bounds how long a worker's script is held up by a daemon that does not take its word.
const notifyPatience = 5 * time.Second

func (c *console) notifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "notify READY=1 …",
		Short: "Tell the supervisor from a shell worker",
		Long: `Send sd_notify assignments (READY=1, STATUS=words, WATCHDOG=1, STOPPING=1) to the socket that NOTIFY_SOCKET names,
and wait until they are taken.`,
		Args: takes(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), notifyPatience)
			defer cancel()
			if err := notify.Send(ctx, args...); err != nil {
				return failf("%v", err)
			}
			return nil
		},
	}
}
