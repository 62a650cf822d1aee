package config

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/tree"
)

// hash names what a configuration means. Siblings count in the order of declaration only where that order decides
// anything: where they start one after another, or fail with those declared after them.
func (c *Config) hash() string {
	sum := sha256.New()
	out := bufio.NewWriterSize(sum, 1<<16)
	digest(out, reflect.ValueOf(c.Host))
	digest(out, reflect.ValueOf(canonical(c.Tree)))
	digest(out, reflect.ValueOf(c.Replace))
	_ = out.Flush() // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// canonical puts siblings whose order means nothing into the order of their names.
func canonical(s tree.Spec) tree.Spec {
	children := make([]tree.Spec, len(s.Children))
	for i := range s.Children {
		children[i] = canonical(s.Children[i])
	}
	if v := s.Supervise; v != nil && v.StartOr() == tree.Together && v.StrategyOr() != tree.RestForOne {
		slices.SortFunc(children, func(a, b tree.Spec) int { return strings.Compare(a.Name, b.Name) })
	}
	s.Children = children
	return s
}

// digest writes plain data so that two values are written alike exactly if they are equal, nil and empty being the same.
// It goes by the fields themselves, so that a field added to a Spec counts without anybody thinking of it.
func digest(w io.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(w, "%s{", v.Type().Field(i).Name)
			digest(w, v.Field(i))
			io.WriteString(w, "}")
		}
	case reflect.Slice:
		fmt.Fprintf(w, "[%d:", v.Len())
		for i := range v.Len() {
			digest(w, v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		fmt.Fprintf(w, "(%d:", len(keys))
		for _, k := range keys {
			digest(w, k)
			digest(w, v.MapIndex(k))
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			io.WriteString(w, "-")
			return
		}
		io.WriteString(w, "+")
		digest(w, v.Elem())
	case reflect.String:
		fmt.Fprintf(w, "%d\"%s\"", v.Len(), v.String())
	default:
		fmt.Fprintf(w, "%v;", v)
	}
}
