//! Accounts that would fill the disk: what a plan allows is the end, also for requests that come together.

use std::{fs, future::IntoFuture as _, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use db::billing::usage;
use domain::Clock;
use futures_util::{future::join_all, stream};
use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    billing::plans::person,
    world::{Actor, Site, World, answer::Answer, eventually, site::noise},
};

/// Bytes of the blocks that a file system counts in.
const BLOCK: u64 = 512;

/// A site of so many bytes that do not compress.
fn site(bytes: usize) -> Site {
    Site::new().file("noise.bin", noise(bytes))
}

async fn create(actor: &Actor, name: String, org: Option<&str>) -> Answer {
    actor.post("/projects").json(&json!({ "name": name, "org": org })).await
}

/// How many were made; the others were told of the plan, in a sentence that holds `word`.
fn count_made(answers: Vec<Answer>, word: &str) -> usize {
    let mut made = 0;
    for answer in answers {
        if answer.status == 201 {
            made += 1;
        } else {
            let message = answer.assert_error(403, "plan_limit_reached");
            assert!(message.contains(word), "{message}");
        }
    }
    made
}

/// An upload whose body never comes.
async fn assert_refused_without_body(actor: &Actor, path: &str) {
    let body = reqwest::Body::wrap_stream(stream::pending::<std::io::Result<bytes::Bytes>>());
    actor.post(path).upload(body).await.assert_error(403, "plan_limit_reached");
}

#[tokio::test]
async fn projects_end_with_the_plan_of_their_owner() {
    let world = World::builder().plan(&json!({ "projects": 3 })).start().await;
    let ada = world.user("ada").await;
    ada.create_org("acme").await;
    for org in [None, Some("acme")] {
        let name = |n: usize| format!("{}-{n}", org.unwrap_or("mine"));
        let made = count_made(join_all((0..8).map(|n| create(&ada, name(n), org))).await, "3 projects");
        assert_eq!(made, 3, "{org:?}");
    }
    // Shares are no projects, and a project cannot be moved where there is no room.
    ada.share(&Site::page("look"), 1).await;
    let mine = ada.get("/projects").await.ok();
    let name = mine["projects"][0]["name"].as_str().unwrap();
    let moved = ada.post(&format!("/projects/{name}/transfer")).json(&json!({ "org": "acme" })).await;
    assert!(moved.assert_error(403, "plan_limit_reached").contains("3 projects"));
    ada.delete(&format!("/projects/{name}")).await.ok();
    create(&ada, "again".to_owned(), None).await.created();
}

#[tokio::test]
async fn the_shipped_plan_ends_with_three_organizations() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let create = |n: usize| ada.post("/orgs").json(&json!({ "name": format!("acme-{n}") }));
    let answers = join_all((0..6).map(|n| async move { create(n).await })).await;
    assert_eq!(count_made(answers, "organizations"), 3);
}

#[tokio::test]
async fn shares_end_with_the_plan_of_their_person() {
    let world = World::builder().plan(&json!({ "shares": 2 })).start().await;
    let ada = world.user("ada").await;
    let tarball = Site::page("look").tarball();
    let answers = join_all((0..4).map(|_| async { ada.post("/shares").upload(tarball.clone()).await })).await;
    assert_eq!(count_made(answers, "2 live shares"), 2);
    assert_refused_without_body(&ada, "/shares").await;
    // One that has expired takes no room, whether or not it was reaped.
    world.sql("UPDATE projects SET expires_at = now() WHERE id = (SELECT min(id) FROM projects)").await;
    ada.share(&Site::page("look"), 1).await;
    eventually(BACKGROUND, "no pack of a refused share stays", async || {
        world.sql_number("SELECT count(*) FROM pack_removals").await == 0 && world.stored_files().len() <= 6
    })
    .await;
}

