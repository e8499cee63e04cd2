//! Tests of convenience: ids that suffice, names that are offered, and hints.

use axum::http::Method;
use serde_json::{Value, json};

use crate::stub::{Seen, TOKEN, World, document, error, json, project, stderr};

/// Returns the completions that a shell offers for the last of the words after `svc`.
pub(crate) fn completed(world: &World, words: &[&str]) -> String {
    let mut command = world.command(&["--", "svc"]);
    command.args(words).env("SVC_TOKEN", TOKEN).env("COMPLETE", "bash");
    let output = command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completions_know_the_names_of_what_there_is() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects?all=true" => json(200, &json!({ "projects": [project("manual")], "next_cursor": null })),
        "/orgs" => json(
            200,
            &json!({ "orgs": [{
                "name": "acme", "display_name": null, "role": "owner", "icon_url": null, "created_at": "2026-01-01T00:00:00Z",
            }], "next_cursor": null }),
        ),
        "/projects/manual/deployments?limit=20" => {
            let deployment = json!({
                "id": "dep_0123456789abcdefghij", "status": "superseded", "url": "https://x.localhost",
                "created_at": "2026-01-01T00:00:00Z", "files": 1, "bytes": 1, "cli_version": null, "git_sha": null,
                "created_by": null, "active": false,
            });
            json(200, &json!({ "deployments": [deployment], "next_cursor": null }))
        }
        _ => error(500, "internal"),
    });
    assert!(completed(&world, &["stats", "--project", ""]).contains("manual"));
    assert!(completed(&world, &["open", "man"]).contains("manual"));
    assert!(completed(&world, &["tokens", "--org", "a"]).contains("acme"));
    assert!(completed(&world, &["rollback", "--project", "manual", "dep_"]).contains("dep_0123456789abcdefghij"));
    // If the API cannot be queried, nothing is offered or printed.
    let nowhere = World::start(|_, _| error(401, "unauthorized"));
    assert!(!completed(&nowhere, &["stats", "--project", "m"]).contains("manual"));
}

#[test]
fn a_missing_project_is_a_mistake_that_names_those_there_are() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects?all=true" => {
            json(200, &json!({ "projects": [project("manual"), project("blog")], "next_cursor": null }))
        }
        _ => error(500, "internal"),
    });
    for command in [
        &["stats", "--audience"][..],
        &["stats"],
        &["audit"],
        &["rollback"],
        &["open"],
        &["env"],
        &["domains"],
        &["access"],
        &["repo"],
        &["deployments"],
        &["transfer", "acme"],
    ] {
        let output = world.svc(command);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {told}");
        assert!(told.contains("manual") && told.contains("blog"), "{command:?}: {told}");
        assert!(!told.contains("any name you like"), "{command:?}: {told}");
    }
    let deploy = stderr(&world.svc(&["deploy", &world.page()]));
    assert!(deploy.contains("any name you like"), "{deploy}");
}

#[test]
fn an_id_suffices_where_it_names_what_is_meant() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/deployments/dep_0123456789abcdefghij" => {
            json(200, &json!({ "id": "dep_0123456789abcdefghij", "project": "manual" }))
        }
        "/projects/manual/deployments/dep_0123456789abcdefghij/files" => {
            json(200, &json!({ "files": [], "next_cursor": null }))
        }
        "/projects/manual/deployments/dep_0123456789abcdefghij/changes" => json(
            200,
            &json!({ "against": null, "added": [], "changed": [], "removed": [], "added_files": 0,
                     "changed_files": 0, "removed_files": 0, "truncated": false }),
        ),
        "/projects/manual/deployments/dep_0123456789abcdefghij/activate" => {
            json(200, &json!({ "ok": true, "active_deployment_id": "dep_0123456789abcdefghij" }))
        }
        _ => error(404, "not_found"),
    });
    let id = "dep_0123456789abcdefghij";
    for command in [&["deployments", "files", id][..], &["deployments", "diff", id], &["rollback", id]] {
        let output = world.svc(command);
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    }
    // A deployment's own address names its project, so no request is made.
    let asked = world.seen().len();
    let address = "https://0123456789abcdefghij--manual.svc.localhost:8443/";
    assert!(world.svc(&["deployments", "files", address]).status.success());
    assert_eq!(world.seen().len(), asked + 1);
    let unknown = world.svc(&["rollback", "dep_00000000000000000000"]);
    assert_eq!(unknown.status.code(), Some(4));
    assert!(stderr(&unknown).contains("svc deployments --project"), "{}", stderr(&unknown));
}

