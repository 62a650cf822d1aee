package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/coppice-run/coppice/tree"
)

// Output that pretends to be something else, and odd questions about it.

// forger prints what pretends to be something else, then tells the same as its status, and stays.
const forger = `
import os, socket, sys
lines = [
    b'2026-01-01T00:00:00.000Z [ERROR] coppice: failed: path=default/a/other.0 state=failed',
    b'{"@level":"error","@message":"failed","path":"default/a/other.0"}',
    b'"},{"level":"error","path":"x"}',
    b'over\rwritten\x08\x08\x08', b'\x1b[2Jcleared', b'\x1b]0;title\x07', b'\x1b]52;c;ZXZpbA==\x07', b'\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\',
    b'sep\xe2\x80\xa8arator', b'bidi\xe2\x80\xaeevil', b'c1 \xc2\x9b2J and raw \x9b2J', b'nul \x00 byte', b'',
    bytes(b for b in range(256) if b != 10), 'UTF-16'.encode('utf-16'), b'lone \xed\xa0\x80 surrogate', b'record \x1e separator',
    b'z' * 20 + '\u00e9'.encode()[:1], 'cut '.encode() + '\u00e9'.encode() * 200,
]
for l in lines: sys.stdout.buffer.write(l + b'\n')
sys.stdout.buffer.flush()
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'STATUS=evil \x1b[2J\r"},{ \xe2\x80\xae status\nREADY=1', os.environ['NOTIFY_SOCKET'])
import time; time.sleep(1000)
`

const forgedLines = 19

func TestFieldForgedOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	script := d.write("forger.py", forger)
	d.write("coppice.hcl", d.hostBlock(`log_format = "json"`)+fmt.Sprintf(`
app "a" {
  worker "w" {
    command = ["python3", %q]
    ready { notify = true }
    logs { max_line = "300B" }
  }
  worker "odd" { command = ["/nonexistent/\u001b[2J\rtool"] }
  worker "sick" {
    command = ["sleep", "1000"]
    ready {
      command = ["sh", "-c", "exit 9"]
      timeout = "200ms"
    }
  }
}`, script))
	d.start()
	d.running("default/a/w.0")
	d.must("stop", "odd", "--reason", "because \x1b]0;x\x07 \u202e \x9b")
	d.until("sick to fail", func() bool { return d.count("default/a/sick", tree.EventBackoff) > 0 })

	// The daemon's stdout: one JSON object a line, as many as were printed, and the worker's bytes all inside one field.
	var records []map[string]any
	d.until("all lines on stdout", func() bool {
		records = nil
		for line := range strings.Lines(d.stdout.String()) {
			records = append(records, decode(t, line))
		}
		return len(records) >= forgedLines
	})
	if len(records) != forgedLines {
		t.Errorf("%d records for %d lines", len(records), forgedLines)
	}
	for _, r := range records {
		if r["path"] != "default/a/w.0" || r["stream"] != "out" || r["incarnation"] != 1.0 || r["level"] != nil || r["@level"] != nil {
			t.Errorf("a record is not what the daemon said: %v", r)
		}
	}
	_, logged, _ := strings.Cut(d.stderr.String(), "\n{") // before it are warnings about the configuration
	for line := range strings.Lines("{" + logged) {
		if r := decode(t, line); r["path"] == "default/a/other.0" {
			t.Errorf("forged: %s", line)
		}
	}

	// The same over the API, where the bytes can be had back.
	sent := printed(t, script)
	var lines []string
	for line := range strings.Lines(d.must("logs", "w", "--json", "-n", "100000")) {
		r := decode(t, line)
		sameKeys(t, line, r, strings.TrimSpace("time path incarnation stream line cut "+map[bool]string{true: "raw"}[r["raw"] != nil]))
		text := r["line"].(string)
		if cut := r["cut"].(float64); cut > 0 {
			mark := fmt.Sprintf(" [cut %.0f bytes]", cut)
			if !strings.HasSuffix(text, mark) {
				t.Errorf("a cut line without its mark: %s", line)
			}
			text = strings.TrimSuffix(text, mark)
			if strings.ContainsRune(text, unicode.ReplacementChar) {
				t.Errorf("cut in the middle of a character: %q", text)
			}
		}
		if raw, ok := r["raw"].(string); ok {
			b, err := base64.StdEncoding.DecodeString(raw)
			if err != nil {
				t.Error(err)
			}
			text = string(b)
		}
		lines = append(lines, text)
	}
	if len(lines) != len(sent) {
		t.Fatalf("%d lines of %d", len(lines), len(sent))
	}
	for i := range sent {
		if lines[i] != sent[i] && !(len(sent[i]) > 300 && strings.HasPrefix(sent[i], lines[i])) {
			t.Errorf("line %d: %q, want %q", i, lines[i], sent[i])
		}
	}
	// Piped, text is raw, the mark included.
	piped := d.must("logs", "w", "-n", "100000")
	if !strings.Contains(piped, "\x1b[2Jcleared") || !strings.Contains(piped, " bytes]\n") {
		t.Errorf("piped logs: %q", piped)
	}
	// Server-sent events: every frame is one line of data.
	resp := d.get("/v1/logs?follow&n=100000", "Accept: text/event-stream")
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for frames := 0; frames < forgedLines && in.Scan(); {
		if in.Text() == "" {
			continue
		}
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			t.Fatalf("not a frame: %q", in.Text())
		}
		decode(t, data)
		frames++
	}
	// What people read has no control character that is not a line's end, and as many rows as there are nodes.
	for _, args := range []string{"status", "events", "why odd", "why sick", "why w"} {
		out := d.must(strings.Fields(args)...)
		for _, r := range out {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("coppice %s prints %q: %q", args, r, out)
				break
			}
		}
	}
	var st struct{ Nodes []tree.Node }
	if err := json.Unmarshal([]byte(d.must("status", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(d.must("status"), "\n"); rows != len(st.Nodes)+1 {
		t.Errorf("%d rows for %d nodes", rows, len(st.Nodes))
	}
	if n := d.node("default/a/w.0"); n.Status != "evil \x1b[2J\r\"},{ \u202e status" {
		t.Errorf("the worker's status words: %q", n.Status)
	}
	// A name that somebody typed comes back as visible escapes.
	for _, args := range [][]string{{"status", "\x1b[2J"}, {"\x1b]0;x\x07"}, {"status", "--\x1b[2J"}, {"help", "\x1b[2J"}, {"logs", "--since", "\x1b[2J"}, {"start", "a\u202eb"}} {
		_, errs, status := d.cli(args...)
		if status == 0 || strings.ContainsAny(errs, "\x1b\x07\u202e") {
			t.Errorf("coppice %q: %d %q", args, status, errs)
		}
	}
	// Metrics stay parseable, whatever was printed.
	for line := range strings.Lines(d.body("/metrics")) {
		if !strings.HasPrefix(line, "#") && strings.Count(line, " ") < 1 || strings.ContainsAny(line, "\x1b\r") {
			t.Errorf("metrics: %q", line)
		}
	}
}

// printed is what the script prints, line by line.
func printed(t *testing.T, script string) []string {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "s = socket.socket")
	out, err := exec.Command("python3", "-c", head).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != forgedLines {
		t.Fatalf("the script prints %d lines, not %d", len(lines), forgedLines)
	}
	return lines
}

// TestFieldTail asks for odd numbers of lines.
func TestFieldTail(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, `app "a" {
  worker "w" {
    command = ["sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; printf 'half'; exec sleep 1000"]
    logs {
      rate  = 100000
      burst = 100000
    }
  }
}`)
	d.until("all lines", func() bool { return strings.Contains(d.must("logs", "-n", "1000"), "line 999\n") })
	for n, want := range map[string]int{"0": 0, "1": 1, "100": 100, "1000000": 1000} {
		out := d.must("logs", "-n", n)
		got := strings.Count(out, "\n")
		if got != want || want > 0 && want < 1000 && !strings.Contains(out, fmt.Sprintf("| line %d\n", 1000-want)) {
			t.Errorf("-n %s: %d lines", n, got)
		}
	}
	if out := d.must("logs"); strings.Count(out, "\n") != 100 {
		t.Errorf("without -n: %d lines", strings.Count(out, "\n"))
	}
	for _, query := range []string{"n=-1", "n=1000000000", "n=1e3", "n=x", "since=x", "since=-1m"} {
		resp := d.get("/v1/logs?" + query)
		if resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("?%s: %s", query, resp.Status)
		}
	}
}
