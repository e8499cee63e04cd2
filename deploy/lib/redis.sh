# shellcheck shell=bash
# A private Redis: append-only, one loopback port, a password only we know.

# start_redis FOLDER PORT: sets REDIS_URL.
start_redis() {
  local folder=$1 port=$2 password
  mkdir -p "$folder/data"
  [[ -f $folder/password ]] || random_hex 24 | write_secret "$folder/password"
  password=$(<"$folder/password")
  # A file, not arguments: everybody on the machine can read those.
  write_secret "$folder/redis.conf" <<CONF
bind 127.0.0.1
port $port
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
}

redis_answers() { REDISCLI_AUTH=$2 redis-cli -h 127.0.0.1 -p "$1" ping | grep -q PONG; }
