# Each worker leans on those that are written above it, and on no other.
app "shop" {
  supervise {
    strategy = "rest_for_one"
  }
  worker "db" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
    ready {
      notify = true
    }
  }
  worker "cache" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
    ready {
      notify = true
    }
  }
  worker "web" {
    command = ["/bin/sleep", "infinity"]
    restart {
      jitter = 0
    }
    ready {
      notify = true
    }
  }
}
