package process

import "errors"

var (
	errTooLong   = errors.New("argument list too long")
	errBirthKill = errors.New("killed by its cgroup at birth")
)
