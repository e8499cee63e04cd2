# shellcheck shell=bash
# Starts programs, and stops all of them in one way.
#
# A guard process reads a pipe whose writing end only this script holds. The script reports every program that it starts
# to the guard. When the pipe closes, because the script ended, failed or was killed with SIGKILL, the guard stops them,
# the last started first. A regular stop takes the same way, so that it is tried every time.

# The time limit for a program to stop before it is killed.
readonly STOP_SECONDS=15

# File descriptors that no program may inherit: 7 the pipe to the guard, 8 the lock on ports, 9 the lock on the state
# folder. The guard keeps 9, so that the state folder is locked until everything has stopped.

# start_guard [FILE]: starts the guard, which removes FILE before it stops anything.
start_guard() {
  exec 7> >(trap '' INT TERM HUP; exec setsid bash "$(dirname "${BASH_SOURCE[0]}")/guard.sh" "$STOP_SECONDS" "$@" 8<&-)
  GUARD=$!
}

# Closes the pipe and waits until everything has stopped, to the last line of its log. Safe to call twice.
declare -a LABELS=()
stop_all() {
  [[ -n ${GUARD:-} ]] || return 0
  local pid
  exec 7>&-
  for pid in "$GUARD" "${LABELS[@]}"; do
    while is_running "$pid"; do sleep 0.05; done
  done
}

# start NAME COMMAND…: in the background, its output line by line behind its name. Sets CHILD to its process id.
# setsid: Ctrl-C on the terminal reaches this script alone, which then stops the others in order.
declare -A CHILD_NAMES=()
start() {
  local name=$1 output
  shift
  exec {output}> >(label "$name")
  LABELS+=($!)
  setsid "$@" </dev/null >&"$output" 2>&1 {output}>&- 7>&- 8<&- 9>&- &
  CHILD=$!
  exec {output}>&-
  CHILD_NAMES[$CHILD]=$name
  echo "+ $CHILD $name" >&7
}

# run COMMAND…: in the foreground, but stopped with everything else when the script is. Its output goes where ours does.
run() {
  local status=0
  setsid "$@" </dev/null 7>&- 8<&- 9>&- &
  local pid=$!
  echo "+ $pid $1" >&7
  wait "$pid" || status=$?
  echo "- $pid" >&7
  return "$status"
}

label() {
  trap '' INT TERM HUP
  exec sed --unbuffered "s/^/$(printf '%-8s' "$1") | /" >&2 7>&- 8<&- 9>&-
}

# is_running PID: a zombie counts as stopped, even while its parent has not waited for it.
is_running() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  [[ ${stat##*) } != Z* ]]
}

# wait_until SECONDS CHILD WHAT COMMAND…: repeats the command until it succeeds, while the child lives.
wait_until() {
  local deadline=$((SECONDS + $1)) child=$2 what=$3
  shift 3
  until "$@" >/dev/null 2>&1; do
    if ! is_running "$child"; then
      sleep 0.2 # its last lines are still on their way
      die "${CHILD_NAMES[$child]} stopped before $what. Its last lines are above."
    fi
    ((SECONDS < deadline)) || die "gave up waiting until $what."
    sleep 0.1
  done
}

# Returns when any child has ended; sets ENDED to its name.
wait_for_any_end() {
  local ended=
  wait -n -p ended "${!CHILD_NAMES[@]}" || true
  ENDED=${CHILD_NAMES[${ended:-0}]:-something}
}