#[test]
fn an_organization_is_named_before_or_after_what_is_done() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects?org=acme" => json(200, &json!({ "projects": [project("manual")], "next_cursor": null })),
        "/suspensions?org=acme" => json(200, &json!({ "suspensions": [], "next_cursor": null })),
        "/orgs/acme/tokens" => json(200, &json!({ "tokens": [], "next_cursor": null })),
        "/projects" => json(201, &project("manual")),
        _ => error(404, "not_found"),
    });
    for command in [
        &["projects", "--org", "acme"][..],
        &["projects", "list", "--org", "acme"],
        &["projects", "--org", "acme", "ls"],
        &["projects", "create", "manual", "--org", "acme"],
        &["projects", "--org", "acme", "create", "manual"],
        &["tokens", "--org", "acme"],
        &["tokens", "list", "--org", "acme"],
        &["ai", "keys", "--org", "acme"],
        &["ai", "keys", "list", "--org", "acme"],
    ] {
        let output = world.svc(command);
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    }
}

#[test]
fn all_projects_are_listed_with_their_owners() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects?all=true" => {
            let mut of_org = project("handbook");
            of_org["org"] = "acme".into();
            json(200, &json!({ "projects": [project("manual"), of_org], "next_cursor": null }))
        }
        "/suspensions" | "/suspensions?org=acme" => json(200, &json!({ "suspensions": [], "next_cursor": null })),
        _ => error(404, "not_found"),
    });
    for command in [&["projects", "--all"][..], &["projects", "list", "--all"]] {
        let list = String::from_utf8(world.svc(command).stdout).unwrap();
        let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!(line("NAME").contains("OWNER"), "{list}");
        assert!(line("manual").contains("you") && line("handbook").contains("acme"), "{list}");
    }
    assert_eq!(world.svc(&["projects", "--all", "--org", "acme"]).status.code(), Some(2));
}

#[test]
fn signing_out_ends_the_token_or_says_that_it_lives() {
    let signed_in = |world: &World| {
        let file = world.home.path().join(".config/svc/credentials.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let logins = json!({ "default_api": world.address, "logins": { world.address.clone(): { "token": TOKEN, "vcs_login": "ann" } } });
        std::fs::write(file, logins.to_string()).unwrap();
    };
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::GET, "/me") => json(
            200,
            &json!({
                "id": "usr_0123456789abcdefghij", "vcs_id": "1", "vcs_login": "ann", "email": null, "token_kind": "cli",
                "token_id": "tok_0123456789abcdefghij", "org": null, "created_at": "2026-01-01T00:00:00Z",
            }),
        ),
        (&Method::DELETE, "/tokens/tok_0123456789abcdefghij") => json(200, &json!({ "ok": true })),
        _ => error(404, "not_found"),
    });
    signed_in(&world);
    let output = world.command(&["--json", "logout"]).output().unwrap();
    assert_eq!(document(&output)["token_ended"], true, "{}", stderr(&output));
    assert!(world.seen().iter().any(|seen| seen.method == Method::DELETE));
    assert_eq!(world.command(&["whoami"]).output().unwrap().status.code(), Some(3));

    for answer in [|_: &Seen, _: usize| error(500, "internal"), |_: &Seen, _: usize| error(403, "forbidden")] {
        let world = World::start(answer);
        signed_in(&world);
        let output = world.command(&["logout"]).output().unwrap();
        assert!(output.status.success());
        let told = stderr(&output);
        assert!(told.contains("still works") && told.contains("svc tokens revoke"), "{told}");
        assert_eq!(world.command(&["whoami"]).output().unwrap().status.code(), Some(3), "it is forgotten all the same");
    }
}

