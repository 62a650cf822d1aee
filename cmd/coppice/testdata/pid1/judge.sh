# Says "judge: ok FACT" or "judge: not ok FACT" for each, and what it saw.
export PATH=/bin
exec >/dev/console 2>&1
groups=$(echo /sys/fs/cgroup/*.coppice/default.tree/shop.tree)

# fact NAME COMMAND: holds as soon as the command succeeds, within a minute.
fact() {
  name=$1
  shift
  tries=0
  until "$@" >/tmp/saw 2>&1; do
    tries=$((tries + 1))
    if [ $tries -ge 200 ]; then
      echo "judge: not ok $name"
      cat /tmp/saw
      return
    fi
    sleep 0.3
  done
  echo "judge: ok $name"
}

says() { coppice "$2" "$3" >/tmp/said 2>&1; cat /tmp/said; grep -q "$1" /tmp/said; }
is() { [ "$(cat "$1")" = "$2" ]; }
none() { [ -z "$("$@")" ]; }
zombies() { grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; }
leaves() { find "$groups" -type d -name "$1*.leaf"; }
orphaned() { [ "$(wc -l </tmp/orphans)" = 5 ]; }
gone() { for pid in $(cat /tmp/orphans); do [ ! -e "/proc/$pid" ] || return 1; done; }

fact "coppice is process 1" grep -q coppice /proc/1/comm
fact "web's memory is bounded" is "$groups/web%2E0-1.leaf/memory.max" 67108864
fact "web's processor time is bounded" is "$groups/web%2E0-1.leaf/cpu.max" "50000 100000"
fact "web's tasks are bounded" is "$groups/web%2E0-1.leaf/pids.max" 32
fact "an OOM kill is told from others" says "out of memory" why hungry
fact "the whole worker dies of it" none leaves hungry
fact "a fork bomb is refused forks" says "can't fork" logs bomb
fact "nothing of the bomb is left" none leaves bomb
fact "orphans come to process 1" orphaned
fact "orphans are reaped" gone
fact "nobody is a zombie" none zombies
fact "web lives on" says "running" status web
ps -o pid,ppid,stat,args | grep -v '\['
kill -TERM 1
