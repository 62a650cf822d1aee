package control

import (
	"net/http"
)

// need is what a route asks of a peer's scope.
type need int

const (
	anyone  need = iota // whoever can connect
	someone             // a peer with a scope; the handler shows it no more than that
	operate             // someone who changes something
	all                 // only a scope of everything
)

// route is one entry of the API.
type route struct {
	method, pattern string
	need            need
	serve           func(*server, http.ResponseWriter, *http.Request, Scope) error
	summary         string
	query           []parameter // for the description
}

type parameter struct{ name, about string }

var (
	pathParameters = []parameter{{"path", "a path, or a unique tail of one; may be given more than once"}}
	sinceParameter = parameter{"since", "a duration back from now (10m) or a time (RFC 3339)"}
	followParam    = parameter{"follow", "go on with what comes; SSE when text/event-stream is accepted, else one object a line"}
)

// routes is the API: this table is all there is.
var routes = []route{
	{"GET", "/v1/status", someone, (*server).status, "the tree and the state of each node", pathParameters},
	{"GET", "/v1/status/{path...}", someone, (*server).status, "the subtree at a path", nil},
	{"GET", "/v1/events", someone, (*server).events, "the journal, oldest first, one object a line",
		append([]parameter{sinceParameter, followParam}, pathParameters...)},
	{"GET", "/v1/logs", someone, (*server).logs, "workers' output merged by time, one object a line",
		append([]parameter{{"n", "the newest n lines in all (default 100)"}, sinceParameter, followParam}, pathParameters...)},
	{"GET", "/v1/why/{path...}", someone, (*server).why, "the chain of causes that led to the present state", nil},
	{"GET", "/v1/openapi.json", someone, (*server).openapi, "this description", nil},
	{"GET", "/metrics", all, (*server).metrics, "metrics in Prometheus' text format", nil},
	{"GET", "/healthz", anyone, (*server).healthz, "200 while the daemon serves", nil},
	{"GET", "/readyz", anyone, (*server).readyz, "200 while every wanted node runs, else 503", nil},
	{"POST", "/v1/start", operate, operation(VerbStart), "start paths; waits until ready unless told not to", nil},
	{"POST", "/v1/stop", operate, operation(VerbStop), "stop paths; waits until nothing of them runs unless told not to", nil},
	{"POST", "/v1/restart", operate, operation(VerbRestart), "restart paths; waits until ready unless told not to", nil},
}
