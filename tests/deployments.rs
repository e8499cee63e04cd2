//! `/projects/:name/deployments`: uploads, activation, removal, addresses.

mod lost_rights;
mod warnings;

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    BACKGROUND,
    world::{
        Actor, Site, World,
        answer::{assert_keys, parse_id, parse_timestamp},
        eventually,
        site::{gzip, noise},
        socket::{converse, statuses},
    },
};

const MB: usize = 1024 * 1024;

fn assert_deployment(deployment: &Value) {
    let mut said = deployment.clone();
    // Of a superseded one, once it is settled when it will go.
    said.as_object_mut().unwrap().remove("expires_at");
    assert_keys(&said, "id status url created_at files bytes cli_version git_sha created_by active");
    parse_id(&deployment["id"], "dep_");
    parse_timestamp(&deployment["created_at"]);
}

#[tokio::test]
async fn an_upload_is_live_when_it_is_answered() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let site = Site::page("one").file("assets/app.js", "let x = 1;");
    let upload = ada.upload("engine", &site).header("x-svc-cli-version", "1.2.3").header("x-svc-git-sha", "c0ffee");
    let body = upload.await.created();
    assert_keys(&body, "deployment_id url expires_at");
    assert_eq!(body["url"], world.site_url("engine"));
    assert_eq!(body["expires_at"], Value::Null);
    let deployment = parse_id(&body["deployment_id"], "dep_");
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "one");

    let detail = ada.project("engine").await;
    assert_eq!(detail["active_deployment_id"], deployment);
    let listed = &detail["deployments"][0];
    assert_deployment(listed);
    assert_eq!(listed["id"], deployment);
    assert_eq!(listed["status"], "live");
    assert_eq!(listed["files"], 2);
    assert_eq!(listed["bytes"], 13);
    assert_eq!(listed["cli_version"], "1.2.3");
    assert_eq!(listed["git_sha"], "c0ffee");
    assert_eq!(listed["created_by"], "ada");
    assert_eq!(listed["active"], true);
    let body_of_id = deployment.trim_start_matches("dep_");
    assert_eq!(listed["url"], world.site_url(&format!("{body_of_id}--engine")));
    assert_eq!(&ada.get(&format!("/projects/engine/deployments/{deployment}")).await.ok(), listed);
}

#[tokio::test]
async fn the_next_upload_supersedes_and_rollback_returns() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    world.edge().get(&first.url).await.assert_body(200, "two");

    let activated = ada.activate("engine", &first.id).await.ok();
    assert_eq!(activated, json!({ "ok": true, "active_deployment_id": first.id }));
    world.edge().get(&first.url).await.assert_body(200, "one");
    let detail = ada.project("engine").await;
    assert_eq!(detail["active_deployment_id"], first.id);
    let states: Vec<_> = detail["deployments"].as_array().unwrap().iter().map(|d| (&d["id"], &d["status"])).collect();
    assert_eq!(states, [(&json!(second.id), &json!("superseded")), (&json!(first.id), &json!("live"))]);

    // Activating what is live already changes nothing and is no mistake.
    let again = ada.activate("engine", &first.id).await.ok();
    assert_eq!(again, json!({ "ok": true, "active_deployment_id": first.id }));
}

#[tokio::test]
async fn every_deployment_keeps_an_address_of_its_own() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    for (deployment, text) in [(&first, "one"), (&second, "two")] {
        let answer = world.edge().get(&deployment.permanent_url()).await.assert_body(200, text);
        assert!(answer.header("x-robots-tag").contains("noindex"));
    }
    assert_eq!(world.edge().get(&first.url).await.find_header("x-robots-tag"), None);

    // Another project's deployment is not served under this one's name.
    ada.create_project("other").await;
    world.edge().get(&first.permanent_url().replace("--engine", "--other")).await.assert_status(404);
}

