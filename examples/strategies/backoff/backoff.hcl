# Both workers need a database elsewhere. One of them waits longer and longer between its attempts, the other does not.
app "shop" {
  worker "patient" {
    command = ["/bin/sleep", "infinity"]
    restart {
      backoff = "500ms"
      factor  = 2
      cap     = "8s"
      jitter  = 0
      limit   = 0
    }
  }
  worker "hasty" {
    command = ["/bin/sleep", "infinity"]
    restart {
      backoff = "500ms"
      factor  = 1
      jitter  = 0
      limit   = 0
    }
  }
  worker "standard" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
  }
}
