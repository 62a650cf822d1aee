package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// NoSuchPathError says that nothing answers to a path. Near are the nearest names, best first.
type NoSuchPathError struct {
	Path string
	Near []string
}

func (e *NoSuchPathError) Error() string {
	s := "no such path: " + clipped(e.Path)
	if len(e.Near) > 0 {
		s += "; did you mean " + strings.Join(e.Near, " or ") + "?"
	}
	return s
}

// AmbiguousPathError says that more than one subtree answers to a path.
type AmbiguousPathError struct {
	Path       string
	Candidates []string
}

func (e *AmbiguousPathError) Error() string {
	return clipped(e.Path) + " is ambiguous: " + strings.Join(e.Candidates, ", ")
}

// clipped shows what somebody typed without trusting it.
func clipped(s string) string {
	if len(s) > longestArgument {
		s = s[:longestArgument] + "..."
	}
	return fmt.Sprintf("%q", s)
}

// longestArgument bounds the bytes of an argument that anybody compares letter by letter or prints.
const longestArgument = 200

// reserved is the node of the daemon's own parts. They answer to a tail only if nothing else does, so that a worker
// called "gateway" can be named.
const reserved = "_host"

// Under tells whether path is the node at prefix or stands below it, by whole segments; a replica stands below its pool,
// and everything below "".
func Under(prefix, path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	switch {
	case !ok:
		return false
	case prefix == "", rest == "", rest[0] == '/':
		return true
	}
	return replica(rest)
}

// replica tells whether s is how a replica's name goes on after the pool's: a dot and a number.
func replica(s string) bool {
	if len(s) < 2 || s[0] != '.' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Resolve says which of paths an operator means by arg: the node at that path and all below it, in the order of paths. An
// exact path from the root wins; else arg is a tail of whole segments, such as "web", "shop/web" or "web.0", that only one
// subtree has. A worker's name without a number covers all its replicas. "" is everything. The error is
// *AmbiguousPathError or *NoSuchPathError.
func Resolve(paths []string, arg string) ([]string, error) {
	want := strings.TrimSuffix(arg, "/")
	if want == "" && arg == "" {
		return slices.Clone(paths), nil
	}
	if found := under(paths, want); want != "" && len(found) > 0 {
		return found, nil
	}
	var candidates, parts []string
	for _, path := range paths {
		for _, whole := range [...]string{path, pool(path)} {
			if want == "" || !strings.HasSuffix(whole, want) || !strings.HasSuffix(whole, "/"+want) {
				continue
			}
			if Under(reserved, whole) {
				parts = append(parts, whole)
			} else {
				candidates = append(candidates, whole)
			}
			break // "web.0" itself, or the pool that it stands for
		}
	}
	if len(candidates) == 0 {
		candidates = parts
	}
	slices.Sort(candidates)
	switch candidates = slices.Compact(candidates); len(candidates) {
	case 0:
		return nil, &NoSuchPathError{Path: arg, Near: nearest(paths, want)}
	case 1:
		return under(paths, candidates[0]), nil
	}
	return nil, &AmbiguousPathError{Path: arg, Candidates: candidates}
}

func under(paths []string, prefix string) []string {
	var found []string
	for _, path := range paths {
		if Under(prefix, path) {
			found = append(found, path)
		}
	}
	return found
}

// pool returns the path without a replica's number.
func pool(path string) string {
	if i := strings.LastIndexByte(path, '.'); i > 0 && replica(path[i:]) {
		return path[:i]
	}
	return path
}

// nearest returns up to three paths a tail of which resembles arg.
func nearest(paths []string, arg string) []string {
	if arg == "" || len(arg) > longestArgument {
		return nil
	}
	type guess struct {
		path string
		far  int
	}
	var guesses []guess
	segments := strings.Count(arg, "/") + 1
	for _, path := range paths {
		far := min(distance(tail(path, segments), arg), distance(tail(pool(path), segments), arg))
		if far <= max(1, len(arg)/3) {
			guesses = append(guesses, guess{path, far})
		}
	}
	slices.SortStableFunc(guesses, func(a, b guess) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.path, b.path))
	})
	var near []string
	for _, g := range guesses[:min(3, len(guesses))] {
		near = append(near, g.path)
	}
	return near
}

// tail returns the last n segments of a path.
func tail(path string, n int) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			if n--; n == 0 {
				return path[i+1:]
			}
		}
	}
	return path
}

// distance counts the letters to add, drop, change or swap with the next between a and b.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			step := row[j]
			if a[i] != b[j] {
				step++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				step = min(step, before[j-1]+1)
			}
			next[j+1] = min(step, next[j]+1, row[j+1]+1)
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
