package main

import (
	"context"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
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
	all := make([]string, len(st.Nodes))
	for i, n := range st.Nodes {
		all[i] = n.Path
	}
	return completions(all, typed), cobra.ShellCompDirectiveNoFileComp
}

// completions are the paths that begin with what is typed, else the tails of paths that do and that only one path has:
// shells drop what does not begin so.
func completions(paths []string, typed string) []string {
	var found []string
	for _, path := range paths {
		if strings.HasPrefix(path, typed) {
			found = append(found, path)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, path := range paths {
		for tail := path; ; {
			_, rest, more := strings.Cut(tail, "/")
			if !more {
				break
			}
			tail = rest
			if !strings.HasPrefix(tail, typed) {
				continue
			}
			if one, err := tree.Resolve(paths, tail); err == nil && one[0] == path {
				found = append(found, tail)
			}
		}
	}
	return found
}
