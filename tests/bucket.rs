//! Deployments that are kept in an S3 bucket: what an upload becomes there, what an edge reads from it, and what
//! happens when the bucket fails.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{
        Site, World, eventually, ports,
        site::{gzip, noise},
    },
};

/// Larger than what an edge keeps in memory, and than a part of an upload to the bucket.
const LARGE: usize = 19_000_000;

/// The objects of a deployment's pack.
fn pack(deployment: &str) -> Vec<String> {
    ["data", "manifest"].map(|object| format!("a/prefix/deployments/{deployment}/{object}")).to_vec()
}

fn packs(deployments: &[&str]) -> Vec<String> {
    let mut objects: Vec<String> = deployments.iter().flat_map(|id| pack(id)).collect();
    objects.sort();
    objects
}

#[tokio::test]
async fn a_site_is_served_from_a_bucket_whole_and_in_parts() {
    let world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let page = "<p>words</p>\n".repeat(1_000);
    let large = noise(LARGE);
    let site = Site::page("home").file("docs/index.html", &page).file("empty.txt", "").file("film.bin", &large);
    let live = ada.publish("engine", &site).await;
    assert_eq!(world.bucket().objects(), pack(&live.id));
    let listed = ada.get(&format!("/projects/engine/deployments/{}/files", live.id)).await.ok();
    assert_eq!((listed["files"].as_array().unwrap().len(), &listed["files"][2]["size"]), (4, &json!(LARGE)));

    let edge = world.edge();
    edge.get(&live.url).await.assert_body(200, "home");
    edge.get(&format!("{}/empty.txt", live.url)).await.assert_body(200, "");
    edge.get(&format!("{}/missing.txt", live.url)).await.assert_status(404);
    edge.get(&live.permanent_url()).await.assert_body(200, "home");
    let docs = format!("{}/docs/", live.url);
    edge.get(&docs).await.assert_body(200, &page);
    for (encoding, decode) in [
        ("zstd", (|bytes| zstd::decode_all(bytes).unwrap()) as fn(&[u8]) -> Vec<u8>),
        ("br", |bytes| {
            let mut page = Vec::new();
            std::io::Read::read_to_end(&mut brotli::Decompressor::new(bytes, 4_096), &mut page).unwrap();
            page
        }),
    ] {
        let answer = edge.get(&docs).header("accept-encoding", encoding).await.assert_status(200);
        assert_eq!(answer.header("content-encoding"), encoding);
        assert_eq!(decode(&answer.body), page.as_bytes(), "{encoding}");
    }

    let film = format!("{}/film.bin", live.url);
    let whole = edge.get(&film).await.assert_body(200, &large);
    assert_eq!(edge.get_http1(&film).await.assert_body(200, &large).header("etag"), whole.header("etag"));
    let head = edge.request(Method::HEAD, &film).await.assert_body(200, "");
    assert_eq!(head.header("content-length"), LARGE.to_string());
    edge.get(&film).header("if-none-match", whole.header("etag")).await.assert_status(304);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=8388600-8388620", 8_388_600, 8_388_621),
        ("bytes=300000-12000000", 300_000, 12_000_001),
        ("bytes=-5", LARGE - 5, LARGE),
        ("bytes=18999990-", 18_999_990, LARGE),
    ] {
        let answer = edge.get(&film).header("range", range).await.assert_body(206, &large[from..to]);
        assert_eq!(answer.header("content-range"), format!("bytes {from}-{}/{LARGE}", to - 1));
    }
    let parts = edge.get(&film).header("range", "bytes=1-3,18000000-18000003").await.assert_status(206);
    for part in [&large[1..4], &large[18_000_000..18_000_004]] {
        assert!(parts.body.windows(part.len()).any(|window| window == part));
    }
    edge.get(&film).header("range", format!("bytes={LARGE}-")).await.assert_status(416);
}

