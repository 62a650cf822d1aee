package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/coppice-run/coppice/config"
	"github.com/spf13/cobra"
)

const defaultConfig = "/etc/coppice"

// configPath is the CONFIG argument, or the default.
func configPath(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return defaultConfig
}

func (c *console) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [CONFIG]",
		Short: "Report every problem of a configuration",
		Long: `Report every problem of a configuration: a file, or a folder whose *.hcl files are read together (default ` + defaultConfig + `).
The exit status is 1 if there is an error; warnings alone leave it 0.`,
		Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := c.load(configPath(args))
			return err
		},
	}
}

// load reads a configuration and says everything that is wrong with it on stderr.
func (c *console) load(path string) (*config.Config, error) {
	cfg, diags := config.Load(path, config.Here())
	if err := diags.Write(c.err, bool(colours(c.err))); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, &exitError{status: exitFailed}
	}
	return cfg, nil
}

func (c *console) fmtCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "fmt [CONFIG]",
		Short: "Write a configuration in canonical form",
		Long: `Rewrite the files of a configuration in canonical form and print the names of those that changed. A file with a
syntax error is left as it is.`,
		Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return c.format(configPath(args), check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a file is not in canonical form")
	return cmd
}

func (c *console) format(path string, check bool) error {
	files, diags := config.Files(path)
	changed, failed := 0, diags.HasErrors()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return failf("cannot format %s: %v", file, err)
		}
		neat, more := config.Format(file, text)
		diags = append(diags, more...)
		if more.HasErrors() {
			failed = true
			continue
		}
		if slices.Equal(text, neat) {
			continue
		}
		changed++
		fmt.Fprintln(c.out, file)
		if check {
			continue
		}
		if err := replaceFile(file, neat); err != nil {
			return failf("cannot format %s: %v", file, err)
		}
	}
	diags.Write(c.err, bool(colours(c.err)))
	if failed || (check && changed > 0) {
		return &exitError{status: exitFailed}
	}
	return nil
}

// replaceFile writes beside and renames, so that a reader sees the old text or the new and a full disk loses nothing.
// Mode and owner stay.
func replaceFile(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path) // a link stays one
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	beside, err := os.CreateTemp(filepath.Dir(path), ".coppice-fmt-*")
	if err != nil {
		return err
	}
	defer os.Remove(beside.Name())
	if _, err = beside.Write(text); err == nil {
		err = beside.Chmod(info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && err == nil && os.Geteuid() == 0 {
		err = beside.Chown(int(st.Uid), int(st.Gid))
	}
	if err2 := beside.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	return os.Rename(beside.Name(), path)
}
