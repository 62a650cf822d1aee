package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// maxText bounds every text that an expression makes, so that a few lines cannot ask for all memory. The kernel takes
// 128 KiB in one argument or variable.
const maxText = 1 << 20

var functionNames = []string{"coalesce", "file", "format", "join", "jsonencode", "trimspace"}

// functions are those of the language for a file: "file" reads relative to that file's folder.
func (d *decoder) functions(base string) map[string]function.Function {
	if fs := d.functionsOf[base]; fs != nil {
		return fs
	}
	fs := map[string]function.Function{
		"coalesce":   stdlib.CoalesceFunc,
		"file":       fileFunction(filepath.Dir(base)),
		"format":     bounded(stdlib.FormatFunc, formatCheck),
		"join":       bounded(stdlib.JoinFunc, joinCheck),
		"jsonencode": bounded(stdlib.JSONEncodeFunc, nil),
		"trimspace":  trimFunction(),
	}
	d.functionsOf[base] = fs
	return fs
}

// bounded wraps a library function: check looks at the arguments before it runs, and the result is bounded.
func bounded(f function.Function, check func([]cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if check != nil {
				if err := check(args); err != nil {
					return cty.NilType, err
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			val, err := f.Call(args)
			if err == nil && weigh(val) > maxText {
				return cty.NilVal, errTooLarge
			}
			return val, err
		},
	})
}

var errTooLarge = errors.New("the result is larger than 1 MiB")

var wideVerb = regexp.MustCompile(`%[^a-zA-Z%]*([0-9]{4,}|\*)`)

// formatCheck refuses widths that would make megabytes out of nothing.
func formatCheck(args []cty.Value) error {
	if len(args) > 0 && isText(args[0]) && args[0].IsKnown() && !args[0].IsNull() && wideVerb.MatchString(args[0].AsString()) {
		return errors.New("a width must be below 1000, and \"*\" is not possible")
	}
	return nil
}

// joinCheck counts what joining would make before it is made.
func joinCheck(args []cty.Value) error {
	sum, elements := 0, 0
	for _, a := range args[min(1, len(args)):] {
		if a.IsKnown() && !a.IsNull() {
			sum += weigh(a)
			if a.CanIterateElements() {
				elements += a.LengthInt()
			}
		}
	}
	if len(args) > 0 && isText(args[0]) && args[0].IsKnown() && !args[0].IsNull() {
		sum += elements * len(args[0].AsString())
	}
	if sum > 16*maxText {
		return errTooLarge
	}
	return nil
}

func trimFunction() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(encodeBytes(strings.TrimSpace(plainText(args[0])))), nil
		},
	})
}

// fileFunction reads a file's text. It must be a regular one: a pipe would block, and a device would never end.
func fileFunction(folder string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := plainText(args[0])
			if !filepath.IsAbs(path) {
				path = filepath.Join(folder, path)
			}
			text, err := readRegular(path, maxText)
			if err != nil {
				return cty.NilVal, err
			}
			if strings.IndexByte(string(text), 0) >= 0 {
				return cty.NilVal, fmt.Errorf("%s holds a NUL character, which no argument or variable can", path)
			}
			return cty.StringVal(encodeBytes(string(text))), nil
		},
	})
}

// readRegular reads a regular file of at most limit bytes, and never waits for anything but the disk.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, causeOf(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, causeOf(err))
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("cannot read %s: it is a folder", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("cannot read %s: it is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, causeOf(err))
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("cannot read %s: it is larger than %d MiB", path, limit>>20)
	}
	return text, nil
}

// causeOf is the last cause of a file error: its path is in the message already.
func causeOf(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
