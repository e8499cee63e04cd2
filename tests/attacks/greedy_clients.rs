//! Who takes the most: an operator sees it for as long as it lasts, and nothing of it is kept.

use super::{attacker, platform_floods::client};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports, request, site::noise},
};

#[tokio::test]
async fn the_operator_sees_the_greediest_clients_of_every_edge() {
    const REQUESTS: u64 = 60;
    let world = World::builder().edges(2).start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    let ca = reqwest::Certificate::from_pem(&std::fs::read(world.ca()).unwrap()).unwrap();
    for (edge, number) in world.edges.iter().zip([7, 8]) {
        let greedy = request::client().tls_certs_only([ca.clone()]).local_address(Some(attacker(number).into()));
        let greedy = greedy.build().unwrap();
        for _ in 0..REQUESTS * u64::from(number) {
            let answer = greedy.get(edge.address(&world.site_url("engine"))).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
    }
    eventually(BACKGROUND, "both edges say who it is", async || {
        let top = world.admin_prints(&["edges", "top", "--count", "1"]).await;
        let requests = |number: u8| {
            let address = attacker(number).to_string();
            let line = top.lines().find(|line| line.split_whitespace().next() == Some(&address))?;
            line.split_whitespace().nth(3)?.parse::<u64>().ok()
        };
        requests(7) == Some(7 * REQUESTS) && requests(8) == Some(8 * REQUESTS)
    })
    .await;
}

#[tokio::test]
async fn metrics_say_what_the_greediest_client_took_for_a_minute() {
    const REQUESTS: u32 = 40;
    const BYTES: usize = 20_000;
    let port = ports::free();
    let world = World::builder()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
        .set("EDGE__CONNECTIONS_PER_CLIENT", 1)
        .start()
        .await;
    world.user("ada").await.publish("engine", &Site::page("home").file("x.bin", noise(BYTES))).await;
    let url = world.edge().address(&format!("{}/x.bin", world.site_url("engine")));
    let greedy = client(&world, 1);
    for _ in 0..REQUESTS {
        assert_eq!(greedy.get(url.clone()).send().await.unwrap().bytes().await.unwrap().len(), BYTES);
    }
    // The client has its one connection: another one is refused.
    assert!(client(&world, 1).get(url).send().await.is_err());
    eventually(BACKGROUND, "the greediest client is measured", async || {
        let page = Page::of(port).await;
        let most = |what: &str| page.sum(&format!("svc_clients_greediest_{what}"));
        most("requests") >= f64::from(REQUESTS)
            && most("bytes") >= f64::from(REQUESTS) * 20_000.0
            && most("refusals") >= 1.0
    })
    .await;
}

#[tokio::test]
async fn a_visitor_behind_a_trusted_proxy_counts_by_requests_and_bytes() {
    const VISITOR: &str = "198.51.100.7";
    let proxy = attacker(1);
    let world = World::builder().set("EDGE__TRUSTED_PROXIES", format!("{proxy}/32")).start().await;
    world.user("ada").await.publish("engine", &Site::page("home").file("x.bin", noise(20_000))).await;
    let url = world.edge().address(&format!("{}/x.bin", world.site_url("engine")));
    let client = client(&world, 1);
    for _ in 0..10 {
        let sent = client.get(url.clone()).header("x-forwarded-for", VISITOR).send();
        assert_eq!(sent.await.unwrap().bytes().await.unwrap().len(), 20_000);
    }
    eventually(BACKGROUND, "the visitor is known", async || {
        let top = world.admin_prints(&["edges", "top"]).await;
        let Some(line) = top.lines().find(|line| line.split_whitespace().next() == Some(VISITOR)) else { return false };
        let figures: Vec<u64> = line.split_whitespace().skip(1).map(|figure| figure.parse().unwrap()).collect();
        assert!(!top.contains(&proxy.to_string()), "a proxy is no client: {top}");
        // Open, connects, requests, refused, bytes.
        figures[2] == 10 && figures[4] >= 200_000
    })
    .await;
}
