package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-run/coppice/config"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/tree/sim"
	"github.com/spf13/cobra"
)

// simulation is what the flags of coppice simulate say.
type simulation struct {
	faults   []string
	script   string
	seed     uint64
	until    time.Duration
	json     bool
	full     bool
	quiet    bool
	svg      string
	compare  bool
	sweep    string
	csv      bool
	parsed   []sim.Fault
	canceled func() bool
}

const simulateHelp = `Run a configuration under virtual time: the same tree, decided by the same code as the daemon's, but no process, no
daemon, and ten minutes in a moment. Programs, users and folders need not exist.

Without a fault nothing happens. A fault is a line: who, what, when.

` + sim.Grammar + `
The output is a transcript (a line for each journal entry: its number, the time, what happened, why, and in brackets at the
end the number of the entry that caused it), a table of the nodes, and what the intensities allow: the bound on the starts
of a worker that crashes again and again is the product of intensity+1 over the levels above it, and a level is only passed
if the restarts come fast enough for its period. Warnings on standard error name intensities that can never be exceeded.

The table: STARTS of all kinds, and the BOUND on them in a crash loop; RESTARTS, those that the node's own supervisor
decided; how often it GAVE UP; the part of the time it was UP; how long it was wanted and DOWN, and the LONGEST stretch;
which state it was in at the END; and who ALSO RESTARTED because it failed.`

func (c *console) simulateCommand() *cobra.Command {
	s := simulation{}
	cmd := &cobra.Command{
		Use:   "simulate [CONFIG]",
		Short: "Run the tree under virtual time, with faults",
		Long:  simulateHelp,
		Example: `  coppice simulate shop.hcl --fault 'shop/api: exit 1 every 2s for 1m'
  coppice simulate shop.hcl --script faults.txt --until 1h --svg shop.svg
  coppice simulate --compare old.hcl new.hcl --fault 'db, cache: down at 10s for 30s'
  coppice simulate shop.hcl --fault 'api: exit 1 after ready 100ms' --sweep intensity=1..10 --csv`,
		Args: takes(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(args); err != nil {
				return err
			}
			if err := s.readFaults(c); err != nil {
				return err
			}
			ctx := cmd.Context()
			s.canceled = func() bool { return ctx.Err() != nil }
			switch {
			case s.compare:
				return c.simulateTwo(&s, args[0], args[1])
			case s.sweep != "":
				return c.simulateMany(&s, configPath(args))
			}
			return c.simulateOne(&s, configPath(args))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.faults, "fault", nil, "a fault; may be given more than once")
	f.StringVar(&s.script, "script", "", "a file with a fault on each line, # begins a comment; - is standard input")
	f.Uint64Var(&s.seed, "seed", 1, "of all chance: jitter and probabilities; the same seed gives the same course")
	f.DurationVar(&s.until, "until", sim.Horizon, "how much virtual time to run")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.BoolVar(&s.full, "full", false, "print the whole transcript, however long")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print no transcript, only the summary")
	f.StringVar(&s.svg, "svg", "", "draw the timeline into this file; - is standard output, and then nothing else is printed")
	f.BoolVar(&s.compare, "compare", false, "run two configurations under the same faults, and print one beside the other")
	f.StringVar(&s.sweep, "sweep", "", "run once for each value: [PATH:]intensity=1..10, or period=, backoff= or limit= with a list as 5s,10s,30s")
	f.BoolVar(&s.csv, "csv", false, "print the table of --sweep as comma-separated values")
	return cmd
}

// check refuses flags that do not go together.
func (s *simulation) check(args []string) error {
	switch {
	case s.compare && len(args) != 2:
		return usagef("simulate: --compare needs two configurations, as in coppice simulate --compare A.hcl B.hcl")
	case !s.compare && len(args) == 2:
		return usagef("simulate: two configurations need --compare")
	case s.compare && s.sweep != "":
		return usagef("simulate: --compare and --sweep do not go together")
	case s.svg != "" && (s.compare || s.sweep != ""):
		return usagef("simulate: --svg draws one tree; it does not go with --compare and --sweep")
	case s.csv && s.sweep == "":
		return usagef("simulate: --csv is for --sweep")
	case s.svg == "-" && s.json:
		return usagef("simulate: --svg - and --json do not go together: there is one standard output")
	case s.csv && s.json:
		return usagef("simulate: --csv and --json do not go together")
	case s.until <= 0:
		return usagef("simulate: --until needs more than no time")
	}
	return nil
}

// readFaults parses the script and the faults of the command line, and says everything that is wrong with them.
func (s *simulation) readFaults(c *console) error {
	var wrong []error
	if s.script != "" {
		text, err := c.readScript(s.script)
		if err != nil {
			return failf("cannot read the script: %v", err)
		}
		faults, mistakes := sim.ParseScript(s.script, text)
		s.parsed = faults
		for _, m := range mistakes {
			wrong = append(wrong, m)
		}
	}
	for _, line := range s.faults {
		fault, err := sim.ParseFault(line)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		s.parsed = append(s.parsed, fault)
	}
	if len(wrong) > 0 {
		return c.refuse(errors.Join(wrong...))
	}
	return nil
}

func (c *console) readScript(name string) (string, error) {
	const most = 16 << 20
	in := c.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if len(text) > most {
		err = fmt.Errorf("%s is above 16 MiB", name)
	}
	return string(text), err
}

// refuse says what is wrong with faults, each with its line and a mark below the place, and makes it wrong usage.
func (c *console) refuse(err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		var m *sim.Mistake
		if !errors.As(err, &m) {
			return failf("cannot simulate: %v", err)
		}
		place := *m
		if place.File == "" {
			place.File = "--fault"
		}
		line, pad := pointed(m)
		fmt.Fprintf(c.err, "%s\n    %s\n    %s^\n", output.Escape([]byte(place.Error())), line, pad)
	}
	return usagef("simulate: wrong faults (coppice help simulate has the language)")
}

