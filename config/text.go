package config

import (
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Values are to reach a process byte by byte as they are written, but the expression library turns every text into
// Unicode's composed form (an e with an accent of its own becomes one letter), and knows no text that is not Unicode.
// So every byte outside ASCII travels through expressions as one private character, which no normal form touches, and is
// turned back where a value leaves them.
const byteBase = 0xF0000

func encodeBytes(s string) string {
	first := strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
	if first < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) * 2)
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
		} else {
			b.WriteRune(byteBase + rune(s[i]))
		}
	}
	return b.String()
}

func decodeBytes(s string) string {
	if strings.IndexFunc(s, isByte) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if isByte(r) {
			b.WriteByte(byte(r - byteBase))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isByte(r rune) bool { return r >= byteBase+0x80 && r <= byteBase+0xFF }

// plainText is the text of a value with its bytes as they were written.
func plainText(val cty.Value) string { return decodeBytes(val.AsString()) }

// keepBytes puts the exact text back into every literal of an expression tree that the parser has normalised.
func keepBytes(body *hclsyntax.Body, src []byte) {
	walk(body, func(node hclsyntax.Node) {
		lit, ok := node.(*hclsyntax.LiteralValueExpr)
		if !ok || lit.Val.IsNull() || lit.Val.Type() != cty.String {
			return
		}
		normal := lit.Val.AsString()
		if strings.IndexFunc(normal, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
			return
		}
		exact := normal
		if r := lit.SrcRange; r.Start.Byte >= 0 && r.Start.Byte <= r.End.Byte && r.End.Byte <= len(src) {
			exact = writtenText(src[r.Start.Byte:r.End.Byte], normal)
		}
		lit.Val = cty.StringVal(encodeBytes(exact))
	})
}

// writtenText finds the text that the source of a literal stands for, given its normal form. A heredoc whose
// indentation was taken off is matched line by line.
func writtenText(src []byte, normal string) string {
	for _, kind := range []hclsyntax.TokenType{hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit} {
		text, diags := hclsyntax.ParseStringLiteralToken(hclsyntax.Token{Type: kind, Bytes: src})
		if diags.HasErrors() {
			continue
		}
		if cty.NormalizeString(text) == normal {
			return text
		}
		if exact, ok := matchLines(text, normal); ok {
			return exact
		}
	}
	return normal
}

func matchLines(text, normal string) (string, bool) {
	from, to := strings.Split(text, "\n"), strings.Split(normal, "\n")
	if len(from) != len(to) {
		return "", false
	}
	for i, line := range from {
		for cty.NormalizeString(line) != to[i] {
			rest := strings.TrimLeft(line, " \t")
			if len(rest) == len(line) {
				return "", false
			}
			line = line[1:]
		}
		from[i] = line
	}
	return strings.Join(from, "\n"), true
}

// walk visits every node below and including node.
func walk(node hclsyntax.Node, visit func(hclsyntax.Node)) {
	_ = hclsyntax.Walk(node, visitor(visit))
}
