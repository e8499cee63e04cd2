# shellcheck shell=bash
# Cargo: that it is there, and where its builds are.

# cargo is never installed by us: how it is kept up to date is its user's choice.
require_rust() {
  command -v cargo >/dev/null || die "cargo is not on the PATH." \
    "Install Rust from https://rustup.rs (or Debian's rustup), open a new shell, and try again."
}

# Prints the folder of Cargo's builds. The caller is in the repository.
target_folder() { cargo metadata --no-deps --format-version 1 --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'; }
