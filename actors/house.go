package actors

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// house is what all actors of one tree share.
type house struct {
	system   *actor.ActorSystem
	journal  Journal
	launcher Launcher
	spawns   *spawner
	dice     tree.Dice
	log      hclog.Logger
	ledger   ledger
	// directory is where the embedder's actors are found by those who hold an address.
	directory directory
	// loose counts goroutines outside of mailboxes: closing instances and functions that run as children.
	loose sync.WaitGroup
	// patient makes a stop wait its turn behind an ordered sequence that runs below, as OTP's mailbox does.
	patient bool
	// heard is told every fact that a child tells its parent, before the parent has it; nil: nobody is. For tests.
	heard func(child tree.Ref, fact tree.Fact)

	calls atomic.Uint64 // the last number used for an administrative fact
	// gaveUp is set when the supervisor at path "" exceeded its intensity.
	gaveUp atomic.Bool
	// abandoned counts children that did not end in time and cannot be killed, because they are code of this process.
	abandoned atomic.Int64
}

// tenantOf is the tenant that a path belongs to, whose turn its spawns take.
func tenantOf(path string) string {
	tenant, _, _ := strings.Cut(path, "/")
	return tenant
}

// build makes the shell of one incarnation of a node that is an actor of ours.
func (h *house) build(ref tree.Ref, spec *tree.Spec, name string, tell func(tree.Fact)) *shell {
	if spec.IsSupervisor() {
		return newSupervisor(h, ref, spec, name, tell)
	}
	return newWorker(h, ref, spec, name, tell)
}

// engineOf is what runs a node that is code of this program; nil if the node is none.
func engineOf(spec *tree.Spec) engine {
	if spec.IsSupervisor() {
		return nil
	}
	switch body := spec.Body.(type) {
	case Func:
		return &function{run: body}
	case Service:
		return &function{serve: body}
	case Actor:
		return &foreign{Actor: body}
	}
	if spec.Run != nil && spec.Kind != tree.KindSchedule {
		return nil
	}
	return &idle{}
}

// actorName is the name of one incarnation below its supervisor's actor.
func actorName(child string, inc int) string { return child + "#" + strconv.Itoa(inc) }

func textOf(cause any) string { return fmt.Sprint(cause) }

// sharedDice is dice that several machines may throw at the same time.
type sharedDice struct {
	mu   sync.Mutex
	dice tree.Dice
}

// Float64 implements tree.Dice.
func (d *sharedDice) Float64() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dice.Float64()
}

// lockDice keeps nil dice nil, which means no jitter.
func lockDice(dice tree.Dice) tree.Dice {
	if dice == nil {
		return nil
	}
	return &sharedDice{dice: dice}
}
