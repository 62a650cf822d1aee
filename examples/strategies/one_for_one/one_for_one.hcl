# Three workers that do not lean on one another. Whoever fails is started again alone.
app "shop" {
  supervise {
    strategy = "one_for_one"
  }
  worker "mail" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
  worker "search" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
  worker "web" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
}
