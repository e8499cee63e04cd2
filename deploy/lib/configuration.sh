# shellcheck shell=bash
# What identifies this instance: its ports, its svc.toml, its up.json.

# setting KEY DEFAULT: a configuration key's value in the environment, which the programs read too; otherwise the default.
setting() {
  local variable="SVC__${1^^}"
  variable=${variable//./__}
  printf '%s' "${!variable:-$2}"
}

# Ports stay the same from run to run while they are free, so that addresses and bookmarks stay valid.
choose_ports() {
  local https=8443 http=8080 admin=8081 postgres=5442 redis=6389
  # shellcheck source=/dev/null
  [[ ! -f $STATE/ports ]] || . "$STATE/ports"
  if [[ -n ${SVC__EDGE__LISTEN_HTTPS:-} ]]; then
    HTTPS_PORT=${SVC__EDGE__LISTEN_HTTPS##*:}
  else
    choose_port "$https" && HTTPS_PORT=$PORT
  fi
  if [[ -n ${SVC__EDGE__LISTEN_HTTP:-} ]]; then
    HTTP_PORT=${SVC__EDGE__LISTEN_HTTP##*:}
  else
    choose_port "$http" && HTTP_PORT=$PORT
  fi
  choose_port "$admin" && ADMIN_PORT=$PORT
  choose_port "$postgres" && POSTGRES_PORT=$PORT
  choose_port "$redis" && REDIS_PORT=$PORT
  printf '%s=%s\n' https "$HTTPS_PORT" http "$HTTP_PORT" admin "$ADMIN_PORT" postgres "$POSTGRES_PORT" \
    redis "$REDIS_PORT" >"$STATE/ports"
}

# Plans are paid with play money unless the environment names another provider. The seller is as made up as the money, so
# only play money gets it.
billing_configuration() {
  local provider
  provider=$(setting billing.provider play)
  printf '[billing]\nprovider = "%s"\n' "$provider"
  [[ $provider == play ]] || return 0
  cat <<'TOML'

[billing.seller]
name = "Play Money (nobody sells anything)"
address = ["1 Example Street"]
postcode = "1234 AB"
city = "Exampletown"
country = "NL"
vat_number = "NL000000000B00"
registration = "00000000"
TOML
}

write_configuration() {
  SITE_DOMAIN=$(setting site.site_domain svc.localhost)
  SHARE_DOMAIN=$(setting site.share_domain share.localhost)
  BASE_URL=$(setting site.base_url "https://api.$SITE_DOMAIN:$HTTPS_PORT")
  AI_URL=$(setting site.ai_url "https://ai.$SITE_DOMAIN:$HTTPS_PORT")
  CONSOLE_URL=$(setting site.console_url "https://app.$SITE_DOMAIN:$HTTPS_PORT")
  ADMIN_LISTEN=$(setting admin.listen "127.0.0.1:$ADMIN_PORT")
  CONFIG_FILE=$STATE/svc.toml
  write_secret "$CONFIG_FILE" <<TOML
# Written by \`make up\` at every start. To change a key, set SVC__SECTION__KEY in the environment.
[site]
site_domain = "$SITE_DOMAIN"
share_domain = "$SHARE_DOMAIN"
base_url = "$BASE_URL"
ai_url = "$AI_URL"
console_url = "$CONSOLE_URL"
dns_target = "edge.$SITE_DOMAIN"

[postgres]
url = "$POSTGRES_URL"

[redis]
url = "$REDIS_SOCKET_URL"

[store]
url = "file://$STATE/store"

[edge]
listen_http = "127.0.0.1:$HTTP_PORT"
listen_https = "127.0.0.1:$HTTPS_PORT"
admin_upstreams = ["$ADMIN_LISTEN"]
http_mode = "serve"
spool = "$STATE/spool"
# Less than the guard waits for it.
drain_seconds = 10

[admin]
listen = "$ADMIN_LISTEN"
gateway_url = "https://127.0.0.1:$HTTPS_PORT"
$([[ ! -f $CONSOLE_DIST/index.html ]] || echo "console = \"$CONSOLE_DIST\"")

[code_host]
kind = "$CODE_HOST"
client_secret = "$(setting code_host.client_secret "$OPERATOR_SECRET")"

[acme]
# Names under localhost get certificates of this machine's own authority, as soon as they are attached.
issuer = "local"
local_dir = "$STATE/ca"
# Domains are looked at where this instance listens, not at the world's usual ports.
probe_port = $HTTPS_PORT
probe_http_port = $HTTP_PORT

[limits]
probe_allow_private = true

$(billing_configuration)

[secrets]
master_key_file = "$STATE/master.key"
$([[ -z $COUNTRIES_FILE ]] || printf '\n[stats]\ngeoip_file = "%s"\n' "$COUNTRIES_FILE")
TOML
}

# Written last: the file's existence says that everything is ready.
write_up_json() {
  write_secret "$STATE/up.json" <<JSON
{
  "base_url": $(quote "$BASE_URL"),
  "ai_url": $(quote "$AI_URL"),
  "console_url": $(quote "$CONSOLE_URL"),
  "site_domain": $(quote "$SITE_DOMAIN"),
  "share_domain": $(quote "$SHARE_DOMAIN"),
  "http_port": $HTTP_PORT,
  "https_port": $HTTPS_PORT,
  "ca_file": $(quote "$CA_FILE"),
  "token": $(quote_or_null "$TOKEN"),
  "login": $(quote_or_null "$LOGIN"),
  "postgres_url": $(quote "$POSTGRES_URL"),
  "redis_url": $(quote "$REDIS_URL"),
  "config_file": $(quote "$CONFIG_FILE"),
  "pids": { "edge": $EDGE_PID, "admin": $ADMIN_PID },
  "operator_secret": $(quote_or_null "$OPERATOR_SECRET")
}
JSON
}