// pointed returns the line of a mistake, one column for each character and none that could draw on the screen, and what
// stands below it, before the place.
func pointed(m *sim.Mistake) (line, pad string) {
	tame := func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}
	blank := func(r rune) rune {
		if r != '\t' {
			return ' '
		}
		return r
	}
	runes := []rune(strings.Map(tame, strings.TrimRight(m.Source, "\r\n")))
	return string(runes), strings.Map(blank, string(runes[:min(m.Column-1, len(runes))]))
}

// forSimulation is a host on which everything exists: a simulation starts nothing.
func forSimulation() config.Surroundings {
	home, _ := os.UserHomeDir()
	return config.Surroundings{Env: os.LookupEnv, Home: home}
}

// experiment loads a configuration for the faults of the command line.
func (c *console) experiment(s *simulation, path string) (sim.Experiment, error) {
	cfg, diags := config.Load(path, forSimulation())
	if err := diags.Write(c.err, bool(colours(c.err))); err != nil {
		return sim.Experiment{}, err
	}
	if diags.HasErrors() {
		return sim.Experiment{}, &exitError{status: exitFailed}
	}
	return sim.Experiment{Spec: cfg.Tree, Faults: s.parsed, Seed: s.seed, Until: s.until, Interrupted: s.canceled}, nil
}

// defaultKeep is how long a transcript may be that nobody asked for in full.
const defaultKeep = 200

func (c *console) simulateOne(s *simulation, path string) error {
	x, err := c.experiment(s, path)
	if err != nil {
		return err
	}
	x.Picture = s.svg != ""
	x.Keep = defaultKeep
	switch {
	case s.full:
		x.Keep = -1
	case s.quiet:
		x.Keep = 0
	}
	r, err := x.Run()
	if r == nil {
		return c.refuse(err)
	}
	c.warn(r)
	if s.svg != "" {
		if err := c.draw(s, r, path); err != nil {
			return err
		}
	}
	switch {
	case s.svg == "-":
	case s.json:
		if err := printJSON(c.out, r.Report()); err != nil {
			return err
		}
		c.answered = true
	default:
		if err := c.tell(s, r); err != nil {
			return err
		}
	}
	if err != nil {
		return failf("cannot finish the simulation: %v", err)
	}
	return nil
}

func (c *console) warn(r *sim.Result) {
	for _, text := range r.Warnings {
		fmt.Fprintln(c.err, "warning:", text)
	}
	for _, text := range r.Notes {
		fmt.Fprintln(c.err, "note:", text)
	}
}

// tell prints the transcript and the summary.
func (c *console) tell(s *simulation, r *sim.Result) error {
	if !s.quiet {
		if err := r.WriteTranscript(c.out); err != nil {
			return err
		}
		if r.Missing > 0 {
			fmt.Fprintf(c.out, "(the transcript is cut: %d of %d entries; --full prints all)\n", len(r.Events), len(r.Events)+r.Missing)
		}
		fmt.Fprintln(c.out)
	}
	fmt.Fprintln(c.out, r.Headline())
	return r.WriteSummary(c.out)
}

func (c *console) draw(s *simulation, r *sim.Result, path string) error {
	name := filepath.Base(path)
	if s.svg == "-" {
		return r.WriteSVG(c.out, name)
	}
	var text strings.Builder
	if err := r.WriteSVG(&text, name); err != nil {
		return err
	}
	if err := os.WriteFile(s.svg, []byte(text.String()), 0o644); err != nil {
		return failf("cannot draw: %v", err)
	}
	return nil
}
