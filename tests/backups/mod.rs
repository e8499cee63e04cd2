//! Backups, and the way back from them, as an operator walks it: with the programs of PostgreSQL, on real data.

mod damage;
mod figures;
mod point_in_time;

use std::{
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use url::Url;

use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::Provider,
    world::{Actor, Site, World, eventually, ports, site::noise},
};

/// Sites of a test, unless `SVC_TEST_BACKUP_SITES` says another number.
const SITES: usize = 12;

/// What is asked for again after a restore.
struct Visits(Vec<(String, Vec<u8>)>);

impl Visits {
    /// Publishes so many sites, with files that do not compress and some that do.
    async fn publish(ada: &Actor, prefix: &str, count: usize) -> Self {
        let mut visits = Vec::new();
        for number in 0..count {
            let (page, picture) = (format!("<p>{prefix} {number}</p>").repeat(200), noise(5_000 + number));
            let site = Site::page(&page).file("picture.png", &picture).file("empty.txt", "");
            let live = ada.publish(&format!("{prefix}-{number}"), &site).await;
            visits.push((live.url.clone(), page.into_bytes()));
            visits.push((format!("{}/picture.png", live.url), picture));
            visits.push((format!("{}/empty.txt", live.permanent_url()), Vec::new()));
        }
        Self(visits)
    }

    async fn assert_all(&self, world: &World) {
        for (url, body) in &self.0 {
            world.edge().get(url).await.assert_body(200, body);
        }
    }
}

/// The address of a folder of the world for backups.
fn place(world: &World, name: &str) -> String {
    Url::from_directory_path(world.folder().join(name)).unwrap().to_string()
}

/// Runs `admin …`, which must fail. Returns what it complained of.
async fn refused(world: &World, arguments: &[&str]) -> String {
    let output: Output = world.operate(arguments).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "admin {arguments:?} did it: {}", String::from_utf8_lossy(&output.stdout));
    said
}

/// The number before `what` in what a command said.
fn number_before(said: &str, what: &str) -> usize {
    let before = said.split(what).next().unwrap_or_else(|| panic!("{said}"));
    let number = before.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty());
    number.unwrap_or_else(|| panic!("no number before {what}: {said}")).parse().unwrap()
}

fn copied(said: &str) -> usize {
    number_before(said.split("copied").nth(1).unwrap_or_else(|| panic!("{said}")), " pack")
}

