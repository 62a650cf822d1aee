package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// redefined is the parser's word for an attribute that is written twice. It is the one mistake of the parser's that leaves
// the rest of the file as it was meant.
const redefined = "Attribute redefined"

// syntaxErrors reports what the parser found, without the echoes of one mistake: what it says again of the same place, and
// of every line that a text without an end runs over.
func (r *report) syntaxErrors(problems hcl.Diagnostics) {
	said, line := map[int]bool{}, -1
	for _, problem := range problems {
		if at := problem.Subject; at != nil {
			if said[at.Start.Byte] {
				continue
			}
			said[at.Start.Byte] = true
			if problem.Summary == "Invalid multi-line string" {
				echo := line == at.Start.Line-1
				line = at.Start.Line
				if echo {
					continue
				}
			}
		}
		r.syntax(problem)
	}
}

// syntax reports what the parser found, in the words of this language.
func (r *report) syntax(problem *hcl.Diagnostic) {
	if problem.Subject == nil {
		r.fileError("", plain(problem.Summary), plain(problem.Detail))
		return
	}
	at := here(*problem.Subject)
	if problem.Summary == redefined {
		r.redefinition(at, problem.Detail)
		return
	}
	summary, detail := reword(problem)
	if hint := r.templateHint(*problem.Subject); hint != "" {
		detail = strings.TrimPrefix(detail+"\n"+hint, "\n")
	}
	r.error(at, summary, detail)
}

// redefinition names both places. The parser's message is `The argument "x" was already set at FILE:LINE,COL-COL. …`.
func (r *report) redefinition(at place, detail string) {
	src, name := r.sources[at.at.Filename], ""
	if s, e := at.at.Start.Byte, at.at.End.Byte; s <= e && e <= len(src) {
		name = string(src[s:e])
	}
	first := "above"
	if i := strings.LastIndex(detail, " was already set at "); i >= 0 {
		where := strings.SplitN(detail[i+len(" was already set at "):], ". Each argument", 2)[0]
		if colon := strings.LastIndexByte(where, ':'); colon >= 0 {
			where = where[colon+1:]
		}
		if dash := strings.IndexByte(where, '-'); dash >= 0 {
			where = where[:dash]
		}
		first = "at " + at.at.Filename + ":" + strings.Replace(where, ",", ":", 1)
	}
	r.error(at, name+" is given twice", "It is already given "+first+". Keep one of the two.")
}

// templateHint helps where the text "${" or "%{" was not meant to be a template.
func (r *report) templateHint(at hcl.Range) string {
	src := r.sources[at.Filename]
	start := min(max(at.Start.Byte, 0), len(src))
	first := strings.LastIndexByte(string(src[max(0, start-maxSourceLine):start]), '\n') + 1 + max(0, start-maxSourceLine)
	end := min(start+2, len(src))
	line := string(src[first:end])
	dollar, percent := strings.LastIndex(line, "${"), strings.LastIndex(line, "%{")
	switch {
	case dollar >= 0 && dollar > percent:
		return "To write \"${\" as it stands, double the dollar sign: \"$${\"."
	case percent >= 0:
		return "To write \"%{\" as it stands, double the percent sign: \"%%{\"."
	}
	return ""
}

const oneLine = "Only a block with a single attribute fits on one line; write each attribute on a line of its own."

