# shellcheck shell=bash
# Runs a private Redis: in memory only, a socket and one loopback port, a random password.

# start_redis FOLDER PORT: starts it on the data in FOLDER. Sets REDIS_URL, the port, for people; and REDIS_SOCKET_URL, the
# socket, for our programs: it takes a quarter off every round trip. A socket's path becomes part of a URL, and the kernel
# limits its length: where it does not fit, REDIS_SOCKET_URL is the port as well.
start_redis() {
  local folder=$1 port=$2 socket=$1/redis.sock password
  # Nobody else's to read. The umask is the server's too. An earlier version saved what is of no use any more.
  rm -rf "$folder/data"
  mkdir -p "$folder/data"
  chmod 700 "$folder" "$folder/data"
  [[ -f $folder/password ]] || random_hex 24 | write_secret "$folder/password"
  password=$(<"$folder/password")
  local comment='' # of the lines about the socket
  [[ $socket =~ ^[A-Za-z0-9/._-]{1,100}$ ]] || comment='#'
  # Nothing is saved: what Redis had before a restart is not believed after it, and a log that is written before each answer
  # takes a quarter of an admission's time. In a file, because everybody on the machine can read a program's arguments.
  write_secret "$folder/redis.conf" <<CONF
bind 127.0.0.1
port $port
$comment unixsocket "$socket"
$comment unixsocketperm 700
requirepass $password
dir "$folder/data"
save ""
loglevel warning
logfile "$folder/redis.log"
CONF
  # shellcheck disable=SC2016 # the inner shell expands
  start redis bash -c 'umask 077; exec redis-server "$1"' redis "$folder/redis.conf"
  wait_until 60 "$CHILD" "Redis accepted connections (its log is $folder/redis.log)" redis_answers "$port" "$password"
  REDIS_URL="redis://:$password@127.0.0.1:$port"
  REDIS_SOCKET_URL=$REDIS_URL
  [[ -n $comment ]] || REDIS_SOCKET_URL="redis+unix://$socket?pass=$password"
}

redis_answers() { [[ $(REDISCLI_AUTH=$2 redis-cli -h 127.0.0.1 -p "$1" ping) == PONG ]]; }
