package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	defaultTimeout = 60 * time.Second
	maxPaths       = 1000
)

// request is the body of an operation. Path and Paths may both be given.
type request struct {
	Path    string   `json:"path"`
	Paths   []string `json:"paths"`
	Timeout string   `json:"timeout"` // a duration; default 60s
	Wait    *bool    `json:"wait"`    // default true
	Reason  string   `json:"reason"`
}

// operation serves one verb for one or many paths. All are resolved before anything is touched; then each goes its own
// way, and the answer lists every one.
func operation(verb Verb) func(*server, http.ResponseWriter, *http.Request, Scope) error {
	return func(s *server, w http.ResponseWriter, r *http.Request, scope Scope) error {
		ask, paths, err := readRequest(verb, r.Body)
		if err != nil {
			return err
		}
		if paths, err = resolve(s.visible(scope).Nodes, paths); err != nil {
			return prefixed(verb, err)
		}
		peer := peerFrom(r.Context())
		ask.By = peerName(peer)
		s.Log.Info("was asked", "verb", string(verb), "paths", paths, "by", ask.By, "uid", peer.UID, "pid", peer.PID)
		results := make([]Result, len(paths))
		var all sync.WaitGroup
		for i, path := range paths {
			one := ask
			one.Path = path
			all.Go(func() { results[i] = s.one(r, one) })
		}
		all.Wait()
		answerAll(w, results)
		return nil
	}
}

func (s *server) one(r *http.Request, ask Ask) Result {
	note, err := s.Host.Operate(r.Context(), ask)
	res := Result{Path: ask.Path, Note: note}
	if err != nil && !errors.As(err, &res.Error) {
		res.Error = Errorf(CodeFailed, "cannot %s %s: %v", ask.Verb, ask.Path, err)
	}
	return res
}

// answerAll answers with the first error's status, if there is one, and always with every result.
func answerAll(w http.ResponseWriter, results []Result) {
	for _, res := range results {
		if res.Error != nil {
			answer(w, res.Error.status(), struct {
				*Error
				Answer
			}{res.Error, Answer{results}})
			return
		}
	}
	answer(w, http.StatusOK, Answer{results})
}

func readRequest(verb Verb, body io.Reader) (Ask, []string, error) {
	var req request
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return Ask{}, nil, Errorf(CodeUsage, "cannot %s: the body is over %d bytes", verb, large.Limit)
		}
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: bad body: %v", verb, err)
	}
	if dec.More() {
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: bad body: more than one object", verb)
	}
	paths := req.Paths
	if req.Path != "" {
		paths = append([]string{req.Path}, paths...)
	}
	ask := Ask{Verb: verb, Reason: req.Reason, Wait: req.Wait == nil || *req.Wait, Timeout: defaultTimeout}
	if req.Timeout != "" {
		d, err := time.ParseDuration(req.Timeout)
		if err != nil || d <= 0 {
			return Ask{}, nil, Errorf(CodeUsage, "cannot %s: bad timeout %q: write a duration above zero, as \"60s\"", verb, req.Timeout)
		}
		ask.Timeout = d
	}
	switch {
	case len(paths) == 0:
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: no path given", verb)
	case slices.Contains(paths, ""):
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: a path is empty", verb) // an unset variable of a script, not the whole host
	case len(paths) > maxPaths:
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: %d paths are too many, at most %d", verb, len(paths), maxPaths)
	case len(req.Reason) > 1000:
		return Ask{}, nil, Errorf(CodeUsage, "cannot %s: the reason is over 1000 bytes", verb)
	}
	return ask, paths, nil
}

func prefixed(verb Verb, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return Errorf(e.Code, "cannot %s: %s", verb, e.Message)
	}
	return err
}

// peerName is the name under which an intent is remembered.
func peerName(p Peer) string {
	if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", p.UID)
}
