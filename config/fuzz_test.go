package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// loadBare is Load without the net that it has for mistakes of the parser's.
func loadBare(path string, around Surroundings) (*Config, Diagnostics) {
	d := newDecoder(around)
	files := d.files(path)
	var bodies []*hclsyntax.Body
	for _, f := range files {
		if body := d.parse(f); body != nil {
			bodies = append(bodies, body)
		}
	}
	return d.load(path, files, bodies)
}

func seeds(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range parseRule(string(text)).files {
			f.Add([]byte(file))
		}
	}
}

// FuzzLoad: no file makes loading fail in another way than by diagnostics, which have places in the file and no words of
// the libraries'; what is wrong once is wrong again, in the same words.
func FuzzLoad(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		if bytes.Contains(src, []byte("file")) {
			return // would read this host
		}
		path := filepath.Join(t.TempDir(), "c.hcl")
		if err := os.WriteFile(path, src, 0o600); err != nil {
			t.Fatal(err)
		}
		c, diags := loadBare(path, scene())
		if (c == nil) != diags.HasErrors() {
			t.Fatalf("a configuration (%v) and errors (%v) at once", c != nil, diags.HasErrors())
		}
		lines := bytes.Count(src, []byte("\n")) + 1
		for _, d := range diags {
			if d.Line > lines || d.Summary == "" || strings.Contains(d.Summary, "\n") || d.From > d.To || d.To > len(d.Source) {
				t.Fatalf("a diagnostic out of place: %+v", d)
			}
		}
		again, more := loadBare(path, scene())
		if diags.Error() != more.Error() {
			t.Fatalf("it says\n%s\nand then\n%s", diags.Error(), more.Error())
		}
		if c != nil && c.Hash != again.Hash {
			t.Fatal("two hashes of one file")
		}
	})
}

// FuzzFormat: formatting keeps the meaning, and what is formatted stays as it is.
func FuzzFormat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		if bytes.Contains(src, []byte("file")) {
			return
		}
		neat, diags := Format("c.hcl", src)
		if diags.HasErrors() {
			if neat != nil {
				t.Fatal("a file with errors is formatted")
			}
			return
		}
		again, diags := Format("c.hcl", neat)
		if diags.HasErrors() {
			t.Fatalf("formatted, it has errors: %s\n%q\n%q", diags.Error(), src, neat)
		}
		if !bytes.Equal(neat, again) {
			t.Fatalf("formatting it again changes it:\n%q\n%q", neat, again)
		}
		dir := t.TempDir()
		load := func(text []byte) (*Config, Diagnostics) {
			path := filepath.Join(dir, "c.hcl")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return loadBare(path, scene())
		}
		before, _ := load(src)
		after, said := load(neat)
		if (before == nil) != (after == nil) || before != nil && before.Hash != after.Hash {
			t.Fatalf("formatting changes the meaning: %s\n%q\n%q", said.Error(), src, neat)
		}
	})
}
