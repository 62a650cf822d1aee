package config

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The parser recurses where a file nests, and a stack that overflows ends the program, not only the load. So nesting and
// the length of one expression are bounded before the parser sees the file. No configuration of use comes near.
const (
	maxFile     = 8 << 20
	maxNesting  = 100
	maxTerms    = 5000 // words and signs of one expression, texts not counted
	maxDigits   = 100
	maxJoining  = 1e9 // what joining the lines of texts may cost: the parser takes the square of their number
	maxExponent = 3   // digits of an exponent
)

// readable finds what keeps a file from being text that the parser may be given.
func (r *report) readable(file string, src []byte) bool {
	switch {
	case bytes.HasPrefix(src, []byte{0xFF, 0xFE}), bytes.HasPrefix(src, []byte{0xFE, 0xFF}):
		r.fileError(file, "this file is UTF-16", "Save it as UTF-8.")
		return false
	case bytes.IndexByte(src, 0) >= 0:
		r.error(here(byteRange(file, src, bytes.IndexByte(src, 0))), "this file holds a NUL byte", "A configuration is text in UTF-8.")
		return false
	case !utf8.Valid(src):
		r.error(here(byteRange(file, src, firstInvalid(src))), "this file is not UTF-8", "Save it as UTF-8.")
		return false
	}
	return true
}

func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		c, size := utf8.DecodeRune(src[i:])
		if c == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(src)
}

func byteRange(file string, src []byte, at int) hcl.Range {
	line := 1 + bytes.Count(src[:at], []byte{'\n'})
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	column := 1 + utf8.RuneCount(src[start:at])
	pos := hcl.Pos{Line: line, Column: column, Byte: at}
	return hcl.Range{Filename: file, Start: pos, End: pos}
}

// parseable bounds what would make the parser or an evaluation run away, and refuses template directives, which are not
// part of the language. It looks at tokens only.
func (r *report) parseable(tokens hclsyntax.Tokens) bool {
	before, c := r.errors, counter{}
	lines, joining := 0, 0
	for i := range tokens {
		t := &tokens[i]
		c.count(t.Type)
		if t.Type == hclsyntax.TokenStringLit || t.Type == hclsyntax.TokenQuotedLit {
			lines++
			joining += lines
		} else if t.Type != hclsyntax.TokenTemplateInterp && t.Type != hclsyntax.TokenTemplateSeqEnd {
			lines = 0
		}
		switch {
		case len(c.open) > maxNesting:
			r.error(here(t.Range), "this is nested too deep", "Write it in parts, with a locals block.")
			return false
		case c.terms > maxTerms:
			r.error(here(t.Range), "this expression is too long", "Write it in parts, with a locals block.")
			return false
		case joining > maxJoining:
			r.error(here(t.Range), "this text has too many lines", "Put it into a file and write file(\"NAME\").")
			return false
		case t.Type == hclsyntax.TokenTemplateControl:
			r.error(here(t.Range), "\"%{\" is not part of this language", "To write \"%{\" as it stands, double the percent sign: \"%%{\".")
		case t.Type == hclsyntax.TokenNumberLit && tooLong(t.Bytes):
			r.error(here(t.Range), "this number is out of range", "Write a smaller number, or text in quotes.")
		}
	}
	return r.errors == before
}

func tooLong(number []byte) bool {
	exponent := bytes.IndexAny(number, "eE")
	return len(number) > maxDigits || exponent >= 0 && len(bytes.TrimLeft(number[exponent+1:], "+-0")) > maxExponent
}

// counter bounds how deep the tree of an expression can be: by brackets, and by the words of a chain such as a+b+c.
type counter struct {
	open  []bracket
	terms int
}

type bracket struct {
	brace bool // newlines count as separators inside
	base  int  // terms before it
}

func (c *counter) count(t hclsyntax.TokenType) {
	n := len(c.open)
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		c.terms++
		c.open = append(c.open, bracket{t == hclsyntax.TokenOBrace, c.terms})
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
		if n > 0 {
			c.terms = c.open[n-1].base + 1
			c.open = c.open[:n-1]
		}
	case hclsyntax.TokenComma, hclsyntax.TokenNewline:
		switch {
		case n == 0:
			c.terms = 0
		case t == hclsyntax.TokenComma || c.open[n-1].brace:
			c.terms = c.open[n-1].base
		}
	case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenComment:
	default:
		c.terms++
	}
}
