package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Client speaks to a daemon. Its methods block until the answer is there or ctx ends; an answer that says no is an
// *Error, with CodeUnavailable when the daemon cannot be reached at all. It may be used from many goroutines.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient makes a client of the daemon behind the Unix socket at the path. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status returns the subtrees at the paths, or all that the caller may see.
func (c *Client) Status(ctx context.Context, paths ...string) (Status, error) {
	var st Status
	err := c.get(ctx, "/v1/status", url.Values{"path": paths}, &st)
	return st, err
}

// Why returns the chain of causes that led to the present state of the node.
func (c *Client) Why(ctx context.Context, path string) (Why, error) {
	var why Why
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." { // which would name another route
			return why, Errorf(CodeNotFound, "no such path: %q", path)
		}
	}
	err := c.get(ctx, "/v1/why/"+(&url.URL{Path: path}).EscapedPath(), nil, &why)
	return why, err
}

// StreamQuery selects what Events and Logs return. Since is as in the API: "10m" or a time. N is for Logs: the newest n
// lines in all, -1 for the default.
type StreamQuery struct {
	Paths  []string
	Since  string
	N      int
	Follow bool
}

func (q StreamQuery) values() url.Values {
	v := url.Values{"path": q.Paths}
	if q.Since != "" {
		v.Set("since", q.Since)
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	return v
}

// Events calls each with every journal entry, oldest first. Following, it returns when ctx ends or the daemon goes.
func (c *Client) Events(ctx context.Context, q StreamQuery, each func(tree.Event) error) error {
	return c.stream(ctx, "/v1/events", q.values(), func(line []byte) error {
		var e tree.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("cannot read an event: %w", err)
		}
		return each(e)
	})
}

// Logs calls each with every line of output, one JSON object, oldest first, and otherwise does as Events.
func (c *Client) Logs(ctx context.Context, q StreamQuery, each func(line []byte) error) error {
	v := q.values()
	if q.N >= 0 {
		v.Set("n", strconv.Itoa(q.N))
	}
	return c.stream(ctx, "/v1/logs", v, each)
}

// Operate asks for the same thing for every path and returns what came of each. The error is that of the first path that
// failed; the results are there all the same.
func (c *Client) Operate(ctx context.Context, verb Verb, paths []string, ask Ask) ([]Result, error) {
	req := request{Paths: paths, Wait: &ask.Wait, Reason: ask.Reason}
	if ask.Timeout > 0 {
		req.Timeout = ask.Timeout.String()
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	within := patience // to say yes or no
	if ask.Wait {
		within += cmp.Or(ask.Timeout, defaultTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	resp, err := c.do(ctx, "POST", "/v1/"+string(verb), nil, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var got struct {
		Error
		Answer
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return got.Results, &got.Error
	}
	return got.Results, nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := c.do(ctx, "GET", path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return c.unreachable(err)
	}
	return nil
}

// stream reads one object a line. A daemon that ends while it is followed is no error: there is no more to come.
func (c *Client) stream(ctx context.Context, path string, query url.Values, each func([]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) })
	resp, err := c.do(ctx, "GET", path, query, nil)
	late.Stop()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		default:
			return c.unreachable(err)
		}
	}
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	target := "http://coppice" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, Errorf(CodeUsage, "cannot ask for %q: %v", path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, c.unreachable(err)
	}
	return resp, nil
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return Errorf(CodeTimeout, "timed out waiting for the daemon at %s", c.socket)
	}
	if errors.Is(err, context.Canceled) {
		return Errorf(CodeFailed, "interrupted")
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // the rest of the text only repeats the address
	}
	return Errorf(CodeUnavailable, "cannot reach the daemon at %s: %v (is `coppice run` running? --socket names another)", c.socket, err)
}

func readError(resp *http.Response) error {
	e := &Error{}
	body := io.LimitReader(resp.Body, 1<<20)
	if err := json.NewDecoder(body).Decode(e); err != nil || strings.TrimSpace(e.Message) == "" {
		return Errorf(CodeFailed, "the daemon answered %s", resp.Status)
	}
	return e
}

// patience is how long a client waits for an answer, beyond what the daemon was asked to wait itself, before it gives the
// daemon up.
const patience = 10 * time.Second
