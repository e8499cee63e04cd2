//! `svc` end to end: the program as a person or a script runs it.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::world::{Site, World, process::program};

/// `svc` on a machine where nobody has signed in, in a folder of its own.
pub(crate) struct Shell {
    home: tempfile::TempDir,
    api: String,
    ca: std::path::PathBuf,
    token: Option<String>,
}

pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Shell {
    pub(crate) fn new(world: &World, token: Option<String>) -> Self {
        let home = tempfile::tempdir_in(world.folder()).unwrap();
        let api = format!("https://api.svc.localhost:{}", world.public_port());
        Self { home, api, ca: world.ca().to_owned(), token }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn write(&self, path: &str, body: &str) {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body).unwrap();
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Outcome {
        self.run_with(args, "").await
    }

    /// With something on stdin.
    pub(crate) async fn run_with(&self, args: &[&str], input: &str) -> Outcome {
        let output = self.output(args, input).await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// With something on stdin; what was printed need not be text.
    pub(crate) async fn output(&self, args: &[&str], input: &str) -> Output {
        let stdin = self.folder().join(".stdin");
        std::fs::write(&stdin, input).unwrap();
        let mut command = Command::new(program("svc"));
        command.args(args).current_dir(self.folder()).stdin(std::fs::File::open(stdin).unwrap());
        command.env_clear().env("HOME", self.folder()).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("SVC_API_URL", &self.api).env("SVC_CA_FILE", &self.ca);
        if let Some(token) = &self.token {
            command.env("SVC_TOKEN", token);
        }
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs `svc --json …`, successfully; what it printed.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let outcome = self.run(&[&["--json"], args].concat()).await;
        assert_eq!(outcome.code, 0, "svc {args:?}: {}{}", outcome.out, outcome.err);
        serde_json::from_str(&outcome.out).unwrap_or_else(|e| panic!("svc {args:?}: {e}: {}", outcome.out))
    }

    /// Runs `svc …`, successfully; what it printed.
    pub(crate) async fn text(&self, args: &[&str]) -> String {
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
async fn what_is_left_out_and_what_was_perhaps_not_meant_is_said() {
    let (world, shell) = signed_in().await;
    for (path, body) in [
        ("site/web/index.html", "<script src=app.js></script>"),
        ("site/web/assets/node_modules/icons/font.ttf", "font"),
        ("site/.well-known/security.txt", "Contact: mailto:a@example.org"),
        ("site/.env", "A=b"),
        ("site/.npmrc", "token"),
        ("site/web/.htpasswd", "ada:x"),
        ("site/key.pem", "-----BEGIN PRIVATE KEY-----"),
        ("site/node_modules/a/index.js", "x"),
        ("site/.svcignore", "!.npmrc\n"),
    ] {
        shell.write(path, body);
    }
    let deployed = shell.run(&["deploy", "site", "--project", "engine"]).await;
    assert_eq!(deployed.code, 0, "{}{}", deployed.out, deployed.err);
    let left_out = deployed.err.lines().find(|line| line.contains("Left out")).unwrap_or_default();
    for name in [".env", "web/.htpasswd", "key.pem", "node_modules"] {
        assert!(left_out.contains(name), "{name}: {}", deployed.err);
    }
    assert!(deployed.err.contains("was `web` meant?"), "{}", deployed.err);
    assert!(deployed.err.contains("`.npmrc` is published"), "{}", deployed.err);
    assert!(!deployed.err.contains("Such lines have no effect"), "{}", deployed.err);
    let url = world.site_url("engine");
    let published = ["/web/assets/node_modules/icons/font.ttf", "/.well-known/security.txt", "/.npmrc"];
    for path in published {
        world.edge().get(&format!("{url}{path}")).await.assert_status(200);
    }
    for path in ["/.env", "/web/.htpasswd", "/key.pem", "/node_modules/a/index.js"] {
        world.edge().get(&format!("{url}{path}")).await.assert_status(404);
    }
    shell.write("site/index.html", "home");
    shell.write("site/_headers", "nonsense\n");
    let deployed = shell.run(&["deploy", "site", "--project", "engine"]).await;
    assert!(deployed.err.contains("Such lines have no effect"), "{}", deployed.err);
    assert!(!deployed.err.contains("meant?"), "{}", deployed.err);
}

#[tokio::test]
async fn a_file_that_a_symlink_leads_to_is_published() {
    let (world, shell) = signed_in().await;
    shell.write("docs/index.html", "<script src=jquery.js></script>");
    shell.write("javascript/jquery.js", "let $;");
    std::os::unix::fs::symlink("../javascript/jquery.js", shell.folder().join("docs/jquery.js")).unwrap();
    std::os::unix::fs::symlink("../javascript", shell.folder().join("docs/javascript")).unwrap();
    let refused = shell.run(&["deploy", "docs", "--project", "engine"]).await;
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("jquery.js") && refused.err.contains("--follow"), "{}", refused.err);
    let deployed = shell.json(&["deploy", "docs", "--follow", "--project", "engine"]).await;
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

    // Another file is what `/` answers, under its own name and type; an archive is what it holds.
    shell.write("q 1.pdf", "%PDF-1.4");
    let share = shell.json(&["share", "q 1.pdf"]).await;
    let url = share["url"].as_str().unwrap();
    for url in [url.to_owned(), format!("{url}/q%201.pdf")] {
        let answer = world.edge().get(&url).await.assert_body(200, "%PDF-1.4");
        assert_eq!(answer.header("content-type"), "application/pdf");
    }
    std::fs::write(shell.folder().join("site.tar.gz"), Site::page("packed").tarball()).unwrap();
    let share = shell.json(&["share", "site.tar.gz"]).await;
    world.edge().get(share["url"].as_str().unwrap()).await.assert_body(200, "packed");
    shell.write(".env", "SECRET=1");
    for command in [&["share", ".env"][..], &["deploy", ".env", "--project", "secret"]] {
        let refused = shell.run(command).await;
        assert!(refused.code != 0 && refused.err.contains("--anyway"), "{}", refused.err);
    }
    shell.json(&["share", ".env", "--anyway"]).await;

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
async fn a_keys_monthly_limit_is_set_in_euros() {
    let (_world, shell) = signed_in().await;
    let key = shell.json(&["tokens", "create", "--kind", "ai", "--monthly-limit", "5.00"]).await;
    assert_eq!(key["monthly_limit_cents"], 500);
    let id = key["id"].as_str().unwrap();
    assert!(shell.text(&["tokens"]).await.contains("€0.00 of €5.00"));
    assert_eq!(shell.json(&["tokens", "limit", id, "7.5"]).await["monthly_limit_cents"], 750);
    assert_eq!(shell.json(&["tokens", "limit", id, "none"]).await["monthly_limit_cents"], Value::Null);
    assert_eq!(shell.run(&["tokens", "limit", id, "1,50"]).await.code, 2);
    assert_eq!(shell.run(&["tokens", "limit", "tok_00000000000000000000", "1"]).await.code, 4);
    shell.json(&["orgs", "create", "analytical"]).await;
    let of_org = shell.json(&["ai", "key", "create", "--org", "analytical", "--monthly-limit", "2"]).await;
    let id = of_org["id"].as_str().unwrap();
    let limited = shell.json(&["tokens", "limit", id, "3", "--org", "analytical"]).await;
    assert_eq!((&limited["monthly_limit_cents"], &limited["created_by"]), (&json!(300), &json!("ada")));
    assert_eq!(shell.json(&["ai", "limit", "20", "--org", "analytical"]).await["monthly_limit_cents"], 2_000);
    assert!(shell.text(&["ai", "limit", "--org", "analytical"]).await.contains("€0.00 of €20.00"));
    assert_eq!(shell.json(&["ai", "limit", "none", "--org", "analytical"]).await["monthly_limit_cents"], Value::Null);
}

#[tokio::test]
async fn models_are_given_names() {
    let (_world, shell) = signed_in().await;
    let alias = "claude-*=svc/qwen3-32b";
    let named = shell.json(&["ai", "aliases", alias, "gpt-5=svc/gpt-oss-20b"]).await;
    assert_eq!(named["aliases"][0], json!({ "name": "claude-*", "model": "svc/qwen3-32b" }));
    assert!(shell.text(&["ai", "aliases"]).await.contains("gpt-5"));
    assert_eq!(shell.json(&["ai", "aliases", "none"]).await, json!({ "aliases": [] }));
    assert_eq!(shell.run(&["ai", "aliases", "claude-*"]).await.code, 2);
    shell.json(&["orgs", "create", "analytical"]).await;
    let of_org = shell.json(&["ai", "aliases", alias, "--org", "analytical"]).await;
    assert_eq!(of_org["aliases"][0]["model"], "svc/qwen3-32b");
}

#[tokio::test]
async fn the_skill_and_the_completions_are_installed_offline() {
    let (_world, signed_in) = signed_in().await;
    let shell = Shell { api: "https://api.svc.localhost:1".to_owned(), token: None, ..signed_in };
    for shell_name in ["bash", "zsh", "fish"] {
        assert!(shell.text(&["completions", shell_name]).await.contains("COMPLETE"));
    }
    let out = shell.text(&["skill", "install"]).await;
    let installed = out.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ':']));
    let file = installed.map(|word| shell.folder().join(word.trim_start_matches("~/"))).find(|path| path.is_file());
    let skill = std::fs::read_to_string(file.unwrap_or_else(|| panic!("no file is named: {out}"))).unwrap();
    assert!(skill.contains("svc share"), "{skill}");
}

#[tokio::test]
async fn variables_are_set_from_stdin_read_and_pulled() {
    let (world, shell) = signed_in().await;
    let ada = world.nobody().with_token(shell.token.as_deref().unwrap());
    ada.create_project("engine").await;
    let env = |rest: &[&'static str]| [&["env"], rest, &["--project", "engine"]].concat();
    let told = shell.text(&env(&["set", "PLAIN", "-x=1"])).await;
    assert!(!told.contains("-x=1"), "{told}");
    // As in a shell; whoever says nothing of a scope means every reader, and a scope that was said stays.
    let told = shell.run(&env(&["set", "SHELL_WAY=a=b", "--scope", "runtime"])).await;
    assert!(told.err.contains("for what runs") && told.err.contains("svc env pull"), "{}", told.err);
    shell.text(&env(&["set", "SHELL_WAY=c=d"])).await;
    let set = ada.get("/projects/engine/env").await.ok()["env"][0].clone();
    assert_eq!(set, serde_json::json!({ "key": "SHELL_WAY", "value": "c=d", "scope": "runtime" }));
    assert_eq!(shell.run(&env(&["set", "SHELL_WAY=1", "2"])).await.code, 2);
    shell.text(&env(&["rm", "SHELL_WAY"])).await;
    let piped = shell.run_with(&env(&["set", "SECRET", "--scope", "build"]), "two words\nand a line\n").await;
    assert_eq!(piped.code, 0, "{}", piped.err);
    assert!(!piped.err.contains("two words"), "{}", piped.err);
    shell.write("key.pem", "-----BEGIN-----\n\"$x\"\n");
    shell.text(&env(&["set", "PEM", "--file", "key.pem"])).await;

    let stored = ada.get("/projects/engine/env").await.ok();
    assert_eq!(shell.json(&env(&[])).await["env"].as_array().unwrap().len(), 3);
    for variable in [
        serde_json::json!({ "key": "PLAIN", "value": "-x=1", "scope": "both" }),
        serde_json::json!({ "key": "SECRET", "value": "two words\nand a line", "scope": "build" }),
        serde_json::json!({ "key": "PEM", "value": "-----BEGIN-----\n\"$x\"\n", "scope": "both" }),
    ] {
        assert!(stored["env"].as_array().unwrap().contains(&variable), "{stored}");
    }
    let table = shell.text(&env(&["list"])).await;
    assert!(table.contains("SECRET") && !table.contains("two words"), "{table}");
    assert!(shell.text(&env(&["list", "--values"])).await.contains("two words"));
    assert_eq!(shell.text(&env(&["get", "PLAIN"])).await, "-x=1\n");

    shell.text(&env(&["pull"])).await;
    let file = shell.folder().join(".env");
    let dotenv = "PEM=\"-----BEGIN-----\\n\\\"\\$x\\\"\\n\"\nPLAIN=-x=1\nSECRET=\"two words\\nand a line\"\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), dotenv);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(shell.run(&env(&["pull"])).await.code, 2, "an existing file is not replaced");
    shell.text(&env(&["pull", "--yes"])).await;
    assert_eq!(shell.text(&env(&["pull", "-"])).await, dotenv);

    shell.text(&env(&["rm", "PLAIN"])).await;
    for (args, code) in [
        (env(&["rm", "PLAIN"]), 4),
        (env(&["get", "PLAIN"]), 4),
        (env(&["set", "1BAD", "x"]), 2),
        (vec!["env", "list", "--project", "nothing"], 4),
    ] {
        let outcome = shell.run(&args).await;
        assert_eq!(outcome.code, code, "svc {args:?}: {}{}", outcome.out, outcome.err);
        assert!(!outcome.err.is_empty(), "svc {args:?}: silence");
    }
}

#[tokio::test]
async fn a_project_is_moved_gated_audited_and_removed() {
    let (world, shell) = signed_in().await;
    let ada = world.nobody().with_token(shell.token.as_deref().unwrap());
    ada.create_org("acme").await;
    shell.write("dist/index.html", "hello");
    let deployed = shell.json(&["deploy", "dist", "--project", "engine"]).await;
    assert_eq!(deployed["created"], true);
    let refused = shell.run(&["access", "org", "--project", "engine"]).await;
    assert!(refused.code == 1 && refused.err.contains("svc transfer"), "{}", refused.err);
    let moved = shell.json(&["transfer", "acme", "--project", "engine"]).await;
    assert_eq!(moved["project"]["org"], "acme");
    assert_eq!(shell.json(&["projects", "list", "--org", "acme"]).await["projects"][0]["name"], "engine");
    assert_eq!(shell.json(&["projects"]).await["projects"], serde_json::json!([]));
    assert_eq!(shell.json(&["access", "org", "--project", "engine"]).await["mode"], "org");
    assert!(shell.text(&["access", "--project", "engine"]).await.contains("members"));
    let refused = shell.run(&["transfer", "--personal", "--project", "engine"]).await;
    assert!(refused.code == 1 && refused.err.contains("svc access public"), "{}", refused.err);
    shell.text(&["access", "public", "--project", "engine"]).await;
    assert_eq!(shell.run(&["transfer", "nowhere", "--project", "engine"]).await.code, 4);
    assert_eq!(shell.run(&["transfer", "--project", "engine"]).await.code, 2, "where to?");

    let log = shell.json(&["audit", "--project", "engine", "--limit", "2"]).await;
    let actions: Vec<_> = log["entries"].as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["project.access", "project.access"]);
    let text = shell.text(&["audit", "--org", "acme"]).await;
    assert!(text.contains("project.transfer_in") && text.contains("ada") && text.contains("engine"), "{text}");
    assert_eq!(shell.run(&["audit", "--org", "nowhere"]).await.code, 4);
    let off = shell.run(&["notifications", "off", "domain-trouble"]).await;
    assert!(off.code == 0 && off.err.contains("no more letters about domains in trouble"), "{}", off.err);
    let letters = shell.text(&["notifications"]).await;
    assert!(letters.contains("token_created") && letters.contains("always") && letters.contains("no"), "{letters}");
    assert_eq!(shell.run(&["notifications", "off", "spam"]).await.code, 4);
    assert_eq!(shell.run(&["notifications", "off", "token_created"]).await.code, 1);
    let own = shell.json(&["activity", "--limit", "1"]).await;
    assert_eq!(own["entries"][0]["action"], "letters.change");
    let text = shell.text(&["activity"]).await;
    assert!(text.contains("project.create") && text.contains("token.create") && text.contains("acme"), "{text}");

    assert_eq!(shell.json(&["transfer", "--personal", "--project", "engine"]).await["project"]["org"], Value::Null);
    shell.text(&["projects", "create", "other", "--org", "acme"]).await;
    let deployed = shell.json(&["deploy", "dist", "--project", "third", "--org", "acme"]).await;
    assert_eq!(deployed["created"], true);
    assert_eq!(shell.json(&["projects", "ls", "--org", "acme"]).await["projects"].as_array().unwrap().len(), 2);
    assert_eq!(shell.run(&["projects", "delete", "engine"]).await.code, 2, "it asks, and nobody is there");
    shell.text(&["projects", "delete", "engine", "--yes"]).await;
    world.edge().get(&world.site_url("engine")).await.assert_status(404);
    assert_eq!(shell.run(&["projects", "delete", "engine", "--yes"]).await.code, 4);
}
