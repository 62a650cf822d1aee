package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// named is a word of a list and where it stands.
type named struct {
	text string
	at   place
}

// elements evaluates a list one element at a time, so that a mistake has the place of its element.
func (v value) elements(want, form string) ([]cty.Value, []place, bool) {
	if list, ok := v.expr.(*hclsyntax.TupleConsExpr); ok {
		vals, at, good := make([]cty.Value, 0, len(list.Exprs)), make([]place, 0, len(list.Exprs)), true
		for _, e := range list.Exprs {
			one := v
			one.expr = e
			val, ok := one.get()
			good = good && ok
			vals, at = append(vals, val), append(at, v.at.part(e.Range()))
		}
		return vals, at, good
	}
	val, ok := v.get()
	if !ok {
		return nil, nil, false
	}
	if t := val.Type(); !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		v.wrong(want, form, val)
		return nil, nil, false
	}
	vals := val.AsValueSlice()
	at := make([]place, len(vals))
	for i := range at {
		at[i] = v.at.part(v.expr.Range())
		if vals[i].IsNull() {
			v.fail(v.name+" holds an element without a value", "null stands for nothing.")
			return nil, nil, false
		}
	}
	return vals, at, true
}

// argv stores the words of a command. Numbers and booleans become text, as they do in env; the program must be named.
func (v value) argv(into *[]string) bool {
	vals, at, ok := v.elements("a list of texts", `["/path/of/program", "argument"]; there is no shell that would split it`)
	if !ok {
		return false
	}
	words := make([]string, 0, len(vals))
	for i, val := range vals {
		text, why := asText(val)
		switch {
		case why != "":
			v.d.error(at[i], "an element of "+v.name+" "+why, "Every element is one argument of the program, as text.")
			ok = false
		case i == 0 && text == "":
			v.d.error(at[i], "the program of "+v.name+" is empty", "Write "+v.name+" = "+example("argv")+".")
			ok = false
		}
		words = append(words, text)
	}
	if len(vals) == 0 {
		v.fail(v.name+" is empty", "Write "+v.name+" = "+example("argv")+".")
		return false
	}
	if ok {
		*into = words
	}
	return ok
}

// names stores a list of different names with their places.
func (v value) names(into *[]named) bool {
	vals, at, ok := v.elements("a list of names", `["a", "b"]`)
	if !ok {
		return false
	}
	seen := map[string]bool{}
	var out []named
	for i, val := range vals {
		switch {
		case !isText(val):
			v.d.error(at[i], v.name+" lists names, and this is "+kindOf(val), `Write the name in quotes: `+v.name+` = ["a", "b"].`)
		case seen[plainText(val)]:
			v.d.error(at[i], quoted(plainText(val))+" is listed twice in "+v.name, "Keep one of the two.")
		default:
			seen[plainText(val)] = true
			out = append(out, named{plainText(val), at[i]})
		}
	}
	*into = out
	return true
}

// statuses stores a set of exit statuses.
func (v value) statuses(into *[]int) bool {
	vals, at, ok := v.elements("a list of exit statuses", "[0]")
	if !ok {
		return false
	}
	set := map[int]bool{}
	for i, val := range vals {
		if val.Type() != cty.Number {
			v.d.error(at[i], v.name+" lists exit statuses, and this is "+kindOf(val), "Write numbers from 0 to 255: "+v.name+" = [0].")
			continue
		}
		n, accuracy := val.AsBigFloat().Int64()
		if accuracy != 0 || n < 0 || n > 255 {
			v.d.error(at[i], "an exit status of "+v.name+" is out of range", "Write numbers from 0 to 255.")
			continue
		}
		set[int(n)] = true
	}
	*into = slices.Sorted(maps.Keys(set))
	return true
}

// setting is one variable of an env map and where it is written.
type setting struct {
	text string
	at   place
}

