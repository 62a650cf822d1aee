package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/tree"
)

var update = flag.Bool("update", false, "rewrite what the files under testdata expect")

// A file under testdata is one rule: files of a configuration, each below a line "-- NAME --", and below "-- says --" what
// loading them says: the diagnostics, and the tree if there is one. Lines above the first file are about the rule;
// "uid N", "env NAME=TEXT" and "load NAME" among them set the scene.
type rule struct {
	about []string
	names []string
	files map[string]string
	says  string
}

func parseRule(text string) rule {
	r := rule{files: map[string]string{}}
	name := ""
	for line := range strings.Lines(text) {
		if m := strings.TrimSuffix(strings.TrimSpace(line), " --"); strings.HasPrefix(line, "-- ") && m != strings.TrimSpace(line) {
			name = strings.TrimPrefix(m, "-- ")
			if name != "says" {
				r.names = append(r.names, name)
			}
			r.files[name] = ""
			continue
		}
		if name == "" {
			r.about = append(r.about, strings.TrimSpace(line))
			continue
		}
		r.files[name] += line
	}
	r.says = r.files["says"]
	delete(r.files, "says")
	return r
}

// scene is a host with the users root and alice, the group ops, and every program whose path does not say "missing".
func scene() Surroundings {
	exists := func(known ...string) func(string) error {
		return func(name string) error {
			if slices.Contains(known, name) {
				return nil
			}
			return errors.New("unknown")
		}
	}
	set := map[string]string{"GREETING": "hello", "EMPTY": ""}
	return Surroundings{
		Env:   func(name string) (string, bool) { text, ok := set[name]; return text, ok },
		Home:  "/home/me",
		User:  exists("root", "alice"),
		Group: exists("root", "ops"),
		Stat: func(path string) (fs.FileInfo, error) {
			if strings.Contains(path, "missing") {
				return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
			}
			return fakeInfo{name: path}, nil
		},
	}
}

// fakeInfo is a folder if its path ends in "dir" or is the root, else a program; "plain" cannot be executed.
type fakeInfo struct {
	fs.FileInfo
	name string
}

func (f fakeInfo) IsDir() bool { return f.name == "/" || strings.HasSuffix(f.name, "dir") }
func (f fakeInfo) Mode() fs.FileMode {
	if strings.HasSuffix(f.name, "plain") {
		return 0o644
	}
	return 0o755
}

func TestRules(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r := parseRule(string(text))
			got := r.play(t)
			if *update {
				head, _, _ := strings.Cut(string(text), "-- says --\n")
				if err := os.WriteFile(path, []byte(head+"-- says --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != r.says {
				t.Errorf("it says\n%s\nand not\n%s", got, r.says)
			}
			noForeignWords(t, got)
		})
	}
}

// noForeignWords refuses the words of libraries and of Go in what a reader sees.
func noForeignWords(t *testing.T, said string) {
	t.Helper()
	for _, word := range []string{"cty", "hclsyntax", "tree.", "goroutine", "traversal", "argument named", "*big", "interface", "0xc0", "panic"} {
		if strings.Contains(said, word) {
			t.Errorf("a reader sees the word %q:\n%s", word, said)
		}
	}
}

// play loads the rule's files from a folder of their own and prints what comes of it.
func (r rule) play(t *testing.T) string {
	dir := t.TempDir()
	around, load := scene(), ""
	for _, line := range r.about {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "uid":
			around.UID, _ = strconv.Atoi(rest)
		case "env":
			name, text, _ := strings.Cut(rest, "=")
			inner := around.Env
			around.Env = func(n string) (string, bool) {
				if n == name {
					return text, true
				}
				return inner(n)
			}
		case "load":
			load = rest
		}
	}
	for name, text := range r.files {
		text = strings.NewReplacer("<CR>", "\r", "<BOM>", "\uFEFF", "<NUL>", "\x00", "<END>\n", "", "<BAD>", "\xff").Replace(text)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if load == "" && len(r.names) == 1 {
		load = r.names[0]
	}
	config, diags := Load(filepath.Join(dir, load), around)
	var out strings.Builder
	if err := diags.Write(&out, false); err != nil {
		t.Fatal(err)
	}
	if (config == nil) != diags.HasErrors() {
		t.Errorf("a configuration (%v) and errors (%v) at once", config != nil, diags.HasErrors())
	}
	if config != nil {
		describe(&out, config)
	}
	return strings.ReplaceAll(out.String(), dir, "DIR")
}

