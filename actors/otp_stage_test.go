package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// This file is the stage for otp_test.go: what its leaves do, and what happens to them.

// life is the code of a leaf.
func (p *otpPlayer) life(n *otpNode) Service {
	return func(ctx context.Context, ready func()) error {
		id := lastName(RefOf(ctx).Path) // an instance of a pool has another than its template
		p.mu.Lock()
		k := p.starts[id]
		p.starts[id]++
		p.mu.Unlock()
		if n.StartMS > 0 {
			time.Sleep(ms(n.StartMS))
		}
		if len(n.Starts) > 0 {
			switch n.Starts[min(k, len(n.Starts)-1)] {
			case "error":
				return fmt.Errorf("start failed")
			case "ignore":
				return ErrIgnore
			}
		}
		life := &otpLife{kill: make(chan tree.Reason, 1)}
		p.mu.Lock()
		p.running[id] = life
		p.mu.Unlock()
		ready()
		var end <-chan time.Time
		if n.LifeMS > 0 {
			end = time.After(ms(n.LifeMS))
		}
		select {
		case r := <-life.kill:
			return Ended{Reason: r}
		case <-end:
			r := n.LifeReason
			if r == "" {
				r = "crash"
			}
			return Ended{Reason: otpReason(r)}
		case <-ctx.Done():
			if n.StopMS > 0 {
				select {
				case r := <-life.kill:
					return Ended{Reason: r}
				case <-time.After(ms(n.StopMS)):
				}
			}
			return nil
		}
	}
}

func (p *otpPlayer) apply(e *otpEvent) {
	switch {
	case e.Kill != nil:
		p.kill(e)
	case e.Op == "stop":
		p.top.PostUserMessage(tree.Halt{Wait: true})
	default:
		p.call(e)
	}
}

func (p *otpPlayer) call(e *otpEvent) {
	about := e.Op + " " + e.Sup
	if e.Child != "" {
		about += " " + e.Child
	}
	p.mu.Lock()
	sup := p.house.ledger.supervisor(p.sups[e.Sup])
	if sup == nil {
		p.log("reply " + about + " noproc")
		p.mu.Unlock()
		return
	}
	spec := tree.Spec{Name: e.Child}
	p.mu.Unlock()
	if e.Spec != nil {
		spec = p.spec(e.Spec)
	}
	sup.PostUserMessage(request{
		fact: func(call uint64) tree.Fact {
			return map[string]tree.Fact{
				"start_child":     tree.StartChild{Spec: spec, Call: call},
				"terminate_child": tree.TerminateChild{Child: e.Child, Call: call},
				"restart_child":   tree.RestartChild{Child: e.Child, Call: call},
				"delete_child":    tree.DeleteChild{Child: e.Child, Call: call},
				"which_children":  tree.WhichChildren{Call: call},
				"count_children":  tree.CountChildren{Call: call},
				"change_spec":     tree.ChangeSpec{Spec: spec, Call: call},
			}[e.Op]
		},
		answer: func(r tree.Reply) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.log("reply " + about + " " + otpReply(e.Op, r))
		},
	})
}

func otpReply(op string, r tree.Reply) string {
	switch {
	case r.Error == errNoProc:
		return r.Error
	case r.Error != "":
		return "error " + r.Error
	case op == "which_children":
		lines := []string{}
		for _, c := range r.Children {
			state := "undefined"
			if c.Restarting {
				state = "restarting"
			} else if c.Inc != 0 {
				state = "up"
			}
			lines = append(lines, c.Child+":"+state)
		}
		if len(lines) == 0 {
			return "-"
		}
		return strings.Join(lines, ",")
	case op == "count_children":
		c := r.Counts
		return fmt.Sprintf("specs=%d active=%d supervisors=%d workers=%d", c.Specs, c.Active, c.Supervisors, c.Workers)
	case r.Value != "":
		return "ok " + r.Value
	}
	return "ok"
}

// kill ends nodes. All of them are dead before any supervisor hears of the first: the supervisors' mailboxes are held.
func (p *otpPlayer) kill(e *otpEvent) {
	release := make(chan struct{})
	for _, path := range p.sups {
		if s := p.house.ledger.supervisor(path); s != nil {
			s.PostUserMessage(request{
				fact:   func(call uint64) tree.Fact { <-release; return tree.WhichChildren{Call: call} },
				answer: func(tree.Reply) {},
			})
		}
	}
	synctest.Wait()
	for _, id := range e.killed() {
		p.killOne(id, otpReason(e.Reason))
		synctest.Wait()
	}
	close(release)
}

func (p *otpPlayer) killOne(id string, r tree.Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.sups[id]; path != "" {
		if s := p.house.ledger.supervisor(path); s != nil {
			s.PostUserMessage(tree.Halt{Reason: r, Wait: true})
			return
		}
	} else if life := p.running[id]; life != nil && !life.dead {
		life.dead = true
		life.kill <- r
		return
	}
	p.log("miss " + id)
}

// spec turns a node into a Spec, with OTP's defaults.
func (p *otpPlayer) spec(n *otpNode) tree.Spec {
	p.mu.Lock()
	p.nodes[n.ID] = n
	p.mu.Unlock()
	s := tree.Spec{Name: n.ID, Kind: tree.KindWorker, Restart: tree.Restart{Policy: n.Restart}, Significant: n.Significant,
		Shutdown: 5 * time.Second}
	if n.Type != "supervisor" {
		s.Body = p.life(n)
	} else {
		s.Kind, s.Shutdown = tree.KindGroup, tree.Forever
		i := tree.Intensity{Restarts: 1, Period: 5 * time.Second}
		if n.Intensity != nil {
			i.Restarts = *n.Intensity
		}
		if n.PeriodS != nil {
			i.Period = time.Duration(*n.PeriodS * float64(time.Second))
		}
		s.Supervise = &tree.Supervise{Strategy: n.Strategy, Intensity: &i, Start: tree.Ordered, First: tree.InitFails}
		if n.AutoShutdown != "never" {
			s.Supervise.AutoShutdown = tree.AutoShutdown(n.AutoShutdown)
		}
		for i := range n.Children {
			s.Children = append(s.Children, p.spec(&n.Children[i]))
		}
	}
	switch text := string(n.Shutdown); text {
	case "":
	case `"infinity"`:
		s.Shutdown = tree.Forever
	case `"brutal_kill"`:
		s.Shutdown = 0
	default:
		if err := json.Unmarshal(n.Shutdown, &s.Shutdown); err != nil {
			panic(err)
		}
		s.Shutdown *= time.Millisecond
	}
	return s
}

func otpReason(r string) tree.Reason {
	switch r {
	case "normal":
		return tree.Reason{Class: tree.Normal, Text: r}
	case "shutdown", "shutdown_term":
		return tree.Reason{Class: tree.Shutdown, Text: r}
	case "kill":
		return tree.Reason{Class: tree.Crash, Text: "killed"}
	}
	return tree.Reason{Class: tree.Crash, Text: r}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
