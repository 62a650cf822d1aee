// Package control is the daemon's door: the HTTP/JSON API on a Unix socket, who may do what, and the client that the
// commands use.
//
// Everything that may be asked stands in one table (routes.go): method, path, who may, and what it does; the OpenAPI
// description is made from the same table. Who asks is what the kernel says of the socket's peer. A peer that may not
// see a path gets the same answer as for a path that does not exist.
//
// The server decides nothing about the tree. It asks a Host, which the program hands in.
package control
