package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var resolvePaths = []string{
	"_host", "_host/gateway", "_host/store",
	"acme", "acme/shop", "acme/shop/db.0", "acme/shop/web", "acme/shop/web.0", "acme/shop/web.1", "acme/shop/webby.0",
	"acme/api", "acme/api/web2.0", "acme/api/gateway.0",
	"beta", "beta/shop", "beta/shop/db.0", "beta/shop/queue.0",
	"shop", "shop/front", "shop/front/x.0",
}

func TestResolve(t *testing.T) {
	tests := []struct {
		arg  string
		want string // the paths, or the beginning of the error
	}{
		{"acme/shop/web.1", "acme/shop/web.1"},
		{"acme/shop/web", "acme/shop/web acme/shop/web.0 acme/shop/web.1"},
		{"acme/shop/db", "acme/shop/db.0"},
		{"acme/api", "acme/api acme/api/web2.0 acme/api/gateway.0"},
		{"acme/api/", "acme/api acme/api/web2.0 acme/api/gateway.0"},
		{"web", "acme/shop/web acme/shop/web.0 acme/shop/web.1"},
		{"web.0", "acme/shop/web.0"},
		{"shop/web", "acme/shop/web acme/shop/web.0 acme/shop/web.1"},
		{"shop/web.1", "acme/shop/web.1"},
		{"webby", "acme/shop/webby.0"},
		{"queue", "beta/shop/queue.0"},
		{"api", "acme/api acme/api/web2.0 acme/api/gateway.0"},
		// A tenant's exact path wins over the apps of that name.
		{"shop", "shop shop/front shop/front/x.0"},
		{"db", `error "db" is ambiguous: acme/shop/db, beta/shop/db`},
		{"db.0", `error "db.0" is ambiguous: acme/shop/db.0, beta/shop/db.0`},
		{"shop/db", `error "shop/db" is ambiguous: acme/shop/db, beta/shop/db`},
		// The daemon's own parts stand back behind the user's names.
		{"gateway", "acme/api/gateway.0"},
		{"store", "_host/store"},
		{"_host/gateway", "_host/gateway"},
		{"wbe", `error no such path: "wbe"; did you mean acme/shop/web `},
		{"acme/shpo", `error no such path: "acme/shpo"; did you mean acme/shop`},
		{"eb", `error no such path: "eb"`},
		{"op/web", `error no such path: "op/web"`},
		{"web.7", `error no such path: "web.7"`},
		{"web.", `error no such path: "web."`},
		{"/", `error no such path: "/"`},
		{"/acme", `error no such path: "/acme"`},
		{"acme//shop", `error no such path: "acme//shop"`},
		{"..", `error no such path: ".."`},
		{"*", `error no such path: "*"`},
		{"a\x1b[2J\n", `error no such path: "a\x1b[2J\n"`},
		{"", strings.Join(resolvePaths, " ")},
	}
	for _, test := range tests {
		got, err := Resolve(resolvePaths, test.arg)
		s := strings.Join(got, " ")
		if err != nil {
			s = "error " + err.Error()
		}
		if s != test.want && !(err != nil && strings.HasPrefix(s, test.want)) {
			t.Errorf("%q means %s, want %s", test.arg, s, test.want)
		}
	}
	_, err := Resolve(resolvePaths, strings.Repeat("x", 1<<20))
	var none *NoSuchPathError
	if !errors.As(err, &none) || len(err.Error()) > 500 {
		t.Errorf("a long argument is answered with %d bytes", len(err.Error()))
	}
	_, err = Resolve(resolvePaths, "db")
	var many *AmbiguousPathError
	if !errors.As(err, &many) || len(many.Candidates) != 2 {
		t.Errorf("candidates: %v", err)
	}
}

func TestUnder(t *testing.T) {
	for _, test := range []struct {
		prefix, path string
		want         bool
	}{
		{"", "acme", true},
		{"acme", "acme", true},
		{"acme", "acme/shop", true},
		{"acme", "acmeshop", false},
		{"acme/shop/web", "acme/shop/web.0", true},
		{"acme/shop/web", "acme/shop/web.12", true},
		{"acme/shop/web", "acme/shop/web.x", false},
		{"acme/shop/web", "acme/shop/web.", false},
		{"acme/shop/web", "acme/shop/web2.0", false},
		{"acme/shop/web.1", "acme/shop/web.10", false},
		{"acme/shop/web.0", "acme/shop/web", false},
		{"acme/", "acme/shop", false},
	} {
		if got := Under(test.prefix, test.path); got != test.want {
			t.Errorf("Under(%q, %q) = %v", test.prefix, test.path, got)
		}
	}
}

// FuzzResolve: whatever is typed, the answer is paths that exist and lie under one of them, or an error of a known kind.
func FuzzResolve(f *testing.F) {
	for _, s := range append(slices.Clone(resolvePaths), "", "/", "web", "db", "web.0", "../..", "\xff/web", ".0", "/.0") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		got, err := Resolve(resolvePaths, arg)
		var none *NoSuchPathError
		var many *AmbiguousPathError
		switch {
		case err != nil && (len(got) > 0 || !(errors.As(err, &none) || errors.As(err, &many))):
			t.Errorf("%q: %v and %v", arg, got, err)
		case err == nil && len(got) == 0:
			t.Errorf("%q means nothing, and no error", arg)
		case err == nil && arg != "":
			for _, path := range got {
				if !slices.Contains(resolvePaths, path) || !Under(pool(got[0]), path) {
					t.Errorf("%q means %v", arg, got)
				}
			}
		}
	})
}
