package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The rules of the house: who may import whom. Each has its reason, which is what a failure prints.

const module = "github.com/coppice-run/coppice/"

// room is one row of the table: packages under a folder, what of the project and of others they may import, and why.
type room struct {
	folder string
	may    []string // prefixes of import paths; std is judged by never
	never  []string // of std too
	why    string
}

var rooms = []room{
	{"tree", nil, []string{"os", "log", "net", "sync", "runtime", "context", "io/ioutil", "math/rand"},
		"tree decides: the same history must give the same orders, so it has no clock, goroutine, file or library"},
	{"config", []string{module + "tree", "github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty", "github.com/agext/levenshtein"},
		[]string{"os/exec", "net/http"}, "config speaks: it turns text into a tree.Spec and knows nothing of what runs"},
	{"runtime", []string{module + "tree", "golang.org/x/", "github.com/hashicorp/go-hclog", "github.com/prometheus/",
		"github.com/containerd/cgroups"}, nil, "runtime acts: each room is one noun, and none knows config, actors or another room"},
	{"actors", []string{module + "tree", "github.com/asynkron/protoactor-go/actor", "github.com/asynkron/protoactor-go/eventstream",
		"github.com/hashicorp/go-hclog"}, []string{"os/exec"}, "actors carry: they know mailboxes and the core, not what a process is"},
	{"cmd", []string{module, "github.com/spf13/", "github.com/hashicorp/", "golang.org/x/", "github.com/prometheus/"}, nil,
		"cmd is the door: it wires the rooms"},
	{"examples", []string{module, "golang.org/x/", "github.com/hashicorp/go-hclog", "github.com/asynkron/protoactor-go/actor",
		"github.com/asynkron/protoactor-go/eventstream", "github.com/thejerf/suture/v4"}, nil,
		"examples show the project, with the actor system of an embedder and the library that one compares it with"},
}

// doors are the imports between rooms of runtime that are agreed, with the reason.
var doors = map[string]string{
	"runtime/place -> runtime/lock": "when a socket is stale is one rule, and it is lock's",
}

// testOnly may be imported by tests of any room.
var testOnly = []string{"github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal"}

func TestImportRules(t *testing.T) {
	eachFile(t, func(rel string, file *ast.File, fset *token.FileSet) {
		r := roomOf(rel)
		if r == nil {
			t.Errorf("%s: no room of the house has this folder", rel)
			return
		}
		own := module + filepath.ToSlash(filepath.Dir(rel))
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !allowed(r, rel, own, path) {
				t.Errorf("%s: imports %s: %s", fset.Position(spec.Pos()), path, r.why)
			}
		}
	})
}

func roomOf(rel string) *room {
	top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	for i := range rooms {
		if rooms[i].folder == top {
			return &rooms[i]
		}
	}
	return nil
}

func allowed(r *room, rel, own, path string) bool {
	test := strings.HasSuffix(rel, "_test.go")
	if path == own || (test && strings.HasPrefix(path, own)) {
		return true
	}
	if test && hasPrefix(path, testOnly) {
		return true
	}
	if !strings.Contains(strings.SplitN(path, "/", 2)[0], ".") { // std
		return test || !hasPrefix(path, r.never)
	}
	if r.folder == "tree" || r.folder == "runtime" {
		if _, ok := doors[strings.TrimPrefix(own, module)+" -> "+strings.TrimPrefix(path, module)]; ok {
			return true
		}
	}
	if r.folder == "tree" && (path == module+"tree" || strings.HasPrefix(path, module+"tree/")) {
		return true
	}
	return hasPrefix(path, r.may)
}

func hasPrefix(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == p || strings.HasPrefix(path, p) && (strings.HasSuffix(p, "/") || path[len(p)] == '/') {
			return true
		}
	}
	return false
}

// TestTreeIsPure parses the core for what an import list does not show: the clock, goroutines, channels.
func TestTreeIsPure(t *testing.T) {
	clock := map[string]bool{"Now": true, "After": true, "AfterFunc": true, "Sleep": true, "NewTimer": true, "NewTicker": true,
		"Tick": true, "Since": true, "Until": true}
	eachFile(t, func(rel string, file *ast.File, fset *token.FileSet) {
		if roomOf(rel).folder != "tree" || strings.HasSuffix(rel, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				what = "starts a goroutine"
			case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				what = "uses a channel"
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && clock[n.Sel.Name] {
					what = "reads the clock (time." + n.Sel.Name + "): time is an argument of Step"
				}
			}
			if what != "" {
				t.Errorf("%s: %s; the same history would no longer give the same orders", fset.Position(n.Pos()), what)
			}
			return true
		})
	})
}

// TestTopLevel keeps the repository's first page short.
func TestTopLevel(t *testing.T) {
	want := map[string]bool{"actors": true, "tree": true, "runtime": true, "config": true, "cmd": true, "examples": true,
		"go.mod": true, "go.sum": true, "Makefile": true, "README.md": true, "LICENSE": true, "ARCHITECTURE.md": true,
		"CHANGELOG.md": true, "bin": true}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !want[e.Name()] {
			t.Errorf("%s stands at the top level: the house has no room for it there", e.Name())
		}
	}
}

func eachFile(t *testing.T, see func(rel string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		seen++
		see(rel, file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Fatalf("saw only %d files: the walk is broken", seen)
	}
}
