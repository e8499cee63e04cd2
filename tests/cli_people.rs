//! `svc` as people find it: what it does without being told everything, and what it says unasked.

use serde_json::json;

use crate::{cli::Shell, world::World};

#[tokio::test]
async fn an_id_suffices_where_it_is_the_callers_and_names_nothing_where_it_is_not() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let staff = ada.create_org("acme").await;
    let robot = staff.robot("deploy").await;
    let (shell, other, ci) =
        (Shell::new(&world, ada.token), Shell::new(&world, eve.token), Shell::new(&world, robot.token));
    shell.write("dist/index.html", "one");
    let deploy = ["deploy", "dist", "--project", "engine", "--org", "acme"];
    let first = shell.json(&deploy).await["deployment_id"].as_str().unwrap().to_owned();
    shell.write("dist/index.html", "two");
    let second = shell.json(&deploy).await["deployment_id"].as_str().unwrap().to_owned();

    assert!(shell.text(&["deployments", "files", &second]).await.contains("index.html"));
    assert!(shell.text(&["deployments", "diff", &second, &first]).await.contains("index.html"));
    shell.text(&["rollback", &first]).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "one");
    // A token of the organization names the project: it may ask for little.
    let refused = ci.run(&["rollback", &second]).await;
    assert!(refused.code == 3 && refused.err.contains("--project"), "{}", refused.err);
    ci.text(&["rollback", &second, "--project", "engine"]).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "two");

    for verb in ["files", "diff"] {
        let hidden = other.run(&["deployments", verb, &first]).await;
        assert!(hidden.code == 4 && hidden.err.contains("No project of yours"), "{}", hidden.err);
    }
    assert_eq!(other.run(&["rollback", &first]).await.code, 4);
    let missing = shell.run(&["stats", "--audience"]).await;
    assert!(missing.code == 2 && missing.err.contains("--project engine"), "{}", missing.err);
    assert!(shell.text(&["projects", "--all"]).await.contains("acme"));
    let elsewhere = shell.run(&["deploy", "dist", "--project", "engine", "--org", "nowhere"]).await;
    assert!(elsewhere.code == 5 && elsewhere.err.contains("belongs to acme"), "{}", elsewhere.err);
    let mine = shell.run(&["projects", "create", "engine"]).await;
    assert!(mine.code == 5 && mine.err.contains("acme has a project engine already"), "{}", mine.err);
}

#[tokio::test]
async fn signing_out_ends_the_token_at_the_service() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, None);
    let api = format!("https://api.svc.localhost:{}", world.public_port());
    let login = json!({ "token": ada.token, "vcs_login": "ada" });
    let logins = json!({ "default_api": api, "logins": { api.clone(): login } });
    shell.write(".config/svc/credentials.json", &logins.to_string());
    assert_eq!(shell.text(&["whoami"]).await, "ada\n");
    let out = shell.json(&["logout"]).await;
    assert_eq!((&out["was_signed_in"], &out["token_ended"]), (&json!(true), &json!(true)));
    assert_eq!(shell.run(&["whoami"]).await.code, 3);
    ada.get("/me").await.assert_error(401, "unauthorized");
    assert_eq!(shell.json(&["logout"]).await["was_signed_in"], false);
}

#[tokio::test]
async fn a_site_whose_address_answers_nothing_is_warned_of() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    shell.write("docs/about.html", "about");
    let zip = std::process::Command::new("python3")
        .args(["-m", "zipfile", "-c", "docs.zip", "docs/about.html"])
        .current_dir(shell.folder())
        .status();
    assert!(zip.unwrap().success());
    for what in ["docs", "docs.zip"] {
        let deployed = shell.run(&["deploy", what, "--project", "engine"]).await;
        assert!(deployed.code == 0 && deployed.err.contains("its address answers 404"), "{what}: {}", deployed.err);
    }
    // A single file is what its address answers with.
    shell.write("notes.txt", "notes");
    let deployed = shell.run(&["deploy", "notes.txt", "--project", "engine"]).await;
    assert!(!deployed.err.contains("404"), "{}", deployed.err);
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "notes");
}

