// Command compare measures Coppice's embedded trees beside suture, protoactor's own supervision and, where erl is installed,
// OTP: the time from a child's end to its successor's readiness, and what an idle child costs.
//
//	go run ./examples/compare
//	go run ./examples/compare -n 100,1000 -restarts 500
//
// Each figure comes from a program of its own, so that no subject pays for another's garbage.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figures are what one subject shows with so many children.
type figures struct {
	Median float64 // µs from an end to the successor's readiness
	Worst  float64 // the 99th of a hundred
	Bytes  float64 // per idle child
}

func main() {
	sizes := flag.String("n", "100,1000,100000", "how many children, separated by commas")
	restarts := flag.Int("restarts", 2000, "ends to measure")
	only := flag.String("only", "", "subjects whose name contains this")
	subject := flag.String("subject", "", "measure one subject and print its figures as JSON (used by compare itself)")
	flag.Parse()
	var err error
	if *subject != "" {
		err = one(*subject, *sizes, *restarts)
	} else {
		err = compare(os.Stdout, *sizes, *restarts, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// one measures a subject in this program.
func one(name, size string, restarts int) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if s.name == name {
			f, err := measure(s, n, restarts)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(f)
		}
	}
	return fmt.Errorf("no subject %q", name)
}

// compare measures all subjects, each in a program of its own, and prints a table.
func compare(out io.Writer, sizes string, restarts int, only string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for size := range strings.SplitSeq(sizes, ",") {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "%s children\tend to ready, median\t99 of 100\tto Coppice\tbytes a child\tto Coppice\t\n", size)
		var base *figures
		for _, s := range subjects {
			if !strings.Contains(s.name, only) {
				continue
			}
			f, err := run(exec.Command(self, "-subject", s.name, "-n", size, "-restarts", strconv.Itoa(restarts)))
			if err != nil {
				return fmt.Errorf("%s with %s children: %w", s.name, size, err)
			}
			base = orSelf(base, f)
			row(table, s.name, f, base)
		}
		if strings.Contains("OTP", only) || only == "" {
			f, missing, err := otp(size, restarts)
			switch {
			case err != nil:
				return err
			case missing != "":
				fmt.Fprintf(table, "OTP: %s\t\t\t\t\t\t\n", missing)
			default:
				row(table, "OTP supervisor, process is killed", f, orSelf(base, f))
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// orSelf is what a row is compared with: the first row.
func orSelf(base, f *figures) *figures {
	if base == nil {
		return f
	}
	return base
}

func row(out io.Writer, name string, f, base *figures) {
	fmt.Fprintf(out, "%s\t%.1f µs\t%.1f µs\t%.2f×\t%.0f\t%.2f×\t\n", name, f.Median, f.Worst, f.Median/base.Median, f.Bytes, f.Bytes/base.Bytes)
}

func run(cmd *exec.Cmd) (*figures, error) {
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	f := new(figures)
	return f, json.Unmarshal(text, f)
}
