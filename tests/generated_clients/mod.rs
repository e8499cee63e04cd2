//! Clients that public generators make of `openapi.json`: each publishes a folder, shares a page and reads statistics.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::Value;
use tokio::process::Command;

use crate::world::{World, tools};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.json");
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/generated_clients");
/// The console's packages, among which are a generator of TypeScript and the compiler.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../console/node_modules");

/// Runs a command, which must succeed, and returns what it prints.
async fn run(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Runs a client as a person named `login`, and visits what it published.
async fn publish(world: &World, login: &str, command: &mut Command) {
    let person = world.user(login).await;
    let api = format!("http://127.0.0.1:{}", world.admin_port);
    let printed = run(command.env("SVC_API", api).env("SVC_TOKEN", person.token.as_deref().unwrap())).await;
    let addresses: Value = serde_json::from_str(&printed).unwrap();
    for (published, wanted) in [("site", "from "), ("share", "shared from ")] {
        let page = world.person().visit(addresses[published].as_str().unwrap()).await;
        assert!(page.answer.text().starts_with(wanted), "{}", page.answer.text());
    }
}

#[tokio::test]
async fn a_generated_python_client_publishes_shares_and_reads_statistics() {
    let world = World::start().await;
    let folder = world.folder().join("python");
    fs::create_dir(&folder).unwrap();
    fs::copy(Path::new(HERE).join("client.py"), folder.join("client.py")).unwrap();
    let mut generator = tools::program("openapi-python-client");
    generator.args(["generate", "--path", DOCUMENT, "--meta", "none", "--output-path", "generated", "--config"]);
    // Formatting needs ruff on the path, and nobody reads this code.
    let told = run(generator.arg(Path::new(HERE).join("python.yaml")).current_dir(&folder)).await;
    assert!(!told.contains("will not be generated"), "{told}");
    publish(&world, "ada", tools::program("python3").arg("client.py").current_dir(&folder)).await;
}

#[tokio::test]
async fn a_generated_typescript_client_publishes_shares_and_reads_statistics() {
    let world = World::start().await;
    let folder = world.folder().join("typescript");
    fs::create_dir(&folder).unwrap();
    fs::copy(Path::new(HERE).join("client.ts"), folder.join("client.ts")).unwrap();
    fs::write(folder.join("package.json"), r#"{ "type": "module" }"#).unwrap();
    symlink(PACKAGES, folder.join("node_modules")).unwrap();
    let packaged = |program: &str| tools::node_file(&Path::new(PACKAGES).join(program));
    let mut generator = packaged("openapi-typescript/bin/cli.js");
    run(generator.args([DOCUMENT, "--output", "generated.d.ts"]).current_dir(&folder)).await;
    let mut compiler = packaged("typescript/bin/tsc");
    compiler.args(["--noEmit", "--strict", "--noUncheckedIndexedAccess", "--target", "esnext", "--module", "nodenext"]);
    compiler.args(["--types", "node", "--allowImportingTsExtensions", "client.ts"]);
    run(compiler.current_dir(&folder)).await;
    publish(&world, "bob", tools::node_file(Path::new("client.ts")).current_dir(&folder)).await;
}
