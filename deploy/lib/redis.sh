# shellcheck shell=bash
# A private Redis: append-only, a socket and one loopback port, a password only we know.

# start_redis FOLDER PORT: sets REDIS_URL, for people, and REDIS_NEAR_URL, for our programs: the socket, which takes a
# quarter off every round trip. Its path goes into an address and has a limit of the kernel's.
start_redis() {
  local folder=$1 port=$2 socket=$1/redis.sock password
  mkdir -p "$folder/data"
  [[ -f $folder/password ]] || random_hex 24 | write_secret "$folder/password"
  password=$(<"$folder/password")
  local is_near=''
  [[ $socket =~ ^[A-Za-z0-9/._-]{1,100}$ ]] || is_near='#'
  # A file, not arguments: everybody on the machine can read those.
  write_secret "$folder/redis.conf" <<CONF
bind 127.0.0.1
port $port
$is_near unixsocket "$socket"
$is_near unixsocketperm 700
requirepass $password
dir "$folder/data"
appendonly yes
appendfsync everysec
save ""
loglevel warning
logfile "$folder/redis.log"
CONF
  start redis redis-server "$folder/redis.conf"
  wait_until 60 "$CHILD" "Redis accepted connections (its log is $folder/redis.log)" redis_answers "$port" "$password"
  REDIS_URL="redis://:$password@127.0.0.1:$port"
  REDIS_NEAR_URL=$REDIS_URL
  [[ -n $is_near ]] || REDIS_NEAR_URL="redis+unix://$socket?pass=$password"
}

redis_answers() { REDISCLI_AUTH=$2 redis-cli -h 127.0.0.1 -p "$1" ping | grep -q PONG; }
