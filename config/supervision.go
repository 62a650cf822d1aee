package config

import (
	"math"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// superviseBlock is a supervise block under way.
type superviseBlock struct {
	strategy  tree.Strategy
	start     tree.StartMode
	intensity int
	period    time.Duration
}

func intensityAttrs() []attr[superviseBlock] {
	return []attr[superviseBlock]{
		{name: "intensity", form: "count", class: Live, doc: "more restarts than this within period: stop all children in order and fail towards the parent. Not written: never",
			set: func(s *superviseBlock, v value) { v.whole(&s.intensity, 0, 1_000_000) }},
		{name: "period", form: "duration", standard: `"5s"`, class: Live, doc: "the time that intensity counts in",
			set: func(s *superviseBlock, v value) { v.duration(&s.period, aboveZero) }},
	}
}

func superviseTable() schema[superviseBlock] {
	return schema[superviseBlock]{name: "supervise", attrs: append([]attr[superviseBlock]{
		{name: "strategy", form: "word", standard: `"one_for_one"`, class: Live, doc: "which siblings a failed child takes with it: one_for_one, one_for_all or rest_for_one (order of declaration)",
			set: func(s *superviseBlock, v value) {
				word(v, &s.strategy, tree.OneForOne, tree.OneForAll, tree.RestForOne)
			}},
		{name: "start", form: "word", class: Live, doc: "ordered: one after the other, stopped in reverse; together: all at once. together for one_for_one, else ordered",
			set: func(s *superviseBlock, v value) { word(v, &s.start, tree.Together, tree.Ordered) }},
	}, intensityAttrs()...)}
}

// poolTable is supervise in a worker: its pool is always one_for_one.
func poolTable() schema[superviseBlock] {
	return schema[superviseBlock]{name: "supervise", attrs: intensityAttrs()}
}

// supervise decodes a supervise block. What is left out is filled in, so that a default written out changes nothing.
func (d *decoder) supervise(s section, sc scope) *tree.Supervise {
	return d.supervisor(&d.supervises, s, sc)
}

func (d *decoder) supervisor(table *schema[superviseBlock], s section, sc scope) *tree.Supervise {
	b := superviseBlock{strategy: tree.OneForOne, period: 5 * time.Second}
	at := decode(d, table, s, &b, sc)
	out := &tree.Supervise{Strategy: b.strategy, Start: b.start}
	out.Start = out.StartOr()
	if _, written := at["intensity"]; written {
		out.Intensity = &tree.Intensity{Restarts: b.intensity, Period: b.period}
	} else if p, written := at["period"]; written && b.period != 5*time.Second {
		d.warning(p, "period has no effect without intensity", "Write intensity = 3, or leave period out.")
	}
	return out
}

// restartBlock is a restart block under way.
type restartBlock struct {
	tree.Restart
}

func restartTable() schema[restartBlock] {
	return schema[restartBlock]{name: "restart", attrs: []attr[restartBlock]{
		{name: "policy", form: "word", standard: `"permanent"`, class: Live, doc: "permanent: always; transient: unless it ended normally or by an asked-for stop; temporary: never",
			set: func(r *restartBlock, v value) { word(v, &r.Policy, tree.Permanent, tree.Transient, tree.Temporary) }},
		{name: "backoff", form: "duration", standard: `"500ms"`, class: Live, doc: "delay before the first restart in a row",
			set: func(r *restartBlock, v value) { v.duration(&r.Backoff, orZero) }},
		{name: "cap", form: "duration", standard: `"30s"`, class: Live, doc: "the longest that the delay grows",
			set: func(r *restartBlock, v value) { v.duration(&r.Cap, orZero) }},
		{name: "factor", form: "number", standard: `2`, class: Live, doc: "by which the delay grows with every restart in a row",
			set: func(r *restartBlock, v value) {
				v.within(&r.Factor, func(n float64) bool { return n >= 1 && n <= 1000 }, "from 1 to 1000")
			}},
		{name: "jitter", form: "number", standard: `0.1`, class: Live, doc: "up to this part of the delay is added at random",
			set: func(r *restartBlock, v value) {
				v.within(&r.Jitter, func(n float64) bool { return n >= 0 && n <= 1 }, "from 0 to 1")
			}},
		{name: "reset_after", form: "duration", standard: `"60s"`, class: Live, doc: "ready for this long: the delay starts from backoff again",
			set: func(r *restartBlock, v value) { v.duration(&r.ResetAfter, aboveZero) }},
		{name: "limit", form: "count", standard: `5`, class: Live, doc: "the limit-th unasked end that needs a restart within `within` marks the child failed; 0: never",
			set: func(r *restartBlock, v value) { v.whole(&r.Limit, 0, math.MaxInt32) }},
		{name: "within", form: "duration", standard: `"60s"`, class: Live, doc: "the time that limit counts in",
			set: func(r *restartBlock, v value) { v.duration(&r.Within, aboveZero) }},
		{name: "normal_exits", form: "statuses", standard: `[0]`, class: Live, doc: "exit statuses that count as a normal end",
			set: func(r *restartBlock, v value) { v.statuses(&r.NormalExits) }},
		{name: "on_limit", form: "word", standard: `"slow"`, class: Live, doc: "slow: failed, retried every cap; stop: failed until an operator starts it; escalate: as if the supervisor's intensity were exceeded",
			set: func(r *restartBlock, v value) {
				word(v, &r.OnLimit, tree.OnLimitSlow, tree.OnLimitStop, tree.OnLimitEscalate)
			}},
	}}
}

// restart decodes a restart block on top of the defaults.
func (d *decoder) restart(into *tree.Restart, s section, sc scope) {
	b := restartBlock{*into}
	at := decode(d, &d.restarts, s, &b, sc)
	if b.Backoff > b.Cap {
		d.error(at.or(here(s.head()), "backoff", "cap"), "backoff "+quoted(brief(b.Backoff))+" is above cap "+quoted(brief(b.Cap)),
			"The delay grows from backoff up to cap. Write a smaller backoff or a larger cap; without one, cap is \"30s\" and backoff \"500ms\".")
	}
	*into = b.Restart
}

// brief writes a duration without the zero units that Go appends: "1m", not "1m0s".
func brief(took time.Duration) string {
	text := took.String()
	for _, tail := range []string{"m0s", "h0m"} {
		if len(text) > len(tail) && text[len(text)-len(tail):] == tail {
			text = text[:len(text)-2]
		}
	}
	return text
}
