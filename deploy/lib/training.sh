# shellcheck shell=bash
# Trains the build of the edge: a first one counts what it does under a load, and the compiler then makes that fast. What that
# brings stands in bench/notes/2026-11-27-trained-edge.md.

# build_trained_edge TARGET: has an edge built, trained by the load of the bench, which is to be among the release builds in
# Cargo's folder TARGET. Sets TRAINED_EDGE. Fails when it cannot be trained; the reason is said.
build_trained_edge() {
  local target=$1 tool profile
  [[ $(nproc) -ge 2 ]] || { say "the edge cannot be trained: the load needs a second core" && return 1; }
  tool=$(profile_merger) || { say "the edge cannot be trained: llvm-profdata is missing" && return 1; }
  # Cargo does not look into a profile, so another one has another name.
  profile=$target/training/$(training_sources).profdata
  if [[ ! -f $profile ]]; then
    require_commands wrk=wrk h2load=nghttp2-client taskset=util-linux setpriv=util-linux
    say "building an edge that counts what it does"
    build_edge "$target/training" "-Cprofile-generate=$target/training/counts" || return 1
    # Programs that ran for the build have counted, too.
    rm -rf "$target/training/counts" "$target/training"/*.profdata
    say "putting a load on it, for half a minute"
    SVC_CARGO_PROFILE=release "$target/release/bench" train "$target/training/release/edge" || return 1
    "$tool" merge --output "$profile.new" "$target/training/counts" && mv "$profile.new" "$profile" || return 1
  fi
  say "building the edge by what was counted"
  build_edge "$target/trained" "-Cprofile-use=$profile" || return 1
  TRAINED_EDGE=$target/trained/release/edge
}

# build_edge TARGET FLAG: builds it with a flag of the compiler's, apart from the builds without. Cargo leaves flags of its
# configuration out beside those of the environment.
build_edge() {
  RUSTFLAGS="${RUSTFLAGS:-} $2" SQLX_OFFLINE=true \
    cargo build --locked --release --package edge --bin edge --target-dir "$1"
}

# Prints the path of the llvm-profdata that reads what programs of this compiler count; it is LLVM's of the same version.
profile_merger() {
  local major
  major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  find_profile_merger "$major" && return
  command -v apt-get >/dev/null && (install_packages "llvm-$major") && find_profile_merger "$major" && return
  say "it comes with: rustup component add llvm-tools"
  return 1
}

find_profile_merger() {
  local tool
  for tool in "$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-profdata "/usr/lib/llvm-$1/bin/llvm-profdata"; do
    [[ ! -x $tool ]] || { printf '%s\n' "$tool" && return; }
  done
  return 1
}

# Prints a hash of the compiler, of everything that the edge is built from, and of the load.
training_sources() {
  {
    rustc -vV
    (cd "$REPO" && find Cargo.toml Cargo.lock .sqlx edge common bench/src -type f -print0 | LC_ALL=C sort --zero-terminated | xargs --null sha256sum)
  } | sha256sum | cut -c 1-16
}
