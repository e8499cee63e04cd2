//! `svc` end to end: the program as a person or a script runs it.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::world::{Site, World, process::program};

/// `svc` on a machine where nobody has signed in, in a folder of its own.
struct Shell {
    home: tempfile::TempDir,
    api: String,
    ca: std::path::PathBuf,
    token: Option<String>,
}

struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Shell {
    fn new(world: &World, token: Option<String>) -> Self {
        let home = tempfile::tempdir_in(world.folder()).unwrap();
        let api = format!("https://api.svc.localhost:{}", world.public_port());
        Self { home, api, ca: world.ca().to_owned(), token }
    }

    fn folder(&self) -> &Path {
        self.home.path()
    }

    fn write(&self, path: &str, body: &str) {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body).unwrap();
    }

    async fn run(&self, args: &[&str]) -> Outcome {
        let mut command = Command::new(program("svc"));
        command.args(args).current_dir(self.folder()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.folder()).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("SVC_API_URL", &self.api).env("SVC_CA_FILE", &self.ca);
        if let Some(token) = &self.token {
            command.env("SVC_TOKEN", token);
        }
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `svc --json …`, successfully; what it printed.
    async fn json(&self, args: &[&str]) -> Value {
        let outcome = self.run(&[&["--json"], args].concat()).await;
        assert_eq!(outcome.code, 0, "svc {args:?}: {}{}", outcome.out, outcome.err);
        serde_json::from_str(&outcome.out).unwrap_or_else(|e| panic!("svc {args:?}: {e}: {}", outcome.out))
    }

    /// Runs `svc …`, successfully; what it printed.
    async fn text(&self, args: &[&str]) -> String {
        let outcome = self.run(args).await;
        assert_eq!(outcome.code, 0, "svc {args:?}: {}{}", outcome.out, outcome.err);
        outcome.out
    }
}

async fn signed_in() -> (World, Shell) {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token);
    (world, shell)
}

#[tokio::test]
async fn a_folder_is_deployed_again_and_rolled_back() {
    let (world, shell) = signed_in().await;
    shell.write("dist/index.html", "one");
    shell.write("dist/assets/app.js", "let x;");
    shell.write("dist/draft.txt", "not yet");
    shell.write("dist/.svcignore", "draft.*\n");
    let url = world.site_url("engine");

    let out = shell.text(&["deploy", "dist", "--project", "engine"]).await;
    assert!(out.contains(&url), "{out}");
    assert!(!out.contains('\x1b'), "colours or bars without a terminal: {out}");
    world.edge().get(&url).await.assert_body(200, "one");
    world.edge().get(&format!("{url}/assets/app.js")).await.assert_body(200, "let x;");
    for hidden in ["draft.txt", ".svcignore"] {
        world.edge().get(&format!("{url}/{hidden}")).await.assert_status(404);
    }

    shell.write("dist/index.html", "two");
    let deployed = shell.json(&["deploy", "dist", "--project", "engine"]).await;
    assert_eq!(deployed["url"], url);
    world.edge().get(&url).await.assert_body(200, "two");

    shell.json(&["rollback", "--project", "engine"]).await;
    world.edge().get(&url).await.assert_body(200, "one");
    let second = deployed["deployment_id"].as_str().unwrap();
    shell.json(&["rollback", second, "--project", "engine"]).await;
    world.edge().get(&url).await.assert_body(200, "two");

    let deployments = shell.json(&["deployments", "--project", "engine"]).await;
    assert_eq!(deployments["deployments"].as_array().unwrap().len(), 2);
    assert!(deployments["deployments"][0]["cli_version"].is_string());
    let projects = shell.json(&["projects"]).await;
    assert_eq!(projects["projects"][0]["name"], "engine");
    assert_eq!(shell.json(&["whoami"]).await["vcs_login"], "ada");
}

#[tokio::test]
async fn a_file_that_a_symlink_leads_to_is_published() {
    let (world, shell) = signed_in().await;
    shell.write("docs/index.html", "<script src=jquery.js></script>");
    shell.write("javascript/jquery.js", "let $;");
    std::os::unix::fs::symlink("../javascript/jquery.js", shell.folder().join("docs/jquery.js")).unwrap();
    std::os::unix::fs::symlink("../javascript", shell.folder().join("docs/javascript")).unwrap();
    let deployed = shell.json(&["deploy", "docs", "--project", "engine"]).await;
    assert_eq!(deployed["files"], 2);
    assert!(deployed["linked"][0].as_str().unwrap().ends_with("/javascript/jquery.js"));
    assert_eq!(deployed["skipped"], serde_json::json!({ "symlink to a folder elsewhere": 1 }));
    let url = world.site_url("engine");
    world.edge().get(&format!("{url}/jquery.js")).await.assert_body(200, "let $;");
    world.edge().get(&format!("{url}/javascript/jquery.js")).await.assert_status(404);
}