/// What an account has, as the API tells it.
async fn account(ada: &Actor) -> Vec<Value> {
    let mut told = Vec::new();
    for path in
        ["/me", "/projects", "/tokens", "/shares", "/orgs", "/orgs/acme/tokens", "/usage/ai", "/projects/engine/env"]
    {
        told.push(ada.get(path).await.ok());
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_comes_back() {
    let (provider, metrics) = (Provider::start().await, ports::free());
    let mut world = World::builder()
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .start()
        .await;
    let place = place(&world, "backups");
    let ada = world.user("ada").await;
    let count = std::env::var("SVC_TEST_BACKUP_SITES").map_or(SITES, |count| count.parse().unwrap());
    let mut visits = Visits::publish(&ada, "site", count).await;
    ada.publish("engine", &Site::page("engine")).await;
    ada.put("/projects/engine/env/KEY").json(&json!({ "value": "a secret value" })).await.ok();
    ada.put("/projects/engine/password").json(&json!({ "password": "open sesame" })).await.ok();
    let share = ada.share(&Site::page("shared"), 3).await;
    visits.0.push((share.url.clone(), b"shared".to_vec()));
    ada.post("/orgs").json(&json!({ "name": "acme" })).await.created();
    let deploying = ada.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let deploying = ada.with_token(deploying["token"].as_str().unwrap());
    let asking = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let ask = async |world: &World| {
        let body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "hello" }] });
        let url = "https://ai.svc.localhost/v1/chat/completions";
        world.edge().post(url).bearer(asking["token"].as_str().unwrap()).json(&body).await.assert_status(200);
    };
    ask(&world).await;
    let completions = async |world: &World| world.sql_number("SELECT count(*) FROM ai_usage").await;
    eventually(BACKGROUND, "the completion is recorded", async || completions(&world).await == 1).await;

    // An order that is settled has no key of its own any more.
    world
        .sql(
            "INSERT INTO certificate_orders (name, state, since, watched_at)
             VALUES ('www.example.localhost', 'live', now(), now())",
        )
        .await;

    // While it is made, the service is used.
    let is_made = AtomicBool::new(false);
    let deploying_meanwhile = async {
        ada.create_project("busy").await;
        let mut deployed = 0;
        while !is_made.load(Ordering::Relaxed) {
            ada.deploy("busy", &Site::page(&format!("busy {deployed}"))).await;
            deployed += 1;
        }
        deployed
    };
    let making = async {
        let said = world.admin_prints(&["backup", &place]).await;
        is_made.store(true, Ordering::Relaxed);
        said
    };
    let (said, meanwhile) = tokio::join!(making, deploying_meanwhile);
    assert!(said.contains("is complete") && copied(&said) >= count + 2, "{said}");
    assert!(meanwhile > 0, "nothing was deployed while the backup was made");

    // The second one copies what is new alone.
    let more = Visits::publish(&ada, "more", 3).await;
    let said = world.admin_prints(&["backup", &place]).await;
    let superseded = usize::try_from(world.sql_number("SELECT count(*) FROM deployments").await).unwrap();
    assert!((3..=3 + meanwhile).contains(&copied(&said)), "{said}");
    assert_eq!(number_before(&said, " pack"), superseded, "{said}");
    visits.0.extend(more.0);
    visits.0.push((world.site_url("busy"), format!("busy {}", meanwhile - 1).into_bytes()));
    let said = world.admin_prints(&["backup", &place]).await;
    assert_eq!(copied(&said), 0, "{said}");
    let said = world.admin_prints(&["backup", "verify", &place]).await;
    assert!(said.contains("is undamaged"), "{said}");
    let listed = world.admin_prints(&["backup", "list", &place]).await;
    assert_eq!(listed.lines().count(), 1 + 3, "{listed}");
    eventually(2 * BACKGROUND, "the age of the last backup is shown", async || {
        Page::of(metrics).await.sum("svc_backup_last_timestamp_seconds") > 1_700_000_000.0
    })
    .await;

    let before = account(&ada).await;
    visits.assert_all(&world).await;
    world.lose_everything().await;
    let said = world.admin_prints(&["restore", &place, "--verify"]).await;
    assert!(said.contains("everything was read back"), "{said}");
    world.start_programs().await;
    visits.assert_all(&world).await;
    assert_eq!(account(&ada).await, before);
    assert_eq!(completions(&world).await, 1);
    let gate = world.edge().get(&world.site_url("engine"));
    gate.header("authorization", "Basic eDpvcGVuIHNlc2FtZQ==").await.assert_body(200, "engine");
    deploying.get("/me").await.ok();
    ask(&world).await;
    // It goes on from there, and so do its backups.
    visits.0.extend(Visits::publish(&ada, "later", 1).await.0);
    ada.delete("/projects/more-0").await.ok();
    let said = world.admin_prints(&["backup", &place]).await;
    assert_eq!(copied(&said), 1, "{said}");

    // A pack that a backup which is kept needs stays; the others go.
    let said = world.admin_prints(&["backup", "prune", &place, "--keep-last", "2"]).await;
    assert_eq!((number_before(&said, " backup"), number_before(&said, " pack")), (2, 0), "{said}");
    let said = world.admin_prints(&["backup", "prune", &place, "--keep-last", "1"]).await;
    assert_eq!((number_before(&said, " backup"), number_before(&said, " pack")), (1, 1), "{said}");
    world.admin_prints(&["backup", "verify", &place]).await;

    // Over a database that is in use it takes its name; what was there is kept.
    let name = world.database.path().trim_start_matches('/').to_owned();
    assert!(refused(&world, &["restore", &place]).await.contains("--overwrite"));
    world.stop_programs();
    assert!(refused(&world, &["restore", &place, "--overwrite", "other"]).await.contains("--overwrite"));
    let said = world.admin_prints(&["restore", &place, "--overwrite", &name]).await;
    assert!(said.contains("DROP SCHEMA before_"), "{said}");
    world.start_programs().await;
    visits.0.retain(|(url, _)| !url.contains("more-0"));
    visits.assert_all(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_backed_up_into_another_and_comes_back() {
    let mut world = World::builder().bucket().set("BACKUP__URL", "s3://packs/elsewhere/backups").start().await;
    let ada = world.user("ada").await;
    // Larger than a part of an upload, and than what is read at a time.
    let large = noise(9_000_000);
    let live = ada.publish("engine", &Site::page("engine").file("film.bin", &large)).await;
    let said = world.admin_prints(&["backup"]).await;
    assert_eq!(copied(&said), 1, "{said}");
    assert_eq!(copied(&world.admin_prints(&["backup"]).await), 0);
    world.lose_everything().await;
    assert!(!world.bucket().objects().iter().any(|object| object.starts_with("a/prefix")));
    world.admin_prints(&["restore", "--verify"]).await;
    world.start_programs().await;
    world.edge().get(&live.url).await.assert_body(200, "engine");
    world.edge().get(&format!("{}/film.bin", live.url)).await.assert_body(200, &large);
    ada.delete("/projects/engine").await.ok();
    world.admin_prints(&["backup"]).await;
    let said = world.admin_prints(&["backup", "prune", "--keep-last", "1"]).await;
    assert_eq!(number_before(&said, " pack removed"), 1, "{said}");
    world.admin_prints(&["backup", "verify"]).await;
}
