package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// value is what is written behind an attribute's "=", not yet evaluated. Its methods store what it means; where it
// means nothing they report why and leave what was there.
type value struct {
	d     *decoder
	expr  hclsyntax.Expression
	scope scope
	name  string
	at    place
}

// example is a value to show for a form.
func example(form string) string {
	switch form {
	case "duration":
		return `"5s"`
	case "size":
		return `"64MiB"`
	case "argv":
		return `["/path/of/program", "argument"]`
	case "names":
		return `["a", "b"]`
	case "map":
		return `{ NAME = "text" }`
	case "yes or no":
		return "true"
	case "count", "number":
		return "1"
	}
	return `"text"`
}

func (v value) fail(summary, detail string) {
	v.d.error(v.at.part(v.expr.Range()), summary, detail)
}

// get evaluates the expression. A null is as good as a mistake: there is no way to say "as if it were not written".
func (v value) get() (cty.Value, bool) {
	val, ok := v.d.evaluate(v.expr, v.scope, v.at)
	if !ok {
		return val, false
	}
	if val.IsNull() {
		v.fail(v.name+" has no value", "null stands for nothing. Leave the attribute out for its default.")
		return val, false
	}
	return val, true
}

func (v value) wrong(want, form string, got cty.Value) {
	detail := "Write " + v.name + " = " + form + "."
	if isText(got) && form == "true" {
		detail = "Write " + v.name + " = true or false, without quotes."
	}
	if isText(got) && form == "1" {
		detail = "Write the number without quotes."
	}
	v.fail(v.name+" must be "+want+", and this is "+kindOf(got), detail)
}

// text stores any text. Text with a NUL cannot be handed to a process or the kernel, whatever it is for.
func (v value) text(into *string) bool {
	val, ok := v.get()
	if !ok {
		return false
	}
	if !isText(val) {
		v.wrong("text", `"text"`, val)
		return false
	}
	text := plainText(val)
	if strings.IndexByte(text, 0) >= 0 {
		v.fail(v.name+" holds a NUL character", "The kernel ends a text at the first NUL. Leave it out.")
		return false
	}
	*into = text
	return true
}

// filled stores text that is not empty.
func (v value) filled(into *string) bool {
	var text string
	if !v.text(&text) {
		return false
	}
	if text == "" {
		v.fail(v.name+" is empty", "Leave the attribute out if it is not wanted.")
		return false
	}
	*into = text
	return true
}

func (v value) truth(into *bool) bool {
	val, ok := v.get()
	if !ok {
		return false
	}
	if val.Type() != cty.Bool {
		v.wrong("true or false", "true", val)
		return false
	}
	*into = val.True()
	return true
}

// whole stores a whole number from low to high.
func (v value) whole(into *int, low, high int) bool {
	n, ok := v.number()
	if !ok {
		return false
	}
	if n != math.Trunc(n) {
		v.fail(v.name+" must be a whole number", fmt.Sprintf("Write a number from %d to %d.", low, high))
		return false
	}
	if n < float64(low) || n > float64(high) {
		v.fail(fmt.Sprintf("%s is out of range", v.name), fmt.Sprintf("Write a number from %d to %d.", low, high))
		return false
	}
	*into = int(n)
	return true
}

// within stores a number for which ok holds; rule says what ok asks for.
func (v value) within(into *float64, ok func(float64) bool, rule string) bool {
	n, valid := v.number()
	if !valid {
		return false
	}
	if !ok(n) {
		v.fail(v.name+" is out of range", "Write a number "+rule+".")
		return false
	}
	*into = n
	return true
}

func (v value) number() (float64, bool) {
	val, ok := v.get()
	if !ok {
		return 0, false
	}
	if val.Type() != cty.Number {
		v.wrong("a number", "1", val)
		return 0, false
	}
	n, _ := val.AsBigFloat().Float64()
	if math.IsInf(n, 0) {
		v.fail(v.name+" is out of range", "Write a smaller number.")
		return 0, false
	}
	return n, true
}

// word stores one of the valid words.
func word[W ~string](v value, into *W, valid ...W) bool {
	val, ok := v.get()
	if !ok {
		return false
	}
	words := make([]string, len(valid))
	for i, w := range valid {
		words[i] = string(w)
		if isText(val) && plainText(val) == words[i] {
			*into = w
			return true
		}
	}
	help := "Write " + listed(words, "or") + "."
	if !isText(val) {
		v.fail(v.name+" must be text, and this is "+kindOf(val), help)
		return false
	}
	text := plainText(val)
	if near := nearest(text, words, allowedSlips(text)); near != "" {
		help = "Did you mean " + quoted(near) + "? " + help
	}
	v.fail(v.name+" cannot be "+quoted(text), help)
	return false
}

// Whether a duration may be zero.
const (
	aboveZero = false
	orZero    = true
)

func (v value) duration(into *time.Duration, zero bool) bool {
	val, ok := v.get()
	if !ok {
		return false
	}
	if val.Type() == cty.Number {
		v.fail(v.name+" has no unit", "Write a unit: "+suggestUnit(val, "s")+". Units are ms, s, m, h and d.")
		return false
	}
	if !isText(val) {
		v.wrong("a duration", `"5s"`, val)
		return false
	}
	text := plainText(val)
	took, why := parseDuration(text)
	switch {
	case why != "":
		v.fail(quoted(text)+" is not a duration: "+why, durationHelp(text, why))
	case took < 0 || took == 0 && !zero:
		v.fail(v.name+" must be above zero", `Write a duration such as "5s".`)
	default:
		*into = took
		return true
	}
	return false
}

func durationHelp(text, why string) string {
	const units = "Units are ns, us, ms, s, m, h and d: \"500ms\", \"1h30m\"."
	number := numberPrefix(text)
	if number == "" || !strings.Contains(why, "unit") {
		return units
	}
	rest := strings.ToLower(strings.TrimSpace(text[len(number):]))
	if rest == "" {
		return "Write a unit: " + quoted(number+"s") + ". " + units
	}
	for _, unit := range []string{"ms", "s", "m", "h", "d"} {
		if strings.HasPrefix(rest, unit) {
			return "Did you mean " + quoted(number+unit) + "? " + units
		}
	}
	return units
}

// suggestUnit shows how a bare number might have been meant.
func suggestUnit(number cty.Value, unit string) string {
	n, _ := number.AsBigFloat().Float64()
	if n <= 0 || n > 1e9 {
		n = 5
	}
	if unit == "MiB" && n > 4096 {
		unit = "B"
	}
	return quoted(strconv.FormatFloat(n, 'f', -1, 64) + unit)
}

// size stores a number of bytes, at least low.
func (v value) size(into *int64, low int64) bool {
	val, ok := v.get()
	if !ok {
		return false
	}
	if val.Type() == cty.Number {
		v.fail(v.name+" has no unit", "Write a unit: "+suggestUnit(val, "MiB")+". Units are "+strings.Join(sizeWords, ", ")+".")
		return false
	}
	if !isText(val) {
		v.wrong("a size", `"64MiB"`, val)
		return false
	}
	text := plainText(val)
	bytes, why := parseSize(text)
	switch {
	case why != "":
		v.fail(quoted(text)+" is not a size: "+why, "Units are "+strings.Join(sizeWords, ", ")+": \"64KiB\", \"2GiB\".")
	case bytes < low:
		v.fail(v.name+" is too small", fmt.Sprintf("Write a size of at least \"%dB\".", low))
	default:
		*into = bytes
		return true
	}
	return false
}
