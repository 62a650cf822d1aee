package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/tree"
	"github.com/spf13/cobra"
)

func (c *console) eventsCommand() *cobra.Command {
	var asJSON bool
	var q control.StreamQuery
	cmd := &cobra.Command{
		Use:               "events [PATH…]",
		Short:             "Print the journal, all that is kept",
		Long:              "Print the journal, oldest first. The number in brackets is the entry that caused it.",
		ValidArgsFunction: c.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			client := c.client()
			defer client.Close()
			q.Paths = args
			ctx, done := c.whileRead(cmd.Context())
			defer done()
			return client.Events(ctx, q, func(e tree.Event) error {
				if asJSON {
					return json.NewEncoder(c.out).Encode(e)
				}
				_, err := fmt.Fprintln(c.out, eventLine(e))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().StringVar(&q.Since, "since", "", "only since then: a duration (10m) or a time (RFC 3339)")
	return cmd
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// eventLine is one journal entry for people.
func eventLine(e tree.Event) string {
	var b strings.Builder
	path := e.Path
	if path == "" {
		path = "host"
	}
	fmt.Fprintf(&b, "%6d %s %s", e.Seq, e.Time.Local().Format(timeFormat), path)
	if e.Incarnation > 0 {
		fmt.Fprintf(&b, "#%d", e.Incarnation)
	}
	fmt.Fprintf(&b, " %s", e.Kind)
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", output.Escape([]byte(e.Reason)))
	}
	b.WriteString(dataWords(e.Data))
	if e.Cause != 0 {
		fmt.Fprintf(&b, " [%d]", e.Cause)
	}
	return b.String()
}

// dataWord writes one value. Those that programs read as a number of seconds are durations to people.
func dataWord(key string, value any) string {
	seconds, ok := value.(float64)
	if ok && (key == "delay" || key == "ran" || key == "within") {
		return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
	}
	return fmt.Sprint(value)
}

// dataWords writes what an entry holds beside its reason as key=value, in the order of the keys.
func dataWords(data map[string]any) string {
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		if v := dataWord(k, data[k]); v != "" && data[k] != nil {
			fmt.Fprintf(&b, " %s=%s", k, output.Escape([]byte(v)))
		}
	}
	return b.String()
}
