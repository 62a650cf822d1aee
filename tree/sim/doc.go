// Package sim runs a tree of supervisor and worker machines under virtual time. It starts nothing: leaves are simulated, a
// minute takes as long as its facts, and the same world always takes the same course.
//
// An Experiment is what most want: a tree.Spec, faults, a seed and a horizon. It tells what happened as a transcript, a
// table of the nodes, JSON and a picture:
//
//	fault, err := sim.ParseFault("db: exit 1 every 2s for 1m")
//	...
//	result, err := sim.Experiment{Spec: spec, Faults: []sim.Fault{fault}}.Run()
//
// A World is what lies below: the machines and a clock, for tests that want to act at certain moments themselves. A leaf with
// a Run is looked after by a tree.Worker, and its process is simulated; any other leaf is simulated whole.
//
// # The fault language
//
// A script has a fault on each line; what follows a # is a comment. In a line:
//
//	line    = path { "," path } ":" what { when }
//	path    = a node's path, a tail that only one node has, or "*"
//	what    = "exit" STATUS | "signal" NAME | "hang" | "down" | "start fails"
//	        | "ready after" DURATION | "ready never" | "stop takes" DURATION
//	when    = "at" DURATION | "every" DURATION | "after" [ "ready" ] [ DURATION ]
//	        | "from" DURATION | "for" DURATION | "until" DURATION
//	        | "with probability" NUMBER [ "per second" ] | NUMBER "times" | "once"
//
// The const Grammar tells what each word means. A process that is down, or was told to go, cannot be struck; such a moment
// passes. Chance is drawn for each path and purpose alone, so a fault more in one place changes no draw in another, and two
// trees under the same seed meet the same luck.
//
// # How many starts the intensities allow
//
// A leaf that ends at once after each start is started I+1 times by a supervisor with intensity I: once at first, and I
// times again; the next restart would be one too many. Then the supervisor ends, and its own supervisor starts it afresh,
// with a clean count. So through levels 1 (lowest) to L it is started
//
//	∏ (I_k + 1)
//
// times before the root gives up: 9 times with two levels of intensity 2. (Start failures add instead where a supervisor does
// not retry while it starts, as in OTP: ∑ I_k more attempts after one crash.) A child's own limit counts as I+1 if it
// escalates, and ends the loop if it stops.
//
// That needs windows that are long enough. Let τ be the time from one end to the next: the life, the backoff, and the stops
// and starts of siblings. Level k sees an end every T_k = τ·∏_{j<k} (I_j + 1), and gives up only if
//
//	I_k · T_k ≤ P_k
//
// The first level for which that is false is where the loop lives for ever: an upper period that is too short, a sibling
// that is slower to stop than P/I, or a backoff that is too long. BoundOf follows the delays one by one, because they grow,
// and says at which level the loop ends or lives; Warnings says which intensities cannot be exceeded whatever happens. Both
// take lives, stops and starts to need no time, so a real tree is slower, and may live for ever where they still give a
// number.
package sim
