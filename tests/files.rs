//! The files of a deployment, its icon, and its difference from another: `…/deployments/{id}/files`, `…/icon` and
//! `…/changes`.

use domain::role::Role;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    cli::Shell,
    world::{Actor, Site, World, answer::assert_keys, person::Person},
};

fn path(deployment: &str, what: &str) -> String {
    format!("/projects/engine/deployments/{deployment}/{what}")
}

/// A page of the console asks, through the edge.
async fn files(person: &Person, deployment: &str, query: &str) -> Value {
    let answer = person.api(Method::GET, &path(deployment, &format!("files{query}"))).await.ok();
    assert_keys(&answer, "files next_cursor");
    answer
}

async fn changes(actor: &Actor, deployment: &str, query: &str) -> Value {
    let answer = actor.get(&path(deployment, &format!("changes{query}"))).await.ok();
    assert_keys(&answer, "against added changed removed added_files changed_files removed_files truncated");
    answer
}

fn texts(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

async fn person(world: &World, login: &str) -> Person {
    let person = world.person();
    person.sign_in(login).await;
    person
}

#[tokio::test]
async fn files_are_listed_by_path_a_page_at_a_time() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = Site::page("one")
        .file("a/b.txt", "b")
        .file("a.css", "a{}")
        .file("_headers", "/*\n  x-y: z\n")
        .file("ü & +.html", "ü")
        .file("<script>alert(1)</script>.html", "x");
    let deployed = ada.publish("engine", &site).await;
    let person = person(&world, "ada").await;
    let all = files(&person, &deployed.id, "").await;
    let paths = texts(&all["files"], "path");
    assert_eq!(paths, ["<script>alert(1)</script>.html", "a.css", "a/b.txt", "index.html", "ü & +.html"]);
    assert_eq!(all["next_cursor"], Value::Null);
    let index = json!({
        "path": "index.html", "size": 3, "sha256": hex::encode(Sha256::digest("one")), "content_type": "text/html; charset=utf-8",
    });
    assert_eq!(all["files"][3], index);

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = files(&person, &deployed.id, &format!("?limit=2{cursor}")).await;
        seen.extend(texts(&page["files"], "path"));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(next, seen.last().unwrap());
        cursor = format!("&cursor={}", url::form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>());
    }
    assert_eq!(seen, paths);
    for limit in ["0", "1001", "-1", "many", ""] {
        ada.get(&path(&deployed.id, &format!("files?limit={limit}"))).await.assert_error(400, "invalid_request");
    }
    // What comes after the last file is nothing.
    assert_eq!(files(&person, &deployed.id, "?cursor=%F4%8F%BF%BF").await["files"], json!([]));
}

#[tokio::test]
async fn a_deployment_is_compared_with_the_one_before_it_or_another() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one").file("same", "same").file("gone", "gone")).await;
    // A failed upload has no files to compare with.
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    let second = ada.deploy("engine", &Site::page("other").file("same", "same").file("new", "new!")).await;

    let of_first = changes(&ada, &first.id, "").await;
    assert_eq!((&of_first["against"], &of_first["added_files"]), (&Value::Null, &json!(3)));
    assert_eq!(texts(&of_first["added"], "path"), ["gone", "index.html", "same"]);
    let wanted = json!({
        "against": first.id, "truncated": false, "added_files": 1, "changed_files": 1, "removed_files": 1,
        "added": [{ "path": "new", "size": 4 }],
        "changed": [{ "path": "index.html", "size": 5, "size_before": 3 }],
        "removed": [{ "path": "gone", "size_before": 4 }],
    });
    assert_eq!(changes(&ada, &second.id, "").await, wanted);
    // Which of them is live makes no difference.
    ada.activate("engine", &first.id).await.ok();
    assert_eq!(changes(&ada, &second.id, "").await, wanted);
    assert_eq!(changes(&ada, &second.id, &format!("?against={}", first.id)).await, wanted);
    let back = changes(&ada, &first.id, &format!("?against={}", second.id)).await;
    assert_eq!(back["against"], second.id);
    assert_eq!(
        (texts(&back["added"], "path"), texts(&back["removed"], "path")),
        (vec!["gone".to_owned()], vec!["new".to_owned()])
    );
    let none = changes(&ada, &first.id, &format!("?against={}", first.id)).await;
    assert_eq!(
        (&none["added_files"], &none["changed_files"], &none["removed_files"]),
        (&json!(0), &json!(0), &json!(0))
    );
}