#[tokio::test]
async fn a_file_is_shared_and_taken_back() {
    let (world, shell) = signed_in().await;
    shell.write("report.html", "<h1>report</h1>");
    let share = shell.json(&["share", "report.html", "--ttl", "1"]).await;
    let url = share["url"].as_str().unwrap();
    world.edge().get(url).await.assert_body(200, "<h1>report</h1>");
    assert_eq!(shell.json(&["shares"]).await["shares"][0]["url"], url);
    shell.text(&["shares", "rm", url]).await;
    world.edge().get(url).await.assert_status(404);

    let share = shell.json(&["share", "report.html", "--password", "hunter22"]).await;
    let url = share["url"].as_str().unwrap();
    world.edge().get(url).await.assert_status(401);
    let name = url.trim_start_matches("https://").split('.').next().unwrap();
    shell.text(&["shares", "rm", name]).await;
    world.edge().get(url).await.assert_status(404);

    shell.write("site/index.html", "a whole site");
    shell.write("site/more.html", "more");
    let share = shell.json(&["share", "site"]).await;
    let url = format!("{}/more", share["url"].as_str().unwrap());
    world.edge().get(&url).await.assert_body(200, "more");
}

#[tokio::test]
async fn failures_have_exit_codes_and_say_what_to_do() {
    let (world, shell) = signed_in().await;
    shell.write("dist/index.html", "one");
    let stranger = Shell::new(&world, None);
    let revoked = Shell::new(&world, Some(format!("svc_{}", "A".repeat(43))));
    world.user("eve").await.publish("taken", &Site::page("x")).await;
    let nowhere = Shell { api: "https://api.svc.localhost:1".to_owned(), ..Shell::new(&world, shell.token.clone()) };
    for (what, outcome, code) in [
        ("nonsense", shell.run(&["nonsense"]).await, 2),
        ("no such folder", shell.run(&["deploy", "nothing", "--project", "engine"]).await, 2),
        ("not signed in", stranger.run(&["whoami"]).await, 3),
        ("a dead token", revoked.run(&["whoami"]).await, 3),
        ("an unknown share", shell.run(&["shares", "rm", "no-such-share"]).await, 4),
        ("another's project", shell.run(&["deploy", "dist", "--project", "taken"]).await, 5),
        ("a bad ttl", shell.run(&["share", "dist", "--ttl", "31"]).await, 2),
        ("no service", nowhere.run(&["whoami"]).await, 7),
    ] {
        assert_eq!(outcome.code, code, "{what}: {}{}", outcome.out, outcome.err);
        assert!(!outcome.err.trim().is_empty(), "{what}: silence");
        assert!(!outcome.err.contains("panicked"), "{what}: {}", outcome.err);
    }
    let outcome = shell.run(&["--json", "shares", "rm", "no-such-share"]).await;
    assert_eq!(outcome.code, 4);
    let printed = if outcome.out.trim().is_empty() { &outcome.err } else { &outcome.out };
    let failure: Value = serde_json::from_str(printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
    assert_eq!(failure["error"]["code"], "not_found");
}

#[tokio::test]
async fn tokens_are_made_and_revoked() {
    let (world, shell) = signed_in().await;
    let created = shell.json(&["tokens", "create", "--label", "ci"]).await;
    let token = created["token"].as_str().unwrap().to_owned();
    let ci = Shell::new(&world, Some(token));
    assert_eq!(ci.json(&["whoami"]).await["vcs_login"], "ada");
    let listed = shell.json(&["tokens"]).await;
    assert_eq!(listed["tokens"][0]["label"], "ci");
    shell.text(&["tokens", "revoke", created["id"].as_str().unwrap()]).await;
    assert_eq!(ci.run(&["whoami"]).await.code, 3);
}

#[tokio::test]
async fn the_skill_and_the_completions_are_installed_offline() {
    let (_world, signed_in) = signed_in().await;
    let shell = Shell { api: "https://api.svc.localhost:1".to_owned(), token: None, ..signed_in };
    for shell_name in ["bash", "zsh", "fish"] {
        assert!(shell.text(&["completions", shell_name]).await.contains("rollback"));
    }
    let out = shell.text(&["skill", "install"]).await;
    let installed = out.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ':']));
    let file = installed.map(|word| shell.folder().join(word.trim_start_matches("~/"))).find(|path| path.is_file());
    let skill = std::fs::read_to_string(file.unwrap_or_else(|| panic!("no file is named: {out}"))).unwrap();
    assert!(skill.contains("svc share"), "{skill}");
}
