package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/spf13/cobra"
)

// The exit statuses that no answer of the daemon stands behind; those have theirs from control.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitIntensity = 70
	exitBusy      = 75
)

// exitError ends a command with a status. Message may be empty when all is said already.
type exitError struct {
	status  int
	message string
}

func (e *exitError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

func failf(format string, args ...any) error {
	return &exitError{exitFailed, fmt.Sprintf(format, args...)}
}

// console is what a command has to do with the world.
type console struct {
	in       io.Reader
	out, err io.Writer
	socket   string // --socket
	begun    bool   // the words were right, and the command has begun
	answered bool   // what --json promises is on stdout, although the command failed
}

// Run runs one command as main does, and returns its exit status. It blocks until the command is done or ctx ends.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &console{in: stdin, out: stdout, err: stderr}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	said := c.judge(err)
	if said.message != "" {
		c.complain(said.message)
	}
	if !c.answered && wantsJSON(args) {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.Encode(control.Error{Message: said.message, Code: said.code})
	}
	return said.status
}

// complain says on stderr what went wrong. Words of others in it cannot draw on the screen.
func (c *console) complain(message string) {
	fmt.Fprintf(c.err, "coppice: %s\n", output.Escape([]byte(message)))
}

// verdict is what becomes of an error: the exit status, what is said on stderr, and the word for programs.
type verdict struct {
	status  int
	message string
	code    control.Code
}

func (c *console) judge(err error) verdict {
	var exit *exitError
	var answer *control.Error
	switch {
	case errors.As(err, &exit):
		codes := map[int]control.Code{exitUsage: control.CodeUsage, exitBusy: control.CodeConflict}
		if code, ok := codes[exit.status]; ok {
			return verdict{exit.status, exit.message, code}
		}
		return verdict{exit.status, exit.message, control.CodeFailed}
	case errors.As(err, &answer):
		return verdict{answer.ExitStatus(), answer.Message, answer.Code}
	case c.begun:
		return verdict{exitFailed, err.Error(), control.CodeFailed}
	}
	// What is left comes from cobra: unknown commands and flags, wrong numbers of arguments.
	return verdict{exitUsage, strings.TrimSpace(err.Error()) + " (coppice help tells more)", control.CodeUsage}
}

// wantsJSON tells whether the arguments ask for JSON, also where they are wrong otherwise: a program that asked for it
// gets nothing else on stdout.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

func (c *console) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "coppice",
		Short: "A supervision tree for one Linux host",
		Long: `Coppice supervises the workers of many tenants on one Linux host, as Erlang/OTP supervises its processes.

Exit statuses: 0 done; 1 it failed; 2 wrong usage; 4 no such path, or an ambiguous one; 5 timed out waiting; 6 the
daemon cannot be reached; 7 not allowed; 70 the host's intensity was exceeded; 75 another daemon holds the folder.`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRun:           func(*cobra.Command, []string) { c.begun = true },
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q%s", args[0], suggestion(cmd, args[0]))
			}
			cmd.SetOut(c.err)
			cmd.Help()
			return &exitError{status: exitUsage}
		},
	}
	root.PersistentFlags().StringVar(&c.socket, "socket", "",
		"control socket of the daemon (default $COPPICE_CONTROL, else control.sock in the runtime directory)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !cmd.HasParent() {
			return usagef("%v (coppice help tells more)", err)
		}
		return usagef("%s: %v (coppice help %s tells more)", cmd.Name(), err, cmd.Name())
	})
	root.AddCommand(
		c.runCommand(), c.checkCommand(), c.fmtCommand(),
		c.statusCommand(), c.whyCommand(), c.eventsCommand(), c.logsCommand(),
		c.operateCommand(control.VerbStart, "Start paths, and wait until they are ready"),
		c.operateCommand(control.VerbStop, "Stop paths, and wait until nothing of them runs"),
		c.operateCommand(control.VerbRestart, "Restart paths, and wait until they are ready"),
		c.notifyCommand(), c.simulateCommand(), c.versionCommand(),
	)
	for name, about := range later {
		root.AddCommand(laterCommand(name, about))
	}
	root.SetHelpCommand(c.helpCommand(root))
	root.SetOut(c.out) // which the next line looks at
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			sub.Use, sub.Args, sub.RunE = "completion SHELL", cobra.ArbitraryArgs, func(_ *cobra.Command, args []string) error {
				return usagef("cannot complete for %q: name a shell: bash, fish, powershell or zsh", strings.Join(args, " "))
			}
		}
	}
	return root
}

// helpCommand is cobra's, but that an unknown word is an error.
func (c *console) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Tell about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no help about %q%s", strings.Join(args, " "), suggestion(root, strings.Join(args, " ")))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, sub := range root.Commands() {
				if len(args) == 0 && sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					names = append(names, sub.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// takes bounds how many arguments a command has.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s: something is missing: write coppice %s", cmd.Name(), cmd.Use)
		case len(args) > most:
			return usagef("%s: %q is too much: write coppice %s", cmd.Name(), args[most], cmd.Use)
		}
		return nil
	}
}

func suggestion(cmd *cobra.Command, word string) string {
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		// Who writes "stat" has begun "status", although fewer letters make it "start".
		begun := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, word) })
		return fmt.Sprintf(": did you mean %q?", near[max(begun, 0)])
	}
	return " (coppice help lists them)"
}

// later names the commands of the contract that are not built yet. They say so instead of being unknown.
var later = map[string]string{
	"plan": "What apply would change", "apply": "Change to a new configuration", "reload": "Read the configuration again",
	"scale": "Set a pool's size", "intents": "What operators have said", "undo": "Take an intent back",
	"schedule": "Schedules and their runs", "upgrade": "Re-execute the daemon in place",
	"import": "Translate other supervisors' files", "once": "Run a command under a single-instance lock", "top": "Live screen",
}

func laterCommand(name, about string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: about + " (not supported yet)", DisableFlagParsing: true, Hidden: true,
		RunE: func(*cobra.Command, []string) error { return failf("cannot %s: not supported yet", name) },
	}
}

// client returns a client of the daemon that --socket, the environment or the default places name.
func (c *console) client() *control.Client { return control.NewClient(c.socketPath()) }

func (c *console) socketPath() string {
	if c.socket != "" {
		return c.socket
	}
	if s := os.Getenv("COPPICE_CONTROL"); s != "" {
		return s
	}
	const system = "/run/coppice/control.sock"
	if own := socketIn(defaultRuntimeDir(os.Getuid()), os.Getuid()); own != "" {
		return own
	}
	return system
}

// socketIn is the control socket in a runtime directory of this user, "" if there is none. In /tmp somebody else can have
// made a directory of that name: what answers there would be theirs.
func socketIn(dir string, uid int) string {
	info, err := os.Lstat(dir)
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != uid {
		return ""
	}
	socket := filepath.Join(dir, "control.sock")
	if _, err := os.Stat(socket); err != nil {
		return ""
	}
	return socket
}

// defaultRuntimeDir is where a daemon of this user keeps sockets when its configuration does not say.
func defaultRuntimeDir(uid int) string {
	if uid == 0 {
		return "/run/coppice"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "coppice")
	}
	return "/tmp/coppice-" + strconv.Itoa(uid)
}

func (c *console) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: takes(0, 0),
		Run: func(*cobra.Command, []string) { fmt.Fprintln(c.out, "coppice", version) },
	}
}