#[tokio::test]
async fn a_large_deployment_comes_in_pages_and_its_changes_are_counted() {
    const FILES: usize = 1_003;
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = (0..FILES).fold(Site::new(), |site, n| site.file(&format!("f{n:05}"), n.to_string()));
    let deployed = ada.publish("engine", &site).await;
    let person = person(&world, "ada").await;
    let page = files(&person, &deployed.id, "").await;
    assert_eq!((page["files"].as_array().unwrap().len(), &page["next_cursor"]), (1_000, &json!("f00999")));
    let rest = files(&person, &deployed.id, "?cursor=f00999").await;
    assert_eq!((texts(&rest["files"], "path").len(), &rest["next_cursor"]), (3, &Value::Null));
    let of_first = changes(&ada, &deployed.id, "").await;
    assert_eq!((of_first["added"].as_array().unwrap().len(), &of_first["added_files"]), (1_000, &json!(FILES)));
    assert_eq!(of_first["truncated"], true);
    let shell = Shell::new(&world, ada.token);
    let listed = shell.json(&["deployments", "files", &deployed.id, "--project", "engine"]).await;
    assert_eq!(listed["files"].as_array().unwrap().len(), FILES);
}

#[tokio::test]
async fn what_has_no_files_says_so() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    let failed = ada.project("engine").await["deployments"][0]["id"].as_str().unwrap().to_owned();
    let elsewhere = ada.publish("other", &Site::page("other")).await;
    for what in ["files", "changes", "icon", "archive"] {
        let told = ada.get(&path(&failed, what)).await.assert_error(409, "no_files");
        assert!(told.contains("failed"), "{told}");
        for unknown in [elsewhere.id.as_str(), "dep_00000000000000000000", "nonsense"] {
            ada.get(&path(unknown, what)).await.assert_error(404, "not_found");
        }
    }
    let against = async |other: &str| ada.get(&path(&second.id, &format!("changes?against={other}"))).await;
    against(&failed).await.assert_error(409, "no_files");
    against(&elsewhere.id).await.assert_error(404, "not_found");
    against("dep_00000000000000000000").await.assert_error(404, "not_found");
    against("nonsense").await.assert_error(400, "invalid_request");

    world.sql(&format!("UPDATE deployments SET status = 'uploading' WHERE id = '{}'", first.id)).await;
    let told = ada.get(&path(&first.id, "files")).await.assert_error(409, "no_files");
    assert!(told.contains("uploaded"), "{told}");
    assert_eq!(changes(&ada, &second.id, "").await["against"], Value::Null);

    world.sql(&format!("UPDATE deployments SET status = 'superseded' WHERE id = '{}'", first.id)).await;
    ada.delete(&format!("/projects/engine/deployments/{}", first.id)).await.ok();
    ada.get(&path(&first.id, "files")).await.assert_error(404, "not_found");
    against(&first.id).await.assert_error(404, "not_found");
    assert_eq!(changes(&ada, &second.id, "").await["against"], Value::Null);

    // A pack that is lost while its record is there.
    std::fs::remove_dir_all(world.folder().join("store/deployments").join(&second.id)).unwrap();
    ada.get(&path(&second.id, "files")).await.assert_error(503, "files_unavailable");
}

