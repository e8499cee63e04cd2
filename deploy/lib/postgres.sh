# shellcheck shell=bash
# Runs a private PostgreSQL: data of its own, one loopback port, a random password, no Unix socket.
# (A socket's path may have at most about 107 bytes, which a deep state folder exceeds.)

# start_postgres FOLDER PORT [SETTING…]: starts it on the data in FOLDER, which it creates when there is none. Sets
# POSTGRES_URL to the database `svc`, with a superuser's rights. Settings are further arguments of the server.
start_postgres() {
  local folder=$1 port=$2 bin home password
  shift 2
  bin=$(postgres_bin)
  choose_postgres_user
  mkdir -p "$folder"
  chmod 711 "$folder"
  [[ -f $folder/password ]] || random_hex 24 | write_secret "$folder/password"
  password=$(<"$folder/password")
  home=$(postgres_home "$folder")
  as_postgres test -d "$home/cluster" || create_cluster "$bin" "$home" "$password"
  bin=$(matching_bin "$bin" "$home/cluster")
  start postgres "${AS_POSTGRES[@]}" "$bin/postgres" -D "$home/cluster" -c listen_addresses=127.0.0.1 -c "port=$port" \
    -c unix_socket_directories= -c log_min_messages=fatal "$@"
  wait_until 60 "$CHILD" "Postgres accepted connections" "$bin/pg_isready" --quiet --host 127.0.0.1 --port "$port"
  create_database "$bin" "$port" "$password"
  POSTGRES_URL="postgres://svc:$password@127.0.0.1:$port/svc"
}

# Postgres refuses to run as root: for root it is run by its own user, which Debian's package created.
choose_postgres_user() {
  AS_POSTGRES=()
  POSTGRES_OWNER=$(id -un)
  [[ $EUID -eq 0 ]] || return 0
  local user
  for user in postgres nobody; do
    id "$user" >/dev/null 2>&1 || continue
    AS_POSTGRES=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")" --clear-groups)
    POSTGRES_OWNER=$user
    return
  done
  die "Postgres cannot run as root, and there is neither a user postgres nor a user nobody to run it as."
}

as_postgres() { "${AS_POSTGRES[@]}" "$@"; }

# postgres_home FOLDER: creates the folder that Postgres owns and prints its path: inside FOLDER, unless Postgres' user
# cannot get there, as under /root.
postgres_home() {
  local folder=$1 home=$1/data
  if [[ -f $folder/elsewhere ]]; then
    home=$(<"$folder/elsewhere")
  elif ! as_postgres test -x "$folder"; then
    mkdir -p /var/lib/svc
    home=$(mktemp -d /var/lib/svc/postgres.XXXXXXXX)
    echo "$home" >"$folder/elsewhere"
    say "the user $POSTGRES_OWNER cannot reach $folder: the database is kept in $home"
  fi
  mkdir -p "$home"
  chmod 700 "$home"
  chown "$POSTGRES_OWNER" "$home"
  echo "$home"
}

# The cluster is created beside its place and then moved there, so that an interrupted start leaves no incomplete one.
create_cluster() {
  local bin=$1 home=$2 password=$3 log
  say "creating a database cluster in $home"
  log=$(mktemp)
  # shellcheck disable=SC2016 # the inner shell expands
  if ! as_postgres bash -c '
      set -e; umask 077; cd "$2"; rm -rf new password; cat >password
      "$1/initdb" --pgdata=new --username=svc --auth=scram-sha-256 --pwfile=password --encoding=UTF8 --locale=C.UTF-8
      rm password; mv new cluster' initdb "$bin" "$home" <<<"$password" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "initdb failed; the reason is above."
  fi
  rm -f "$log"
}

# matching_bin BIN CLUSTER: prints the folder of the programs that can read the cluster; an older one needs its own server's.
matching_bin() {
  local version
  version=$(as_postgres cat "$2/PG_VERSION")
  if [[ $("$1/postgres" --version) == *" $version."* ]]; then
    echo "$1"
  elif [[ -x /usr/lib/postgresql/$version/bin/postgres ]]; then
    echo "/usr/lib/postgresql/$version/bin"
  else
    die "the data in $2 was made by PostgreSQL $version, which is not installed." \
      "Install postgresql-$version, or upgrade the data with pg_upgrade."
  fi
}

create_database() {
  local psql=("$1/psql" --no-psqlrc --quiet --tuples-only --no-align "host=127.0.0.1 port=$2 user=svc dbname=postgres")
  local -x PGPASSWORD=$3
  [[ $("${psql[@]}" --command "SELECT 1 FROM pg_database WHERE datname = 'svc'") == 1 ]] ||
    "${psql[@]}" --command "CREATE DATABASE svc"
}

# start_throwaway_postgres FOLDER: starts one for tests, on a free port; its data need not survive a crash of the machine.
start_throwaway_postgres() {
  lock_ports
  choose_port 5500
  # shellcheck disable=SC2153 # choose_port sets it
  start_postgres "$1" "$PORT" -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=500
  unlock_ports
}