// rewordings holds what the parser says in words that need another phrase, by its summary.
var rewordings = map[string][2]string{
	"Argument or block definition required":           {"an attribute or a block is expected here", "Write NAME = VALUE, or NAME { … }."},
	"Argument definition required":                    {"an attribute is expected here", oneLine},
	"Invalid argument name":                           {"the name of an attribute has no quotes", "Write NAME = VALUE."},
	"Unclosed configuration block":                    {"this block is not closed", "A \"}\" is missing before the end of the file, here or in a block inside."},
	"Invalid single-argument block definition":        {"this block does not fit on one line", oneLine},
	"Missing newline after argument":                  {"a new line is expected here", "Every attribute stands on a line of its own. A value that is text goes in quotes."},
	"Unexpected comma after argument":                 {"attributes are not separated by commas", "Every attribute stands on a line of its own."},
	"Missing newline after block definition":          {"a new line is expected here", "Every block stands on lines of its own."},
	"Unterminated tuple constructor expression":       {"this list is not closed", "A \"]\" is missing."},
	"Unterminated object constructor expression":      {"this map is not closed", "A \"}\" is missing."},
	"Missing key/value separator":                     {"a \"=\" is expected here", "Write NAME = VALUE in a map. A name that is not a plain word goes in quotes."},
	"Missing attribute value":                         {"a value is expected here", "Write NAME = VALUE in a map."},
	"Missing attribute separator":                     {"a comma or a new line is expected here", "Entries of a map are separated by commas or new lines."},
	"Missing item separator":                          {"a comma is expected here", "Elements of a list are separated by commas."},
	"Unterminated template string":                    {"this text is not closed", "A '\"' is missing at its end, or the line that closes a text begun with <<."},
	"Unterminated string literal":                     {"this text is not closed", "A '\"' is missing at its end. A '\"' inside is written \\\"."},
	"Invalid multi-line string":                       {"text in quotes ends on its line", "A '\"' is missing at its end, or write \\n for a new line."},
	"Unclosed template interpolation sequence":        {"this \"${\" is not closed", "A \"}\" is missing."},
	"Extra characters after interpolation expression": {"this \"${\" holds more than one value", "Write \"${NAME}\"."},
	"Invalid expression":                              {"a value is expected here", "Write text in quotes, a number, true, false, a list [ … ] or a map { … }."},
	"Missing expression":                              {"a value is expected here", "Write text in quotes, a number, true, false, a list [ … ] or a map { … }."},
	"Invalid escape sequence":                         {"this escape means nothing", "After a \"\\\" comes one of n, r, t, \", \\, or u and four hexadecimal digits. A backslash itself is written \"\\\\\"."},
	"Invalid character encoding":                      {"this file is not UTF-8", "Save it as UTF-8."},
	"Invalid legacy index syntax":                     {"an index stands in square brackets", "Write NAME[0]."},
	"Unbalanced parentheses":                          {"this \"(\" is not closed", "A \")\" is missing."},
	"Unterminated function call":                      {"this \"(\" is not closed", "A \")\" is missing."},
	"Ambiguous attribute key":                         {"a name with a dot must be in quotes", "Write \"NAME.PART\" = \"text\"."},
	"Invalid attribute name":                          {"a name is expected here", "Write NAME after the dot."},
	"Inconsistent conditional result types":           {"the two results of this choice are of different kinds", "Make both text, or both numbers."},
	"Not enough function arguments":                   {"this function needs more arguments", ""},
	"Too many function arguments":                     {"this function takes fewer arguments", ""},
	"Unterminated heredoc":                            {"this text is not closed", "The line with its closing word is missing."},
	"Invalid template interpolation value":            {"only text, a number, true or false can stand in \"${\" and \"}\"", "jsonencode makes text of anything else."},
	"Invalid operand":                                 {"this cannot be calculated", "Both sides must be numbers, or both true or false."},
	"Unsupported attribute":                           {"there is no such entry", "Look at where the map is written."},
	"Invalid index":                                   {"there is no such element", "Look at where the list is written; elements count from 0."},
	"Invalid block definition":                        {"a block is expected here", "Write NAME { … }, with the \"{\" on the same line, or NAME = VALUE."},
	"Invalid string literal":                          {"this name is not plain text", "Write \"NAME\"."},
	"Invalid number literal":                          {"this is not a number", "Write digits only, or text in quotes."},
	"Invalid object key":                              {"this cannot be a name in a map", "Write NAME = VALUE, the name in quotes if it is not a plain word."},
}

// reword puts a problem into the words of this language: its own phrase where there is one, else with the library's
// words replaced.
func reword(problem *hcl.Diagnostic) (summary, detail string) {
	if phrase, ok := rewordings[problem.Summary]; ok {
		return phrase[0], phrase[1]
	}
	return lowered(plain(problem.Summary)), plain(problem.Detail)
}

// plain replaces the words of the library that a reader of this language does not know.
func plain(text string) string {
	return decodeBytes(strings.NewReplacer(
		"object constructor", "map", "tuple constructor", "list", "tuple", "list", "object", "map",
		"arguments", "attributes", "argument", "attribute", "Arguments", "Attributes", "Argument", "Attribute",
		"traversal", "name", "splat", "\"*\"", "interpolation", "\"${\"", "cty.", "", "cty", "value",
		"the \"heredoc\" multi-line template syntax", "<<END").Replace(text))
}

func lowered(text string) string {
	if text == "" {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// evaluation reports what went wrong while an expression was computed.
func (d *decoder) evaluation(problem *hcl.Diagnostic, at place, expr hclsyntax.Expression) {
	mark := expr.Range()
	if problem.Subject != nil {
		mark = *problem.Subject
	}
	summary, detail := reword(problem)
	if call, ok := problem.Extra.(hclsyntax.FunctionCallDiagExtra); ok && call.FunctionCallError() != nil {
		summary, detail = call.CalledFunctionName()+": "+decodeBytes(call.FunctionCallError().Error()), ""
	}
	if problem.Summary == "Invalid function argument" {
		_, why, _ := strings.Cut(problem.Detail, " parameter: ")
		summary, detail = "this does not fit the function", plain(why)
	}
	d.error(at.part(mark), summary, detail)
}
