//! What is counted, and as what.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::*;
use crate::{BACKGROUND, world::site::noise};

const DOMAIN: &str = "www.engine.localhost";

/// The test's own count.
#[derive(Default)]
struct Expected {
    requests: usize,
    bytes: usize,
    classes: BTreeMap<String, usize>,
    hosts: BTreeMap<String, (usize, usize)>,
    paths: BTreeMap<String, (usize, usize)>,
}

impl Expected {
    fn add(&mut self, host: &str, path: Option<&str>, status: u16, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
        *self.classes.entry(format!("{}xx", status / 100)).or_default() += 1;
        let places = [
            Some(self.hosts.entry(host.to_owned()).or_default()),
            path.map(|path| self.paths.entry(path.to_owned()).or_default()),
        ];
        for (requests, sent) in places.into_iter().flatten() {
            *requests += 1;
            *sent += bytes;
        }
    }
}

/// Number of requests and bytes by name, of a list of an answer.
fn by_name(list: &Value, name: &str) -> BTreeMap<String, (usize, usize)> {
    let number = |row: &Value, key: &str| usize::try_from(row[key].as_u64().unwrap()).unwrap();
    let row = |row: &Value| (row[name].as_str().unwrap().to_owned(), (number(row, "requests"), number(row, "bytes")));
    list.as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn every_answer_is_counted_once_as_what_it_was() {
    let data = noise(200_000);
    let site = Site::page("home page")
        .file("about.html", "about us")
        .file("data.bin", &data)
        .file("empty.txt", "")
        .file("_redirects", "/old /about 301\n");
    let world = World::builder().edges(3).start().await;
    world.certify(&[DOMAIN]).await;
    let ada = world.user("ada").await;
    let uploaded = ada.publish("engine", &site).await;
    ada.attach("engine", DOMAIN).await;
    let own = "engine.svc.localhost";
    let (url, domain, permanent) = (uploaded.url.clone(), world.domain_url(DOMAIN), uploaded.permanent_url());
    let visited = Visited { world, ada, url: url.clone() };
    let etag = visited.world.edges[0].head(&url).await.header("etag").to_owned();
    let mut expected = Expected::default();
    expected.add(own, Some("/"), 200, 0);

    for edge in &visited.world.edges {
        let visits = [
            // In the order in which the edge's memory fills: a miss, a hit, neither, …
            (edge.get(&url), own, Some("/"), 200),
            (edge.get_http1(&format!("{url}/?query=1")), own, Some("/"), 200),
            (edge.head(&url), own, Some("/"), 200),
            (edge.get(&url).header("if-none-match", &etag), own, Some("/"), 304),
            // A miss, and a hit: the part brings the whole.
            (edge.get(&format!("{url}/data.bin")).header("range", "bytes=0-99"), own, Some("/data.bin"), 206),
            (edge.get_http1(&format!("{url}/data.bin")), own, Some("/data.bin"), 200),
            (edge.get(&format!("{url}/data.bin")).header("range", "bytes=0-4,100-199"), own, Some("/data.bin"), 206),
            (edge.get(&format!("{url}/data.bin")).header("range", "bytes=900000-"), own, None, 416),
            (edge.get(&format!("{url}/empty.txt")), own, Some("/empty.txt"), 200),
            (edge.get(&format!("{url}/old")), own, Some("/old"), 301),
            (edge.get(&format!("{url}/missing.txt")), own, None, 404),
            (edge.request(Method::POST, &url).body("x"), own, None, 405),
            (edge.get(&permanent), own, Some("/"), 200),
            (edge.get(&format!("{domain}/about")), DOMAIN, Some("/about"), 200),
        ];
        for (visit, host, path, status) in visits {
            let answer = visit.await.assert_status(status);
            expected.add(host, path, status, answer.body.len());
        }
        // None of these is the site's.
        edge.get("https://nobody.svc.localhost/").await.assert_status(404);
        edge.get("https://api.svc.localhost/health").await.assert_status(200);
        edge.get(&format!("http://{own}/")).await.assert_status(308);
    }

    let live = visited.live_with(expected.requests).await;
    assert_eq!(live["project"], "engine");
    assert_eq!(live["totals"]["bytes"], expected.bytes, "{live:#}");
    let class = |class: &str| expected.classes.get(class).copied().unwrap_or_default();
    let classes = json!({ "2xx": class("2xx"), "3xx": class("3xx"), "4xx": class("4xx"), "5xx": 0, "other": 0 });
    assert_eq!(live["status"], classes);
    let edges = visited.world.edges.len();
    assert_eq!(live["cache"], json!({ "HIT": 4 * edges, "MISS": 3 * edges }), "{live:#}");
    assert_eq!(live["totals"]["cache_hits"], 4 * edges);
    assert_eq!(by_name(&live["hostnames"], "hostname"), expected.hosts);
    assert_eq!(by_name(&live["top_paths"], "path"), expected.paths);
    assert_eq!(live["top_countries"], json!([{ "country": "XX", "requests": expected.requests }]));
    assert_eq!(live["truncated"], false);
    let sum =
        |key: &str| live["timeline"].as_array().unwrap().iter().map(|hour| hour[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(live["timeline"].as_array().unwrap().len(), 24);
    for key in ["requests", "bytes", "cache_hits"] {
        assert_eq!(Value::from(sum(key)), live["totals"][key], "{key}");
    }
    // The most requested first.
    let requests: Vec<_> = live["top_paths"].as_array().unwrap().iter().map(|path| path["requests"].as_u64()).collect();
    assert!(requests.is_sorted_by(|one, other| one >= other), "{requests:?}");
    // Today has the same.
    let history = visited.ada.get("/projects/engine/stats/history?days=1").await.ok();
    if history["timeline"][0]["requests"] != live["totals"]["requests"] {
        // Unless midnight was in between.
        let history = visited.ada.get("/projects/engine/stats/history?days=2").await.ok();
        assert_eq!(history["totals"], live["totals"]);
    }
}

#[tokio::test]
async fn what_was_sent_of_an_answer_that_is_cut_off_is_counted() {
    let size = 24 * 1024 * 1024;
    let visited = Visited::start(&Site::page("home").file("film.bin", noise(size))).await;
    for http2 in [true, false] {
        let browser = visited.world.edge().another_browser(http2);
        let film = visited.world.edge().address(&format!("{}/film.bin", visited.url));
        let mut body = browser.get(film).send().await.unwrap().bytes_stream();
        let mut received = 0;
        while received < 1_000_000 {
            received += body.next().await.unwrap().unwrap().len();
        }
        let before = usize::from(!http2);
        // It is seen while it is on its way.
        let live = visited.live_with(before + 1).await;
        assert_eq!(live["cache"], json!({ "HIT": 0, "MISS": before + 1 }), "{live:#}");
        drop(body);
        drop(browser);
        eventually(BACKGROUND, "the bytes are counted", async || {
            let bytes = visited.live().await["totals"]["bytes"].as_u64().unwrap();
            bytes >= (before as u64 + 1) * 1_000_000
        })
        .await;
    }
    let bytes = visited.live().await["totals"]["bytes"].as_u64().unwrap();
    assert!(bytes < size as u64, "{bytes} bytes were counted of two films of which little was sent");
}

#[tokio::test]
async fn gates_count_but_their_paths_do_not() {
    let visited = Visited::start(&Site::page("secret").file("page.html", "secret page")).await;
    visited.ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    let edge = visited.world.edge();
    let mut bytes = 0;
    for path in ["/", "/page", "/made-up"] {
        let gate = edge.navigate(&format!("{}{path}", visited.url)).await.assert_status(401);
        bytes += gate.body.len();
    }
    let password = format!("Basic {}", crate::shares::base64("x:hunter22"));
    let inside = edge.get(&format!("{}/page", visited.url)).header("authorization", &password);
    bytes += inside.await.assert_body(200, "secret page").body.len();
    let live = visited.live_with(4).await;
    assert_eq!(live["status"], json!({ "2xx": 1, "3xx": 0, "4xx": 3, "5xx": 0, "other": 0 }));
    assert_eq!(live["totals"]["bytes"], bytes);
    assert_eq!(live["top_paths"], json!([{ "path": "/page", "requests": 1, "bytes": "secret page".len() }]));
}

#[tokio::test]
async fn shares_have_statistics_of_their_own() {
    let visited = Visited::start(&Site::page("home")).await;
    let share = visited.ada.share(&Site::page("shared"), 1).await;
    let shares = visited.ada.get("/shares").await.ok();
    let name = shares["shares"][0]["project"].as_str().unwrap().to_owned();
    visited.world.edge().get(&share.url).await.assert_body(200, "shared");
    eventually(SEEN_WITHIN, "the share's visit is seen", async || {
        let live = visited.ada.get(&format!("/projects/{name}/stats")).await.ok();
        live["totals"]["requests"] == 1
            && live["hostnames"][0]["hostname"] == share.url.trim_start_matches("https://").split(':').next().unwrap()
    })
    .await;
    assert_eq!(visited.live().await["totals"]["requests"], 0);
}