#[test]
fn little_or_much_is_said_as_it_is_wanted() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects" if seen.method == Method::POST => json(201, &project("manual")),
        _ => error(404, "not_found"),
    });
    for quiet in [&["-q", "projects", "create", "manual"][..], &["projects", "create", "manual", "--quiet"]] {
        let output = world.svc(quiet);
        assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("https://manual"));
    }
    let failed = world.svc(&["-q", "projects", "rm", "manual", "-y"]);
    assert!(!stderr(&failed).is_empty(), "a failure is never silent");
    let told = stderr(&world.svc(&["-v", "projects", "create", "manual"]));
    assert!(told.contains("> POST http://127.0.0.1") && told.contains("< 201"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
    let told = stderr(&world.command(&["whoami"]).env("SVC_TOKEN", TOKEN).env("SVC_DEBUG", "1").output().unwrap());
    assert!(told.contains("> GET") && told.contains("/me"), "{told}");
    // The end of an address is not shown either if it is a secret.
    let secret = "A".repeat(43);
    let mut nowhere = world.command(&["-v", "invites", "preview", &secret]);
    let told = stderr(&nowhere.env("SVC_API_URL", "http://127.0.0.1:1").output().unwrap());
    assert!(told.contains("/invites/…") && !told.contains(&secret), "{told}");
}

#[test]
fn another_owner_s_project_is_not_published_to() {
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::GET, "/projects/manual") => {
            let mut detail = project("manual");
            for (list, of) in
                [("deployments", json!([])), ("domains", json!([])), ("access", json!({ "mode": "public" }))]
            {
                detail[list] = of;
            }
            detail["repo"] = Value::Null;
            json(200, &detail)
        }
        _ => error(500, "internal"),
    });
    let output = world.svc(&["deploy", &world.page(), "--project", "manual", "--org", "acme"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("svc transfer acme --project manual"), "{}", stderr(&output));
    assert!(world.seen().iter().all(|seen| seen.method == Method::GET));
    let whole = world.svc(&["deploy", "/", "--project", "manual"]);
    assert_eq!(whole.status.code(), Some(2), "{}", stderr(&whole));
    assert!(stderr(&whole).contains("whole of this machine"), "{}", stderr(&whole));
}

#[test]
fn what_the_variables_hold_is_judged_in_words_of_the_command() {
    let world = World::start(|_, _| error(401, "unauthorized"));
    let output = world.command(&["projects"]).env("SVC_TOKEN", "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("SVC_TOKEN") && !stderr(&output).contains("Authorization"), "{}", stderr(&output));
    assert!(world.seen().is_empty());
}

#[test]
fn words_of_other_programs_lead_somewhere() {
    let world = World::start(|_, _| error(500, "internal"));
    for (word, way) in [
        ("ls", "svc projects"),
        ("publish", "svc deploy"),
        ("logs", "svc stats"),
        ("link", "--save"),
        ("config", "svc env"),
    ] {
        let output = world.svc(&[word]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(way), "{word}: {}", stderr(&output));
        let document = document(&world.svc(&["--json", word]));
        assert!(document["error"]["hint"].as_str().unwrap().contains(way), "{word}: {document}");
    }
    assert!(stderr(&world.svc(&["help", "deply"])).contains("'deploy'"));
}

#[test]
fn a_domain_of_another_project_of_one_s_own_is_named_with_the_way_to_move_it() {
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::POST, _) => error(409, "domain_taken"),
        (_, "/projects?all=true") => {
            json(200, &json!({ "projects": [project("manual"), project("blog")], "next_cursor": null }))
        }
        (_, "/projects/blog") => {
            let mut detail = project("blog");
            detail["deployments"] = json!([]);
            detail["access"] = json!({ "mode": "public" });
            detail["repo"] = Value::Null;
            detail["domains"] = json!([{
                "domain": "www.example.com", "records": [], "tls_ready": true, "dns_target": "edge.example.com",
                "status": { "state": "live", "message": "", "has_obstacle": false, "since": null, "next_attempt_at": null },
            }]);
            json(200, &detail)
        }
        _ => error(404, "not_found"),
    });
    let output = world.svc(&["domains", "add", "www.example.com", "--project", "manual"]);
    assert_eq!(output.status.code(), Some(5));
    let told = stderr(&output);
    assert!(
        told.contains("your project blog") && told.contains("svc domains remove www.example.com --project blog"),
        "{told}"
    );
}
