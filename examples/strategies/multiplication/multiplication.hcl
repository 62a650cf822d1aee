# Three levels that give up on the third failure. How often is the worker started before the host gives up?
host {
  supervise {
    intensity = 2
    period    = "5m"
  }
}

tenant "acme" {
  supervise {
    intensity = 2
    period    = "1m"
  }
  app "shop" {
    supervise {
      intensity = 2
      period    = "10s"
    }
    worker "web" {
      command = ["/bin/sleep", "infinity"]
      restart {
        jitter = 0
      }
    }
    restart {
      jitter = 0
    }
  }
  restart {
    jitter = 0
  }
}
