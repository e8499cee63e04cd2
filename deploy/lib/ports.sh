# shellcheck shell=bash
# Finds free loopback ports.

# Two instances that start concurrently must not choose the same port: the lock is held from the choice until all are
# listening. It is taken on a folder that everybody can open, so that it works between users and leaves no file.
lock_ports() {
  exec 8</tmp
  flock --wait 60 8 || say "another start is taking long; going on without its port lock"
}

unlock_ports() { exec 8<&-; }

# port_is_free PORT: succeeds when nothing listens on that TCP port, on any address.
port_is_free() {
  local hex tables=() table
  printf -v hex '%04X' "$1"
  for table in /proc/net/tcp /proc/net/tcp6; do [[ -r $table ]] && tables+=("$table"); done
  # 0A is the state LISTEN; the second column is the local address and port.
  ! awk -v port=":$hex\$" '$4 == "0A" && $2 ~ port { found = 1 } END { exit !found }' "${tables[@]}"
}

# choose_port PORT: sets PORT to the first free one from there on, leaving out those chosen before.
CHOSEN_PORTS=" "
choose_port() {
  local port
  for ((port = $1; port < $1 + 200; port++)); do
    [[ $CHOSEN_PORTS == *" $port "* ]] && continue
    if port_is_free "$port"; then
      CHOSEN_PORTS+="$port "
      PORT=$port
      return
    fi
  done
  die "no TCP port from $1 to $((port - 1)) is free on this machine." "Stop what occupies them (ss -ltnp shows it)."
}
