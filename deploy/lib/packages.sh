# shellcheck shell=bash
# Sees to the Debian packages that the machine must have, and installs those that are missing.

# require_commands COMMAND=PACKAGE…: installs the packages whose command is not there.
# `postgres` stands for the server's programs, which Debian keeps out of the PATH; `venv` for the part of Python that makes
# environments, which is a package of its own.
require_commands() {
  local pair missing=()
  for pair in "$@"; do
    has_command "${pair%%=*}" || missing+=("${pair#*=}")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  install_packages "${missing[@]}"
  for pair in "$@"; do
    has_command "${pair%%=*}" || die "${pair#*=} is installed, yet ${pair%%=*} is not to be found."
  done
}

has_command() {
  case $1 in
    postgres) [[ -n $(postgres_bin) ]] ;;
    venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    # A service user's PATH may lack the folders of the administrator, where servers are installed.
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
  esac
}

# postgres_bin: prints the folder of the newest PostgreSQL server's programs; nothing when there is none.
postgres_bin() {
  local postgres
  postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
  if [[ -x $postgres ]]; then
    dirname "$postgres"
  elif postgres=$(command -v postgres); then
    dirname "$postgres"
  fi
}

install_packages() {
  command -v apt-get >/dev/null || die "these are missing, and this machine has no apt-get to install them: $*." \
    "Install them with the system's own package manager and try again."
  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || die "these packages are missing: $*." \
      "As root, run:  apt-get update && apt-get install --yes $*" "and try again."
    as_root=(sudo)
  fi
  say "installing $*"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    die "these packages could not be installed: $*; the reason is above." \
      "Once that is mended, try again; or as root, run:  apt-get update && apt-get install --yes $*"
  fi
  rm -f "$log"
}
