package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

const defaultLines = 100

// visible is the status as the peer may see it.
func (s *server) visible(scope Scope) Status {
	st := s.Host.Status()
	if scope.All {
		return st
	}
	kept := st.Nodes[:0:0]
	for _, n := range st.Nodes {
		if scope.Sees(n.Path) {
			kept = append(kept, n)
		}
	}
	st.Nodes = kept
	st.Host.Config.Files = nil // where the operator keeps it is not a tenant's business
	return st
}

// resolve turns what was asked into whole paths among those that the peer may see. Nothing asked is everything.
func resolve(nodes []tree.Node, asked []string) ([]string, error) {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = n.Path
	}
	var found []string
	for _, arg := range asked {
		matches, err := tree.Resolve(paths, arg)
		var many *tree.AmbiguousPathError
		switch {
		case errors.As(err, &many):
			return nil, Errorf(CodeAmbiguous, "%v", err)
		case err != nil:
			return nil, Errorf(CodeNotFound, "%v", err)
		}
		found = append(found, matches[0])
	}
	return found, nil
}

func (s *server) status(w http.ResponseWriter, r *http.Request, scope Scope) error {
	st := s.visible(scope)
	paths, err := resolve(st.Nodes, asked(r))
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		kept := st.Nodes[:0:0]
		for _, n := range st.Nodes {
			if underAny(paths, n.Path) {
				kept = append(kept, n)
			}
		}
		st.Nodes = kept
	}
	answer(w, http.StatusOK, st)
	return nil
}

func (s *server) why(w http.ResponseWriter, r *http.Request, scope Scope) error {
	path, err := resolve(s.visible(scope).Nodes, asked(r))
	if err != nil {
		return err
	}
	if len(path) != 1 {
		return Errorf(CodeUsage, "cannot tell why: name one path")
	}
	why, err := s.Host.Why(path[0])
	if err != nil {
		return err
	}
	if !scope.All {
		why = redact(why, scope)
	}
	answer(w, http.StatusOK, why)
	return nil
}

// redact keeps causes that lie outside the scope from showing another tenant's names.
func redact(why Why, scope Scope) Why {
	chain := make([]tree.Event, 0, len(why.Chain))
	for _, e := range why.Chain {
		if scope.Sees(e.Path) {
			chain = append(chain, e)
		} else {
			why.Complete = false
		}
	}
	why.Chain = chain
	return why
}

func (s *server) events(w http.ResponseWriter, r *http.Request, scope Scope) error {
	return s.stream(w, r, scope, 0, s.Host.Events)
}

func (s *server) logs(w http.ResponseWriter, r *http.Request, scope Scope) error {
	n := defaultLines
	if v := r.FormValue("n"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 0 || n > 1e6 {
			return Errorf(CodeUsage, "bad n %q: write a number from 0 to 1000000", v)
		}
	}
	return s.stream(w, r, scope, n, s.Host.Logs)
}

// stream sends what the host emits, one object a line, or as server-sent events to those who accept them.
func (s *server) stream(w http.ResponseWriter, r *http.Request, scope Scope, last int,
	from func(context.Context, Query, func(any) error) error) error {
	since, err := parseSince(r.FormValue("since"), time.Now())
	if err != nil {
		return err
	}
	paths, err := resolve(s.visible(scope).Nodes, asked(r))
	if err != nil {
		return err
	}
	if len(paths) == 0 && !scope.All {
		paths = scope.Tenants
	}
	q := Query{Paths: paths, Since: since, Last: last, Follow: follows(r)}
	out := newStreamWriter(w, q.Follow, q.Follow && strings.Contains(r.Header.Get("Accept"), "text/event-stream"))
	if q.Follow {
		out.flush() // the reader learns at once that it is connected
	}
	from(r.Context(), q, out.emit) // it ends when there is no more, or no reader: neither is an error
	out.flush()
	return nil
}

// streamWriter frames objects and flushes each one of a followed stream. A reader that stops reading is cut off by the
// write deadline, and holds up nobody else meanwhile.
type streamWriter struct {
	w           http.ResponseWriter
	rc          *http.ResponseController
	sse, follow bool
}

const writeTimeout = 30 * time.Second

func newStreamWriter(w http.ResponseWriter, follow, sse bool) *streamWriter {
	kind := "application/x-ndjson"
	if sse {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	return &streamWriter{w: w, rc: http.NewResponseController(w), sse: sse, follow: follow}
}

func (o *streamWriter) emit(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	o.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	// JSON has no raw newline, so one data line always frames it.
	if o.sse {
		_, err = fmt.Fprintf(o.w, "data: %s\n\n", b)
	} else {
		_, err = o.w.Write(append(b, '\n'))
	}
	if err == nil && o.follow {
		err = o.flush()
	}
	return err
}

func (o *streamWriter) flush() error { return o.rc.Flush() }

func (s *server) healthz(w http.ResponseWriter, _ *http.Request, _ Scope) error {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request, _ Scope) error {
	for _, n := range s.Host.Status().Nodes {
		if n.Leaf == nil || n.State == tree.StateDone || n.State == tree.StateStopped {
			continue
		}
		if n.State != tree.StateRunning || !n.Ready {
			// Which one is not said: whoever can connect may ask this.
			return Errorf(CodeUnavailable, "not ready")
		}
	}
	return s.healthz(w, nil, Scope{})
}

// asked lists the paths of a request: the one in the URL, or those of the query.
func asked(r *http.Request) []string {
	if p := r.PathValue("path"); p != "" {
		return []string{p}
	}
	return r.URL.Query()["path"]
}

func follows(r *http.Request) bool {
	v, ok := r.URL.Query()["follow"]
	return ok && v[0] != "false" && v[0] != "0"
}

// parseSince reads a duration back from now, or a time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, Errorf(CodeUsage, "bad since %q: write a duration (\"10m\") or a time (\"2006-01-02T15:04:05Z\")", s)
}

func underAny(paths []string, path string) bool {
	for _, p := range paths {
		if tree.Under(p, path) {
			return true
		}
	}
	return false
}
