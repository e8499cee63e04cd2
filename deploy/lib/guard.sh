#!/usr/bin/env bash
# guard.sh SECONDS [FILE]: reads `+ pid name` and `- pid` from standard input until it closes, then removes FILE and
# stops what was added and not taken away, the last first. Each is the leader of a session of its own. See children.sh.
set -u
patience=$1
pids=()
declare -A names=()
while read -r sign pid name; do
  case $sign in
    +)
      pids+=("$pid")
      names[$pid]=$name
      ;;
    -) unset "names[$pid]" ;;
  esac
done
[[ $# -lt 2 ]] || rm -f "$2"

alive() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  [[ ${stat##*) } != Z* ]]
}

for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
  pid=${pids[i]}
  name=${names[$pid]:-}
  [[ -n $name ]] && alive "$pid" || continue
  # For Postgres SIGTERM means to wait for its clients; SIGINT is "stop now, cleanly".
  case $name in
    postgres) signal=INT ;;
    *) signal=TERM ;;
  esac
  kill -s "$signal" -- "-$pid" 2>/dev/null
  for ((tenths = patience * 10; tenths > 0; tenths--)); do
    alive "$pid" || continue 2
    sleep 0.1
  done
  echo "svc: $name did not stop within $patience s; killing it" >&2
  kill -s KILL -- "-$pid" 2>/dev/null
done