#[tokio::test]
async fn what_cannot_be_activated_says_so() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    let failed = ada.project("engine").await["deployments"][0]["id"].as_str().unwrap().to_owned();
    ada.activate("engine", &failed).await.assert_error(409, "not_activatable");

    let elsewhere = ada.publish("other", &Site::page("other")).await;
    ada.activate("engine", &elsewhere.id).await.assert_error(404, "not_found");
    for unknown in ["dep_00000000000000000000", "nonsense", "prj_00000000000000000000"] {
        ada.activate("engine", unknown).await.assert_error(404, "not_found");
        ada.get(&format!("/projects/engine/deployments/{unknown}")).await.assert_error(404, "not_found");
        ada.delete(&format!("/projects/engine/deployments/{unknown}")).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn the_live_deployment_cannot_be_deleted_and_others_leave_nothing() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let only_first = world.stored_files();
    let second = ada.deploy("engine", &Site::page("two")).await;
    world.edge().get(&second.permanent_url()).await.assert_body(200, "two");
    let path = |deployment: &str| format!("/projects/engine/deployments/{deployment}");
    ada.delete(&path(&second.id)).await.assert_error(409, "deployment_live");

    ada.activate("engine", &first.id).await.ok();
    assert_eq!(ada.delete(&path(&second.id)).await.ok(), json!({ "ok": true }));
    world.edge().get(&second.permanent_url()).await.assert_status(404);
    ada.delete(&path(&second.id)).await.assert_error(404, "not_found");
    ada.activate("engine", &second.id).await.assert_error(404, "not_found");
    eventually(BACKGROUND, "its files are removed", async || world.stored_files() == only_first).await;
    world.edge().get(&first.url).await.assert_body(200, "one");
}

#[tokio::test]
async fn deployments_are_listed_newest_first_and_paged() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let mut ids = Vec::new();
    for number in 0..22 {
        ids.push(ada.deploy("engine", &Site::page(&number.to_string())).await.id);
    }
    ids.reverse();
    let listed = |list: &Value| -> Vec<String> {
        let rows = list["deployments"].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&ada.project("engine").await), ids[..20]);
    let list = ada.get("/projects/engine/deployments").await.ok();
    assert_keys(&list, "deployments next_cursor");
    list["deployments"].as_array().unwrap().iter().for_each(assert_deployment);
    assert_eq!(listed(&list), ids);
    let page = ada.get("/projects/engine/deployments?limit=20").await.ok();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = ada.get(&format!("/projects/engine/deployments?limit=20&cursor={cursor}")).await.ok();
    assert_eq!([listed(&page), listed(&rest)].concat(), ids);
    assert_eq!(rest["next_cursor"], Value::Null);
}

#[tokio::test]
async fn only_archives_of_known_forms_are_accepted() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let path = "/projects/engine/deployments";
    let tarball = Site::page("one").tarball();
    for content_type in ["application/x-tar", "application/octet-stream", "text/plain", "multipart/form-data", "gzip"] {
        let upload = ada.post(path).header("content-type", content_type).body(tarball.clone());
        upload.await.assert_error(415, "unsupported_media_type");
    }
    ada.post(path).body(tarball.clone()).await.assert_error(415, "unsupported_media_type");
    // What it is said to be it has to be.
    let said = ada.post(path).header("content-type", "application/zip").body(tarball.clone());
    said.await.assert_error(400, "invalid_archive");
    ada.post(path).header("content-type", "application/x-gzip").body(tarball.clone()).await.created();
    ada.post(path).header("content-type", "Application/GZIP").body(tarball).await.created();
    // The two, and the record of the one that was no zip archive.
    assert_eq!(ada.project("engine").await["deployments"].as_array().unwrap().len(), 3);
}

/// A refused upload leaves a failed record, no file, and the site as it was.
async fn assert_refused(world: &World, ada: &Actor, upload: crate::world::request::Request, status: u16, code: &str) {
    let stored = world.stored_files();
    let live = ada.project("engine").await["active_deployment_id"].clone();
    upload.await.assert_error(status, code);
    assert_eq!(world.stored_files(), stored, "files were left behind");
    let detail = ada.project("engine").await;
    assert_eq!(detail["active_deployment_id"], live);
    let newest = &detail["deployments"][0];
    assert_eq!(newest["status"], "failed");
    assert_eq!(newest["active"], false);
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "before");
}

