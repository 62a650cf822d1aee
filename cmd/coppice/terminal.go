package main

import (
	"io"
	"os"

	"github.com/coppice-run/coppice/tree"
	"golang.org/x/term"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// palette colours words, or leaves them alone.
type palette bool

// colours only on a terminal, and not where NO_COLOR asks for none (no-color.org).
func colours(w io.Writer) palette {
	return palette(isTerminal(w) && os.Getenv("NO_COLOR") == "")
}

func (p palette) state(word string, state tree.State) string {
	code := map[tree.State]string{
		tree.StateRunning: "32", tree.StateFailed: "31", tree.StateBackoff: "33", tree.StateStarting: "36",
		tree.StateStopping: "36", tree.StateWaiting: "36",
	}[state]
	if !bool(p) || code == "" {
		return word
	}
	// The \xff pairs tell tabwriter that what is between them takes no room.
	return "\xff\x1b[" + code + "m\xff" + word + "\xff\x1b[0m\xff"
}
