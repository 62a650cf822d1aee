//go:build linux

package main

import (
	"fmt"
	"syscall"
	"time"
)

// fairness measures one tenant's restart while another has 500 workers that crash without end, beside the same restart
// with nothing else going on.
func fairness(b *bench) error {
	good := fmt.Sprintf("tenant \"good\" {\n  app \"a\" {\n    worker \"w\" {\n      command = [%q, %q, \"good\"]\n      restart {\n        backoff = \"0s\"\n        limit = 0\n      }\n    }\n  }\n}\n", b.child, b.fifo)
	bad := "tenant \"bad\" {\n  app \"a\" {\n    worker \"w\" {\n      count = 500\n      command = [\"/bin/false\"]\n      restart {\n        backoff = \"0s\"\n        limit = 0\n      }\n    }\n  }\n}\n"
	for _, c := range []struct{ about, hcl string }{{"alone", good}, {"beside 500 crashing workers of another tenant", good + bad}} {
		got, err := restartOfGood(b, c.hcl)
		if err != nil {
			return err
		}
		fmt.Printf("restart of one tenant's worker, %s: median %.2f ms\n", c.about, ms(got))
	}
	return nil
}

func restartOfGood(b *bench, hcl string) (time.Duration, error) {
	c := &coppice{}
	defer c.close()
	b.drain()
	if err := c.run(b, hcl); err != nil {
		return 0, err
	}
	pids := map[string]int{}
	if _, err := b.collect(1, pids); err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Second) // let the storm rise
	var all []time.Duration
	for range 30 {
		began := now()
		syscall.Kill(pids["good"], syscall.SIGKILL)
		back, err := b.collect(1, pids)
		if err != nil {
			return 0, err
		}
		all = append(all, back-began)
		time.Sleep(20 * time.Millisecond)
	}
	return median(all), nil
}
