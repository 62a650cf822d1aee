package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update rewrites what the commands printed into golden files.
var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenStrategies simulates each tree of examples/strategies again, by the command in its script's first line.
func TestGoldenStrategies(t *testing.T) {
	scripts, err := filepath.Glob("../../examples/strategies/*/faults.txt")
	if err != nil || len(scripts) != 6 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, script := range scripts {
		folder := filepath.Dir(script)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(text), "\n")
			command := strings.TrimPrefix(first, "# coppice ")
			readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
			if err != nil || !strings.Contains(string(readme), "`coppice "+command+"`") {
				t.Errorf("README.md does not say coppice %s: %v", command, err)
			}
			args := strings.Fields(command)
			for i, arg := range args {
				if strings.HasSuffix(arg, ".hcl") || strings.HasSuffix(arg, ".txt") {
					args[i] = filepath.Join(folder, arg)
				}
			}
			picture := filepath.Join(t.TempDir(), "picture.svg")
			var out, errs bytes.Buffer
			if status := Run(context.Background(), append(args, "--full", "--svg", picture), strings.NewReader(""), &out, &errs); status != 0 || errs.Len() > 0 {
				t.Fatalf("status %d: %s", status, errs.String())
			}
			drawn, err := os.ReadFile(picture)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(folder, "transcript.txt"), out.Bytes())
			golden(t, filepath.Join(folder, "picture.svg"), drawn)
			for _, line := range strings.Split(string(readme), "\n") {
				if quoted := strings.TrimPrefix(line, "    "); strings.HasPrefix(line, "    [") && !strings.Contains(out.String(), quoted+"\n") {
					t.Errorf("README.md quotes what the transcript does not say: %s", quoted)
				}
			}
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the command prints now (-update rewrites it):\n%s", file, got)
	}
}
