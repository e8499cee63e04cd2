//! Who takes the most: an operator sees it for as long as it lasts, and nothing of it is kept.

use super::attacker;
use crate::{
    BACKGROUND,
    world::{Site, World, eventually, request},
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
