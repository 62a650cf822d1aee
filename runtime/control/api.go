package control

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Status is the answer of GET /v1/status and of `status --json`.
type Status struct {
	Host  HostStatus  `json:"host"`
	Nodes []tree.Node `json:"nodes"`
}

// HostStatus tells about the daemon itself.
type HostStatus struct {
	PID       int          `json:"pid"`
	Version   string       `json:"version"`
	StartedAt time.Time    `json:"started_at"`
	State     tree.State   `json:"state"`
	Config    ConfigStatus `json:"config"`
}

// ConfigStatus tells what configuration runs now.
type ConfigStatus struct {
	Files     []string  `json:"files"`
	Hash      string    `json:"hash"`
	AppliedAt time.Time `json:"applied_at"`
}

// Why is the answer of GET /v1/why/PATH: the node as it is, and the journal entries that led there, newest first.
type Why struct {
	Node  tree.Node    `json:"node"`
	Chain []tree.Event `json:"chain"`
	// Complete is false when the first cause is no longer in the journal.
	Complete bool `json:"complete"`
}

// Query selects journal entries or output lines. Paths are whole subtrees, already resolved; none means everything that
// Scope sees.
type Query struct {
	Paths  []string
	Since  time.Time // zero: all that is kept
	Last   int       // lines of output, the newest n in all
	Follow bool      // go on until the context ends
}

// Verb is what an operator asks for.
type Verb string

// The verbs.
const (
	VerbStart   Verb = "start"
	VerbStop    Verb = "stop"
	VerbRestart Verb = "restart"
)

// Ask is an operator's request for one path.
type Ask struct {
	Verb    Verb
	Path    string
	By      string // who, for the journal
	Reason  string // why, in the operator's words
	Wait    bool
	Timeout time.Duration
}

// Result is what came of an Ask. Error is nil when it was done (or, without Wait, accepted).
type Result struct {
	Path  string `json:"path"`
	Note  string `json:"note,omitempty"` // "already running", "accepted"
	Error *Error `json:"error,omitempty"`
}

// Answer is the answer of POST /v1/start, stop and restart: one Result a path, in the order asked.
type Answer struct {
	Results []Result `json:"results"`
}

// Host is what the server stands in front of: the running tree, its journal and its output.
type Host interface {
	Status() Status
	Why(path string) (Why, error)
	// Events and Logs call emit for each entry, oldest first, until there are no more (Follow: until ctx ends or emit fails).
	// What emit is given marshals to one JSON object.
	Events(ctx context.Context, q Query, emit func(any) error) error
	Logs(ctx context.Context, q Query, emit func(any) error) error
	// Operate carries out one request for a path that exists and blocks until it is done when ask.Wait says so. An error that
	// is not an *Error counts as CodeFailed.
	Operate(ctx context.Context, ask Ask) (note string, err error)
	// Output counts lines per worker, for the metrics.
	Output() []OutputCount
}

// OutputCount counts what one worker printed since the daemon started.
type OutputCount struct {
	Path                  string
	Lines, Bytes, Dropped int64
}

// Code says of what kind an error is; every code has one HTTP status and one exit status.
type Code string

// The codes.
const (
	CodeUsage       Code = "bad_request"
	CodeDenied      Code = "forbidden"
	CodeNotFound    Code = "not_found"
	CodeAmbiguous   Code = "ambiguous"
	CodeMethod      Code = "method_not_allowed"
	CodeConflict    Code = "conflict"
	CodeFailed      Code = "failed"
	CodeTimeout     Code = "timeout"
	CodeUnavailable Code = "unavailable"
)

// codes is the whole table: the HTTP status of an answer and the exit status of the command that gets it.
var codes = map[Code]struct{ http, exit int }{
	CodeUsage:       {http.StatusBadRequest, 2},
	CodeDenied:      {http.StatusForbidden, 7},
	CodeNotFound:    {http.StatusNotFound, 4},
	CodeAmbiguous:   {http.StatusBadRequest, 4},
	CodeMethod:      {http.StatusMethodNotAllowed, 1},
	CodeConflict:    {http.StatusConflict, 1},
	CodeFailed:      {http.StatusConflict, 1},
	CodeTimeout:     {http.StatusServiceUnavailable, 5},
	CodeUnavailable: {http.StatusServiceUnavailable, 6},
}

// Error is an answer that says no. The JSON form is the contract's.
type Error struct {
	Message string `json:"error"`
	Code    Code   `json:"code"`
}

func (e *Error) Error() string { return e.Message }

// ExitStatus is what a command that got this error exits with.
func (e *Error) ExitStatus() int {
	if c, ok := codes[e.Code]; ok {
		return c.exit
	}
	return 1
}

func (e *Error) status() int {
	if c, ok := codes[e.Code]; ok {
		return c.http
	}
	return http.StatusInternalServerError
}

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), Code: code}
}
