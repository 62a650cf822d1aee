package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Class says what a change of an attribute means for what is running already.
type Class string

// The classes, from the harmless one up. Of the host block, restart is a restart of the daemon.
const (
	Cosmetic Class = "cosmetic" // nothing that runs is touched
	Live     Class = "live"     // the running instance is treated differently from now on
	Restarts Class = "restart"  // only a new instance can have it
)

// attr declares one attribute of a block whose content is decoded into a T.
type attr[T any] struct {
	name, form, standard string // form is the kind of value in a word or two; standard is the default as HCL, "" for none
	class                Class
	doc                  string
	required             bool
	whole                bool // of the whole worker: a replica's number means nothing in it
	set                  func(t *T, v value)
}

// sub declares one kind of block inside another. A block with a nil decode is known, but not built yet.
type sub[T any] struct {
	name, label string // label is what a reader writes for the name ("NAME"), "" for a block without one
	doc         string
	many        bool // may be written more than once
	whole       bool
	decode      func(d *decoder, t *T, s section, sc scope)
}

// schema declares a block: the one table that drives decoding, "did you mean", and the reference.
type schema[T any] struct {
	name  string
	attrs []attr[T]
	subs  []sub[T]
}

// vocabulary is what a schema's words are without its types.
type vocabulary struct {
	block         string
	attrs, blocks []string
	labels        map[string]string // of the blocks that have one
}

func (sc *schema[T]) vocabulary() vocabulary {
	v := vocabulary{block: sc.name, labels: map[string]string{}}
	for i := range sc.attrs {
		v.attrs = append(v.attrs, sc.attrs[i].name)
	}
	for i := range sc.subs {
		v.blocks = append(v.blocks, sc.subs[i].name)
		v.labels[sc.subs[i].name] = sc.subs[i].label
	}
	return v
}

// section is one block of the configuration, or the several that are united into one.
type section struct {
	kind, label string
	heads       []hcl.Range // of every place where it is written
	bodies      []*hclsyntax.Body
}

func (s *section) head() hcl.Range { return s.heads[0] }

func (s *section) add(b *hclsyntax.Block) {
	s.heads = append(s.heads, b.DefRange())
	s.bodies = append(s.bodies, b.Body)
}

func sectionOf(b *hclsyntax.Block) section {
	s := section{kind: b.Type}
	if len(b.Labels) > 0 {
		s.label = b.Labels[0]
	}
	s.add(b)
	return s
}

// title names the section in a message: `worker "api"`.
func (s *section) title() string {
	if s.label == "" {
		return s.kind
	}
	return s.kind + " " + quoted(s.label)
}

// places says where the attributes and blocks of a section are written, by name.
type places map[string]place

// or is the place of the first of the names that is written.
func (p places) or(fallback place, names ...string) place {
	for _, n := range names {
		if at, ok := p[n]; ok {
			return at
		}
	}
	return fallback
}

// decode reads all attributes and blocks of s into t, and reports what does not belong. The answer is where the
// attributes and blocks were written.
func decode[T any](d *decoder, table *schema[T], s section, t *T, sc scope) places {
	at, words := places{}, table.vocabulary()
	attrs, blocks := d.contents(s, words, at)
	for i := range table.attrs {
		a := &table.attrs[i]
		found, ok := attrs[a.name]
		if !ok {
			if _, written := at[a.name]; a.required && !written && !d.damaged[s.head().Filename] {
				d.error(here(s.head()), s.title()+" has no "+a.name, "Write "+a.name+" = "+example(a.form)+".")
			}
			continue
		}
		own := sc
		if a.whole {
			own = own.withoutIndex(a.name)
		}
		a.set(t, value{d: d, expr: found.Expr, scope: own, name: a.name, at: here(found.NameRange)})
	}
	for i := range table.subs {
		b := &table.subs[i]
		for _, in := range unite(d, b.name, b.many, blocks[b.name]) {
			own := sc
			if b.whole {
				own = own.withoutIndex(b.name)
			}
			if b.decode == nil {
				d.unsupported(in)
				continue
			}
			b.decode(d, t, in, own)
		}
	}
	return at
}

