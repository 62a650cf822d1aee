package control

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost answers from what a test puts into it.
type fakeHost struct {
	nodes  []tree.Node
	events []tree.Event
	lines  []any
	fail   map[string]error

	mu    sync.Mutex
	asked []Ask
}

func (f *fakeHost) Status() Status {
	return Status{Host: HostStatus{PID: 1, State: tree.StateRunning, Config: ConfigStatus{Files: []string{"/etc/x.hcl"}}}, Nodes: f.nodes}
}

func (f *fakeHost) Why(path string) (Why, error) {
	return Why{Node: tree.Node{Path: path, State: tree.StateFailed, Reason: "exit 1"}, Chain: f.events, Complete: true}, nil
}

func (f *fakeHost) Events(ctx context.Context, q Query, emit func(any) error) error {
	for _, e := range f.events {
		if len(q.Paths) > 0 && !underAny(q.Paths, e.Path) {
			continue
		}
		if err := emit(e); err != nil {
			return err
		}
	}
	if q.Follow {
		<-ctx.Done()
	}
	return nil
}

func (f *fakeHost) Logs(_ context.Context, q Query, emit func(any) error) error {
	for _, l := range f.lines[max(0, len(f.lines)-q.Last):] {
		if err := emit(l); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeHost) Operate(_ context.Context, ask Ask) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, ask)
	return "", f.fail[ask.Path]
}

func (f *fakeHost) Output() []OutputCount {
	return []OutputCount{{Path: "acme/shop/web.0", Lines: 3, Bytes: 30, Dropped: 1}}
}

// nodes are two tenants; the pool's replicas stand beside it.
func nodes() []tree.Node {
	leaf := func(path string) tree.Node {
		return tree.Node{Path: path, Kind: tree.KindWorker, State: tree.StateRunning, Leaf: &tree.Leaf{Ready: true, PID: 7, Incarnation: 1}}
	}
	return []tree.Node{
		{Path: "acme", Kind: tree.KindTenant, State: tree.StateRunning},
		{Path: "acme/shop", Kind: tree.KindApp, State: tree.StateRunning},
		{Path: "acme/shop/web", Kind: tree.KindPool, State: tree.StateRunning},
		leaf("acme/shop/web.0"), leaf("acme/shop/web.1"),
		{Path: "zen", Kind: tree.KindTenant, State: tree.StateRunning},
		{Path: "zen/shop", Kind: tree.KindApp, State: tree.StateRunning},
		leaf("zen/shop/secret"),
	}
}

// serve runs a server for which the peer has the scope, until the test ends.
func serve(t *testing.T, host Host, access Access) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Server{Host: host, Access: access, Log: hclog.NewNullLogger()}.Serve(ctx, l) }()
	client := NewClient(socket)
	t.Cleanup(func() {
		client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

// everything is the access of this test's own user; acme and nobody make it a tenant's user, and a stranger. Root may do
// all whatever the table says, so these tests look at the table itself where they run as root.
var everything = Access{UID: os.Getuid(), Group: -1}

// asTenant makes a server treat every peer as a tenant's user.
func asTenant(t *testing.T, host Host, tenants ...string) *http.Client {
	t.Helper()
	in := newServer(Server{Host: host, Access: Access{UID: 99991, Group: -1, TenantsOf: func(int) []string { return tenants }}, Log: hclog.NewNullLogger()})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, Peer{UID: 99992, GID: 99992})))
	})}
	done := make(chan struct{})
	go func() { hs.Serve(l); close(done) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
	t.Cleanup(func() { tr.CloseIdleConnections(); hs.Close(); <-done })
	return &http.Client{Transport: tr}
}

