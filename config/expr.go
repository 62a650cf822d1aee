package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// scope is what an expression may refer to beside env and local.
type scope struct {
	indexed bool
	index   int
	outside string // what the expression belongs to where index means nothing, for the message
}

func (s scope) withoutIndex(of string) scope { return scope{outside: of} }

type visitor func(hclsyntax.Node)

func (v visitor) Enter(node hclsyntax.Node) hcl.Diagnostics { v(node); return nil }
func (v visitor) Exit(hclsyntax.Node) hcl.Diagnostics       { return nil }

// evaluate computes an expression. Everything that it refers to is looked up first, so that what is wrong with it is said
// in the words of this language.
func (d *decoder) evaluate(expr hclsyntax.Expression, sc scope, at place) (cty.Value, bool) {
	if val, ok := literal(expr); ok {
		return val, true
	}
	c := &reading{d: d, scope: sc, at: at, base: expr.Range().Filename, env: map[string]cty.Value{}, local: map[string]cty.Value{}, ok: true}
	c.read(expr)
	if !c.ok {
		return cty.NilVal, false
	}
	ctx := &hcl.EvalContext{Functions: d.functions(c.base), Variables: map[string]cty.Value{
		"env": cty.ObjectVal(c.env), "local": cty.ObjectVal(c.local), "index": cty.NumberIntVal(int64(sc.index))}}
	val, diags := expr.Value(ctx)
	for _, problem := range diags {
		d.evaluation(problem, at, expr)
	}
	if diags.HasErrors() || !val.IsWhollyKnown() || !d.finite(val, at, expr) {
		return cty.NilVal, false
	}
	return val, true
}

// finite refuses numbers that are none: dividing by zero gives infinity.
func (d *decoder) finite(val cty.Value, at place, expr hclsyntax.Expression) bool {
	fine := true
	_ = cty.Walk(val, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && !v.IsNull() && v.AsBigFloat().IsInf() {
			fine = false
		}
		return fine, nil
	})
	if !fine {
		d.error(at.part(expr.Range()), "this divides by zero", "Write a number that can be calculated.")
	}
	return fine
}

// literal answers for what needs no evaluation, which is most of any configuration.
func literal(expr hclsyntax.Expression) (cty.Value, bool) {
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, e.Val != cty.NilVal && e.Val.IsKnown()
	case *hclsyntax.TemplateExpr:
		if len(e.Parts) == 0 {
			return cty.StringVal(""), true
		}
		if e.IsStringLiteral() {
			return literal(e.Parts[0])
		}
	}
	return cty.NilVal, false
}

// reading checks the names in one expression and collects the values that they stand for.
type reading struct {
	d          *decoder
	scope      scope
	at         place
	base       string
	env, local map[string]cty.Value
	unread     []hcl.Range // what is refused as a whole: names in it are not looked up
	weight     int         // bytes of text that the names stand for, each time they are used
	ok         bool
}

func (c *reading) fail(r hcl.Range, summary, detail string) {
	c.ok = false
	c.d.error(c.at.part(r), summary, detail)
}

func (c *reading) read(expr hclsyntax.Expression) {
	walk(expr, func(node hclsyntax.Node) {
		switch e := node.(type) {
		case *hclsyntax.ForExpr:
			c.unread = append(c.unread, e.Range())
			c.fail(e.Range(), "\"for\" is not part of this language", "Write the elements out.")
		case *hclsyntax.SplatExpr:
			c.unread = append(c.unread, e.Range())
			c.fail(e.Range(), "\"*\" is not part of this language", "Write the elements out.")
		case *hclsyntax.FunctionCallExpr:
			if !slices.Contains(functionNames, e.Name) {
				c.fail(e.NameRange, "unknown function "+quoted(e.Name), guess(e.Name, functionNames)+"Functions: "+strings.Join(functionNames, ", ")+".")
			}
		case *hclsyntax.ScopeTraversalExpr:
			c.name(e)
		}
	})
	if c.weight > maxText*16 {
		c.fail(expr.Range(), "this value is too large", "A value may have up to 1 MiB.")
	}
}

