//! The commands in the documentation, run as a reader runs them: of each page the blocks marked `run`, one after the other, in a folder with
//! the repository's examples and what `make up` leaves in `.svc`. `tests/reference` sees to it that every other block says why it is not run.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::world::{World, process::program};

/// Defines a test for each page with commands, and the list of these pages.
macro_rules! pages {
    ($($name:ident = $page:literal;)*) => {
        const PAGES: &[&str] = &[$($page,)*];

        $(
            #[tokio::test]
            async fn $name() {
                run($page).await;
            }
        )*
    };
}

pages! {
    readme = "README.md";
    index = "docs/index.md";
    first_site = "docs/start/first-site.md";
    own_domain = "docs/start/own-domain.md";
    ci = "docs/start/ci.md";
    sites = "docs/guides/sites.md";
    shares = "docs/guides/shares.md";
    access = "docs/guides/access.md";
    teams = "docs/guides/teams.md";
    statistics = "docs/guides/statistics.md";
    ai_gateway = "docs/guides/ai-gateway.md";
    plans_and_bills = "docs/guides/plans-and-bills.md";
    api = "docs/guides/api.md";
    store = "docs/operate/store.md";
    observe = "docs/operate/observe.md";
    certificates = "docs/operate/certificates.md";
    make_up = "docs/operate/make-up.md";
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of a page that are to be run.
fn blocks(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let marked = text.split("\n```sh run").skip(1).filter_map(|rest| {
        let (mark, rest) = rest.split_once('\n')?;
        ["", " admin"].contains(&mark).then(|| rest.split("\n```").next().unwrap().to_owned())
    });
    marked.collect()
}

/// Runs a page's commands in an installation of its own.
async fn run(page: &str) {
    let blocks = blocks(&repository().join(page));
    assert!(!blocks.is_empty(), "{page} has no commands any more");
    let world = World::start().await;
    let ada = world.user("ada").await;
    let folder = world.folder().join("reader");
    prepare(&folder, &world, ada.token.as_deref().unwrap());
    for block in blocks {
        let block = block.replace(":8443", &format!(":{}", world.public_port()));
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &block]).current_dir(&folder).env_clear().env("HOME", &folder);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", folder.join(".svc/bin").display()));
        command.env("SVC_TOKEN", ada.token.as_deref().unwrap());
        let output = command.stdin(std::process::Stdio::null()).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{page}: {}:\n{block}\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
    }
}

/// Makes the folder in which a reader stands: the repository's, after `make up`.
fn prepare(folder: &Path, world: &World, token: &str) {
    fs::create_dir_all(folder.join(".svc/bin")).unwrap();
    fs::create_dir_all(folder.join(".svc/ca")).unwrap();
    symlink(world.ca(), folder.join(".svc/ca/ca.pem")).unwrap();
    for name in ["Makefile", "examples"] {
        let copied =
            std::process::Command::new("cp").arg("-R").arg(repository().join(name)).arg(folder).status().unwrap();
        assert!(copied.success(), "{name} is copied");
    }
    let client = vec![
        ("SVC_API_URL".to_owned(), format!("https://api.svc.localhost:{}", world.public_port())),
        ("SVC_AI_URL".to_owned(), format!("https://ai.svc.localhost:{}", world.public_port())),
        ("SVC_CA_FILE".to_owned(), world.ca().display().to_string()),
        ("SVC_TOKEN".to_owned(), token.to_owned()),
    ];
    for (name, settings) in [("svc", client), ("admin", world.settings()), ("certs", world.settings())] {
        let wrapper = folder.join(".svc/bin").join(name);
        let quoted = |value: &str| value.replace('\'', "'\\''");
        let lines: Vec<String> =
            settings.iter().map(|(key, value)| format!("export {key}='{}'\n", quoted(value))).collect();
        fs::write(&wrapper, format!("#!/bin/sh\n{}exec '{}' \"$@\"\n", lines.concat(), program(name).display()))
            .unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn every_page_with_commands_is_run() {
    let (mut folders, mut with_commands) = (vec![repository().join("docs")], vec!["README.md".to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") && !blocks(&path).is_empty() {
                with_commands.push(path.strip_prefix(repository()).unwrap().display().to_string());
            }
        }
    }
    with_commands.sort();
    let mut run = PAGES.to_vec();
    run.sort_unstable();
    assert_eq!(run, with_commands);
}
