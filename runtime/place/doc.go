// Package place is the layout of the runtime directory: where each incarnation of each worker finds its socket and its
// folder.
//
//	runtime_dir/            0711 as root, 0700 else
//	  secret                0600: the key of the socket names, made once
//	  control.sock          the daemon's own door
//	  s/                    1733 as root: workers bind sockets in it, and can neither list it nor remove others'
//	    <16 hex>-<n>.sock   the digits are a keyed hash of path, specification and incarnation (of the path alone for
//	                        listen = "inherit"); n is the replica
//	  i/                    0711
//	    <16 hex>-<n>/       0700, owned by the worker's user: stop, heartbeat, notify; one an incarnation, made when needed
//	  r/                    0700: a record of each incarnation that has a process, for the next daemon: see [Record]
//
// The names cannot be guessed without the secret, so no tenant can sit on the socket of another. Nothing here is looked
// for by its name later: the one who made it holds it.
package place
