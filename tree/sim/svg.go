package sim

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-run/coppice/tree"
)

// The picture, in dots. Its width fits a page of a paper at 96 dots an inch when scaled to two thirds.
const (
	pictureWidth = 1000
	laneHeight   = 16
	laneGap      = 8
	topMargin    = 74
	rightMargin  = 34
	letter       = 7.6 // width of one of a label
)

// colours of the states: told apart by those who see no red or green, and, by their lightness, on grey paper.
var colours = map[tree.State]string{
	tree.StateRunning: "#3b8f6b", StateDegraded: "#a5d0a8", StateUnready: "#d8c400", tree.StateStarting: "#4a90d9",
	tree.StateWaiting: "#e3ded1", tree.StateBackoff: "#f0a830", tree.StateStopping: "#9a8fb8", tree.StateFailed: "#b3282d",
	tree.StateStopped: "#7d8590", tree.StateDone: "#c5ced6",
}

// picture is a picture under way.
type picture struct {
	b     strings.Builder
	r     *Result
	left  float64
	width float64
}

// WriteSVG draws the timeline: a lane for each node, its states in colour, faults and escalations as marks, and a time
// axis. The experiment must have had Picture set. The output is a standalone SVG 1.1 file without scripts or references.
func (r *Result) WriteSVG(out io.Writer, name string) error {
	p := picture{r: r, left: 90}
	for i := range r.Nodes {
		s := &r.Nodes[i]
		p.left = max(p.left, float64(utf8.RuneCountInString(label(s)))*letter+float64(s.Depth)*10+24)
	}
	p.left = min(p.left, 320)
	p.width = pictureWidth - p.left - rightMargin
	height := float64(topMargin + len(r.Nodes)*(laneHeight+laneGap) + 44)
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12">`+"\n",
		pictureWidth, height, pictureWidth, height)
	p.put("<title>%s</title>\n<desc>%s</desc>\n", escape(name), escape(r.Headline()))
	p.put(`<rect width="100%%" height="100%%" fill="#ffffff"/>` + "\n")
	p.put(`<text x="14" y="22" font-size="15" font-weight="bold">%s</text>`+"\n", escape(name))
	p.put(`<text x="%d" y="22" text-anchor="end" fill="#555555">%s</text>`+"\n", pictureWidth-rightMargin, escape(r.Headline()))
	p.legend()
	p.axis(height - 40)
	for i := range r.Nodes {
		p.lane(i)
	}
	p.allMarks()
	if r.Cut != 0 {
		p.put(`<text x="%.1f" y="%.0f" fill="#b3282d">too much to draw after %s</text>`+"\n", p.x(r.Cut)+4, height-44, round(r.Cut))
	}
	p.put("</svg>\n")
	_, err := io.WriteString(out, p.b.String())
	return err
}

func (p *picture) put(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *picture) x(t time.Duration) float64 {
	return p.left + p.width*t.Seconds()/p.r.Until.Seconds()
}

func (p *picture) y(node int) float64 { return topMargin + float64(node)*(laneHeight+laneGap) }

func label(s *Summary) string {
	path := title(s.Path)
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[i+1:]
	}
	return path
}

// legend shows the states that occur, and the marks.
func (p *picture) legend() {
	x := 14.0
	for i, state := range States {
		seen := false
		for n := range p.r.Nodes {
			seen = seen || p.r.Nodes[n].In[i] > 0
		}
		if !seen {
			continue
		}
		p.put(`<rect x="%.1f" y="36" width="12" height="12" fill="%s" stroke="#444444" stroke-width="0.4"/><text x="%.1f" y="46">%s</text>`+"\n",
			x, colours[state], x+16, state)
		x += 26 + float64(len(state))*letter
	}
	faults, escalations := 0, 0
	for _, m := range p.r.Marks {
		if m.What == escalated {
			escalations++
		} else {
			faults++
		}
	}
	if faults > 0 {
		p.put(`<path d="M %.1f 37 l 8 0 l -4 9 z" fill="#000000"/><text x="%.1f" y="46">fault</text>`+"\n", x, x+12)
		x += 54
	}
	if escalations == 0 {
		return
	}
	p.put(`<path d="M %.1f 36 l 6 6 l -6 6 l -6 -6 z" fill="#ffffff" stroke="#000000" stroke-width="1.4"/><text x="%.1f" y="46">gave up</text>`+"\n", x+6, x+16)
}

