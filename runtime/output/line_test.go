//go:build linux

package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext é 日本 😀":          "plain\ttext é 日本 😀",
		"a\rb\bc\x00":                 `a\rb\x08c\x00`,
		"\x1b[2J\x1b]0;title\x07":     `\x1b[2J\x1b]0;title\x07`,
		"\x1b]52;c;aGk=\x1b\\":        `\x1b]52;c;aGk=\x1b\`,
		"\x9b31m \u009b31m":           `\x9b31m \u009b31m`,
		"one\u2028two\u2029":          `one\u2028two\u2029`,
		"\u202eevil\u2066\u200e":      `\u202eevil\u2066\u200e`,
		"two\nlines":                  `two\nlines`,
		"\xf0\x9f\x98":                `\xf0\x9f\x98`,
		"\U000e0041 \x7f \ufeff":      `\U000e0041 \x7f \ufeff`,
		"family \U0001f468\u200d👩 ok": "family \U0001f468\u200d👩 ok",
		`C:\temp`:                     `C:\temp`,
		"":                            "",
		"kept \uFFFD":                 "kept \uFFFD",
	} {
		if got := Escape([]byte(in)); got != want {
			t.Errorf("Escape(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	l := Line{Time: time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC), Path: "acme/shop/web.0", Stream: Err,
		Text: []byte("a\rb"), Cut: 7}
	want := `2024-05-06T07:08:09.123Z acme/shop/web.0 err | a\rb [cut 7 bytes]`
	if got := string(l.AppendText(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(l.Raw()); got != "a\rb [cut 7 bytes]" || string(l.Text) != "a\rb" {
		t.Errorf("raw %q, text %q", got, l.Text)
	}
}

func hostile() [][]byte {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	return [][]byte{all, nil, []byte("plain"), []byte(`"},{"level":"error"`), []byte("\x1e\x1b[31m"),
		[]byte("\xed\xa0\x80"), []byte("h\x00i\x00"), []byte("half \xe6\x97"), []byte("\u2028\u202e\U000e0001")}
}

func TestJSONGivesTheBytesBack(t *testing.T) {
	for _, text := range hostile() {
		for _, cut := range []int64{0, 12} {
			checkJSON(t, Line{Time: time.Unix(1700000000, 123456789).UTC(), Path: "a/b/c.0", Incarnation: 3, Stream: Out,
				Text: text, Cut: cut})
		}
	}
	checkJSON(t, Line{Time: time.Unix(1, 0).UTC(), Path: "a", Stream: Err, Text: []byte("x"), Dropped: 9})
	checkJSON(t, Line{Time: time.Unix(1, 0).UTC(), Path: "a", Stream: Err, Text: []byte("x"), Gap: 9})
}

func checkJSON(t *testing.T, l Line) {
	t.Helper()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(b) || bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x2028 }) {
		t.Errorf("not harmless: %q", b)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if _, raw := keys["raw"]; raw == utf8.Valid(l.Text) {
		t.Errorf("raw is there: %v, in %s", raw, b)
	}
	if l.Cut > 0 && !strings.HasSuffix(keys["line"].(string), " [cut 12 bytes]") {
		t.Errorf("no mark: %s", b)
	}
	var back Line
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if len(l.Text) == 0 {
		l.Text, back.Text = nil, append([]byte(nil), back.Text...)
	}
	if diff := cmp.Diff(l, back); diff != "" {
		t.Errorf("%s: %s", b, diff)
	}
}

func FuzzLineJSON(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkJSON(t, Line{Time: time.Unix(5, 0).UTC(), Path: "a/b/c.0", Incarnation: 1, Stream: Out, Text: text, Cut: 12})
		shown := Escape(text)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !harmless(r) && r != '\t' }) {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}