#[tokio::test]
async fn members_see_the_files_of_their_organization_and_nobody_else() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    org.owner.create_project_in(&org, "engine").await;
    let deployed = org.owner.deploy("engine", &Site::page("one")).await;
    let ai = org.owner.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let (deploy, stranger) = (org.robot("deploy").await, world.user("stranger").await);
    let in_the_console = person(&world, "member").await;
    let strange_person = person(&world, "stranger").await;
    for what in ["files", "changes", "icon", "archive"] {
        let path = path(&deployed.id, what);
        for may in [&org.owner, &member] {
            assert!(may.get(&path).await.status.is_success(), "{path}");
        }
        assert!(in_the_console.api(Method::GET, &path).await.status.is_success(), "{path}");
        stranger.get(&path).await.assert_error(404, "not_found");
        strange_person.api(Method::GET, &path).await.assert_error(404, "not_found");
        let ai = org.owner.with_token(ai["token"].as_str().unwrap());
        for cannot in [&deploy, &ai, &world.nobody()] {
            cannot.get(&path).await.assert_error(401, "unauthorized");
        }
    }
}

#[tokio::test]
async fn the_icon_of_a_deployment_is_shown_as_an_image_and_nothing_else() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let script = r#"<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>"#;
    let none = ada.publish("engine", &Site::page("one").file("img/favicon.svg", script)).await;
    let empty = ada.get(&path(&none.id, "icon")).await;
    assert_eq!((empty.status.as_u16(), empty.body.len()), (204, 0));
    assert_eq!(empty.header("cache-control"), "private, max-age=31536000, immutable");

    // What is drawn best comes first, if it is no larger than an icon may be.
    let site = Site::page("one").file("favicon.ico", "ico").file("favicon.svg", script);
    let all = ada.deploy("engine", &site.file("apple-touch-icon.png", vec![7; 512 * 1024])).await;
    let svg = ada.get(&path(&all.id, "icon")).await;
    assert_eq!((svg.status.as_u16(), svg.text()), (200, script.into()));
    assert_eq!(svg.header("content-type"), "image/svg+xml");
    // Opened as a document, it may do nothing.
    assert_eq!(svg.header("content-security-policy"), "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    assert_eq!(svg.header("x-content-type-options"), "nosniff");
    let large = Site::page("one").file("favicon.ico", "ico").file("favicon.svg", vec![b' '; 512 * 1024 + 1]);
    let large = ada.deploy("engine", &large.file("favicon.png", "")).await;
    let ico = ada.get(&path(&large.id, "icon")).await;
    assert_eq!((ico.header("content-type"), ico.text()), ("image/x-icon", "ico".into()));
    let png = Site::page("one").file("favicon.ico", "ico").file("apple-touch-icon.png", vec![7; 512 * 1024]);
    let png = ada.deploy("engine", &png).await;
    let png = ada.get(&path(&png.id, "icon")).await;
    assert_eq!((png.header("content-type"), png.body.len()), ("image/png", 512 * 1024));
}

#[tokio::test]
async fn svc_lists_files_and_differences() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one").file("gone.txt", "gone")).await;
    let second = ada.deploy("engine", &Site::page("other")).await;
    let shell = Shell::new(&world, ada.token.clone());
    let listed = shell.text(&["deployments", "files", &second.id, "--project", "engine"]).await;
    assert!(listed.contains("index.html") && listed.contains("5 B") && listed.contains("text/html"), "{listed}");
    let found = shell.text(&["deployments", "diff", &second.id, "-p", "engine"]).await;
    let lines: Vec<&str> = found.lines().skip(1).collect();
    assert!(lines[0].starts_with("-  gone.txt") && lines[1].starts_with("~  index.html"), "{found}");
    let document = shell.json(&["deployments", "diff", &first.id, &second.permanent_url(), "-p", "engine"]).await;
    assert_eq!((&document["against"], &document["added_files"]), (&json!(second.id), &json!(1)));
    // Without a command it lists, as ever.
    assert!(shell.text(&["deployments", "-n", "1", "-p", "engine"]).await.contains(&second.id));
    let outcome = shell.run(&["deployments", "files", "dep_00000000000000000000", "-p", "engine"]).await;
    assert_eq!(outcome.code, 4, "{}", outcome.err);
}
