package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// local is one value of a locals block. Locals may refer to one another in any order, over all files, but not in a circle.
type local struct {
	attr   *hclsyntax.Attribute
	val    cty.Value
	weight int
	state  localState
}

type localState int

const (
	unread localState = iota
	reads
	good
	bad
)

// collectLocals declares what all locals blocks hold, without evaluating it.
func (d *decoder) collectLocals(blocks []*hclsyntax.Block) {
	d.locals = map[string]*local{}
	for _, b := range blocks {
		for _, inner := range b.Body.Blocks {
			d.error(here(inner.DefRange()), "a locals block has no blocks", "Write "+inner.Type+" = ….")
		}
		for _, name := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
			a := b.Body.Attributes[name]
			if first := d.locals[name]; first != nil {
				d.twice(a.NameRange, "local."+name, first.attr.NameRange)
				continue
			}
			d.locals[name] = &local{attr: a}
		}
	}
	d.localNames = slices.Sorted(maps.Keys(d.locals))
}

// evaluateLocals evaluates them all, so that a mistake in one that nobody uses is found too.
func (d *decoder) evaluateLocals() {
	for _, name := range d.localNames {
		l := d.locals[name]
		d.local(l)
	}
}

func (d *decoder) local(l *local) (cty.Value, bool) {
	switch l.state {
	case good:
		return l.val, true
	case bad:
		return cty.NilVal, false
	case reads:
		d.circle(l)
		return cty.NilVal, false
	}
	if len(d.reading) >= maxNesting {
		l.state = bad
		d.error(here(l.attr.NameRange), "local."+l.attr.Name+" is too deep in a chain of locals", "Write its value out.")
		return cty.NilVal, false
	}
	l.state = reads
	d.reading = append(d.reading, l.attr.Name)
	val, ok := d.evaluate(l.attr.Expr, scope{outside: "a local"}, here(l.attr.NameRange))
	d.reading = d.reading[:len(d.reading)-1]
	if ok {
		if l.weight = weigh(val); l.weight > maxText {
			d.error(here(l.attr.NameRange), "local."+l.attr.Name+" is too large", "A local may have up to 1 MiB.")
			ok = false
		}
	}
	if !ok {
		l.state = bad
		return cty.NilVal, false
	}
	l.state, l.val = good, val
	return val, true
}

// circle reports locals that stand for one another, once, at the one that closes the circle.
func (d *decoder) circle(l *local) {
	start := slices.Index(d.reading, l.attr.Name)
	path := append(slices.Clone(d.reading[start:]), l.attr.Name)
	for i := range path {
		path[i] = "local." + path[i]
	}
	d.error(here(l.attr.NameRange), "local."+l.attr.Name+" refers to itself", strings.Join(path, " -> ")+"\nWrite one of them out.")
}

// weigh is about how many bytes a value holds.
func weigh(val cty.Value) int {
	switch {
	case val.IsNull() || !val.IsKnown():
		return 1
	case isText(val):
		return len(val.AsString())
	case val.CanIterateElements():
		sum := 8
		for it := val.ElementIterator(); it.Next(); {
			key, element := it.Element()
			sum += 8 + weigh(element)
			if isText(key) {
				sum += len(key.AsString())
			}
		}
		return sum
	}
	return 8
}
