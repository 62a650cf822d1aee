package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-run/coppice/tree"
)

// write puts files into a folder of their own and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mustLoad loads text that has no errors.
func mustLoad(t testing.TB, text string) *Config {
	t.Helper()
	config, diags := Load(filepath.Join(write(t, map[string]string{"c.hcl": text}), "c.hcl"), scene())
	if diags.HasErrors() {
		t.Fatalf("it has errors:\n%s\nin\n%s", diags.Error(), text)
	}
	return config
}

// firstRun is the run of the first worker.
func firstRun(c *Config) *tree.Run { return c.Tree.Children[0].Children[0].Children[0].Run }

// TestDefaultsWrittenOut writes out the default of every attribute of the language, one at a time: nothing may change.
func TestDefaultsWrittenOut(t *testing.T) {
	with := map[string]string{
		"host":      "host {\n%s\n}\n",
		"tenant":    "tenant \"default\" {\n%s\n}\n",
		"supervise": "host {\nsupervise {\n%s\n}\n}\ntenant \"default\" {\nsupervise {\n%[1]s\n}\n}\n",
		"logs":      "host {\nlogs {\n%s\n}\n}\n",
	}
	inApp := map[string]string{"app": "%s", "restart": "restart {\n%s\n}"}
	inWorker := map[string]string{
		"worker": "%s", "restart": "restart {\n%s\n}", "stop": "stop {\n%s\n}", "logs": "logs {\n%s\n}", "ready": "ready {\n%s\n}",
		"health": "health {\nhttp = \"/\"\n%s\n}", "heartbeat": "heartbeat {\n%s\n}",
	}
	base := func(block, line string) string {
		fill := func(forms map[string]string, line string) string {
			if form, ok := forms[block]; ok {
				return fmt.Sprintf(form, line)
			}
			return ""
		}
		return fill(with, line) + "app \"a\" {\n" + fill(inApp, line) + "\nworker \"w\" {\ncommand = [\"/bin/prog\"]\nlisten = \"unix\"\n" + fill(inWorker, line) + "\n}\n}\n"
	}
	tried := 0
	for _, a := range Reference() {
		if a.Default == "" || a.Name == "listen" {
			continue
		}
		tried++
		plain, written := mustLoad(t, base(a.Block, "")), mustLoad(t, base(a.Block, a.Name+" = "+a.Default))
		if diff := cmp.Diff(plain.Tree, written.Tree); diff != "" {
			t.Errorf("%s.%s = %s is not the default:\n%s", a.Block, a.Name, a.Default, diff)
		}
		if diff := cmp.Diff(plain.Host, written.Host); diff != "" {
			t.Errorf("%s.%s = %s is not the default:\n%s", a.Block, a.Name, a.Default, diff)
		}
		if plain.Hash != written.Hash {
			t.Errorf("%s.%s = %s changes the hash", a.Block, a.Name, a.Default)
		}
	}
	if tried < 35 {
		t.Errorf("only %d defaults were tried", tried)
	}
}

// TestReferenceIsWhole holds the table itself to its form.
func TestReferenceIsWhole(t *testing.T) {
	for _, a := range Reference() {
		switch a.Class {
		case Cosmetic, Live, Restarts:
		default:
			t.Errorf("%s.%s has no class", a.Block, a.Name)
		}
		if a.Form == "" || a.Doc == "" || strings.HasSuffix(a.Doc, ".") {
			t.Errorf("%s.%s: form %q, doc %q", a.Block, a.Name, a.Form, a.Doc)
		}
	}
}

