package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// shutdown is how long a child of the constructors may take to stop, as OTP's workers may.
const shutdown = 5 * time.Second

// Supervisor is a supervisor and its children, in start order. It may be a child itself: then set Restart in what this
// returns if another than tree.Restart{} is wanted. Without an Intensity it never gives up; its children must then have a
// Backoff or a Limit.
func Supervisor(name string, policy tree.Supervise, children ...tree.Spec) tree.Spec {
	return tree.Spec{Name: name, Kind: tree.KindGroup, Supervise: &policy, Children: children}
}

// Function is a child that runs f on a goroutine of its own: see Func. It has five seconds to stop (Spec.Shutdown). A
// restart of tree.Restart{} is OTP's, permanent and at once; tree.DefaultRestart() has a backoff and a limit.
func Function(name string, f Func, restart tree.Restart) tree.Spec { return child(name, f, restart) }

// Serving is a Function that says itself when it is up: see Service.
func Serving(name string, f Service, restart tree.Restart) tree.Spec { return child(name, f, restart) }

// FromProps is a child that is an actor of the embedder's own: see Actor.
func FromProps(name string, props *actor.Props, restart tree.Restart) tree.Spec {
	return child(name, Actor{Props: props}, restart)
}

// Command is a child that is an operating-system process, with the defaults of tree.DefaultRun; the tree needs a Launcher.
// Run of what this returns has the rest: folder, environment, how it is stopped. Exit status 0 is its normal end, unless
// restart.NormalExits says something else.
func Command(name string, restart tree.Restart, argv ...string) tree.Spec {
	run := tree.DefaultRun()
	run.Worker, run.Command = name, argv
	if restart.NormalExits == nil {
		restart.NormalExits = []int{0}
	}
	return tree.Spec{Name: name, Kind: tree.KindWorker, Restart: restart, Run: &run}
}

func child(name string, body any, restart tree.Restart) tree.Spec {
	return tree.Spec{Name: name, Kind: tree.KindWorker, Restart: restart, Shutdown: shutdown, Body: body}
}

// check finds what cannot run, or would run without bound, before anything of it does. path is the node's own.
func check(path string, spec *tree.Spec, launcher bool) error {
	switch {
	case spec.Name == "" || strings.ContainsAny(spec.Name, "/#"):
		return fmt.Errorf("%s: a name is not empty and has no / or #", path)
	case spec.Kind == tree.KindPool:
		return fmt.Errorf("%s: a pool is the daemon's; use %s", path, tree.SimpleOneForOne)
	case spec.IsSupervisor():
		return checkSupervisor(path, spec, launcher)
	}
	switch body := spec.Body.(type) {
	case nil:
		switch {
		case spec.Run == nil || len(spec.Run.Command) == 0:
			return fmt.Errorf("%s: it has nothing to run", path)
		case !launcher:
			return fmt.Errorf("%s: a process needs a Launcher", path)
		}
		return nil
	case Func:
		if body != nil {
			return nil
		}
	case Service:
		if body != nil {
			return nil
		}
	case Actor:
		if body.Props != nil {
			return nil
		}
	default:
		return fmt.Errorf("%s: a %T is no Func, Service or Actor", path, body)
	}
	return fmt.Errorf("%s: its %T is nil", path, spec.Body)
}

func checkSupervisor(path string, spec *tree.Spec, launcher bool) error {
	policy, names := spec.Supervise, map[string]bool{}
	switch policy.StrategyOr() {
	case tree.OneForOne, tree.OneForAll, tree.RestForOne:
	case tree.SimpleOneForOne:
		if len(spec.Children) != 1 {
			return fmt.Errorf("%s: %s has one child, the template", path, tree.SimpleOneForOne)
		}
	default:
		return fmt.Errorf("%s: there is no strategy %q", path, policy.Strategy)
	}
	if spec.Body != nil || spec.Run != nil {
		return fmt.Errorf("%s: a supervisor runs nothing itself", path)
	}
	for i := range spec.Children {
		name := spec.Children[i].Name
		if names[name] {
			return fmt.Errorf("%s: two children are called %q", path, name)
		}
		names[name] = true
	}
	for i := range spec.Children {
		c := &spec.Children[i]
		at := path + "/" + c.Name
		for _, other := range c.After {
			if !names[other] || other == c.Name {
				return fmt.Errorf("%s: it comes after %q, which is no sibling", at, other)
			}
		}
		if err := checkBound(at, policy, c); err != nil {
			return err
		}
		if err := check(at, c, launcher); err != nil {
			return err
		}
	}
	return nil
}

// checkBound refuses a child that would be restarted at once for ever, which is a loop that eats a processor.
func checkBound(path string, parent *tree.Supervise, c *tree.Spec) error {
	r := &c.Restart
	if parent.Intensity == nil && r.Backoff <= 0 && r.Limit <= 0 && r.PolicyOr() != tree.Temporary {
		return fmt.Errorf("%s: nothing bounds its restarts; give it a Backoff or a Limit, or its supervisor an Intensity", path)
	}
	return nil
}