#[tokio::test]
async fn a_refused_upload_changes_nothing() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("before")).await;
    let path = "/projects/engine/deployments";
    for (what, body) in [
        ("nothing", Vec::new()),
        ("no gzip", b"hello".to_vec()),
        ("gzip of no tar", gzip(b"hello")),
        ("gzip of nothing", gzip(b"")),
        ("an empty archive", Site::new().tarball()),
        ("half an archive", Site::page("x").file("a", noise(5000)).tarball()[..2000].to_vec()),
    ] {
        eprint_step(what);
        assert_refused(&world, &ada, ada.post(path).upload(body), 400, "invalid_archive").await;
    }
    let mut crowd = Site::new();
    for number in 0..=10_000 {
        crowd = crowd.file(&format!("f/{number}"), b"");
    }
    assert_refused(&world, &ada, ada.upload("engine", &crowd), 400, "invalid_archive").await;
    let fat_file = Site::page("x").file("big.bin", vec![0; 25 * MB + 1]);
    assert_refused(&world, &ada, ada.upload("engine", &fat_file), 413, "payload_too_large").await;
    let mut fat_site = Site::page("x");
    for number in 0..11 {
        fat_site = fat_site.file(&format!("{number}.bin"), vec![0; 24 * MB]);
    }
    assert_refused(&world, &ada, ada.upload("engine", &fat_site), 413, "payload_too_large").await;

    // A failed deployment can be cleared away.
    let failed = ada.project("engine").await["deployments"][0]["id"].as_str().unwrap().to_owned();
    ada.delete(&format!("/projects/engine/deployments/{failed}")).await.ok();
}

#[tokio::test]
async fn an_upload_at_the_limits_is_accepted() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut crowd = Site::page("crowd");
    for number in 1..10_000 {
        crowd = crowd.file(&format!("f/{number}"), b"");
    }
    ada.publish("engine", &crowd).await;
    assert_eq!(ada.project("engine").await["deployments"][0]["files"], 10_000);
    ada.deploy("engine", &Site::page("big").file("big.bin", vec![0; 25 * MB])).await;
    let answer = world.edge().head(&format!("{}/big.bin", world.site_url("engine"))).await.assert_status(200);
    assert_eq!(answer.header("content-length"), (25 * MB).to_string());
}

#[tokio::test]
async fn an_upload_over_100_mb_is_refused_by_its_announcement_and_by_its_bytes() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("before")).await;

    let head = format!(
        "POST /projects/engine/deployments HTTP/1.1\r\nhost: api.svc.localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        ada.token.as_deref().unwrap(),
        100 * MB + 1
    );
    let mut stream = TcpStream::connect(("127.0.0.1", world.admin_port)).await.unwrap();
    let answer = String::from_utf8(converse(&mut stream, head.as_bytes()).await).unwrap();
    assert_eq!(statuses(answer.as_bytes()), [413], "{answer}");
    assert!(answer.contains("payload_too_large"), "{answer}");

    let chunk = Bytes::from(noise(MB));
    let chunks = stream::iter((0..=100).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
    let upload = ada.post("/projects/engine/deployments").upload(reqwest::Body::wrap_stream(chunks));
    match upload.attempt().await {
        Ok(answer) => drop(answer.assert_error(413, "payload_too_large")),
        // The refusal may overtake the body; then the connection is closed under the sender.
        Err(e) => assert!(e.is_request() || e.is_body(), "{e:?}"),
    }
    eventually(BACKGROUND, "no upload is left open", async || {
        let detail = ada.project("engine").await;
        detail["deployments"].as_array().unwrap().iter().all(|d| d["status"] != "uploading")
    })
    .await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "before");
    assert_eq!(world.stored_files().len(), 2, "the pack of the live deployment alone");
}

