# Two tenants on one machine, and some workers that behave as badly as real ones do. It needs no root: try
#
#     coppice run examples/demo
#     coppice status            (in another terminal)
#     coppice why crasher
#
# Everything that a word here can be is in the contract's words: a worker owns one process, an app its workers, a
# tenant its apps.

tenant "acme" {
  env = { NODE_ENV = "production" }

  app "shop" {
    root = "."

    # A Node HTTP server, twice: a pool. Each replica listens on a Unix socket of its own (PORT is its path) and is
    # ready once it answers there.
    worker "web" {
      command = ["node", "web.js"]
      count   = 2
      listen  = "unix"
      ready { http = "/healthz" }
      health {
        http     = "/healthz"
        interval = "5s"
      }
    }

    # Starts only while a replica of web is ready, and says itself when it is.
    worker "mailer" {
      command = ["python3", "mailer.py"]
      after   = ["web"]
      ready { notify = true }
    }
  }
}

tenant "zen" {
  app "notes" {
    root = "."

    # Python's standard library on a free loopback port (PORT is its number).
    worker "api" {
      command = ["python3", "notes.py"]
      listen  = "tcp"
      ready { http = "/" }
    }
  }

  app "trouble" {
    root = "."

    # Ends with status 3 again and again: it waits longer each time, reaches its limit, and is then retried slowly. None
    # of this touches anybody else.
    worker "crasher" {
      command = ["sh", "-c", "echo about to crash; sleep 1; exit 3"]
      restart {
        backoff = "200ms"
        cap     = "10s"
      }
    }

    # Ignores TERM, so a stop of it takes until KILL.
    worker "stubborn" {
      command = ["python3", "stubborn.py"]
      stop { timeout = "3s" }
    }

    # Leaves helpers behind when it ends. They go with it.
    worker "forker" {
      command = ["sh", "forker.sh"]
      restart { limit = 0 }
    }
  }
}
