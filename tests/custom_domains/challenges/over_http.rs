//! `http-01`: a path below `/.well-known/`, on plain HTTP and on HTTPS.

use futures_util::{StreamExt as _, stream};
use reqwest::Method;
use serde_json::json;

use super::{ANSWER, TOKEN, forget, put};
use crate::{
    BACKGROUND,
    custom_domains::{DOMAIN, published_on},
    world::{Site, World, answer::Answer, eventually, request::Request},
};

fn url(host: &str, token: &str) -> String {
    format!("http://{host}/.well-known/acme-challenge/{token}")
}

fn assert_answered(answer: Answer) {
    let answer = answer.assert_body(200, ANSWER);
    for (header, value) in [
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-length", &ANSWER.len().to_string()),
    ] {
        assert_eq!(answer.header(header), value, "{answer:?}");
    }
}

#[tokio::test]
async fn every_edge_answers_as_soon_as_the_answer_is_committed_and_no_longer_than_it_stands() {
    let mut world = World::builder().edges(3).start().await;
    let host = "www.example.com";
    let url = url(host, TOKEN);
    world.redis.kill();
    for round in 0..5 {
        for edge in &world.edges {
            // Asked for before it is there: that is not remembered.
            edge.get(&url).await.assert_status(404);
        }
        put(&world, "http-01", host, TOKEN, ANSWER, 60).await;
        for edge in &world.edges {
            assert_answered(edge.get(&url).await);
            let head = edge.head(&url).await.assert_status(200);
            assert_eq!((head.header("content-length"), head.body.len()), (&*ANSWER.len().to_string(), 0), "{round}");
        }
        forget(&world).await;
    }
}

#[tokio::test]
async fn a_challenge_is_answered_for_its_own_host_and_token_only() {
    let (world, ada, _) = published_on(World::start().await, &Site::page("home")).await;
    let edge = world.edge();
    for host in [DOMAIN, "engine.svc.localhost", "api.svc.localhost", "app.svc.localhost", "svc.localhost", "a.example"]
    {
        put(&world, "http-01", host, TOKEN, ANSWER, 60).await;
        assert_answered(edge.get(&url(host, TOKEN)).await);
        forget(&world).await;
        assert!(!edge.get(&url(host, TOKEN)).await.text().contains(ANSWER), "{host}");
    }

    put(&world, "http-01", "a.example", TOKEN, ANSWER, 60).await;
    put(&world, "http-01", "a.example", "over", ANSWER, -1).await;
    put(&world, "http-01", "a.example", "dots.dots", ANSWER, 60).await;
    put(&world, "http-01", "a.example", &"x".repeat(129), ANSWER, 60).await;
    put(&world, "tls-alpn-01", "a.example", "other-kind", ANSWER, 60).await;
    put(&world, "dns-01", "_acme-challenge.a.example", "record", ANSWER, 60).await;
    // The host is read as everywhere: in any case, with the dot at its end.
    assert_answered(edge.get(&url("a.example", TOKEN)).header("host", "A.Example.:80").await);
    for token in ["over", "dots.dots", &"x".repeat(129), "other-kind", "record", "", "made-up", &TOKEN[..42]] {
        edge.get(&url("a.example", token)).await.assert_status(404);
    }
    for host in ["b.example", "www.a.example", "example", "127.0.0.1"] {
        assert!(!edge.get(&url(host, TOKEN)).await.text().contains(ANSWER), "{host}");
    }
    let posted = edge.post(&url("a.example", TOKEN)).body("x").await;
    assert!(posted.status != 200 && !posted.text().contains(ANSWER), "{posted:?}");

    // In front of every gate, and over HTTPS, where a proxy may lead the authority.
    put(&world, "http-01", DOMAIN, TOKEN, ANSWER, 60).await;
    ada.put("/projects/engine/access").json(&json!({ "mode": "password", "password": "hunter22" })).await.ok();
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    assert_answered(edge.get(&url(DOMAIN, TOKEN)).await);
    assert_answered(edge.get(&format!("{}{path}", world.domain_url(DOMAIN))).await);
    assert_answered(edge.get_http1(&format!("{}{path}", world.domain_url(DOMAIN))).await);
    ada.detach("engine", DOMAIN).await;
    assert_answered(edge.get(&url(DOMAIN, TOKEN)).await);
}

#[tokio::test]
async fn a_sites_own_file_is_served_where_there_is_no_challenge() {
    let site = Site::page("home").file(&format!(".well-known/acme-challenge/{TOKEN}"), "the site's own");
    let (mut world, _ada, base) = published_on(World::start().await, &site).await;
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    let own = format!("{base}{path}");
    world.edge().get(&own).await.assert_body(200, "the site's own");
    world.edge().get(&url(DOMAIN, TOKEN)).await.assert_redirect(308, &own);
    put(&world, "http-01", DOMAIN, TOKEN, ANSWER, 60).await;
    assert_answered(world.edge().get(&own).await);
    forget(&world).await;
    world.edge().get(&own).await.assert_body(200, "the site's own");

    // Without the database nobody knows what the challenge is: the site goes on, and an authority comes again.
    world.redis.kill();
    world.stop_postgres().await;
    world.edge().get(&own).await.assert_body(200, "the site's own");
    let away = world.edge().get(&url("other.example", TOKEN)).await.assert_status(503);
    assert!(away.header("retry-after").parse::<u32>().unwrap() > 0);
    world.start_postgres().await;
    put(&world, "http-01", "other.example", TOKEN, ANSWER, 60).await;
    eventually(BACKGROUND, "it is found again", async || {
        world.edge().get(&url("other.example", TOKEN)).await.status == 200
    })
    .await;
}

/// Tokens that are asked for, and how many at the same time.
const MADE_UP: u32 = 4_000;
const AT_ONCE: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_made_up_tokens_takes_no_memory_and_keeps_nobody_waiting() {
    let (world, _ada, base) = published_on(World::start().await, &Site::page("home")).await;
    put(&world, "http-01", "a.example", TOKEN, ANSWER, 600).await;
    // A connection each, as a client has whose hosts differ, and none that stays.
    let stranger = world.edge().fresh_browser();
    let ask = async |from: u32, to: u32| {
        let asked = stream::iter(from..to).map(async |number| {
            let url = world.edge().address(&url(&format!("{number}.made-up.example"), &format!("token-{number}")));
            Request::new(&stranger, Method::GET, url.as_str()).await.status.as_u16()
        });
        let statuses: Vec<u16> = asked.buffer_unordered(AT_ONCE).collect().await;
        assert!(statuses.iter().all(|status| [404, 503].contains(status)), "{statuses:?}");
    };
    ask(0, 500).await;
    let before = world.edge().process.memory("VmRSS");
    let others = async {
        for _ in 0..50 {
            world.edge().get(&base).await.assert_body(200, "home");
            assert_answered(world.edge().get(&url("a.example", TOKEN)).await);
        }
    };
    tokio::join!(ask(500, MADE_UP), others);
    let grown = world.edge().process.memory("VmRSS").saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "{grown} bytes for {MADE_UP} tokens");
}
