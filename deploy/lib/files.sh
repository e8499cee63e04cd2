# shellcheck shell=bash
# Small files: secrets, and JSON that appears whole or not at all.

random_hex() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }

# Standard input becomes the file, readable by its owner alone, whole or not at all.
write_secret() {
  (umask 077 && cat >"$1.new")
  mv "$1.new" "$1"
}

# A JSON string.
quote() {
  local text=${1//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}
