// Package tree decides what a supervision tree does: what starts, stops and restarts, in which order, when, and why.
//
// It does nothing itself. A machine (Supervisor, Worker) is told facts, one at a time, and answers each with orders:
//
//	orders := supervisor.Step(now, tree.Down{Child: "db", Inc: 3, Reason: reason, Seq: 17})
//
// Time is an argument. A machine holds no clock, goroutine, channel or lock, so the whole of a tree runs under a virtual
// clock, and the same history always gives the same orders. Package sim does that; testdata/transcripts shows histories
// that can be read aloud, and every one of them is a test.
//
// # Supervision in a page
//
// A supervisor has children, in an order that somebody thought about: what comes later may lean on what came before. So
// children start from the left, each after the one before is up, and stop from the right, each after the one after it
// is gone. Only children that do not lean on one another may start and stop together.
//
// A child that ends is started again, because a fresh start is the one repair that works for faults nobody knows. Whether
// it is, its policy says: a permanent child always; a transient one unless it ended as it should; a temporary one never.
// The supervisor's strategy says which siblings go with it: none of them (one_for_one), all of them (one_for_all), or
// those after it (rest_for_one), which are the ones that may have leaned on it. They stop from the right and start from
// the left. That is one restart, however many it takes along.
//
// A fault that comes back at once is not repaired by a fresh start. A supervisor that has to restart more than Intensity.Restarts
// times within Intensity.Period therefore gives up: it stops what it has, in order, and ends. To its parent that is a
// child that went down, and the same rules apply there with more started afresh. So a fault climbs until somebody is
// high enough to repair it, or until nobody is left, which is the moment to call a person.
//
// Stops that were asked for are not faults. How a child ends that was told to go triggers nothing and counts for nothing.
//
// # A worked example
//
// An app of three under rest_for_one, with Intensity{Restarts: 2, Period: 10s}. The cache crashes:
//
//	supervisor rest_for_one intensity=2/10s
//	child db
//	child cache
//	child web
//	...
//	[5] +1s down cache crash "exit 1"
//	        stop web#1: sibling cache [5]            web came after cache: it goes first, from the right
//	[6] +0s down web shutdown "exit 0"               asked for, so it counts for nothing
//	        rest web#1 waiting: sibling cache [6]
//	        start cache#2 again (1. in a row): exit 1 [5]
//	[7] +0s up cache
//	        start web#2 again: sibling cache [5]     from the left, each after the one before is up
//	[8] +0s up web                                   db never noticed
//
// The number in brackets is the fact that caused the order. Then web crashes, which is the second restart, and soon after
// db, and the third within ten seconds is one too many:
//
//	[11] +1s down db crash "exit 1"
//	        escalate: intensity exceeded by db [11]
//	        rest db#1 stopped: intensity exceeded by db [11]
//	        stop web#3: intensity exceeded by db [11]
//	...
//	        quit shutdown: intensity exceeded by db [13]
//
// The whole of it is testdata/transcripts/example.txt.
//
// # Promises
//
// Each is a function of the oracle that watches random histories, and each has mutants in testdata/mutants that it kills.
//
//  1. A child has at most one incarnation at a time, and no incarnation number is used twice. News of an older
//     incarnation is dropped.
//  2. Ordered starts go left to right, each after the one before is up; After always gates a start.
//  3. Ordered stops go right to left, each after the one before is gone; together-stops go at once, but a child stops
//     before those it comes after.
//  4. Permanent, transient and temporary mean what OTP says; a temporary child never comes back, not even with its
//     siblings. What an operator holds, only an operator starts. A restart is never lost.
//  5. More than Intensity.Restarts restarts within Intensity.Period: everything stops in order and the parent is told.
//  6. After Quit, nothing. Every Halt ends in Quit, from every state, in as many steps as there are children.
//  7. With zero backoff, ordered starts and InitFails the trace equals OTP's. Every administrative call is answered once.
//  8. No order concerns another supervisor's children: one tenant's crash loop never delays another's restart.
//  9. Same history, same orders.
//  10. Every order that changes a child carries a reason and the number of the fact that caused it.
//
// # Where Coppice leaves OTP
//
// A zero Restart and a zero Supervise but for Start: Ordered and First: InitFails are OTP. What else there is:
//
//	                   OTP                            Coppice                             why
//	restart            at once                        after Backoff·Factor^(n-1), up to   a crash loop must leave the machine
//	                                                  Cap, and jitter                     to others, and not beat in step
//	a child that       uses up the intensity of all   its own Limit: slow, stop or        one bad worker should not take
//	keeps failing                                     escalate                            its siblings down
//	first start fails  the supervisor does not start  treated like a crash; what comes    a host that boots half is of more
//	                                                  after it waits (InitFails: as OTP)  use than one that does not
//	a retry            at once, through the mailbox   the same with zero backoff;         see restart
//	                                                  else after the delay
//	a failed group     stays down until the retry     stops at once and waits with the    nobody runs on a sibling that is
//	with a delay                                      failed one, until the later moment  known to be gone
//	start order        always the list                ordered or together, and After      processes take seconds to be ready
//	a halt             waits for what is running      overtakes everything (Halt.Wait:    stopping must be bounded, also while
//	                                                  as OTP)                             something will not start
//	stop by hand       terminate_child; a group       Hold: stays down until taken back   what a person says outranks what
//	                   restart brings it back         (TerminateChild: as OTP)            a machine thinks
//	a temporary child  is forgotten                   is done, visible, and an operator   "where did it go" is a question
//	that ended                                        may start it again                  that people ask
//	a supervisor that  waited for by its Shutdown,    waited for always                   children left behind are worse than
//	is asked to stop   then killed                                                        a slow stop, and theirs is bounded
//	window             whole seconds                  exact                               a phase nobody knows decides nothing
//
// What a temporary child is to WhichChildren, RestartChild and the other administrative facts is OTP's view: once ended
// it is not there. RestartChild of a child that is held answers "held".
//
// # When is a supervisor up
//
// It reports up when every child that is wanted is up or had nothing to run; one that is held, not enabled, or done is
// not wanted; one that has failed is. With a Quorum it reports up when so many are (or all, if fewer are wanted), and
// unready when they no longer are. Without a Quorum it never reports unready: nothing comes after an app, and whoever
// started it in order looked once.
//
// # How a delay ends
//
// A child that waits for its delay can be held, terminated or started by hand; a halt overtakes it. Those that wait with
// it then go on without it, except under TerminateChild in a group, where OTP leaves them down. A child at a closed gate
// holds up nobody: its sequence goes on, and it starts when the gate opens.
//
// # Words
//
//	host, tenant, app  the levels of the daemon's tree; each is a supervisor
//	worker             a leaf that is an operating-system process; "process" never means anything else
//	pool               the supervisor of a worker's replicas
//	schedule           a leaf that runs something at certain times
//	supervisor, child  who looks after whom
//	spec               what a node should be; never changed once a machine has it
//	fact, order        what happened; what to do about it
//	strategy           which siblings a failed child takes with it
//	intensity, period  how many restarts, within what time, before a supervisor gives up
//	restart            an automatic start after an end
//	backoff            the delay before a restart
//	limit              how many ends within a time mark a child failed
//	shutdown           an end that was asked for; also how long a leaf may take for it
//	reason             why something ended or is done: a class that decides, a text for people
//	incarnation        one life of a node, numbered from 1
//	path               the names from the root to a node: "acme/shop/web.0"
//	intent             what an operator wants; persisted, and stronger than anything automatic
//	journal            the numbered record of everything that happened; a Seq is a place in it
package tree