// describe prints a configuration: one line a node, and below a worker what its run has beside the defaults.
func describe(out *strings.Builder, c *Config) {
	if changed := differs(c.Host, Host{RuntimeDir: "/run/coppice", StateDir: "/var/lib/coppice", EnvPrefix: "COPPICE", LogLevel: "info",
		LogFormat: "text", DrainTimeout: 90e9, OnDaemonLoss: "keep"}, ""); len(changed) > 0 {
		fmt.Fprintf(out, "%s\n", strings.Join(changed, "\n"))
	}
	describeSpec(out, c.Tree, "")
}

func describeSpec(out *strings.Builder, s tree.Spec, indent string) {
	fmt.Fprintf(out, "%s%s", indent, s.Kind)
	if s.Name != "" {
		fmt.Fprintf(out, " %s", s.Name)
	}
	if v := s.Supervise; v != nil {
		fmt.Fprintf(out, " (%s, %s", v.Strategy, v.Start)
		if v.Intensity != nil {
			fmt.Fprintf(out, ", %d in %s", v.Intensity.Restarts, v.Intensity.Period)
		}
		if v.Quorum != 0 {
			fmt.Fprintf(out, ", quorum %d", v.Quorum)
		}
		out.WriteString(")")
	}
	if len(s.After) > 0 {
		fmt.Fprintf(out, " after %s", strings.Join(s.After, ", "))
	}
	if s.Disabled {
		out.WriteString(" disabled")
	}
	out.WriteString("\n")
	standard := tree.DefaultRestart()
	if s.Kind == tree.KindHost {
		standard = tree.Restart{}
	}
	for _, line := range differs(s.Restart, standard, "restart.") {
		fmt.Fprintf(out, "%s    %s\n", indent, line)
	}
	for _, line := range differs(s.Limits, tree.Limits{}, "limits.") {
		fmt.Fprintf(out, "%s    %s\n", indent, line)
	}
	if s.Run != nil {
		for _, line := range differs(*s.Run, tree.DefaultRun(), "") {
			fmt.Fprintf(out, "%s    %s\n", indent, line)
		}
	}
	for i := range s.Children {
		describeSpec(out, s.Children[i], indent+"  ")
	}
}

// differs lists the fields of a value that are not as in another.
func differs(got, standard any, prefix string) []string {
	g, s := reflect.ValueOf(got), reflect.ValueOf(standard)
	var lines []string
	for i := range g.NumField() {
		name, a, b := prefix+g.Type().Field(i).Name, g.Field(i), s.Field(i)
		switch {
		case reflect.DeepEqual(a.Interface(), b.Interface()):
		case name == "Tenant" || name == "App" || name == "Worker" || name == "Index":
		case a.Kind() == reflect.Struct:
			lines = append(lines, differs(a.Interface(), b.Interface(), name+".")...)
		case a.Kind() == reflect.Pointer && a.Elem().Kind() == reflect.Struct:
			lines = append(lines, differs(a.Elem().Interface(), reflect.Zero(a.Type().Elem()).Interface(), name+".")...)
		case a.Kind() == reflect.Pointer:
			lines = append(lines, fmt.Sprintf("%s = %v", name, a.Elem()))
		case a.Kind() == reflect.String, a.Kind() == reflect.Map, a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.String:
			lines = append(lines, fmt.Sprintf("%s = %q", name, a.Interface()))
		default:
			lines = append(lines, fmt.Sprintf("%s = %v", name, a.Interface()))
		}
	}
	return lines
}