#[tokio::test]
async fn stored_bytes_end_with_the_plan_of_their_owner() {
    let world = World::builder().plan(&json!({ "storage_bytes": 2 * domain::limits::MB })).start().await;
    let ada = world.user("ada").await;
    let names = ["one", "two", "three", "four"];
    for name in names {
        ada.create_project(name).await;
    }
    let sites: Vec<Site> = names.iter().map(|_| site(700_000)).collect();
    let uploads = join_all(names.iter().zip(&sites).map(|(name, site)| ada.upload(name, site).into_future()));
    assert_eq!(count_made(uploads.await, "2 MB"), 2);
    eventually(BACKGROUND, "no pack of a refused upload stays", async || world.stored_files().len() == 4).await;
    // A small one still fits, and then nothing.
    let share = ada.share(&site(400_000), 1).await;
    let message = ada.post("/shares").upload(site(400_000).tarball()).await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("2 MB of stored files"), "{message}");
    // When all is used up, not even a body that is to come is read.
    world.sql("UPDATE deployments SET stored_bytes = 2000000 WHERE status = 'live'").await;
    assert_refused_without_body(&ada, "/shares").await;
    assert_refused_without_body(&ada, "/projects/one/deployments").await;
    // What is deleted makes room again.
    for name in names {
        ada.delete(&format!("/projects/{name}")).await.ok();
    }
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    ada.share(&site(1_500_000), 1).await;
}

#[tokio::test]
async fn files_cannot_be_moved_where_there_is_no_room() {
    let world = World::builder().plan(&json!({ "storage_bytes": 2 * domain::limits::MB })).start().await;
    let ada = world.user("ada").await;
    ada.create_org("acme").await;
    for name in ["one", "two"] {
        ada.publish(name, &site(900_000)).await;
    }
    let to_acme = |name: &str| ada.post(&format!("/projects/{name}/transfer")).json(&json!({ "org": "acme" }));
    for name in ["one", "two"] {
        to_acme(name).await.ok();
    }
    ada.publish("three", &site(900_000)).await;
    let message = to_acme("three").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("2 MB of stored files"), "{message}");
    assert_eq!(ada.project("three").await["org"], Value::Null);
}

#[tokio::test]
async fn old_deployments_expire_beyond_the_number_of_the_plan() {
    let mut world = World::builder().plan(&json!({ "deployments": 3 })).start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(ada.deploy("engine", &Site::page(&format!("page {n}"))).await.id);
    }
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    // The first but one is live again; the third was served until yesterday, though it is old.
    ada.activate("engine", &ids[1]).await.ok();
    let kept_url = ada.project("engine").await["url"].as_str().unwrap().to_owned();
    let expiring =
        async |id: &str| ada.get(&format!("/projects/engine/deployments/{id}")).await.ok()["expires_at"].clone();
    for id in [&ids[1], &ids[4], &ids[5], &ids[6]] {
        assert_eq!(expiring(id).await, Value::Null, "the live one, and those of the plan's number");
    }
    let superseded = format!(
        "SELECT to_char((superseded_at + interval '30 days') AT TIME ZONE 'utc', 'YYYY-MM-DD') FROM deployments WHERE id = '{}'",
        ids[0]
    );
    let expires_at = expiring(&ids[0]).await;
    assert!(expires_at.as_str().unwrap().starts_with(&world.sql_text(&superseded).await), "{expires_at}");
    let detail = ada.project("engine").await;
    assert_eq!(detail["deployments"].as_array().unwrap().last().unwrap()["expires_at"], expires_at);
    world.sql("UPDATE deployments SET created_at = created_at - interval '31 days'").await;
    let old = "UPDATE deployments SET superseded_at = superseded_at - interval '31 days' WHERE id <> ";
    world.sql(&format!("{old} '{}'", ids[2])).await;
    world.restart_admin_later().await;
    let left = async || {
        let list = ada.get("/projects/engine/deployments").await.ok();
        let of = |status: &str| -> Vec<String> {
            let rows = list["deployments"].as_array().unwrap().iter().filter(|row| row["status"] == status);
            rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        (of("live"), of("superseded"), of("failed").len())
    };
    let mut superseded: Vec<String> = [&ids[2], &ids[4], &ids[5], &ids[6]].into_iter().cloned().collect();
    superseded.reverse();
    eventually(BACKGROUND, "old deployments expire", async || left().await.1 == superseded).await;
    assert_eq!(left().await, (vec![ids[1].clone()], superseded.clone(), 1));
    eventually(BACKGROUND, "their packs are removed", async || world.stored_files().len() == 2 * 5).await;
    world.edge().get(&kept_url).await.assert_body(200, "page 1");
    let gone = ada.activate("engine", &ids[0]).await.assert_error(404, "not_found");
    assert!(gone.contains("expired"), "{gone}");
    let log = ada.get("/projects/engine/audit").await.ok();
    let entry = log["entries"].as_array().unwrap().iter().find(|entry| entry["action"] == "deployment.expire");
    assert_eq!(entry.unwrap()["detail"]["deployments"], json!([ids[0], ids[3]]));
}

