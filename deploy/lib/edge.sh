# shellcheck shell=bash
# What the edge has of its own, so that it is no more than an edge: a role in Postgres, a user in Redis, its keys.

# give_edge_its_rights: makes them where Postgres and Redis are private ones. Writes EDGE_ENV, the settings by which the edge's
# configuration differs from admin's.
give_edge_its_rights() {
  EDGE_ENV=$STATE/edge.env
  run "$PROGRAMS/certs" edge-key "$STATE/edge.key" || die "the edge's keys could not be made; the reason is above."
  local password postgres='' redis=''
  [[ -f $STATE/edge-password ]] || random_hex 24 | write_secret "$STATE/edge-password"
  password=$(<"$STATE/edge-password")
  if [[ -z ${SVC__POSTGRES__URL:-} ]]; then
    run "$PROGRAMS/admin" grant-edge svc-edge --password-file "$STATE/edge-password" ||
      die "the edge's role in Postgres could not be made; the reason is above."
    postgres=postgres://svc-edge:$password@${POSTGRES_URL#*@}
  fi
  [[ -n ${SVC__REDIS__URL:-} ]] || redis=$(make_redis_user "$password") || exit 1
  {
    printf "SVC__SECRETS__EDGE_KEY_FILE='%s'\n" "$STATE/edge.key"
    [[ -z $postgres ]] || printf "SVC__POSTGRES__URL='%s'\n" "$postgres"
    [[ -z $redis ]] || printf "SVC__REDIS__URL='%s'\n" "$redis"
  } | write_secret "$EDGE_ENV"
}

# make_redis_user PASSWORD: makes the user of edges in the private Redis, and prints its URL; nothing where Redis is older than 7, which
# cannot tell who hears changes from who announces them.
make_redis_user() {
  local rules words
  rules=$("$PROGRAMS/admin" redis-acl --password-file "$STATE/edge-password") ||
    die "the rules of the edge's user in Redis could not be printed; the reason is above."
  read -ra words <<<"$rules"
  if [[ $(REDISCLI_AUTH=$(<"$STATE/redis/password") redis-cli -h 127.0.0.1 -p "$REDIS_PORT" acl setuser "${words[@]}") != OK ]]; then
    say "this Redis is older than version 7: the edge uses it as admin does"
  elif [[ $REDIS_SOCKET_URL == redis+unix://* ]]; then
    echo "${REDIS_SOCKET_URL%%\?*}?user=svc-edge&pass=$1"
  else
    echo "redis://svc-edge:$1@${REDIS_SOCKET_URL#*@}"
  fi
}
