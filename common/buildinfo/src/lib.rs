//! The commit that a program was built from, set by its build script.
//!
//! A program shows it in `--version`, in the metric `svc_build_info` and in its first log line. Only the programs' own
//! packages depend on this crate, so that a commit rebuilds nothing else.

use std::{path::Path, process::Command};

/// The variable that names the commit when there is no repository, as in a build from an archive.
const VARIABLE: &str = "SVC_BUILD_COMMIT";
const DIGITS: &str = "12";
/// The commit of a development build. The real one would recompile every program after each commit.
const DEVELOPMENT: &str = "development";
/// The commit when neither the variable nor git provides one.
const UNKNOWN: &str = "unknown";

/// Sets `env!("SVC_COMMIT")` and `env!("SVC_VERSION")` (`0.1.0 (0123456789ab)`) for the package being compiled, and
/// tells Cargo when to run the build script again. Call it from the build script of a program.
#[expect(clippy::print_stdout, reason = "this is how a build script talks to Cargo")]
pub fn emit() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let commit = commit(variable(VARIABLE), is_release, git);
    if is_release {
        // Grows with every commit and checkout.
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=SVC_COMMIT={commit}");
    println!("cargo::rustc-env=SVC_VERSION={version} ({commit})");
}

fn commit(given: Option<String>, is_release: bool, git: impl Fn(&[&str]) -> Option<String>) -> String {
    if let Some(given) = given {
        return given.chars().filter(char::is_ascii_graphic).collect();
    }
    if !is_release {
        return DEVELOPMENT.to_owned();
    }
    git(&["rev-parse", &format!("--short={DIGITS}"), "HEAD"]).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_first_and_only_a_release_asks_git() {
        let git = |_: &[&str]| Some("0123456789ab".to_owned());
        assert_eq!(commit(Some("v1.2\n".to_owned()), false, git), "v1.2");
        assert_eq!(commit(None, true, git), "0123456789ab");
        assert_eq!(commit(None, false, git), DEVELOPMENT);
        assert_eq!(commit(None, true, |_| None), UNKNOWN);
    }
}
