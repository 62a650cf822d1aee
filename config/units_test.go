package config

import (
	"bytes"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "1h": time.Hour, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour,
		"1h30m": 90 * time.Minute, "1.5d": 36 * time.Hour, "0.1s": 100 * time.Millisecond, "3ns": 3, "2us": 2 * time.Microsecond,
		"2µs": 2 * time.Microsecond, ".5s": 500 * time.Millisecond, "5.s": 5 * time.Second, "0s": 0, "-1s": -time.Second, "+1s": time.Second,
		"106751d": 106751 * 24 * time.Hour, "1m60s": 2 * time.Minute,
	} {
		if got, why := parseDuration(text); got != want || why != "" {
			t.Errorf("%q is %s (%s), and not %s", text, got, why, want)
		}
	}
	for _, text := range []string{"", "5", "s", "5 s", "5 sec", "5sec", "1w", "1M", "1S", "1h-1m", "--1s", "1..5s", "1e3s", "0x1s", "106752d", "1s ", " 1s", "∞", "1d1"} {
		if got, why := parseDuration(text); why == "" {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// TestDurationsLikeGo: what Go's own reader takes means the same here.
func TestDurationsLikeGo(t *testing.T) {
	for _, text := range []string{"1h2m3s4ms5us6ns", "0.000000001s", "1.000000001s", "2562047h47m16.854775806s", "-0.5h", "1.5h1.5h", "0"} {
		want, err := time.ParseDuration(text)
		if got, why := parseDuration(text); err != nil || why != "" || got != want {
			t.Errorf("%q is %s (%s), and for Go %s (%v)", text, got, why, want, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0B": 0, "1B": 1, "64KiB": 64 << 10, "512MiB": 512 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "1KB": 1000, "1MB": 1e6, "1GB": 1e9,
		"1.5KiB": 1536, "0.5MiB": 512 << 10, "8388607TiB": 8388607 << 40,
	} {
		if got, why := parseSize(text); got != want || why != "" {
			t.Errorf("%q is %d (%s), and not %d", text, got, why, want)
		}
	}
	for _, text := range []string{"", "5", "KiB", "5 KiB", "5kb", "5K", "5TB", "-1B", "0.1B", "8388608TiB", "99999999999999999999999999999999B", "1e3B"} {
		if got, why := parseSize(text); why == "" {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"restart", "ready", "env", "directory", "strategy"}
	for given, want := range map[string]string{"restrat": "restart", "redy": "ready", "ENV": "env", "dir": "", "strategie": "strategy", "x": "", "": ""} {
		if got := nearest(given, words, allowedSlips(given)); got != want {
			t.Errorf("%q is nearest to %q, and not %q", given, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	src := "\uFEFF# first\napp   \"a\" { # beside\n\tworker \"w\" {\ncommand=[\"/bin/prog\",\n\"x\"]\n    # inside\n  enabled   =   true\n count=2\n}\n}\n\n\n# last"
	want := "# first\napp \"a\" { # beside\n  worker \"w\" {\n    command = [\"/bin/prog\",\n    \"x\"]\n    # inside\n    enabled = true\n    count   = 2\n  }\n}\n\n\n# last"
	got, diags := Format("c.hcl", []byte(src))
	if diags.HasErrors() || string(got) != want {
		t.Errorf("it is\n%s\n%s", got, diags.Error())
	}
	if again, _ := Format("c.hcl", got); !bytes.Equal(again, got) {
		t.Errorf("formatted again it is\n%s", again)
	}
	if got, diags := Format("c.hcl", []byte("app {")); got != nil || !diags.HasErrors() {
		t.Errorf("a broken file is formatted: %q, %v", got, diags)
	}
}
