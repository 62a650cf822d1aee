package control

import (
	"context"
	"net"
	"strings"
)

// Peer is who stands at the other end of a connection, as the kernel says.
type Peer struct {
	UID, GID, PID int
	Groups        []int // supplementary
}

// Scope is what a peer may see and do. The zero Scope is nothing.
type Scope struct {
	All     bool
	Tenants []string // whole subtrees, when not All
}

// Sees tells whether path lies within the scope. The host itself ("") and the daemon's own parts only show to All.
func (s Scope) Sees(path string) bool {
	if s.All {
		return true
	}
	tenant, _, _ := strings.Cut(path, "/")
	for _, t := range s.Tenants {
		if t == tenant {
			return true
		}
	}
	return false
}

// Access decides who may do what; it is the whole table.
type Access struct {
	UID       int                    // the daemon's own user
	Group     int                    // whose members may do all; -1: none
	TenantsOf func(uid int) []string // the tenants that run as this user
}

// Scope returns what the peer may see and do: root, the daemon's own user and members of the group may do all; a
// tenant's user its own subtree; others nothing.
func (a Access) Scope(p Peer) Scope {
	if p.UID == 0 || p.UID == a.UID {
		return Scope{All: true}
	}
	if a.Group >= 0 {
		for _, g := range append([]int{p.GID}, p.Groups...) {
			if g == a.Group {
				return Scope{All: true}
			}
		}
	}
	if a.TenantsOf == nil {
		return Scope{}
	}
	return Scope{Tenants: a.TenantsOf(p.UID)}
}

type peerKey struct{}

// withPeer is http.Server's ConnContext: the peer is asked for once per connection, when it is certain who made it.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p, err := peerOf(c)
	if err != nil {
		p = Peer{UID: -1, GID: -1} // nobody: the zero Scope
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func peerFrom(ctx context.Context) Peer {
	if p, ok := ctx.Value(peerKey{}).(Peer); ok {
		return p
	}
	return Peer{UID: -1, GID: -1}
}