func TestAccessTable(t *testing.T) {
	a := Access{UID: 500, Group: 77, TenantsOf: func(uid int) []string {
		if uid == 1001 {
			return []string{"acme"}
		}
		return nil
	}}
	for _, c := range []struct {
		name string
		peer Peer
		want Scope
	}{
		{"root", Peer{UID: 0}, Scope{All: true}},
		{"the daemon's own user", Peer{UID: 500, GID: 5}, Scope{All: true}},
		{"primary group", Peer{UID: 9, GID: 77}, Scope{All: true}},
		{"supplementary group", Peer{UID: 9, GID: 9, Groups: []int{1, 77}}, Scope{All: true}},
		{"a tenant's user", Peer{UID: 1001, GID: 1001}, Scope{Tenants: []string{"acme"}}},
		{"somebody else", Peer{UID: 9, GID: 9, Groups: []int{8}}, Scope{}},
		{"nobody known", Peer{UID: -1, GID: -1}, Scope{}},
	} {
		if got := a.Scope(c.peer); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := (Access{UID: 500, Group: -1}).Scope(Peer{UID: 9, GID: -1}); got.All {
		t.Error("without a group, group -1 opened the door")
	}
	s := Scope{Tenants: []string{"acme"}}
	for path, want := range map[string]bool{"acme": true, "acme/shop": true, "acmex": false, "zen/shop": false, "": false, "_host/control": false} {
		if got := s.Sees(path); got != want {
			t.Errorf("sees %q: %v", path, got)
		}
	}
}

func TestStatusAndPaths(t *testing.T) {
	c := serve(t, &fakeHost{nodes: nodes()}, everything)
	ctx := context.Background()
	for _, q := range []struct {
		path string
		want []string
		code Code
	}{
		{"acme/shop/web", []string{"acme/shop/web", "acme/shop/web.0", "acme/shop/web.1"}, ""},
		{"web.1", []string{"acme/shop/web.1"}, ""},
		{"secret", []string{"zen/shop/secret"}, ""},
		{"shop", nil, CodeAmbiguous},
		{"nothing", nil, CodeNotFound},
		{"acme/shop/web.7", nil, CodeNotFound},
	} {
		st, err := c.Status(ctx, q.path)
		var e *Error
		if q.code != "" {
			if !errors.As(err, &e) || e.Code != q.code || e.ExitStatus() != 4 {
				t.Errorf("%s: %v", q.path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", q.path, err)
			continue
		}
		var got []string
		for _, n := range st.Nodes {
			got = append(got, n.Path)
		}
		if d := cmp.Diff(q.want, got); d != "" {
			t.Errorf("%s: %s", q.path, d)
		}
	}
}

func TestTenantSeesNoOther(t *testing.T) {
	host := &fakeHost{nodes: nodes(), events: []tree.Event{{Seq: 1, Path: "acme/shop"}, {Seq: 2, Path: "zen/shop/secret"}}}
	c := asTenant(t, host, "acme")
	get := func(path string) (int, string) {
		resp, err := c.Get("http://x" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if _, err := copyBounded(&b, resp); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b.String()
	}
	for _, path := range []string{"/v1/status", "/v1/events", "/v1/why/acme/shop", "/v1/openapi.json"} {
		status, body := get(path)
		if status != 200 || strings.Contains(body, "zen") || strings.Contains(body, "/etc/x.hcl") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	// A foreign name and a name that nobody has give the same answer.
	foreign, foreignText := get("/v1/status/zen/shop/secret")
	unknown, unknownText := get("/v1/status/zen/shop/secrat")
	if foreign != 404 || unknown != 404 || strings.ReplaceAll(foreignText, "secret", "X") != strings.ReplaceAll(unknownText, "secrat", "X") {
		t.Errorf("%d %s\n%d %s", foreign, foreignText, unknown, unknownText)
	}
	if status, _ := get("/metrics"); status != 403 {
		t.Errorf("metrics: %d", status)
	}
	resp, err := c.Post("http://x/v1/stop", "application/json", strings.NewReader(`{"paths": ["acme/shop/web", "zen/shop"]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 || len(host.asked) != 0 {
		t.Errorf("a stop beyond one's tenant: %d, and asked %v", resp.StatusCode, host.asked)
	}
}

func TestStrangersGetNothing(t *testing.T) {
	c := asTenant(t, &fakeHost{nodes: nodes()})
	for _, path := range []string{"/v1/status", "/v1/events", "/v1/logs", "/v1/why/acme", "/metrics", "/v1/openapi.json"} {
		resp, err := c.Get("http://x" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 403 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func TestOperate(t *testing.T) {
	host := &fakeHost{nodes: nodes(), fail: map[string]error{"acme/shop/web.1": Errorf(CodeTimeout, "cannot restart acme/shop/web.1: not ready"),
		"zen/shop/secret": errors.New("it broke")}}
	c := serve(t, host, everything)
	ctx := context.Background()
	results, err := c.Operate(ctx, VerbRestart, []string{"web.0"}, Ask{Wait: true, Timeout: 3 * time.Second, Reason: "new key"})
	if err != nil || len(results) != 1 || results[0].Path != "acme/shop/web.0" {
		t.Fatalf("%v %v", results, err)
	}
	a := host.asked[0]
	if a.Path != "acme/shop/web.0" || !a.Wait || a.Timeout != 3*time.Second || a.Reason != "new key" || a.By == "" {
		t.Errorf("asked %+v", a)
	}
	results, err = c.Operate(ctx, VerbRestart, []string{"web.0", "web.1", "secret"}, Ask{Wait: true})
	var e *Error
	if !errors.As(err, &e) || e.ExitStatus() != 5 {
		t.Errorf("several: %v", err)
	}
	if len(results) != 3 || results[0].Error != nil || results[1].Error.Code != CodeTimeout || results[2].Error.Code != CodeFailed {
		t.Errorf("several: %+v", results)
	}
	if _, err := c.Operate(ctx, VerbStop, []string{"web.0", "nothing"}, Ask{}); !errors.As(err, &e) || e.Code != CodeNotFound {
		t.Errorf("unknown: %v", err)
	}
	if n := len(host.asked); n != 4 {
		t.Errorf("a request with an unknown path touched something: %d", n)
	}
}

func TestHostileRequests(t *testing.T) {
	host := &fakeHost{nodes: nodes(), lines: []any{"a", "b", "c"}}
	client := serve(t, host, everything)
	do := func(method, path, body string, header ...string) int {
		r, err := http.NewRequest(method, "http://elsewhere.example"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	const kind, json = "Content-Type", "application/json"
	for _, c := range []struct {
		what   string
		status int
		got    int
	}{
		{"a form", 400, do("POST", "/v1/stop", "path=acme", kind, "application/x-www-form-urlencoded")},
		{"plain text", 400, do("POST", "/v1/stop", `{"path":"acme"}`, kind, "text/plain")},
		{"no type", 400, do("POST", "/v1/stop", `{"path":"acme"}`)},
		{"from a page", 403, do("POST", "/v1/stop", `{"path":"acme"}`, kind, json, "Origin", "https://evil.example")},
		{"from a page", 403, do("POST", "/v1/stop", `{"path":"acme"}`, kind, json, "Sec-Fetch-Site", "cross-site")},
		{"nonsense", 400, do("POST", "/v1/stop", `{"path":`, kind, json)},
		{"unknown word", 400, do("POST", "/v1/stop", `{"path":"acme","force":true}`, kind, json)},
		{"two objects", 400, do("POST", "/v1/stop", `{"path":"acme"}{}`, kind, json)},
		{"no path", 400, do("POST", "/v1/stop", `{}`, kind, json)},
		{"empty path", 400, do("POST", "/v1/stop", `{"paths":[""]}`, kind, json)},
		{"huge", 400, do("POST", "/v1/stop", `{"path":"`+strings.Repeat("a", 1<<20)+`"}`, kind, json)},
		{"bad timeout", 400, do("POST", "/v1/stop", `{"path":"acme","timeout":"-1s"}`, kind, json)},
		{"wrong method", 405, do("GET", "/v1/stop", "")},
		{"wrong method", 405, do("DELETE", "/v1/status", "")},
		{"unknown route", 404, do("GET", "/v2", "")},
		{"doubled slash", 400, do("GET", "/v1//status", "")},
		{"dots", 400, do("GET", "/v1/status/../events", "")},
		{"hidden dots", 400, do("GET", "/v1/status/%2e%2e/events", "")},
		{"n", 400, do("GET", "/v1/logs?n=-1", "")},
		{"n", 400, do("GET", "/v1/logs?n=1000000000", "")},
		{"n", 400, do("GET", "/v1/logs?n=x", "")},
		{"n", 200, do("GET", "/v1/logs?n=0", "")},
		{"since", 400, do("GET", "/v1/events?since=yesterday", "")},
		{"since in the future", 200, do("GET", "/v1/events?since=2999-01-01T00:00:00Z", "")},
	} {
		if c.got != c.status {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.status)
		}
	}
	if len(host.asked) != 0 {
		t.Errorf("something was touched: %v", host.asked)
	}
}

func TestStreams(t *testing.T) {
	host := &fakeHost{nodes: nodes(), events: []tree.Event{{Seq: 1, Path: "acme/shop", Kind: tree.EventReady, Reason: "a\nb\u2028"}, {Seq: 2, Path: "zen"}}}
	c := serve(t, host, everything)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got []tree.Seq
	err := c.Events(ctx, StreamQuery{Follow: true}, func(e tree.Event) error {
		if got = append(got, e.Seq); len(got) == 2 {
			cancel()
		}
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	r, _ := http.NewRequest("GET", "http://x/v1/events?follow&path=acme", nil)
	r.Header.Set("Accept", "text/event-stream")
	ctx2, cancel2 := context.WithCancel(context.Background())
	resp, err := c.http.Do(r.WithContext(ctx2))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, _ := resp.Body.Read(buf)
	cancel2()
	resp.Body.Close()
	frame := string(buf[:n])
	var e tree.Event
	if !strings.HasPrefix(frame, "data: ") || !strings.HasSuffix(frame, "\n\n") || json.Unmarshal([]byte(frame[6:]), &e) != nil || e.Reason != "a\nb\u2028" {
		t.Errorf("frame %q", frame)
	}
}

func TestMetricsAndDescription(t *testing.T) {
	c := serve(t, &fakeHost{nodes: nodes()}, everything)
	resp, err := c.http.Get("http://x/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	copyBounded(&b, resp)
	resp.Body.Close()
	for _, want := range []string{`coppice_log_dropped_total{path="acme/shop/web.0"} 1`, `coppice_node_state{kind="tenant",path="zen",state="running"} 1`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	// The description has each route of the table and no other: that is what makes it worth reading.
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := c.get(context.Background(), "/v1/openapi.json", nil, &doc); err != nil {
		t.Fatal(err)
	}
	described := 0
	for _, methods := range doc.Paths {
		described += len(methods)
	}
	if described != len(routes) {
		t.Errorf("%d routes are described, %d exist", described, len(routes))
	}
	for _, r := range routes {
		if doc.Paths[strings.ReplaceAll(r.pattern, "{path...}", "{path}")][strings.ToLower(r.method)] == nil {
			t.Errorf("%s %s is not described", r.method, r.pattern)
		}
	}
}

func TestReadyz(t *testing.T) {
	host := &fakeHost{nodes: nodes()}
	c := serve(t, host, everything)
	status := func() int {
		resp, err := c.http.Get("http://x/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(); got != 200 {
		t.Errorf("all ready: %d", got)
	}
	host.nodes[3].Leaf.Ready = false
	if got := status(); got != 503 {
		t.Errorf("one is not: %d", got)
	}
}

func TestNoDaemon(t *testing.T) {
	c := NewClient(filepath.Join(t.TempDir(), "none"))
	_, err := c.Status(context.Background())
	var e *Error
	if !errors.As(err, &e) || e.ExitStatus() != 6 || !strings.Contains(e.Message, "none") {
		t.Errorf("%v", err)
	}
}

func copyBounded(b *strings.Builder, resp *http.Response) (int, error) {
	buf := make([]byte, 4096)
	for b.Len() < 1<<20 {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return b.Len(), nil
}
