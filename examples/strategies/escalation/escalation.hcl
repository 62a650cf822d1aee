# The cache has a damaged file that only a start of the whole app repairs, because db writes it when it starts.
tenant "acme" {
  app "shop" {
    supervise {
      strategy  = "rest_for_one"
      intensity = 2
      period    = "10s"
    }
    worker "db" {
      command = ["/bin/sleep", "infinity"]
    }
    worker "cache" {
      command = ["/bin/sleep", "infinity"]
      restart {
        jitter = 0
      }
    }
    restart {
      jitter = 0
    }
  }
  app "blog" {
    worker "web" {
      command = ["/bin/sleep", "infinity"]
    }
  }
}