#[tokio::test]
async fn a_client_that_leaves_mid_upload_leaves_nothing() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("before")).await;
    let stored = world.stored_files();
    let tarball = Site::page("after").file("noise.bin", noise(4 * MB)).tarball();
    let head = format!(
        "POST /projects/engine/deployments HTTP/1.1\r\nhost: api.svc.localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/gzip\r\ncontent-length: {}\r\n\r\n",
        ada.token.as_deref().unwrap(),
        tarball.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", world.admin_port)).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&tarball[..tarball.len() / 2]).await.unwrap();
    eventually(BACKGROUND, "the upload is recorded", async || {
        ada.project("engine").await["deployments"].as_array().unwrap().len() == 2
    })
    .await;
    drop(stream);
    eventually(BACKGROUND, "the upload has failed", async || {
        ada.project("engine").await["deployments"][0]["status"] == "failed"
    })
    .await;
    assert_eq!(world.stored_files(), stored);
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "before");
}

#[tokio::test]
async fn two_uploads_at_once_both_become_deployments_and_one_is_live() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let sites = [Site::page("left"), Site::page("right")];
    let (left, right) = tokio::join!(ada.deploy("engine", &sites[0]), ada.deploy("engine", &sites[1]));
    let detail = ada.project("engine").await;
    let states: Vec<_> = detail["deployments"].as_array().unwrap().iter().map(|d| d["status"].clone()).collect();
    assert!(states == ["live", "superseded"] || states == ["superseded", "live"], "{states:?}");
    let served = world.edge().get(&left.url).await.assert_status(200).text();
    let live = if detail["active_deployment_id"] == left.id { "left" } else { "right" };
    assert_eq!(served, live);
    assert_ne!(left.id, right.id);
}

#[tokio::test]
async fn a_large_upload_does_not_fill_the_memory() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("warm")).await;
    let mut site = Site::page("large");
    for number in 0..4 {
        site = site.file(&format!("{number}.bin"), noise(25 * MB - 64 * 1024));
    }
    let tarball = site.stored_tarball();
    assert!(tarball.len() > 99 * MB && tarball.len() <= 100 * MB, "{}", tarball.len());
    let before = world.admin.memory("VmRSS");
    ada.post("/projects/engine/deployments").upload(tarball).await.created();
    let growth = world.admin.memory("VmHWM").saturating_sub(before);
    assert!(growth < 64 * MB as u64, "admin's memory grew by {} MB", growth / MB as u64);
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "large");
}

#[tokio::test]
async fn an_upload_through_the_edge_is_no_different() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let tarball = Site::page("through").file("noise.bin", noise(3 * MB)).tarball();
    let upload = world.edge().post("https://api.svc.localhost/projects/engine/deployments").upload(tarball);
    upload.bearer(ada.token.as_deref().unwrap()).await.created();
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "through");
}

#[tokio::test]
async fn an_upload_interrupted_by_a_crash_does_not_stay_open() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("before")).await;
    // What a crash in the middle of an upload leaves, a day later.
    world
        .sql(
            "INSERT INTO deployments (id, project_id, status, created_at)
             SELECT 'dep_00000000000000000000', id, 'uploading', now() - interval '1 day' FROM projects",
        )
        .await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the upload is given up", async || {
        let deployment = ada.get("/projects/engine/deployments/dep_00000000000000000000").await;
        deployment.status == 404 || deployment.text().contains("\"failed\"")
    })
    .await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "before");
}

#[expect(clippy::print_stderr, reason = "names the case in the output of a failed test")]
fn eprint_step(what: &str) {
    eprintln!("case: {what}");
}

#[tokio::test]
async fn of_a_commit_two_hundred_characters_are_recorded() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let long = "x".repeat(5000);
    let upload = ada.upload("engine", &Site::page("x")).header("x-svc-git-sha", &long);
    let answer = tokio::time::timeout(Duration::from_secs(30), async { upload.await }).await.unwrap();
    answer.created();
    assert_eq!(ada.project("engine").await["deployments"][0]["git_sha"], long[..200]);
}
