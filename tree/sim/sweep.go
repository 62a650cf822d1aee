package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Sweep is one setting and the values that it takes, one after the other.
type Sweep struct {
	Path    string // whose; "": of all that have it
	Setting string // "intensity", "period", "backoff" or "limit"
	Values  []string
}

// mostValues bounds a sweep.
const mostValues = 10_000

// ParseSweep reads "intensity=1..10" or "shop:backoff=100ms,1s,10s". Intensity and period are of supervisors: of the one
// with the path, or of all that have an intensity. Backoff and limit are of how children are brought back: of the leaves
// at and below the path, of the supervisor itself if it has the path, or of all leaves.
func ParseSweep(text string) (Sweep, error) {
	var s Sweep
	name, list, ok := strings.Cut(text, "=")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		s.Path, name = name[:i], name[i+1:]
	}
	s.Setting = name
	settings := []string{"intensity", "period", "backoff", "limit"}
	if !ok || !slices.Contains(settings, name) {
		hint := ""
		if near := nearest(name, settings); near != "" {
			hint = fmt.Sprintf(": did you mean %q?", near)
		}
		return s, fmt.Errorf("cannot sweep %q%s; write intensity=1..10, or period, backoff or limit with a list, as in backoff=100ms,1s", text, hint)
	}
	for _, v := range strings.Split(list, ",") {
		v = strings.TrimSpace(v)
		if s.duration() {
			if d, err := time.ParseDuration(v); err != nil || d < 0 {
				return s, fmt.Errorf("cannot sweep %s: %q is no duration; write a list as in 5s,10s,30s", name, v)
			}
			s.Values = append(s.Values, v)
			continue
		}
		first, last, isRange := strings.Cut(v, "..")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to-from >= mostValues {
			return s, fmt.Errorf("cannot sweep %s: %q is no number and no range; write 1..10, or a list as in 1,2,5", name, v)
		}
		for ; from <= to; from++ {
			s.Values = append(s.Values, strconv.Itoa(from))
		}
	}
	if len(s.Values) > mostValues {
		return s, fmt.Errorf("cannot sweep %s: there are more than %d values", name, mostValues)
	}
	return s, nil
}

func (s *Sweep) duration() bool { return s.Setting == "period" || s.Setting == "backoff" }

// Apply returns the tree with the i-th value. The tree that it is given stays as it is.
func (s *Sweep) Apply(spec tree.Spec, i int) (tree.Spec, error) {
	w := New(spec, Options{}) // finds nodes by their paths
	changed := map[string]bool{}
	supervisors := s.Setting == "intensity" || s.Setting == "period"
	if s.Path == "" {
		for _, l := range w.list {
			changed[l.path] = supervisors && l.spec.IsSupervisor() && l.spec.Supervise.Intensity != nil || !supervisors && !l.spec.IsSupervisor()
		}
	} else {
		found, why := w.one(s.Path)
		if why != "" {
			return spec, fmt.Errorf("cannot sweep %s: %s", s.Setting, why)
		}
		switch {
		case supervisors && !found.spec.IsSupervisor():
			return spec, fmt.Errorf("cannot sweep %s of %s: it is no supervisor", s.Setting, found.path)
		case supervisors:
			changed[found.path] = true
		default:
			changed[found.path] = found.parent != nil
			if found.spec.Kind == tree.KindPool {
				for _, l := range w.leaves(found) {
					changed[l.path] = true
				}
			}
		}
	}
	n := 0
	out := s.apply(spec, spec.Name, s.Values[i], changed, &n)
	if n == 0 {
		return spec, fmt.Errorf("cannot sweep %s: no supervisor has an intensity; name one, as in PATH:%s=…", s.Setting, s.Setting)
	}
	return out, nil
}

// one finds the only node that a path can mean.
func (w *World) one(path string) (*lane, string) {
	if l := w.lanes[path]; l != nil {
		return l, ""
	}
	var found []*lane
	var names []string
	for _, l := range w.list {
		if hasTail(l.path, path) || hasTail(l.path, path+".0") {
			found = append(found, l)
			names = append(names, l.path)
			if l.spec.Kind == tree.KindPool {
				return l, ""
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Sprintf("no node is called %q", path)
	case 1:
		return found[0], ""
	}
	return nil, fmt.Sprintf("%q can mean %s; write more of the path", path, strings.Join(names, ", "))
}

func (s *Sweep) apply(n tree.Spec, path, value string, changed map[string]bool, count *int) tree.Spec {
	if changed[path] {
		*count++
		s.set(&n, value)
	}
	kids := slices.Clone(n.Children)
	for i := range kids {
		kids[i] = s.apply(kids[i], tree.ChildPath(path, n.Kind, kids[i].Name), value, changed, count)
	}
	n.Children = kids
	return n
}

// set changes a node that is a copy already, but for what it points to. ParseSweep has read the value once.
func (s *Sweep) set(n *tree.Spec, value string) {
	d, _ := time.ParseDuration(value)
	number, _ := strconv.Atoi(value)
	switch s.Setting {
	case "backoff":
		n.Restart.Backoff = d
		n.Restart.Cap = max(n.Restart.Cap, d)
		return
	case "limit":
		n.Restart.Limit = number
		return
	}
	supervise := *n.Supervise
	intensity := tree.Intensity{Restarts: 1, Period: 5 * time.Second}
	if supervise.Intensity != nil {
		intensity = *supervise.Intensity
	}
	if s.Setting == "period" {
		intensity.Period = d
	} else {
		intensity.Restarts = number
	}
	supervise.Intensity = &intensity
	n.Supervise = &supervise
}