#[tokio::test]
async fn statistics_are_exported_and_shown_to_everybody() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    shell.write("docs/index.html", "hello");
    shell.json(&["deploy", "docs", "--project", "engine", "--save"]).await;
    // Kept with --save: nothing has to be named from here on.
    assert!(shell.text(&["stats", "export"]).await.starts_with("day,kind,key,count,bytes"));
    assert_eq!(shell.json(&["stats", "export", "--days", "7"]).await, json!({ "rows": [] }));
    shell.text(&["stats", "export", "visits.csv", "--days", "365"]).await;
    assert!(shell.folder().join("visits.csv").exists());
    assert!(shell.text(&["stats", "public"]).await.contains("svc stats public on"));
    let link = shell.text(&["stats", "public", "on"]).await;
    assert_eq!(shell.text(&["stats", "public"]).await, link);
    assert!(link.contains("/stats/"), "{link}");
    shell.text(&["stats", "public", "off"]).await;
    assert_eq!(shell.json(&["stats", "public"]).await["enabled"], false);
}

#[tokio::test]
async fn ai_keys_are_listed_apart_and_revoked() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    assert!(shell.text(&["ai", "keys"]).await.contains("svc ai key create"));
    let made = shell.json(&["ai", "key", "create", "--label", "bot"]).await["id"].as_str().unwrap().to_owned();
    shell.json(&["tokens", "create", "--label", "no-key-of-ai"]).await;
    let listed = shell.text(&["ai", "keys"]).await;
    assert!(listed.contains(&made) && listed.contains("bot") && !listed.contains("no-key-of-ai"), "{listed}");
    shell.text(&["ai", "keys", "revoke", &made]).await;
    assert_eq!(shell.json(&["ai", "keys"]).await, json!({ "keys": [] }));
    // Models are listed without one. What the client makes for itself, it says.
    let models = shell.run(&["ai", "models"]).await;
    assert!(models.code == 0 && !models.err.contains("Made the AI key"), "{}", models.err);
    let chat = shell.run(&["ai", "chat", "hello"]).await;
    assert!(chat.err.contains("Made the AI key tok_"), "{}", chat.err);
    assert_eq!(shell.json(&["ai", "keys"]).await["keys"][0]["label"], "svc ai");
}

#[tokio::test]
async fn a_limit_of_a_key_above_the_plan_s_is_said_to_be() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    shell.json(&["orgs", "create", "acme"]).await;
    let made = shell.run(&["ai", "key", "create", "--monthly-limit", "5000"]).await;
    assert!(made.err.contains("more than the plan allows: its AI credit"), "{}", made.err);
    let id = shell.json(&["ai", "keys"]).await["keys"][0]["id"].as_str().unwrap().to_owned();
    for (limit, said) in [("0.50", false), ("5000", true), ("none", false)] {
        let set = shell.run(&["tokens", "limit", &id, limit]).await;
        assert_eq!((set.code, set.err.contains("more than the plan allows")), (0, said), "{limit}: {}", set.err);
    }
    let set = shell.run(&["tokens", "limit", &id, "--max-tokens", "900000", "--max-body", "32MB"]).await;
    assert!(set.err.contains("its 4096 tokens hold") && set.err.contains("64 KB hold"), "{}", set.err);
    let made = shell.run(&["ai", "key", "create", "--org", "acme", "--max-tokens", "900000"]).await;
    assert!(made.err.contains("more than the plan allows"), "{}", made.err);
}

#[tokio::test]
async fn a_plan_s_limits_are_all_shown() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    shell.json(&["orgs", "create", "acme"]).await;
    let (own, of_org) = (shell.text(&["billing"]).await, shell.text(&["billing", "--org", "acme"]).await);
    let both = ["projects", "domains", "bandwidth", "AI credit", "storage", "deployments", "AI request", "AI answer"];
    for limit in both.iter().chain(&["shares", "organizations"]) {
        assert!(own.contains(limit), "{limit}: {own}");
    }
    for limit in both.iter().chain(&["members"]) {
        assert!(of_org.contains(limit), "{limit}: {of_org}");
    }
    for text in [&own, &of_org, &shell.text(&["billing", "plans"]).await] {
        assert!(!text.contains("ready") && !text.contains("READY"), "what limits nothing is no limit: {text}");
    }
}
