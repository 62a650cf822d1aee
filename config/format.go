package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format writes one file in the canonical form: indentation, blanks and alignment change, comments and everything else
// stay. A file that cannot be parsed is not touched; the diagnostics say why. The name is for them only.
func Format(name string, src []byte) ([]byte, Diagnostics) {
	d := newDecoder(Surroundings{})
	d.parseSource(name, src)
	if d.damaged[name] {
		return nil, d.done()
	}
	out := src
	for range 4 { // one pass may make room for another
		next := hclwrite.Format(out)
		if bytes.Equal(next, out) {
			break
		}
		out = next
	}
	return out, nil
}
