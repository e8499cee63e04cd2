//! Tests what `svc` sends and prints, against a stub of the API. The black-box tests use the real service.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod people;
mod stub;
mod terminal;

use std::{path::Path, process::Stdio};

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    people::completed,
    stub::{TOKEN, World, document, error, json, project, stderr, uploaded},
};

#[test]
fn an_upload_is_sent_again_under_the_same_key() {
    let world = World::start(|_, before| if before == 0 { error(503, "unavailable") } else { uploaded() });
    let output = world.svc(&["share", &world.page(), "--ttl", "3", "--password", "pässword"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "https://a-b-c.share.localhost\n");
    let told = stderr(&output);
    assert!(told.contains("_redirects line 3") && told.contains("Live on 2 of 3 edges in 9 ms"), "{told}");

    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    assert!(!seen[0].header("idempotency-key").is_empty());
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!((&seen[0].method, seen[0].path.as_str()), (&Method::POST, "/shares?ttl=3"));
    assert_eq!(seen[0].header("content-type"), "application/gzip");
    assert_eq!(seen[0].header("content-length"), seen[0].body.len().to_string());
    assert_eq!(seen[0].header("x-svc-cli-version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(seen[0].header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(seen[0].headers["x-svc-share-password"].as_bytes(), "pässword".as_bytes());
}

#[test]
fn a_busy_service_is_asked_again_only_so_often() {
    let world = World::start(|_, _| {
        let mut response = error(429, "rate_limit_exceeded");
        response.headers_mut().insert("retry-after", "0".parse().unwrap());
        response
    });
    let output = world.svc(&["projects"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(world.seen().len(), 4);
}

#[test]
fn a_long_wait_is_told_instead_of_waited_for() {
    let world = World::start(|_, _| {
        let mut response = error(429, "rate_limit_exceeded");
        response.headers_mut().insert("retry-after", "600".parse().unwrap());
        response
    });
    let output = world.svc(&["projects"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(world.seen().len(), 1);
    assert!(stderr(&output).contains("600 seconds"));
}

#[test]
fn a_refusal_is_one_json_document_with_the_next_step() {
    let world = World::start(|_, _| error(401, "unauthorized"));
    let output = world.svc(&["--json", "projects"]);
    assert_eq!(output.status.code(), Some(3));
    let error = &document(&output)["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!("unauthorized"), &json!("The reason.")));
    assert!(error["hint"].as_str().unwrap().contains("svc login"));
}

#[test]
fn every_kind_of_failure_keeps_its_exit_code_and_is_json() {
    let world = World::start(|_, _| error(404, "not_found"));
    let missing = world.svc(&["--json", "shares", "rm", "a-b-c"]);
    assert_eq!((missing.status.code(), document(&missing)["error"]["code"].clone()), (Some(4), json!("not_found")));

    let misused = world.svc(&["--json", "share", &world.page(), "--ttl", "31"]);
    assert_eq!((misused.status.code(), document(&misused)["error"]["code"].clone()), (Some(2), json!("usage")));

    let signed_out = world.command(&["--json", "projects"]).output().unwrap();
    assert_eq!(
        (signed_out.status.code(), document(&signed_out)["error"]["code"].clone()),
        (Some(3), json!("not_signed_in"))
    );

    let nobody = world
        .command(&["--json", "whoami"])
        .env("SVC_API_URL", "http://127.0.0.1:1")
        .env("SVC_TOKEN", TOKEN)
        .output()
        .unwrap();
    assert_eq!((nobody.status.code(), document(&nobody)["error"]["code"].clone()), (Some(7), json!("unreachable")));
}

#[test]
fn deploying_creates_the_project_that_is_not_there() {
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::GET, "/projects/manual") => error(404, "not_found"),
        (&Method::POST, "/projects") => json(201, &project("manual")),
        (&Method::POST, "/projects/manual/deployments") => uploaded(),
        _ => error(500, "internal"),
    });
    let output = world.svc(&["--json", "deploy", &world.page(), "--project", "manual", "--save"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let deployed = document(&output);
    assert_eq!(
        (&deployed["created"], &deployed["files"], &deployed["project"]),
        (&json!(true), &json!(1), &json!("manual"))
    );
    assert_eq!(deployed["propagation"], json!({"acknowledged": 2, "edges": 3, "milliseconds": 9}));

    let seen = world.seen();
    let created: Value = serde_json::from_slice(&seen[1].body).unwrap();
    assert_eq!(created, json!({"name": "manual"}));
    assert_eq!(std::fs::read_to_string(world.home.path().join(".svcproject")).unwrap(), "manual\n");
}

#[test]
fn a_taken_name_asks_for_another() {
    let world = World::start(|seen, _| match seen.method {
        Method::GET => error(404, "not_found"),
        _ => error(409, "name_taken"),
    });
    let output = world.svc(&["deploy", &world.page(), "--project", "manual"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(stderr(&output).contains("choose another"));
}

#[test]
fn logging_in_waits_slows_down_and_saves_the_token() {
    let world = World::start(|seen, before| match (seen.path.as_str(), before) {
        ("/auth/device", _) => json(
            201,
            &json!({
                "device_code": "secret", "user_code": "ABCD-1234", "verification_uri": "https://x.localhost/device",
                "expires_in": 900, "interval": 0,
            }),
        ),
        ("/auth/device/poll", 1) => error(400, "authorization_pending"),
        ("/auth/device/poll", _) => json(200, &json!({"token": TOKEN})),
        ("/me", _) => json(
            200,
            &json!({
                "id": "usr_0123456789abcdefghij", "vcs_id": "1", "vcs_login": "ann", "email": null,
                "token_kind": "cli", "org": null, "created_at": "2026-01-01T00:00:00Z",
            }),
        ),
        _ => error(500, "internal"),
    });
    let output = world.command(&["login"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(
        told.contains("ABCD-1234") && told.contains("https://x.localhost/device") && told.contains("ann"),
        "{told}"
    );
    assert!(!told.contains(TOKEN));

    let file = world.home.path().join(".config/svc/credentials.json");
    assert!(private(&file));
    let whoami = world.command(&["whoami"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&whoami.stdout), "ann\n");

    assert!(world.command(&["logout"]).output().unwrap().status.success());
    assert_eq!(world.command(&["whoami"]).output().unwrap().status.code(), Some(3));
}

#[test]
fn a_denied_login_says_so() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/auth/device" => json(
            201,
            &json!({
                "device_code": "secret", "user_code": "ABCD-1234", "verification_uri": "https://x.localhost/device",
                "expires_in": 900, "interval": 0,
            }),
        ),
        _ => error(403, "access_denied"),
    });
    let output = world.command(&["--json", "login"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(document(&output)["error"]["code"], "access_denied");
}

#[test]
fn lists_follow_their_pages() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects" => json(200, &json!({"projects": [project("one")], "next_cursor": "a b"})),
        "/projects?cursor=a+b" => json(200, &json!({"projects": [project("two")], "next_cursor": null})),
        _ => error(500, "internal"),
    });
    let names: Vec<Value> = document(&world.svc(&["--json", "projects"]))["projects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| project["name"].clone())
        .collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let world = World::start(|_, _| json(200, &json!({"projects": [project("one")], "next_cursor": null})));
    let mut child = world
        .command(&["projects"])
        .env("SVC_TOKEN", TOKEN)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_skill_and_completions_need_no_service() {
    let world = World::start(|_, _| error(500, "internal"));
    assert!(world.svc(&["skill", "install"]).status.success());
    let skill = std::fs::read_to_string(world.home.path().join(".claude/skills/svc-share/SKILL.md")).unwrap();
    assert!(skill.starts_with("---\nname: svc-share\n"));
    for shell in ["bash", "zsh", "fish"] {
        let script = world.svc(&["completions", shell]).stdout;
        assert!(String::from_utf8_lossy(&script).contains("COMPLETE"), "{shell}");
    }
    assert!(completed(&world, &["roll"]).contains("rollback"));
    assert!(world.seen().is_empty());
}

#[cfg(unix)]
fn private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777 == 0o600
}

#[cfg(not(unix))]
fn private(file: &Path) -> bool {
    file.is_file()
}
