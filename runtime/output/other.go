//go:build !linux

package output

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Elsewhere the package builds and captures nothing.

type poller struct{}

func newPoller(*sync.WaitGroup) (*poller, error) {
	return nil, fmt.Errorf("cannot run workers on %s: Coppice needs Linux", runtime.GOOS)
}

func (*poller) run()         {}
func (*poller) start(*pipe)  {}
func (*poller) close()       {}
func (*poller) remove(*pipe) {}
func (*poller) pipe(*Capture, string, string, pipeMaker) (*pipe, error) {
	return nil, errors.ErrUnsupported
}

func makePipe(string, string) (ends, error)  { return ends{}, errors.ErrUnsupported }
func adoptPipe(string, string) (ends, error) { return ends{}, errors.ErrUnsupported }
func readPipe(int, []byte) (int, bool)       { return 0, true }
func waiting(int) int                        { return 0 }
func widen(int)                              {}
func holdPipe(int) (int, error)              { return 0, errors.ErrUnsupported }
func closePipe(int)                          {}

func (f *logFile) open() error {
	var err error
	if f.file, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return err
	}
	f.folder, err = os.Open(os.DevNull)
	return err
}

func (f *logFile) shift() error { return errors.ErrUnsupported }
