//! A store that loses and damages what it keeps: visitors get the right bytes or 503, the operator is told what is wrong, and a
//! replica brings it back.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use url::Url;

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Actor, Site, World, eventually, ports, site::noise},
};

/// Larger than what an edge keeps in memory.
const LARGE: usize = 4_400_000;

/// The folder of a deployment's pack below a store.
fn pack(store: &Path, deployment: &str) -> PathBuf {
    store.join("deployments").join(deployment)
}

/// Where the objects of a world with a bucket are.
fn bucket_store(world: &World) -> PathBuf {
    world.folder().join("bucket/packs/a/prefix")
}

fn flip(object: &Path, at: usize) {
    let file = File::options().read(true).write(true).open(object).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at as u64).unwrap();
}

/// Where a file lies in its pack's data, as it is and in its first variant.
fn spans(pack: &Path, path: &str) -> (usize, Option<usize>) {
    let manifest: Value = serde_json::from_slice(&fs::read(pack.join("manifest")).unwrap()).unwrap();
    let file = &manifest["files"][path];
    let offset = |span: &Value| span["offset"].as_u64().map(|offset| usize::try_from(offset).unwrap());
    (offset(&file["identity"]).unwrap(), offset(&file["variants"][0][1]))
}

fn site(film: &[u8]) -> Site {
    Site::page("home").file("page.html", "<p>words</p>\n".repeat(9_000)).file("film.bin", film).file("note.txt", "note")
}

/// The faults that `admin store check` names: project, kind and paths.
async fn check(world: &World, arguments: &[&str]) -> (bool, Vec<(String, String, Vec<String>)>) {
    let output = world.operate(&[&["store", "check", "--json"][..], arguments].concat()).await;
    let outcome: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = outcome["faults"].as_array().unwrap().iter().map(|fault| {
        let paths = fault["paths"].as_array().unwrap().iter().map(text).collect();
        (text(&fault["project"]), text(&fault["kind"]), paths)
    });
    (output.status.success(), named.collect())
}

async fn assert_lost_to_visitors_and_people(world: &World, store: &Path, ada: &Actor) {
    let film = noise(LARGE);
    let whole = ada.publish("whole", &site(&film)).await;
    let lostman = ada.publish("lostman", &site(&film)).await;
    let lostdata = ada.publish("lostdata", &site(&film)).await;
    let damaged = ada.publish("damaged", &site(&film)).await;
    fs::remove_file(pack(store, &lostman.id).join("manifest")).unwrap();
    fs::remove_file(pack(store, &lostdata.id).join("data")).unwrap();
    let (at, variant) = spans(&pack(store, &damaged.id), "page.html");
    flip(&pack(store, &damaged.id).join("data"), at + 70_000);
    flip(&pack(store, &damaged.id).join("data"), variant.unwrap() + 3);
    flip(&pack(store, &damaged.id).join("data"), spans(&pack(store, &damaged.id), "film.bin").0 + 200_000);

    let edge = world.edge();
    for lost in [&lostman, &lostdata] {
        for path in ["/", "/page", "/note.txt"] {
            let answer = edge.get(&format!("{}{path}", lost.url)).await.assert_status(503);
            assert_eq!(answer.header("retry-after"), "5");
        }
    }
    edge.get(&damaged.url).await.assert_body(200, "home");
    edge.get(&format!("{}/note.txt", damaged.url)).await.assert_body(200, "note");
    for coding in ["identity", "zstd"] {
        edge.get(&format!("{}/page", damaged.url)).header("accept-encoding", coding).await.assert_status(503);
    }
    let ranged = |range: &str| edge.get(&format!("{}/film.bin", damaged.url)).header("range", range);
    ranged("bytes=0-99999").await.assert_body(206, &film[..100_000]);
    ranged("bytes=4000000-").await.assert_body(206, &film[4_000_000..]);
    edge.get(&format!("{}/film.bin", whole.url)).await.assert_body(200, &film);

    for (lost, name) in [(&lostman, "lostman"), (&lostdata, "lostdata")] {
        let path = format!("/projects/{name}/deployments/{}", lost.id);
        if name == "lostman" {
            ada.get(&format!("{path}/files")).await.assert_error(503, "files_unavailable");
            ada.get(&format!("{path}/changes")).await.assert_error(503, "files_unavailable");
            ada.get(&format!("{path}/icon")).await.assert_error(503, "files_unavailable");
            ada.get(&format!("{path}/archive")).await.assert_error(503, "files_unavailable");
        }
        let live = ada.deploy(name, &Site::page("after")).await;
        ada.activate(name, &lost.id).await.assert_error(503, "files_unavailable");
        assert_eq!(ada.project(name).await["active_deployment_id"], json!(live.id));
        edge.get(&lost.url).await.assert_body(200, "after");
        // What an earlier deployment may lend does not keep the live one from answering.
        edge.get(&format!("{}/app.3f2a9c1b.js", lost.url)).await.assert_status(404);
    }

    let (is_sound, named) = check(world, &[]).await;
    assert!(!is_sound);
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    let fault = |project: &str, kind: &str, of: &[&str]| (project.to_owned(), kind.to_owned(), paths(of));
    let all = ["film.bin", "index.html", "note.txt", "page.html"];
    let mut named = named;
    named.sort();
    let expected = [
        fault("damaged", "data_damaged", &["film.bin", "page.html"]),
        fault("lostdata", "data_missing", &all),
        fault("lostman", "manifest_missing", &[]),
    ];
    assert_eq!(named, expected);
    assert_eq!(check(world, &["--deployment", &whole.id]).await, (true, Vec::new()));
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_faults WHERE repaired_at IS NULL").await, 3);

    ada.delete(&format!("/projects/lostman/deployments/{}", lostman.id)).await.ok();
    edge.get(&lostman.permanent_url()).await.assert_status(404);
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_faults").await, 2);
}