#[tokio::test]
async fn a_large_file_is_read_in_few_requests_and_no_longer_than_anybody_takes_it() {
    const BLOCK: usize = 60 * 1024;
    let metrics = ports::free();
    let world = World::builder()
        .bucket()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .set("EDGE__HTTP_MODE", "serve")
        .start()
        .await;
    let ada = world.user("ada").await;
    let (song, film) = (noise(5_000_000), noise(LARGE));
    ada.publish("engine", &Site::page("home").file("song.bin", &song).file("film.bin", &film)).await;
    let (edge, url) = (world.edge(), format!("{}/song.bin", world.site_url("engine")));
    world.bucket().take_reads();

    // 14 when the visitor is never behind. One who is has less read at a time, so that a busy machine takes a few more.
    let blocks = song.len().div_ceil(BLOCK);
    edge.get(&url).await.assert_body(200, &song);
    let reads = world.bucket().take_reads();
    assert_eq!(reads.iter().sum::<usize>(), song.len(), "{reads:?}");
    assert!(reads.len() <= blocks / 2, "{} of {blocks}: {reads:?}", reads.len());
    // Over HTTP/1.1 several blocks are on their way together, which leaves less to spare for reading ahead.
    edge.get_http1(&url).await.assert_body(200, &song);
    let reads = world.bucket().take_reads();
    assert_eq!(reads.iter().sum::<usize>(), song.len(), "{reads:?}");
    assert!(reads.len() < blocks, "{} of {blocks}: {reads:?}", reads.len());

    for (from, to) in [(100_000, 3_100_000), (4_999_000, 5_000_000), (BLOCK - 1, BLOCK + 1), (0, 4_000_000)] {
        let answer = edge.get(&url).header("range", format!("bytes={from}-{}", to - 1)).await;
        answer.assert_body(206, &song[from..to]);
        let reads = world.bucket().take_reads();
        // Whole blocks: a part of one could not be checked.
        let whole_blocks = (to.div_ceil(BLOCK) * BLOCK).min(song.len()) - from / BLOCK * BLOCK;
        assert_eq!(reads.iter().sum::<usize>(), whole_blocks, "{from} to {to}: {reads:?}");
        assert!(reads.len() <= (to - from).div_ceil(2 * BLOCK).max(2), "{from} to {to}: {reads:?}");
    }

    // One who takes the beginning of a film, and leaves. The bucket was asked for what the kernel holds and a little more.
    let in_flight = async || Page::of(metrics).await.labelled("svc_edge_memory_bytes", r#"kind="in_flight""#);
    let mut visitor = TcpStream::connect(("127.0.0.1", edge.http_port)).await.unwrap();
    visitor.write_all(b"GET /film.bin HTTP/1.1\r\nhost: engine.svc.localhost\r\n\r\n").await.unwrap();
    visitor.read_exact(&mut [0; 1_000]).await.unwrap();
    eventually(BACKGROUND, "the film is on its way", async || in_flight().await > Some(0.0)).await;
    drop(visitor);
    eventually(BACKGROUND, "nothing is on its way", async || in_flight().await == Some(0.0)).await;
    let reads = world.bucket().take_reads();
    assert!(reads.iter().sum::<usize>() < film.len(), "{reads:?}");
    edge.get(&world.site_url("engine")).await.assert_body(200, "home");
    assert_eq!(world.bucket().take_reads(), ["home".len()], "nothing of the film is read any longer");
}

#[tokio::test]
async fn rolling_back_keeps_the_objects_and_deleting_removes_them() {
    let world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("first")).await;
    let second = ada.deploy("engine", &Site::page("second")).await;
    world.edge().get(&first.url).await.assert_body(200, "second");
    ada.activate("engine", &first.id).await.ok();
    world.edge().get(&first.url).await.assert_body(200, "first");
    assert_eq!(world.bucket().objects(), packs(&[&first.id, &second.id]));

    ada.delete(&format!("/projects/engine/deployments/{}", second.id)).await.ok();
    world.edge().get(&second.permanent_url()).await.assert_status(404);
    let removed = async || world.bucket().objects() == pack(&first.id);
    eventually(BACKGROUND, "the deleted deployment's objects are removed", removed).await;
    let in_trash = ["data", "manifest"].map(|object| format!("a/prefix/trash/{}/{object}", second.id));
    assert_eq!(world.bucket().trashed_objects(), in_trash);

    ada.post("/projects/engine/deployments").upload(gzip(b"no tar")).await.assert_error(400, "invalid_archive");
    assert_eq!(world.bucket().objects(), pack(&first.id));
    world.edge().get(&first.url).await.assert_body(200, "first");

    ada.delete("/projects/engine").await.ok();
    assert_eq!(world.bucket().objects(), pack(&first.id), "it can still be restored");
    world.sql("UPDATE pack_removals SET next_attempt_at = now()").await;
    eventually(BACKGROUND, "the project's objects are removed", async || world.bucket().objects().is_empty()).await;
}

