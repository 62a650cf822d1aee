package sim

import (
	"math"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// dice is SplitMix64: small, the same on every machine and with every version of Go, and good enough to shake a tree.
type dice struct{ state uint64 }

// Dice returns a source of numbers that is the same for the same seed, for ever.
func Dice(seed uint64) tree.Dice { return &dice{state: seed} }

// Float64 returns the next number in [0, 1).
func (d *dice) Float64() float64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// lifetime draws how long something lives that ends within each second with probability p.
func lifetime(d tree.Dice, p float64) time.Duration {
	if p >= 1 {
		return 0
	}
	seconds := math.Log(1-d.Float64()) / math.Log(1-p)
	return time.Duration(min(seconds*float64(time.Second), float64(tree.Forever/4)))
}