#[tokio::test]
async fn what_a_folder_lost_or_damaged_is_a_503_and_named() {
    let metrics = ports::free();
    let world = World::builder().set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}")).start().await;
    let ada = world.user("ada").await;
    assert_lost_to_visitors_and_people(&world, &world.folder().join("store"), &ada).await;
    let page = Page::of(metrics).await;
    assert!(page.sum("svc_packs_missing_total") >= 2.0 && page.sum("svc_store_damaged_total") >= 2.0, "{}", page.text);
    let log = world.edges[0].process.log();
    assert!(log.contains("damaged in the store") && log.contains("page.html"), "{log}");
}

#[tokio::test]
async fn what_a_bucket_lost_or_damaged_is_a_503_and_named() {
    let world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    assert_lost_to_visitors_and_people(&world, &bucket_store(&world), &ada).await;
}

#[tokio::test]
async fn a_replica_serves_what_is_lost_and_brings_it_back_byte_for_byte() {
    let replica = tempfile::tempdir().unwrap();
    let mut world = World::builder()
        .bucket()
        .set("STORE__REPLICA_URL", Url::from_directory_path(replica.path()).unwrap())
        .set("STORE__CHECK_DAYS", 0)
        .start()
        .await;
    let ada = world.user("ada").await;
    let store = bucket_store(&world);
    let film = noise(LARGE);
    let live = ada.publish("engine", &site(&film)).await;
    let copied = async || pack(replica.path(), &live.id).join("manifest").exists();
    eventually(BACKGROUND, "the pack is copied to the replica", copied).await;
    let noted = async || world.sql_number("SELECT count(*) FROM pack_copies").await == 1;
    eventually(BACKGROUND, "the copy is noted", noted).await;
    let objects =
        |store: &Path| ["data", "manifest"].map(|object| fs::read(pack(store, &live.id).join(object)).unwrap());
    let right = objects(&store);
    assert!(objects(replica.path()) == right);

    let pages = async |world: &World| {
        let edge = world.edge();
        edge.get(&live.url).await.assert_body(200, "home");
        edge.get(&format!("{}/film.bin", live.url)).await.assert_body(200, &film);
        edge.get(&format!("{}/page", live.url)).await.assert_body(200, "<p>words</p>\n".repeat(9_000));
    };
    let data = pack(&store, &live.id).join("data");
    flip(&data, spans(&pack(&store, &live.id), "film.bin").0 + 3_000_000);
    flip(&data, spans(&pack(&store, &live.id), "page.html").0);
    pages(&world).await;
    assert!(!check(&world, &[]).await.0);
    let (is_sound, named) = check(&world, &["--repair"]).await;
    assert!(is_sound && named.len() == 1, "{named:?}");
    assert!(objects(&store) == right);
    assert_eq!(check(&world, &[]).await, (true, Vec::new()));
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_faults WHERE repaired_at IS NOT NULL").await, 1);
    let aside = fs::read_dir(store.join("damaged")).unwrap().count();
    assert_eq!(aside, 1, "what was damaged is put aside");

    fs::remove_dir_all(pack(&store, &live.id)).unwrap();
    world.restart_edge(0).await;
    pages(&world).await;
    assert!(check(&world, &["--repair"]).await.0);
    assert!(objects(&store) == right);
}

#[tokio::test]
async fn a_job_finds_and_repairs_by_itself() {
    let replica = tempfile::tempdir().unwrap();
    let metrics = ports::free();
    let mut world = World::builder()
        .set("STORE__REPLICA_URL", Url::from_directory_path(replica.path()).unwrap())
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("home")).await;
    let noted = async || world.sql_number("SELECT count(*) FROM pack_copies").await == 1;
    eventually(BACKGROUND, "the pack is copied", noted).await;
    let data = pack(&world.folder().join("store"), &live.id).join("data");
    flip(&data, 0);
    // The next round is due.
    world.sql("UPDATE job_leases SET cursor = NULL WHERE job = 'check the store'").await;
    world.restart_admin_later().await;
    let repaired = async || fs::read(&data).unwrap() == b"home";
    eventually(BACKGROUND, "the pack is repaired", repaired).await;
    let is_shown = async || {
        let page = Page::of(metrics).await;
        page.sum("svc_store_checked_timestamp_seconds") > 0.0 && page.sum("svc_store_faults") < 1.0
    };
    eventually(BACKGROUND, "the whole check is shown", is_shown).await;
}

/// A pack that is too large for one step of the job, whose fault was found before the first step and is gone.
#[tokio::test]
async fn a_job_clears_the_fault_of_a_pack_that_it_reads_in_steps() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("home").file("film.bin", noise(3_000_000))).await;
    world
        .sql(
            "INSERT INTO pack_faults (deployment_id, kind, project_id, paths, found_at)
             SELECT id, 'data_missing', project_id, 0, now() - interval '1 hour' FROM deployments",
        )
        .await;
    let now = world.sql_text("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')").await;
    let round = json!({
        "began": now, "rate": 1_000_000, "is_live": true, "after": null, "within": [live.id, 2_000_000],
        "within_since": now, "ended": null, "last_whole": null,
    });
    world.sql(&format!("UPDATE job_leases SET cursor = '{round}' WHERE job = 'check the store'")).await;
    world.restart_admin_later().await;
    let open = "SELECT count(*) FROM pack_faults WHERE repaired_at IS NULL";
    eventually(BACKGROUND, "the fault is cleared", async || world.sql_number(open).await == 0).await;
}
