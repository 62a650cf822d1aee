package sim

// Grammar is the fault language in a page, for help texts.
const Grammar = `  PATH[, PATH…]: WHAT [WHEN…]

PATH is a node, and means all leaves at and below it: shop/web is every replica of web. A tail is enough if only one node has
it; * is all.

  WHAT            does                                             WHEN
  exit N          the process ends with status N                   at T, every D, after ready D, with probability P per second
  signal NAME     the process is killed by a signal                the same
  hang            ignores every wish but KILL, fails its health    the same; for D: it recovers after that
                  checks, and beats no more
  start fails     the program cannot be executed                   a window (none: always)
  ready after D   the checks of a start hold only after D          a window
  ready never     they never hold                                  a window
  stop takes D    it takes so long to leave when asked             a window
  down            who runs exits 1, and who starts exits 1 after   at T, for D or until T
                  100ms: an outage of what all of them need

  at T            once, at that time from the beginning; with every D, for the first time
  every D         again and again: after D, 2D, 3D…
  after ready D   in each incarnation, so long after it is ready (after D is the same; no D is at once)
  with probability P              only so often, of the times that the rest of the line says
  with probability P per second   with this chance in each second of being ready
  from T, at T | for D | until T  a window: from when, and how long or until when
  N times, once   only so often, at each leaf

Durations are written 500ms, 2s, 1m30s. Examples:

  shop/api: exit 1 every 2s for 1m
  shop/db, shop/cache: down at 10s for 30s
  web: exit 1 after ready 3s with probability 0.2
  worker.0: signal SEGV with probability 0.01 per second from 1m until 5m
  db: start fails 3 times
  db: hang at 20s for 15s
`
