# Three workers that share one session. If one loses it, none of them can go on with the old one.
app "shop" {
  supervise {
    strategy = "one_for_all"
  }
  worker "leader" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
  worker "reader" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
  worker "writer" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
}