// axis draws the times below the lanes, and lines through them.
func (p *picture) axis(y float64) {
	step := tick(p.r.Until)
	for t := time.Duration(0); t <= p.r.Until; t += step {
		p.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="#dddddd"/><text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n",
			p.x(t), topMargin-8, p.x(t), y+4, p.x(t), y+20, span(t))
	}
	p.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#333333"/>`+"\n", p.left, y+4, p.left+p.width, y+4)
}

// tick is a round distance that gives about eight ticks.
func tick(whole time.Duration) time.Duration {
	nice := []time.Duration{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000,
		1200000, 1800000, 3600000, 7200000, 14400000, 21600000, 43200000, 86400000}
	for _, ms := range nice {
		if d := ms * time.Millisecond; whole <= 10*d {
			return d
		}
	}
	return (whole/10/(24*time.Hour) + 1) * 24 * time.Hour
}

// lane draws one node. Supervisors have thinner bars, so that the tree can be seen.
func (p *picture) lane(i int) {
	s := &p.r.Nodes[i]
	y, h := p.y(i), float64(laneHeight)
	weight := "normal"
	if !s.Leaf() {
		y, h, weight = y+4, h-8, "bold"
	}
	name := label(s)
	if most := int((p.left - 22 - float64(s.Depth)*10) / letter); utf8.RuneCountInString(name) > most && most > 1 {
		name = string([]rune(name)[:most-1]) + "…"
	}
	p.put(`<text x="%.1f" y="%.1f" font-weight="%s">%s</text>`+"\n", 14+float64(s.Depth)*10, p.y(i)+12, weight, escape(name))
	p.put(`<g stroke="none">` + "\n")
	var crumbs crumbs
	for _, sp := range s.Spans {
		from, to := p.x(sp.From), p.x(sp.To)
		if to-from >= 0.8 {
			crumbs.flush(p, y, h)
			p.bar(from, to, y, h, sp.State)
			continue
		}
		crumbs.add(from, to, sp.State)
		if crumbs.to-crumbs.from >= 0.8 {
			crumbs.flush(p, y, h)
		}
	}
	crumbs.flush(p, y, h)
	p.put("</g>\n")
}

func (p *picture) bar(from, to, y, h float64, s tree.State) {
	p.put(`<rect x="%.2f" y="%.1f" width="%.2f" height="%.1f" fill="%s"/>`+"\n", from, y, to-from, h, colours[s])
}

// crumbs are times too short to be seen. They are drawn together, in the colour of the longest.
type crumbs struct {
	from, to float64
	any      bool
	in       map[tree.State]float64
}

func (c *crumbs) add(from, to float64, s tree.State) {
	if !c.any {
		c.from, c.any, c.in = from, true, map[tree.State]float64{}
	}
	c.to = to
	c.in[s] += to - from
}

func (c *crumbs) flush(p *picture, y, h float64) {
	if !c.any {
		return
	}
	best := States[0]
	for _, s := range States {
		if c.in[s] > c.in[best] {
			best = s
		}
	}
	p.bar(c.from, max(c.to, c.from+0.3), y, h, best)
	c.any = false
}

// allMarks draws faults above the bars and escalations upon them. Those that would hide one another are drawn once.
func (p *picture) allMarks() {
	last := map[string]float64{}
	for _, m := range p.r.Marks {
		x, y := p.x(m.At), p.y(m.Node)
		kind := "fault"
		if m.What == escalated {
			kind = escalated
		}
		key := fmt.Sprint(m.Node, kind)
		if before, ok := last[key]; ok && x-before < 3 {
			continue
		}
		last[key] = x
		note := escape(fmt.Sprintf("%s %s", round(m.At), m.What))
		switch {
		case kind == escalated:
			p.put(`<path d="M %.1f %.1f l 6 6 l -6 6 l -6 -6 z" fill="#ffffff" stroke="#000000" stroke-width="1.4"><title>%s</title></path>`+"\n",
				x, y+2, note)
		case m.To > m.At:
			p.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#000000" stroke-width="2.5"/>`+"\n", x, y-3, math.Min(p.x(m.To), p.left+p.width), y-3)
			fallthrough
		default:
			p.put(`<path d="M %.1f %.1f l 8 0 l -4 8 z" fill="#000000"><title>%s</title></path>`+"\n", x-4, y-5, note)
		}
	}
}

// escape makes text safe in XML; what XML cannot hold becomes a question mark.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == utf8.RuneError || r == 0xfffe || r == 0xffff:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
