package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completePaths completes paths, and the tails that people type, from the running daemon. Without one it completes
// nothing, quickly.
func (c *console) completePaths(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client := c.client()
	defer client.Close()
	st, err := client.Status(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var paths []string
	for _, n := range st.Nodes {
		if strings.HasPrefix(n.Path, typed) {
			paths = append(paths, n.Path)
		}
	}
	if len(paths) == 0 {
		for _, n := range st.Nodes {
			if i := strings.LastIndexByte(n.Path, '/'); i >= 0 && strings.HasPrefix(n.Path[i+1:], typed) {
				paths = append(paths, n.Path)
			}
		}
	}
	return paths, cobra.ShellCompDirectiveNoFileComp
}
