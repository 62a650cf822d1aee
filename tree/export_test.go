package tree

import "time"

// Oracle lends the oracle to the tests outside the package, which may use package sim.
type Oracle struct {
	o     *oracle
	spec  Spec
	lines []string
	last  time.Time
}

func NewOracle(spec Spec) *Oracle { return &Oracle{o: newOracle(spec), spec: spec} }

// See returns "" or the first broken promise.
func (o *Oracle) See(now time.Time, fact Fact, orders []Order) string {
	if o.last.IsZero() {
		o.last = now
	}
	line := "+" + now.Sub(o.last).String() + " " + printFact(fact) + "\n"
	o.last = now
	for _, order := range orders {
		line += "        " + printOrder(order) + "\n"
	}
	o.lines = append(o.lines, line)
	o.o.see(now, fact, orders)
	return o.o.trouble
}

// Transcript is the life so far, in the form of testdata/transcripts.
func (o *Oracle) Transcript() string {
	s := printSpec(&o.spec)
	for _, line := range o.lines {
		s += line
	}
	return s
}