#[tokio::test]
async fn an_expired_share_is_reaped_from_the_bucket() {
    let mut world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let lasting = ada.share(&Site::page("lasting"), 1).await;
    let brief = ada.share(&Site::page("brief"), 1).await;
    world.edge().get(&brief.url).await.assert_body(200, "brief");
    assert_eq!(world.bucket().objects(), packs(&[&lasting.id, &brief.id]));
    let over = format!("UPDATE projects SET expires_at = now() WHERE share_name = '{}'", brief.share_name());
    world.sql(&over).await;
    world.restart_admin_later().await;
    let reaped = async || world.bucket().objects() == pack(&lasting.id);
    eventually(BACKGROUND, "the share's objects are reaped", reaped).await;
    world.edge().get(&brief.url).await.assert_status(404);
    world.edge().get(&lasting.url).await.assert_body(200, "lasting");
}

#[tokio::test]
async fn while_the_bucket_is_away_warm_files_are_served_and_nothing_new_goes_live() {
    let mut world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("first")).await;
    let second = ada.deploy("engine", &Site::page("second").file("cold.txt", "cold")).await;
    world.edge().get(&first.url).await.assert_body(200, "second");
    world.bucket_mut().stop();

    let refusal = ada.upload("engine", &Site::page("third")).await;
    assert_eq!(refusal.header("retry-after"), "5");
    let refusal = refusal.assert_error(503, "busy");
    assert!(!refusal.contains("127.0.0.1") && !refusal.contains("packs"), "{refusal}");
    ada.post("/shares").upload(Site::page("share").tarball()).await.assert_error(503, "busy");
    world.edge().get(&first.url).await.assert_body(200, "second");
    world.edge().get(&format!("{}/cold.txt", first.url)).await.assert_status(503);
    let project = ada.project("engine").await;
    assert_eq!(project["active_deployment_id"], second.id);
    assert_eq!(project["deployments"][0]["status"], "failed");
    assert_eq!(ada.get("/shares").await.ok()["shares"], json!([]));

    // A record goes at once; its objects when the bucket is back.
    ada.delete(&format!("/projects/engine/deployments/{}", first.id)).await.ok();
    world.bucket_mut().restart();
    world.edge().get(&format!("{}/cold.txt", first.url)).await.assert_body(200, "cold");
    let third = ada.deploy("engine", &Site::page("third")).await;
    world.edge().get(&first.url).await.assert_body(200, "third");
    let removed = async || world.bucket().objects() == packs(&[&second.id, &third.id]);
    eventually(BACKGROUND, "the deleted deployment's objects are removed", removed).await;
}

#[tokio::test]
async fn an_upload_is_refused_in_time_while_the_bucket_hangs() {
    let world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("before")).await;
    world.bucket().set_silent(true);
    let start = Instant::now();
    let refused = ada.upload("engine", &Site::page("after")).await;
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert_eq!(refused.header("retry-after"), "5");
    refused.assert_error(503, "busy");
    world.edge().get(&live.url).await.assert_body(200, "before");
    assert_eq!(ada.project("engine").await["deployments"][0]["status"], "failed");
    world.bucket().set_silent(false);
    let after = ada.deploy("engine", &Site::page("after")).await;
    world.edge().get(&after.url).await.assert_body(200, "after");
}