// many is the same configuration of 40 workers, written in another way each time.
func many(variant int) map[string]string {
	worker := func(n int) string {
		var env []string
		for i := range 30 {
			k := i
			if variant == 2 || variant == 3 {
				k = 29 - i
			}
			env = append(env, fmt.Sprintf("      V%d = \"%d-%d\"", k, n, k))
		}
		minute, more := `"60s"`, ""
		if variant == 3 {
			minute, more = `"1m"`, "    count = 1\n    enabled = true\n    stop {\n      timeout = \"10s\"\n    }\n"
		}
		comment := ""
		if variant == 1 {
			comment = "  # a comment\n\n\n /* another */\n"
		}
		return fmt.Sprintf("%s  worker \"w%d\" {\n    command = [\"/bin/prog\", \"%d\"]\n%s    env = {\n%s\n    }\n    after = %s\n    restart {\n      reset_after = %s\n      normal_exits = %s\n    }\n  }\n",
			comment, n, n, more, strings.Join(env, "\n"), map[bool]string{true: "[]", false: `["w0", "w1"]`}[n < 2], minute,
			map[bool]string{true: "[0, 3]", false: "[3, 0, 0]"}[variant < 2])
	}
	apps := [2][]string{}
	for n := range 40 {
		apps[n%2] = append(apps[n%2], worker(n/2))
	}
	if variant >= 2 {
		for _, a := range apps {
			for i, j := 0, len(a)-1; i < j; i, j = i+1, j-1 {
				a[i], a[j] = a[j], a[i]
			}
		}
	}
	app := func(i int) string { return fmt.Sprintf("app \"a%d\" {\n%s}\n", i, strings.Join(apps[i], "")) }
	if variant == 3 {
		return map[string]string{"x.hcl": app(1), "y.hcl": app(0), "z.hcl": "tenant \"default\" {\n}\nhost {\n}\n"}
	}
	return map[string]string{"only.hcl": app(0) + app(1)}
}

func TestHashIsOfTheMeaning(t *testing.T) {
	load := func(files map[string]string) *Config {
		c, diags := Load(write(t, files), scene())
		if diags.HasErrors() {
			t.Fatal(diags.Error())
		}
		return c
	}
	first := load(many(0))
	for variant := range 4 {
		again := load(many(variant))
		if again.Hash != first.Hash {
			t.Errorf("variant %d has another hash", variant)
		}
		if diff := cmp.Diff(canonical(first.Tree), canonical(again.Tree)); diff != "" {
			t.Errorf("variant %d differs:\n%s", variant, diff)
		}
	}
	changed := many(0)
	changed["only.hcl"] = strings.Replace(changed["only.hcl"], `"7-3"`, `"7-4"`, 1)
	if load(changed).Hash == first.Hash {
		t.Error("one changed variable leaves the hash as it is")
	}
}

// TestHashSeesOrderWhereItCounts: in an ordered app the order of declaration is a meaning.
func TestHashSeesOrderWhereItCounts(t *testing.T) {
	app := func(strategy, first, second string) string {
		one := func(n string) string { return "worker \"" + n + "\" {\ncommand = [\"/bin/prog\"]\n}\n" }
		return "app \"a\" {\nsupervise {\nstrategy = \"" + strategy + "\"\n}\n" + one(first) + one(second) + "}\n"
	}
	for strategy, counts := range map[string]bool{"one_for_one": false, "one_for_all": true, "rest_for_one": true} {
		if got := mustLoad(t, app(strategy, "x", "y")).Hash != mustLoad(t, app(strategy, "y", "x")).Hash; got != counts {
			t.Errorf("%s: the order counts: %v", strategy, got)
		}
	}
}

// hard are texts that other languages and supervisors eat, expand or choke on.
var hard = []string{
	"100%", "%(x)s", "$HOME", "${X}", "$${X}", "$$${X}", "%{if}", "%%{if}", "a#b ; c", `"q"`, "it's", `back\slash \n \\`, "😀👩‍👩‍👧", "tab\t", "line\nline\n",
	"", " both ", "*", "~", ";", "|", "&&", "\u00e9", "e\u0301", "\u212b", "\u1e9b\u0323", "ﬁ", "\u200f\u202e", "\x1b[2J", "\x7f", "\u0085", "\uFEFF",
	"\U000F0080", "\U000F00E9 e\u0301", "\r\n", "\r", "$", "%", "$$", "%%", "${", "%{", "#{x}", strings.Repeat("é", 50_000), "\u1100\u1161\u11a8",
}

// quote writes a text as a literal of the language.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case (r == '$' || r == '%') && strings.HasPrefix(text[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestValuesAreByteExact(t *testing.T) {
	var args, env, keys strings.Builder
	want := map[string]string{}
	for i, text := range hard {
		fmt.Fprintf(&args, ", %s", quote(text))
		fmt.Fprintf(&env, "  V%d = %s\n", i, quote(text))
		want["V"+strconv.Itoa(i)] = text
	}
	for i, key := range []string{"a.b", "a-b", "lower", "with space", "e\u0301", "a#b", "${x}", "ключ"} {
		fmt.Fprintf(&keys, "  %s = \"%d\"\n", quote(key), i)
		want[key] = strconv.Itoa(i)
	}
	run := firstRun(mustLoad(t, "app \"a\" {\nworker \"w\" {\ncommand = [\"/bin/prog\""+args.String()+"]\nenv = {\n"+env.String()+keys.String()+"}\n}\n}\n"))
	if diff := cmp.Diff(append([]string{"/bin/prog"}, hard...), run.Command); diff != "" {
		t.Errorf("arguments:\n%s", diff)
	}
	if diff := cmp.Diff(want, run.Env); diff != "" {
		t.Errorf("environment:\n%s", diff)
	}
}