func guess(given string, words []string) string {
	if near := nearest(given, words, allowedSlips(given)); near != "" {
		return "Did you mean " + quoted(near) + "? "
	}
	return ""
}

// name looks up what one dotted name stands for.
func (c *reading) name(e *hclsyntax.ScopeTraversalExpr) {
	root, at := e.Traversal.RootName(), e.SrcRange
	for _, r := range c.unread {
		if at.Start.Byte >= r.Start.Byte && at.End.Byte <= r.End.Byte {
			return
		}
	}
	switch root {
	case "index":
		switch {
		case !c.scope.indexed && c.scope.outside != "":
			c.fail(at, "index means nothing here", "It is the number of a worker's replica, and "+c.scope.outside+" is the same for all of them.")
		case !c.scope.indexed:
			c.fail(at, "index means nothing here", "It is the number of a worker's replica: use it inside a worker block.")
		case len(e.Traversal) > 1:
			c.fail(at, "index is a number", "Write index alone.")
		}
	case "env":
		if key, ok := c.second(e, "env.NAME"); ok {
			c.variable(key, at)
		}
	case "local":
		if key, ok := c.second(e, "local.NAME"); ok {
			c.localName(key, at)
		}
	default:
		help := "Names are env.NAME, local.NAME and, in a worker, index. Text goes in quotes; a literal \"${\" is written \"$${\"."
		if c.inTemplate(at) {
			help = "To write \"${\" as it stands, double the dollar sign: \"$${" + root + "}\". " +
				"A value goes there as ${env.NAME}, ${local.NAME} or, in a worker, ${index}."
		}
		c.fail(at, "unknown name "+quoted(root), help)
	}
}

// inTemplate tells whether a name stands right behind a "${".
func (c *reading) inTemplate(at hcl.Range) bool {
	src := c.d.sources[at.Filename]
	if at.Start.Byte > len(src) {
		return false
	}
	before := strings.TrimRight(string(src[max(0, at.Start.Byte-20):at.Start.Byte]), " \t~")
	return strings.HasSuffix(before, "${")
}

func (c *reading) second(e *hclsyntax.ScopeTraversalExpr, form string) (string, bool) {
	if len(e.Traversal) > 1 {
		switch step := e.Traversal[1].(type) {
		case hcl.TraverseAttr:
			return step.Name, true
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				return plainText(step.Key), true
			}
		}
	}
	c.fail(e.SrcRange, e.Traversal.RootName()+" stands for nothing by itself", "Write "+form+".")
	return "", false
}

func (c *reading) variable(name string, at hcl.Range) {
	text, set := "", false
	if c.d.around.Env != nil {
		text, set = c.d.around.Env(name)
	}
	if !set {
		c.fail(at, "the environment variable "+name+" is not set",
			"env."+name+" is read from the environment of the daemon, or of this command, when the configuration is loaded.")
		return
	}
	c.weight += len(text)
	c.env[name] = cty.StringVal(encodeBytes(text))
}

func (c *reading) localName(name string, at hcl.Range) {
	l := c.d.locals[name]
	if l == nil && c.d.anyDamaged() {
		c.ok = false // it may be in what could not be read
		return
	}
	if l == nil {
		help := "There are no locals; write them in a locals block: locals { " + name + " = … }."
		if len(c.d.localNames) > 0 {
			help = guess(name, c.d.localNames) + "Locals: " + strings.Join(c.d.localNames, ", ") + "."
		}
		c.fail(at, "unknown local "+quoted(name), help)
		return
	}
	val, ok := c.d.local(l)
	if !ok {
		c.ok = false // said where the local is declared
		return
	}
	c.weight += l.weight
	c.local[name] = val
}

// mentionsIndex tells whether any expression in the block depends on the replica's number.
func mentionsIndex(s section) bool {
	found := false
	for _, body := range s.bodies {
		walk(body, func(node hclsyntax.Node) {
			if e, ok := node.(*hclsyntax.ScopeTraversalExpr); ok && e.Traversal.RootName() == "index" {
				found = true
			}
		})
	}
	return found
}
