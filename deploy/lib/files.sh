# shellcheck shell=bash
# Writes small files: secrets, and JSON that appears complete or not at all.

random_hex() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }

# write_secret FILE: writes standard input to it, readable by its owner alone; it appears complete or not at all.
write_secret() {
  (umask 077 && cat >"$1.new")
  mv "$1.new" "$1"
}

# quote_or_null TEXT: prints it as a JSON string, or null when it is empty.
quote_or_null() { if [[ -n $1 ]]; then quote "$1"; else printf null; fi; }

# quote TEXT: prints it as a JSON string.
quote() {
  local text=${1//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}