// TestValuesStayExactThroughExpressions: the environment, a file, a local, a template, an escape and a heredoc.
func TestValuesStayExactThroughExpressions(t *testing.T) {
	odd := "e\u0301 \u212b \xff\xfe raw"
	dir := write(t, map[string]string{"raw.txt": " " + odd + "\u00a0\n", "c.hcl": `
locals {
  odd = env.ODD
}
app "a" {
  worker "w" {
    command = ["/bin/prog", env.ODD, local.odd, "<${local.odd}>", trimspace(file("raw.txt")), join("e` + "\u0301" + `", ["a", "b"]), format("%s", env.ODD), "e\u0301", <<END
  e` + "\u0301" + `
END
    , <<-END
      e` + "\u0301" + `
        ${local.odd}
      END
    , jsonencode(["e` + "\u0301" + `"]), coalesce(env.ODD, "x")]
  }
}
`})
	around := scene()
	around.Env = func(string) (string, bool) { return odd, true }
	c, diags := Load(filepath.Join(dir, "c.hcl"), around)
	if diags.HasErrors() {
		t.Fatal(diags.Error())
	}
	want := []string{"/bin/prog", odd, odd, "<" + odd + ">", odd, "ae\u0301b", odd, "e\u0301", "  e\u0301\n", "e\u0301\n  " + odd + "\n", "[\"e\u0301\"]", odd}
	if diff := cmp.Diff(want, firstRun(c).Command); diff != "" {
		t.Error(diff)
	}
}

// TestNothingWaits: what is not a regular file is refused at once.
func TestNothingWaits(t *testing.T) {
	dir := write(t, map[string]string{"c.hcl": "app \"a\" {\nworker \"w\" {\ncommand = [\"/bin/prog\", file(\"pipe\"), file(\"/dev/zero\")]\n}\n}\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, diags := Load(filepath.Join(dir, "c.hcl"), scene())
	if got := diags.Error(); strings.Count(got, "it is not a regular file") != 2 {
		t.Errorf("it says %q", got)
	}
	if err := os.Rename(filepath.Join(dir, "pipe"), filepath.Join(dir, "pipe.hcl")); err != nil {
		t.Fatal(err)
	}
	if _, diags = Load(dir, scene()); !strings.Contains(diags.Error(), "pipe.hcl: it is not a regular file") {
		t.Errorf("it says %q", diags.Error())
	}
}

func TestUnreadableFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every file")
	}
	dir := write(t, map[string]string{"c.hcl": "x"})
	if err := os.Chmod(filepath.Join(dir, "c.hcl"), 0); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load(dir, scene()); !strings.Contains(diags.Error(), "permission denied") {
		t.Errorf("it says %q", diags.Error())
	}
}

func TestFilesAreAbsolute(t *testing.T) {
	dir := write(t, map[string]string{"b.hcl": "", "a.hcl": "app \"a\" {\nworker \"w\" {\ncommand = [\"./x\"]\n}\n}\n"})
	t.Chdir(dir)
	c, diags := Load(".", Surroundings{})
	if diags.HasErrors() {
		t.Fatal(diags.Error())
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(real, "a.hcl"), filepath.Join(real, "b.hcl")}, c.Files); diff != "" {
		t.Error(diff)
	}
	if got := c.Replace["default/a/w"]; got != StopFirst {
		t.Errorf("it is replaced by %q", got)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

// TestHereIsThisHost asks for what every Linux has.
func TestHereIsThisHost(t *testing.T) {
	around := Here()
	if around.User("root") != nil || around.Group("root") != nil || around.User("no such user") == nil {
		t.Error("the users of this host are not known")
	}
	if _, err := around.Stat("/"); err != nil {
		t.Error(err)
	}
	if _, err := around.Stat(filepath.Join(t.TempDir(), "absent")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
