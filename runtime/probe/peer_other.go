//go:build !linux

package probe

import (
	"errors"
	"net"
)

func peer(*net.UnixConn) (int, error) {
	return -1, errors.New("cannot tell who holds its socket: Coppice needs Linux")
}
