package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds on what a peer may send.
const (
	maxBody   = 64 << 10
	maxHeader = 16 << 10
)

// Server serves the API. All fields are required.
type Server struct {
	Host   Host
	Access Access
	Log    hclog.Logger
}

// Serve answers on l until ctx ends, then lets open answers finish for a moment and closes the rest. It blocks, and
// always closes l.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	in := newServer(s)
	hs := &http.Server{
		Handler:           in,
		ConnContext:       withPeer,
		ConnState:         newCrowd(s.Access.UID).state,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          s.Log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		// Followers end with the server, not when their client feels like it.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("cannot serve the control socket: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if hs.Shutdown(grace) != nil {
		hs.Close()
	}
	<-done
	return nil
}

// server is the handler: the routes and what they need.
type server struct {
	Server
	mux     *http.ServeMux
	metricz http.Handler
	// description is made once: a handler that read the table would make the table refer to itself.
	description object
}

func newServer(s Server) *server {
	in := &server{Server: s, mux: http.NewServeMux(), metricz: metricsHandler(s.Host), description: describe(routes)}
	methods := map[string][]string{}
	for _, r := range routes {
		in.mux.HandleFunc(r.method+" "+r.pattern, in.guard(r))
		methods[r.pattern] = append(methods[r.pattern], r.method)
	}
	for pattern, allowed := range methods {
		in.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			fail(w, Errorf(CodeMethod, "cannot %s %s: only %s", r.Method, pattern, strings.Join(allowed, ", ")))
		})
	}
	in.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, Errorf(CodeNotFound, "no such route: %q (GET /v1/openapi.json lists them)", r.URL.Path))
	})
	return in
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// ServeMux would redirect an unclean path, and a client that follows would have asked for something else.
	if p := r.URL.Path; strings.Contains(p, "//") || strings.Contains(p, "/../") || strings.HasSuffix(p, "/..") {
		fail(w, Errorf(CodeUsage, "bad path %q: empty and dotted segments are not allowed", p))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// guard checks who asks before a handler sees the request, and turns its error into the answer.
func (s *server) guard(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer := peerFrom(r.Context())
		scope := s.Access.Scope(peer)
		var err error
		switch {
		case rt.need == anyone:
		case !scope.All && (rt.need == all || len(scope.Tenants) == 0):
			s.Log.Warn("refused a request", "uid", peer.UID, "pid", peer.PID, "action", r.Method+" "+r.URL.Path)
			err = Errorf(CodeDenied, "not allowed: user %d may not %s %s", peer.UID, r.Method, r.URL.Path)
		case rt.need == operate:
			err = unforged(r)
		}
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			err = rt.serve(s, w, r, scope)
		}
		if err != nil {
			fail(w, err)
		}
	}
}

// unforged refuses what a web page could make a browser send: a form's content type, or a foreign origin.
func unforged(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Errorf(CodeUsage, "cannot %s: Content-Type must be application/json", r.URL.Path)
	}
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return Errorf(CodeDenied, "not allowed: requests from web pages are refused")
	}
	return nil
}

func fail(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Message: err.Error(), Code: CodeFailed}
	}
	answer(w, e.status(), e)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // a peer that has gone away needs no answer
}