/// The bytes that a folder takes of the disk, and the number of its files.
fn taken(folder: &Path) -> (u64, usize) {
    let (mut blocks, mut files) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        blocks += metadata.blocks();
        if metadata.is_dir() {
            let below = taken(&entry.path());
            (blocks, files) = (blocks + below.0 / BLOCK, files + below.1);
        } else {
            files += 1;
        }
    }
    (blocks * BLOCK, files)
}

#[tokio::test]
async fn what_is_counted_is_what_deployments_take_of_the_disk() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let store = world.folder_of_packs();
    let account = person(&world, "ada").await;
    let db = sqlx::PgPool::connect(world.database.as_str()).await.unwrap();
    let mut deployments = 0;
    // Many that are as small as can be, then of every size.
    for sizes in [vec![1; 40], (0..40).map(|n| 1 + n * 997).collect(), vec![300_000; 3]] {
        for bytes in sizes {
            ada.upload("engine", &site(bytes)).await.created();
            deployments += 1;
        }
        let (on_disk, files) = taken(&store);
        let counted = usage::holdings(&db, &account, Clock::system().now()).await.unwrap().stored_bytes;
        let counted = u64::try_from(counted).unwrap();
        assert_eq!(files, 2 * deployments);
        assert!(counted.abs_diff(on_disk) * 10 <= on_disk, "{counted} bytes are counted, and {on_disk} taken");
    }
}

#[tokio::test]
async fn a_project_ends_with_ten_times_the_deployments_of_its_plan() {
    let world = World::builder().plan(&json!({ "deployments": 1 })).start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let first = ada.deploy("engine", &Site::page("page")).await.id;
    for _ in 1..8 {
        ada.deploy("engine", &Site::page("page")).await;
    }
    let page = Site::page("page");
    let uploads = join_all((0..6).map(|_| ada.upload("engine", &page).into_future()));
    assert_eq!(count_made(uploads.await, "10 deployments of a project"), 2);
    assert_refused_without_body(&ada, "/projects/engine/deployments").await;
    // Nothing that was said to stay has gone, and what its owner deletes makes room. Another project has its own number.
    let kept = "SELECT count(*) FROM deployments WHERE status IN ('live', 'superseded')";
    assert_eq!(world.sql_number(kept).await, 10);
    ada.delete(&format!("/projects/engine/deployments/{first}")).await.ok();
    ada.deploy("engine", &Site::page("page")).await;
    ada.publish("other", &Site::page("page")).await;
    eventually(BACKGROUND, "no pack of a refused upload stays", async || world.stored_files().len() == 2 * 11).await;
}

#[tokio::test]
async fn failed_uploads_leave_so_many_rows_and_no_more() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for name in ["engine", "other"] {
        ada.create_project(name).await;
    }
    ada.upload("other", &Site::new()).await.assert_error(400, "invalid_archive");
    for _ in 0..3 {
        join_all(
            (0..8).map(|_| async { ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive") }),
        )
        .await;
    }
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    let newest = world.sql_text("SELECT max(id) FROM deployments").await;
    let list = ada.get("/projects/engine/deployments").await.ok();
    let ids: Vec<_> = list["deployments"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0]), (20, &*newest));
    assert_eq!(world.sql_number("SELECT count(*) FROM deployments").await, 21, "another project's are its own");
}

#[tokio::test]
async fn uploads_are_refused_while_the_disk_is_nearly_full() {
    // Every disk is fuller than this.
    let world = World::builder().set("ADMIN__FREE_DISK_PERCENT", 100).start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    for path in ["/shares", "/projects/engine/deployments"] {
        let body = reqwest::Body::wrap_stream(stream::pending::<std::io::Result<bytes::Bytes>>());
        let start = std::time::Instant::now();
        let answer = ada.post(path).upload(body).await;
        assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
        assert!(answer.assert_error(503, "busy").contains("disk"));
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(world.stored_files().len(), 0);
}
