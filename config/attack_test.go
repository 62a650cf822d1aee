package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attacks are files that would make a parser overflow its stack, an evaluation fill the memory, or either run for ever.
func attacks() map[string]string {
	worker := func(value string) string {
		return "app \"a\" {\n  worker \"w\" {\n    command = [\"/bin/prog\", " + value + "]\n  }\n}\n"
	}
	n := 1 << 18
	if underRace {
		n = 1 << 15
	}
	laughs := "locals {\n  l0 = \"" + strings.Repeat("ha", 50) + "\"\n"
	chain := "locals {\n  c999 = \"x\"\n"
	for i := 1; i < 200; i++ {
		laughs += fmt.Sprintf("  l%d = \"${local.l%[2]d}${local.l%[2]d}${local.l%[2]d}${local.l%[2]d}${local.l%[2]d}\"\n", i, i-1)
		chain += fmt.Sprintf("  c%d = local.c%d\n", 999-i, 1000-i)
	}
	return map[string]string{
		"brackets":    worker(strings.Repeat("[", 4*n)),
		"parentheses": worker(strings.Repeat("(", n) + "1"),
		"braces":      strings.Repeat("app \"a\" {\n", n/8),
		"templates":   worker(strings.Repeat("\"${", n/4)),
		"not":         worker(strings.Repeat("!", n) + "true"),
		"minus":       worker(strings.Repeat("-", n) + "1"),
		"sum":         worker("1" + strings.Repeat("+1", n)),
		"lined sum":   worker("(1" + strings.Repeat("\n+1", n) + ")"),
		"choice":      worker(strings.Repeat("true ? 1 : ", n/8) + "1"),
		"index":       worker("local.x" + strings.Repeat("[0]", n/4)),
		"dots":        worker("local" + strings.Repeat(".x", n/2)),
		"laughs":      laughs + "}\n" + worker("local.l199"),
		"chain":       chain + "}\n" + worker("local.c800"),
		"digits":      worker(strings.Repeat("9", n)),
		"exponent":    worker("\"${1e999999999}\""),
		"join":        worker("join(\"" + strings.Repeat("x", 100_000) + "\", [" + strings.Repeat("\"\",", 2000) + "])"),
		"format":      worker("format(\"%1000000000d\", 1)"),
		"width":       worker("format(\"%*d\", 1000000000, 1)"),
		"precision":   worker("format(\"%.1000000000f\", 1)"),
		"quote":       "x = \"\n" + strings.Repeat("y = 1\n", n/8),
		"ticks":       strings.Repeat("`", n),
		"names":       strings.Repeat("a = 1\n", n/8),
		"words":       strings.Repeat("x", n),
		"replicas":    "app \"a\" {\n" + manyPools() + "}\n",
		"heredocs":    worker("<<E\n" + strings.Repeat("x\n", 1<<16) + "E\n"),
		"control":     worker("\"" + strings.Repeat("%{if true}", n/16) + "\""),
		"duration":    "app \"a\" {\nworker \"w\" {\ncommand = [\"/bin/prog\"]\nwatchdog = \"" + strings.Repeat("1h", n/2) + "\"\n}\n}\n",
		"pattern":     "app \"a\" {\nworker \"w\" {\ncommand = [\"/bin/prog\"]\nready {\nlog = \"" + strings.Repeat("(", n/8) + "\"\n}\n}\n}\n",
		"after":       "app \"a\" {\n" + deepAfter(5000) + "}\n",
	}
}

func manyPools() string {
	var b strings.Builder
	for i := range 11 {
		fmt.Fprintf(&b, "worker \"w%d\" {\ncommand = [\"/bin/prog\", index]\ncount = 10000\n}\n", i)
	}
	return b.String()
}

func deepAfter(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "worker \"w%d\" {\ncommand = [\"/bin/prog\"]\nafter = [\"w%d\"]\n}\n", i, (i+1)%n)
	}
	return b.String()
}

// spent is the processor time that this program has taken: unlike a clock, it does not mind what else the machine does.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestAttacks loads each: it is refused, with bounded work and bounded words. Each takes about a second; what it is made
// for would take minutes, or all memory.
func TestAttacks(t *testing.T) {
	for name, text := range attacks() {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"c.hcl": text})
			start := spent(t)
			c, diags := Load(filepath.Join(dir, "c.hcl"), scene())
			took := spent(t) - start
			if took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if c != nil || !diags.HasErrors() {
				t.Error("it is not refused")
			}
			var out bytes.Buffer
			if err := diags.Write(&out, false); err != nil {
				t.Fatal(err)
			}
			if out.Len() > 1<<20 {
				t.Errorf("it says %d bytes", out.Len())
			}
			noForeignWords(t, out.String())
			t.Logf("%s, %d diagnostics, first: %.300s", took.Round(time.Millisecond), len(diags), diags.Error())
		})
	}
}

// TestLargeFile loads five megabytes of ordinary configuration.
func TestLargeFile(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("five megabytes take seconds, and under the race detector a minute; one goroutine reads them")
	}
	var b strings.Builder
	for i := 0; b.Len() < 5<<20; i++ {
		fmt.Fprintf(&b, "app \"a%d\" {\n  worker \"w\" {\n    command = [\"/bin/prog\", \"--number\", \"%d\"]\n    env = {\n      TEXT = \"%s\"\n    }\n    stop {\n      timeout = \"3s\"\n    }\n  }\n}\n", i, i, strings.Repeat("x", 100))
	}
	dir := write(t, map[string]string{"c.hcl": b.String()})
	start := spent(t)
	c, diags := Load(filepath.Join(dir, "c.hcl"), scene())
	took := spent(t) - start
	if diags.HasErrors() {
		t.Fatal(diags[0])
	}
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
	t.Logf("%d apps of %d bytes in %s", len(c.Tree.Children[0].Children), b.Len(), took)
}

func TestTooLargeFile(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "c.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil { // sparse
		t.Skipf("no sparse file of this size here: %v", err)
	}
	if _, diags := Load(dir, scene()); !strings.Contains(diags.Error(), "larger than 8 MiB") {
		t.Errorf("it says %q", diags.Error())
	}
}

// TestWriteDrivesNoTerminal: names of files, values and source lines come from others.
func TestWriteDrivesNoTerminal(t *testing.T) {
	dir := write(t, map[string]string{"\x1b[2Jx.hcl": "\x1b]0;t\x07 = 1 # \u009b2J\u202e\r\x08\nabc\u202e = \"\x1b[31m\"\n"})
	_, diags := Load(dir, scene())
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		if err := diags.Write(&out, color); err != nil {
			t.Fatal(err)
		}
		said := out.String()
		if color {
			for _, own := range []string{"\x1b[1;31m", "\x1b[1;33m", "\x1b[0m"} {
				said = strings.ReplaceAll(said, own, "")
			}
		}
		if i := strings.IndexAny(said, "\x1b\x07\x08\r\u009b\u202e"); i >= 0 {
			t.Errorf("it writes a control character: %q", said[i:min(len(said), i+20)])
		}
		if !strings.Contains(said, `\x1b[2Jx.hcl`) {
			t.Errorf("the file's name is not shown: %q", said)
		}
	}
}
