//! A site's `_headers` and `_redirects`: a few bytes of a rule stand for a whole path, once for each placeholder. Anybody may
//! publish such a site, and anybody may visit it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{Site, World};

/// Requests of an attack.
const REQUESTS: usize = 4;
/// Headers that each of them meets. Without bounds they take some 190 MB a request: enough to be seen, and not to harm.
const HEADERS: usize = 30;
/// Bytes by which the edge may grow under them.
const GROWTH: u64 = 100 * 1024 * 1024;
/// Processor time that the edge may take for them; without bounds each takes a second and more.
const PROCESSOR: Duration = Duration::from_millis(1_500);

/// A value that stands for 900 times what its placeholder does.
pub(super) fn multiplier() -> String {
    ":x".repeat(900)
}

/// The path of a request that the rules make the most of.
pub(super) fn long_path() -> String {
    format!("/{}/y", "a".repeat(7_000))
}

/// Changes the only manifest of the store, which no edge has read yet: packs that are older than today's rules look so.
fn change_manifest(world: &World, change: impl FnOnce(&mut Value)) {
    let mut files = world.stored_files();
    files.retain(|path| path.file_name().is_some_and(|name| name == "manifest"));
    let [file] = files.as_slice() else { panic!("not one manifest: {files:?}") };
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    // Those are not sealed either.
    manifest.as_object_mut().unwrap().retain(|field, _| field != "sealed" && field != "sha256");
    change(&mut manifest);
    std::fs::write(file, manifest.to_string()).unwrap();
}

/// Visits `path` of the site `engine` [`REQUESTS`] times concurrently, and asserts that nobody else notices. Returns an answer.
async fn attack(world: &World, path: &str) -> crate::world::answer::Answer {
    let edge = world.edge();
    let other = world.site_url("other");
    // Whatever is made once is made now.
    edge.get(&world.site_url("engine")).await;
    edge.get(&other).await.assert_body(200, "other");
    let (memory, processor) = (edge.process.memory("VmHWM"), edge.process.cpu());
    let target = format!("{}{path}", world.site_url("engine"));
    let attackers = async { join_all((0..REQUESTS).map(|_| async { edge.get(&target).await })).await };
    let visitor = async {
        let begun = Instant::now();
        edge.get(&other).await.assert_body(200, "other");
        begun.elapsed()
    };
    let (mut answers, waited) = futures_util::future::join(attackers, visitor).await;
    let grown = edge.process.memory("VmHWM").saturating_sub(memory);
    let taken = edge.process.cpu().saturating_sub(processor);
    assert!(grown < GROWTH, "the edge grew by {} MB", grown / 1024 / 1024);
    assert!(taken < PROCESSOR, "the edge computed for {taken:?}");
    assert!(waited < PROCESSOR, "another visitor waited for {waited:?}");
    answers.pop().unwrap()
}

fn bytes_of_the_site(answer: &crate::world::answer::Answer) -> usize {
    let own = answer.headers.iter().filter(|(name, _)| name.as_str().starts_with("x-big-"));
    own.map(|(name, value)| name.as_str().len() + value.len()).sum()
}

async fn world_with(rules_file: &str, rules: &str) -> (World, Value) {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    // The site has a page of its own for what is not there, so that its headers are on every answer.
    let site = Site::page("home").file("404.html", "not here").file(rules_file, rules);
    let uploaded = ada.upload("engine", &site).await.created();
    (world, uploaded)
}

async fn publish_other(world: &World) {
    world.user("bob").await.publish("other", &Site::page("other")).await;
}

#[tokio::test]
async fn headers_of_a_new_site() {
    let line = |n| format!("  X-Big-{n}: {}\n", multiplier());
    let [met, unmet] = [HEADERS, 40].map(|count| (0..count).map(line).collect::<Vec<_>>().concat());
    let (world, uploaded) = world_with("_headers", &format!("/:x/y\n{met}/unmet\n{unmet}")).await;
    let warnings = uploaded["warnings"].to_string();
    assert!(warnings.contains("100 KB") && warnings.contains("20 headers"), "{warnings}");
    publish_other(&world).await;
    let answer = attack(&world, &long_path()).await.assert_status(404);
    assert_eq!(bytes_of_the_site(&answer), 0, "a value that is too long is left out");
    // What fits is filled in, as far as a site's headers may fill an answer.
    let answer = world.edge().get(&format!("{}/a/y", world.site_url("engine"))).await;
    let bytes = bytes_of_the_site(&answer);
    assert!((8 * 1024..16 * 1024).contains(&bytes), "{bytes} bytes of headers");
}

#[tokio::test]
async fn headers_of_a_site_that_was_published_before_there_were_bounds() {
    let (world, _) = world_with("_headers", "/:x/y\n  X-Big-0: :x\n").await;
    change_manifest(&world, |manifest| {
        let lines: Vec<Value> = (0..HEADERS).map(|n| json!([format!("x-big-{n}"), multiplier()])).collect();
        manifest["headers"][0]["set"] = json!(lines);
    });
    publish_other(&world).await;
    let answer = attack(&world, &long_path()).await.assert_status(404);
    assert_eq!(bytes_of_the_site(&answer), 0);
}

#[tokio::test]
async fn many_small_headers_fill_no_more_than_large_ones() {
    let (world, _) = world_with("_headers", "/:x/y\n  X-Big-0: :x\n").await;
    change_manifest(&world, |manifest| {
        let rules = manifest["headers"].as_array_mut().unwrap();
        let pattern = rules[0]["pattern"].clone();
        let rule = |r: usize| {
            let set: Vec<Value> = (0..20).map(|n| json!([format!("x-big-{r}-{n}"), ":x"])).collect();
            json!({ "pattern": pattern, "set": set, "unset": [] })
        };
        *rules = (0..100).map(rule).collect();
    });
    publish_other(&world).await;
    let answer = attack(&world, "/a/y").await.assert_status(404);
    let own = answer.headers.keys().filter(|name| name.as_str().starts_with("x-big-")).count();
    assert!((100..400).contains(&own), "{own} headers");
}

#[tokio::test]
async fn redirects() {
    let rules = format!("/:x/y /{}\n/:x/z /{} 200\n/short/:x /to/:x\n", multiplier(), multiplier());
    let (world, _) = world_with("_redirects", &rules).await;
    publish_other(&world).await;
    for end in ["y", "z"] {
        let answer = attack(&world, &format!("/{}/{end}", "a".repeat(7_000))).await;
        assert_eq!((answer.status.as_u16(), answer.find_header("location")), (414, None), "/{end}");
    }
    world.edge().get(&format!("{}/short/a", world.site_url("engine"))).await.assert_redirect(302, "/to/a");
}
