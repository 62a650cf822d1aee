package tree

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutants = flag.Bool("mutants", false, "break the package in each of the ways of testdata/mutants and see that the tests notice")

// TestMutants breaks one promise at a time in a copy of the package. The test that the mutant names must fail there.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("it builds the package once for each mutant; -mutants runs it")
	}
	files, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	copies := map[string]string{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".patch"), func(t *testing.T) {
			m := readMutant(t, file)
			dir := copies[m.test]
			if dir == "" {
				dir = copyOfPackage(t, m.test)
				copies[m.test] = dir
				if out, err := testCopy(dir, m.test); err != nil {
					t.Fatalf("the copy fails without any mutant: %v\n%s", err, out)
				}
			}
			defer m.apply(t, dir)()
			out, err := testCopy(dir, m.test)
			switch {
			case err == nil:
				t.Errorf("it lives: %s does not notice", m.test)
			case strings.Contains(out, "[build failed]"):
				t.Errorf("it does not compile:\n%s", out)
			case !strings.Contains(out, "--- FAIL") && !strings.Contains(out, "panic:"):
				t.Errorf("no test fails, but something else does:\n%s", out)
			}
		})
	}
	for _, dir := range copies {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Error(err)
		}
	}
}

// mutant is one way to break the package.
type mutant struct {
	test  string
	hunks []hunk
}

// hunk is a place in a file: its lines before, and after.
type hunk struct{ file, before, after string }

func readMutant(t *testing.T, file string) mutant {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m mutant
	name := ""
	for _, line := range strings.SplitAfter(string(b), "\n") {
		h := len(m.hunks) - 1
		switch {
		case line == "":
		case strings.HasPrefix(line, "Test: "):
			m.test = strings.TrimSpace(strings.TrimPrefix(line, "Test: "))
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ "):
			name = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/tree/"))
		case strings.HasPrefix(line, "@@"):
			m.hunks = append(m.hunks, hunk{file: name})
		case h < 0:
		case line[0] == '-':
			m.hunks[h].before += line[1:]
		case line[0] == '+':
			m.hunks[h].after += line[1:]
		case line[0] == ' ':
			m.hunks[h].before += line[1:]
			m.hunks[h].after += line[1:]
		case line == "\n":
			m.hunks[h].before += line
			m.hunks[h].after += line
		}
	}
	if m.test == "" || len(m.hunks) == 0 {
		t.Fatalf("%s is not a mutant", file)
	}
	return m
}

// apply breaks the copy and returns what mends it.
func (m *mutant) apply(t *testing.T, dir string) func() {
	mend := func() {}
	for _, h := range m.hunks {
		target := filepath.Join(dir, h.file)
		whole, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(whole), h.before); n != 1 {
			mend()
			t.Fatalf("%s holds these lines %d times, not once:\n%s", h.file, n, h.before)
		}
		write(t, target, strings.Replace(string(whole), h.before, h.after, 1))
		before := mend
		mend = func() { write(t, target, string(whole)); before() }
	}
	return mend
}

// copyOfPackage copies what one test needs of this package into a module of the same name.
func copyOfPackage(t *testing.T, test string) string {
	root, err := os.MkdirTemp("", "mutants")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "tree")
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(test, "OTP") {
		more, err := filepath.Glob("sim/*.go")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	for _, name := range append(names, "../go.mod", "../go.sum") {
		if strings.HasSuffix(name, "_test.go") && !needs(test, name) {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(b))
	}
	for _, data := range []string{"otp", "transcripts", "worker"} {
		if err := os.CopyFS(filepath.Join(dir, "testdata", data), os.DirFS(filepath.Join("testdata", data))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// needs tells whether a test is built from a file: fewer files build faster.
func needs(test, name string) bool {
	switch {
	case strings.Contains(test, "OTP"):
		return strings.HasPrefix(name, "otp_")
	case strings.Contains(test, "Supervisor"):
		return strings.HasPrefix(name, "supervisor_") || name == "update_test.go" || name == "worker_test.go"
	}
	return strings.HasPrefix(name, "worker_") || name == "update_test.go"
}

func testCopy(dir, test string) (string, error) {
	cmd := exec.Command("go", "test", "-short", "-failfast", "-vet=off", "-timeout=60s", "-ldflags=-s -w", "-run", "^"+test, ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, file, text string) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