// contents sorts what is written in a section: known attributes, once each, and known blocks with the labels they need.
func (d *decoder) contents(s section, words vocabulary, at places) (map[string]*hclsyntax.Attribute, map[string][]*hclsyntax.Block) {
	attrs, blocks := map[string]*hclsyntax.Attribute{}, map[string][]*hclsyntax.Block{}
	for _, body := range s.bodies {
		for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
			a := body.Attributes[name]
			switch first := attrs[name]; {
			case slices.Contains(words.blocks, name):
				at[name] = here(a.NameRange)
				d.error(here(a.NameRange), name+" is a block, not an attribute", "Write "+header(name, words.labels[name])+" { … }, without \"=\".")
			case !slices.Contains(words.attrs, name):
				d.unknown(a.NameRange, "attribute", name, words, at)
			case first != nil:
				d.twice(a.NameRange, name, first.NameRange)
			default:
				attrs[name] = a
				at[name] = here(a.NameRange)
			}
		}
		for _, b := range body.Blocks {
			switch {
			case slices.Contains(words.attrs, b.Type):
				at[b.Type] = here(b.TypeRange)
				d.error(here(b.TypeRange), b.Type+" is an attribute, not a block", "Write "+b.Type+" = …, with \"=\".")
			case !slices.Contains(words.blocks, b.Type):
				d.unknown(b.TypeRange, "block", b.Type, words, at)
			case d.labelled(b, words.labels[b.Type]):
				if _, written := at[b.Type]; !written {
					at[b.Type] = here(b.DefRange())
				}
				blocks[b.Type] = append(blocks[b.Type], b)
			}
		}
	}
	return attrs, blocks
}

// unite makes sections of blocks: one of each for those that may repeat, else one of the first, and a complaint about
// the others.
func unite(d *decoder, name string, many bool, blocks []*hclsyntax.Block) []section {
	var out []section
	for i, b := range blocks {
		if i > 0 && !many {
			d.twice(b.DefRange(), name, blocks[0].DefRange())
			continue
		}
		out = append(out, sectionOf(b))
	}
	return out
}

func header(name, label string) string {
	if label == "" {
		return name
	}
	return name + ` "` + label + `"`
}

// labelled checks that a block has the name it needs, a legal one, or none.
func (d *decoder) labelled(b *hclsyntax.Block, label string) bool {
	at := here(b.DefRange())
	switch {
	case label == "" && len(b.Labels) > 0:
		d.error(at.part(b.LabelRanges[0]), article(b.Type)+" block has no name", "Write "+b.Type+" { … }.")
		return true
	case label == "":
		return true
	case len(b.Labels) == 0:
		d.error(at, article(b.Type)+" block needs a name", "Write "+b.Type+" \"NAME\" { … }.")
		return false
	case len(b.Labels) > 1:
		d.error(at.part(b.LabelRanges[1]), article(b.Type)+" block has one name only", "Write "+b.Type+" \"NAME\" { … }.")
		return false
	case !validName(b.Labels[0]):
		d.error(at.part(b.LabelRanges[0]), quoted(b.Labels[0])+" cannot name "+article(b.Type),
			"A name has 1 to 63 of a-z, 0-9, \"_\" and \"-\", and starts with a letter or a digit.")
		return false
	}
	return true
}

// unknown reports a word that means nothing where it stands, with the nearest that does, the blocks where it would
// belong, and all that may stand here.
func (d *decoder) unknown(where hcl.Range, what, name string, words vocabulary, at places) {
	var help []string
	all := append(slices.Clone(words.attrs), words.blocks...)
	if near := nearest(name, all, allowedSlips(name)); near != "" {
		if _, written := at[near]; !written {
			at[near] = here(where) // what was meant is not missing as well
		}
		if slices.Contains(words.blocks, near) {
			help = append(help, "Did you mean the block "+quoted(near)+"?")
		} else {
			help = append(help, "Did you mean "+quoted(near)+"?")
		}
	}
	if homes := d.homes(name); len(homes) > 0 {
		help = append(help, quoted(name)+" belongs in "+strings.Join(homes, ", ")+".")
	}
	if len(words.attrs) > 0 {
		help = append(help, "Attributes here: "+strings.Join(words.attrs, ", ")+".")
	}
	if len(words.blocks) > 0 {
		help = append(help, "Blocks here: "+strings.Join(words.blocks, ", ")+".")
	}
	in := " in " + words.block
	if words.block == "" {
		in = " at the top of a file"
	}
	d.error(here(where), "unknown "+what+" "+quoted(name)+in, strings.Join(help, "\n"))
}

func (d *decoder) twice(at hcl.Range, name string, first hcl.Range) {
	d.error(here(at), name+" is given twice", "It is already given at "+position(first)+". Keep one of the two.")
}

func position(r hcl.Range) string {
	d := Diagnostic{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
	return d.place()
}

func (d *decoder) unsupported(s section) {
	d.error(here(s.head()), s.kind+" is not supported yet", "This version of Coppice cannot do what a "+s.kind+" block asks for. Leave it out.")
}