#[tokio::test]
async fn what_the_bucket_takes_only_half_of_never_goes_live_and_is_cleared_away() {
    let mut world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("before")).await;
    let site = Site::page("after").file("film.bin", noise(LARGE));
    let nothing_changed = async |world: &World| {
        world.edge().get(&live.url).await.assert_body(200, "before");
        assert_eq!(ada.project("engine").await["active_deployment_id"], live.id);
    };

    // The last part of the data, then the manifest: what was written until then is taken back at once.
    for refusal in
        [(|method, path| method == "PUT" && path.ends_with("/data")) as fn(&str, &str) -> bool, |method, path| {
            method == "PUT" && path.ends_with("/manifest")
        }]
    {
        world.bucket().refuse(refusal);
        ada.upload("engine", &site).await.assert_error(503, "busy");
        assert_eq!(world.bucket().objects(), pack(&live.id));
        nothing_changed(&world).await;
    }

    // Neither the manifest nor the taking back succeeds: the search for orphans finds it.
    world.bucket().refuse(|method, path| {
        // Objects are deleted in bulk: `POST /packs?delete`.
        path.ends_with("/manifest") || method == "DELETE" || (method == "POST" && !path.ends_with("/data"))
    });
    ada.upload("engine", &site).await.assert_error(503, "busy");
    assert_eq!(world.bucket().objects().len(), 3);
    nothing_changed(&world).await;
    world.bucket().refuse_nothing();
    world.bucket().age(Duration::from_hours(2));
    world.restart_admin_later().await;
    let cleared = async || world.bucket().objects() == pack(&live.id);
    eventually(BACKGROUND, "the orphan is removed", cleared).await;
    nothing_changed(&world).await;
    let after = ada.deploy("engine", &site).await;
    world.edge().get(&after.url).await.assert_body(200, "after");
}

#[tokio::test]
async fn a_bucket_that_is_gone_is_away_and_no_pack_is_lost() {
    let metrics = ports::free();
    let world = World::builder().bucket().set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}")).start().await;
    let ada = world.user("ada").await;
    let (film, early) = (noise(5_000_000), ada.publish("engine", &Site::page("early")).await);
    let site = Site::page("home").file("film.bin", &film);
    let live = ada.deploy("engine", &site).await;
    world.edge().get(&live.url).await.assert_body(200, "home");
    world.bucket().set_gone(true);

    // Warm pages go on. A large file is 503 from its head on, whole, in part and in parts.
    world.edge().get(&live.url).await.assert_body(200, "home");
    let url = format!("{}/film.bin", live.url);
    for range in ["bytes=0-", "bytes=1-3,4000000-4000003"] {
        world.edge().get(&url).header("range", range).await.assert_status(503);
    }
    let answer = world.edge().get(&url).await.assert_status(503);
    assert_eq!(answer.header("retry-after"), "5");
    let (id, page) = (answer.header("x-request-id").to_owned(), String::from_utf8_lossy(&answer.body).into_owned());
    assert!(page.contains(&id) && !page.contains("Nothing is lost"), "{page}");
    let log = world.edge().process.log();
    assert!(log.lines().any(|line| line.contains(&id) && line.contains("there is no such bucket")), "{id}: {log}");
    assert!(!log.contains("is missing in the store"), "{log}");

    let refused = ada.upload("engine", &Site::page("later")).await.assert_status(503);
    assert!(!refused.header("retry-after").is_empty());
    refused.assert_error(503, "busy");
    let refused = ada.activate("engine", &early.id).await.assert_error(503, "files_unavailable");
    assert!(refused.contains("does not answer"), "{refused}");
    eventually(BACKGROUND, "the metric says it", async || {
        Page::of(metrics).await.labelled("svc_dependency_up", r#"name="store""#) == Some(0.0)
    })
    .await;
    let said = String::from_utf8(world.operate(&["doctor"]).await.stdout).unwrap();
    let line = said.lines().find(|line| line.contains("  store  ")).unwrap();
    assert!(line.starts_with("FAIL") && line.contains("s3://packs/") && line.contains("no such bucket"), "{said}");
    assert!(!world.operate(&["store", "check"]).await.status.success());
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_faults").await, 0, "nothing is known to be lost");

    world.bucket().set_gone(false);
    world.edge().get(&url).await.assert_body(200, &film);
    ada.activate("engine", &early.id).await.ok();
}
