# What process 1 of the virtual machine supervises. The judge looks at the rest and then ends the machine.
host {
  runtime_dir = "/run/coppice"
  state_dir   = "/disk/state"
}

app "shop" {
  worker "web" {
    command = ["/bin/sleep", "100000"]
    limits {
      memory = "64MiB"
      cpus   = 0.5
      tasks  = 32
    }
  }

  # The main process only waits; its child asks for too much.
  worker "hungry" {
    command = ["/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1 & sleep 100000"]
    limits { memory = "32MiB" }
    restart {
      backoff = "1h"
      cap     = "1h"
    }
  }

  worker "bomb" {
    command = ["/bin/sh", "-c", "while :; do sleep 100000 & done"]
    limits { tasks = 10 }
    restart {
      backoff = "1h"
      cap     = "1h"
    }
  }

  # Its grandchildren lose their parents, belong to process 1 from then on, and end with a status.
  worker "orphans" {
    command = ["/bin/sh", "/bin/orphans.sh"]
  }

  worker "judge" {
    command = ["/bin/sh", "/bin/judge.sh"]
    restart { policy = "temporary" }
  }
}
