package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// wallClock names the functions of package time that lose the monotonic reading of a time, or make a time without one.
var wallClock = map[string]bool{
	"Unix": true, "UnixNano": true, "UnixMilli": true, "UnixMicro": true, "UTC": true, "Local": true, "In": true,
	"AddDate": true, "Date": true, "Parse": true, "Round": true,
}

// mayLoseIt are the places that use them, with the reason. None of them measures how long something took, or when it is due.
var mayLoseIt = map[string]string{
	"cmd/coppice/events.go Local":            "people read it",
	"cmd/coppice/events.go Round":            "of a duration",
	"cmd/coppice/logs.go Local":              "people read it",
	"examples/compare/main.go Parse":         "of package flag",
	"runtime/control/read.go AddDate":        "--since 10d is a calendar's",
	"runtime/control/read.go Parse":          "--since names a moment of the wall clock",
	"runtime/journal/steady.go Round":        "finds out whether the wall clock was set",
	"runtime/journal/log.go Round":           "of a duration",
	"runtime/lock/doc.go UTC":                "people read it",
	"runtime/lock/lock_linux.go UTC":         "people read it",
	"runtime/lock/lock_linux.go Parse":       "people read it",
	"runtime/notify/send_linux.go Unix":      "any moment of the past wakes a reader",
	"runtime/probe/target.go Unix":           "any moment of the past wakes a reader",
	"runtime/process/process_linux.go Unix":  "any moment of the past wakes a reader",
	"runtime/process/leftover_linux.go Unix": "any moment of the past wakes a reader",
	"runtime/process/env.go UTC":             "a schedule's moment, for its command",
	"runtime/output/escape.go In":            "of package unicode",
	"runtime/output/line.go UTC":             "people and programs read it",
	"runtime/output/ring.go Unix":            "when a line came, for people and programs",
	"runtime/output/source.go UTC":           "people read it",
	"runtime/output/source.go UnixNano":      "when a line came, for people and programs",
}

// TestDelaysIgnoreTheWallClock: a step of the wall clock (NTP, a resumed machine) must not begin, end, prolong or cut short
// anything. Go's times keep a monotonic reading until a function takes it away; so those functions are only for what
// people read, and each use has its reason.
func TestDelaysIgnoreTheWallClock(t *testing.T) {
	eachFile(t, func(rel string, file *ast.File, fset *token.FileSet) {
		rel = filepath.ToSlash(rel)
		if strings.HasSuffix(rel, "_test.go") || strings.HasPrefix(rel, "tree/sim/") || strings.HasPrefix(rel, "cmd/bench/") ||
			strings.HasPrefix(rel, "cmd/coppice/simulate") || strings.HasPrefix(rel, "config/") {
			return // virtual time, or no time at all
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && wallClock[sel.Sel.Name] && mayLoseIt[rel+" "+sel.Sel.Name] == "" {
				t.Errorf("%s: %s loses the monotonic reading, and a step of the wall clock would count: if nothing is measured by "+
					"it, say so in the table", fset.Position(call.Pos()), sel.Sel.Name)
			}
			return true
		})
	})
}
