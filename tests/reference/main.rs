//! The pages of `docs/reference` that are made from the code: error codes, metrics, limits and the HTTP API.
//!
//! `SVC_WRITE_DOCS=1 cargo test -p reference` writes them; without the variable a page that is not current fails its test.
//! Configuration keys are written by the crate `config`, the commands of `svc` by the crate `cli`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod api;
mod errors;
mod limits;
mod metrics;
mod pages;
mod source;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Writes a page of `docs/reference`, or fails when it is not `wanted`.
fn hold(page: &str, wanted: &str) {
    let path = root().join("docs/reference").join(page);
    if std::env::var_os("SVC_WRITE_DOCS").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    let is_current = fs::read_to_string(&path).unwrap_or_default() == wanted;
    assert!(is_current, "docs/reference/{page} is not current; write it by SVC_WRITE_DOCS=1 cargo test -p reference");
}

/// The words of a cell of a table: on one line, without the links of rustdoc and the pipes of tables.
fn cell(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace("[`", "`").replace("`]", "`").replace('|', "\\|").replace('<', "&lt;")
}
