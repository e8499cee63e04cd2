# shellcheck shell=bash
# Prints messages on standard error, so that standard output stays free for results.

say() { printf '%s\n' "svc: $*" >&2; }

die() {
  printf '%s\n' "svc: $1" >&2
  shift
  local line
  for line in "$@"; do printf '%s\n' "     $line" >&2; done
  exit 1
}