// environment reads a map of variables on top of those in base, which stays as it is.
func (v value) environment(base map[string]setting) map[string]setting {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]setting{}
	}
	if list, ok := v.expr.(*hclsyntax.ObjectConsExpr); ok {
		own := map[string]setting{}
		for _, item := range list.Items {
			v.variable(own, item)
		}
		maps.Copy(out, own)
		return out
	}
	val, ok := v.get()
	if !ok {
		return out
	}
	if t := val.Type(); !t.IsObjectType() && !t.IsMapType() {
		v.wrong("a map", `{ NAME = "text" }`, val)
		return out
	}
	at := v.at.part(v.expr.Range())
	for key, val := range val.AsValueMap() {
		if name := decodeBytes(key); v.legalName(name, at) {
			v.assign(out, name, val, at)
		}
	}
	return out
}

func (v value) variable(out map[string]setting, item hclsyntax.ObjectConsItem) {
	at := v.at.part(item.KeyExpr.Range())
	if k, ok := item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr); ok && !k.ForceNonLiteral {
		if t, ok := k.Wrapped.(*hclsyntax.ScopeTraversalExpr); ok && len(t.Traversal) > 1 {
			v.d.error(at, "a name with a dot must be in quotes", "Write \"NAME.PART\" = \"text\".")
			return
		}
	}
	keyed := value{d: v.d, expr: item.KeyExpr, scope: v.scope, name: "a name in " + v.name, at: at}
	key, ok := keyed.get()
	if !ok {
		return
	}
	if !isText(key) {
		v.d.error(at, "a name in "+v.name+" is "+kindOf(key), "Write the name of the variable, in quotes if it is not a plain word.")
		return
	}
	name := plainText(key)
	if !v.legalName(name, at) {
		return
	}
	if first, ok := out[name]; ok {
		v.d.error(at, quoted(name)+" is set twice in "+v.name, "It is already set at "+position(first.at.mark)+". Keep one of the two.")
		return
	}
	of := value{d: v.d, expr: item.ValueExpr, scope: v.scope, name: name + " in " + v.name, at: at}
	if val, ok := of.get(); ok {
		v.assign(out, name, val, at)
	} else {
		out[name] = setting{at: at} // known, so that writing it again is still a mistake
	}
}

func (v value) legalName(name string, at place) bool {
	why := ""
	switch {
	case name == "":
		why = "is empty"
	case strings.Contains(name, "="):
		why = "holds a \"=\""
	case strings.IndexByte(name, 0) >= 0:
		why = "holds a NUL character"
	default:
		return true
	}
	v.d.error(at, "the name of a variable in "+v.name+" "+why, "The kernel has no way to carry such a variable. Write NAME = \"text\".")
	return false
}

func (v value) assign(out map[string]setting, name string, val cty.Value, at place) {
	text, why := asText(val)
	if why != "" {
		v.d.error(at, "the variable "+name+" "+why, "Write text, a number, true or false; jsonencode makes text of anything else.")
	}
	out[name] = setting{text: text, at: at}
}

// asText is what a text, number or boolean is in an argument or a variable.
func asText(val cty.Value) (text, why string) {
	switch {
	case val.IsNull():
		return "", "has no value"
	case isText(val):
		text = plainText(val)
		if strings.IndexByte(text, 0) >= 0 {
			return "", "holds a NUL character"
		}
		return text, ""
	case val.Type() == cty.Number, val.Type() == cty.Bool:
		s, err := convert.Convert(val, cty.String)
		if err != nil {
			return "", "cannot be written as text"
		}
		return s.AsString(), ""
	}
	return "", "is " + kindOf(val)
}

func isText(val cty.Value) bool { return val.Type() == cty.String }

// kindOf names the kind of a value in a reader's words.
func kindOf(val cty.Value) string {
	switch t := val.Type(); {
	case val.IsNull():
		return "null"
	case t == cty.String:
		return "text"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsTupleType(), t.IsListType(), t.IsSetType():
		return "a list"
	}
	return "a map"
}
