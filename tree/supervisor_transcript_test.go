package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSupervisorTranscripts replays each file of testdata/transcripts; -update rewrites them. A file tells one or more
// lives, parted by "---".
func TestSupervisorTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var lives []string
			for _, life := range strings.Split(string(want), "---\n") {
				lives = append(lives, replaySupervisor(t, life))
			}
			got := strings.Join(lives, "---\n")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s tells another story (-update rewrites it):\n%s", file, firstDifference(string(want), got))
			}
		})
	}
}

// replaySupervisor returns a life with the orders that the machine gives now. The oracle watches.
func replaySupervisor(t *testing.T, life string) string {
	t.Helper()
	var spec Spec
	var s *Supervisor
	var watch *oracle
	var dice Dice
	var out strings.Builder
	present, last := map[string]int{}, map[string]uint64{}
	now, seq := time.Unix(0, 0), Seq(0)
	for _, line := range strings.Split(strings.TrimSuffix(life, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue // an order of before
		}
		line = strings.TrimRight(line, " ")
		text := line
		if strings.HasPrefix(line, "[") {
			_, text, _ = strings.Cut(line, "] ")
		}
		words := splitWords(t, text)
		switch {
		case len(words) == 0 || words[0][0] == '#':
			out.WriteString(line + "\n")
		case words[0] == "dice":
			var d float64
			fmt.Sscan(words[1], &d)
			dice = loaded(d)
			out.WriteString(line + "\n")
		case words[0][0] != '+':
			specLine(t, &spec, words)
			out.WriteString(line + "\n")
		default:
			if s == nil {
				s = NewSupervisor(spec, Past{}, dice)
				watch = newOracle(spec)
			}
			now = now.Add(span(t, words[0][1:]))
			seq++
			fact := readFact(t, words[1:], seq, present, last)
			fmt.Fprintf(&out, "[%d] %s\n", seq, text)
			orders := s.Step(now, fact)
			for _, o := range orders {
				out.WriteString("        " + printOrder(o) + "\n")
				switch o := o.(type) {
				case Start:
					present[o.Child] = o.Inc
				case WakeAfter:
					last[o.Child] = o.Token
				}
			}
			if watch.see(now, fact, orders); watch.trouble != "" {
				t.Errorf("%s, at\n%s", watch.trouble, out.String())
				watch.trouble = ""
			}
		}
	}
	return out.String()
}
