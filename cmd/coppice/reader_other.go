//go:build !unix

package main

import "context"

// whileRead returns ctx: here nothing tells that a reader has gone before something is written.
func (c *console) whileRead(ctx context.Context) (context.Context, func()) { return ctx, func() {} }
