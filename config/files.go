package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Files lists the files that a configuration consists of, in the order in which they are read: path itself, or the
// *.hcl files of the folder, by name. Hidden files and folders are left out.
func Files(path string) ([]string, Diagnostics) {
	r := newReport()
	return r.files(path), r.done()
}

func (r *report) files(path string) []string {
	info, err := os.Stat(path)
	if err != nil {
		r.fileError(path, "cannot read the configuration: "+causeOf(err).Error(), "Name a file, or a folder with *.hcl files.")
		return nil
	}
	if !info.IsDir() {
		return []string{path}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		r.fileError(path, "cannot read the folder: "+causeOf(err).Error(), "")
		return nil
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".hcl") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		r.fileError(path, "nothing to run: no *.hcl files in this folder", "Write the configuration in a file that ends in .hcl.")
	}
	return files
}

// parse reads one file. The answer is nil if there is nothing in it to work with.
func (d *decoder) parse(path string) *hclsyntax.Body {
	src, err := readRegular(path, maxFile)
	if err != nil {
		d.fileError(path, err.Error(), "")
		return nil
	}
	return d.parseSource(path, src)
}

func (d *decoder) parseSource(path string, src []byte) *hclsyntax.Body {
	d.sources[path] = src
	d.damaged[path] = true
	if !d.readable(path, src) {
		return nil
	}
	tokens, lexical := hclsyntax.LexConfig(src, path, hcl.InitialPos)
	if !d.parseable(tokens) {
		d.syntaxErrors(lexical)
		return nil
	}
	file, problems := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	d.damaged[path] = false
	d.syntaxErrors(problems)
	for _, problem := range problems {
		d.damaged[path] = d.damaged[path] || problem.Summary != redefined
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	keepBytes(body, src)
	return body
}
