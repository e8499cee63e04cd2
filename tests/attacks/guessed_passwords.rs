//! The password of a site, guessed by many clients at many edges: they have so many guesses together, and lock nobody out who knows it.

use reqwest::{Client, StatusCode};
use serde_json::json;

use super::{PATIENCE, platform_floods::client};
use crate::{
    shares::base64,
    world::{Edge, Site, World, eventually},
};

const PASSWORD: &str = "correct horse";
/// Wrong guesses at a site in an hour.
const MOST: i64 = 300;

/// Asks `edge` for the site with a password; the status, and when to come again.
async fn guess(client: &Client, edge: &Edge, url: &str, password: &str) -> (StatusCode, Option<u64>) {
    let credentials = format!("Basic {}", base64(&format!("x:{password}")));
    let answer = client.get(edge.address(url)).header("authorization", credentials).send().await.unwrap();
    let again = answer.headers().get("retry-after").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    (answer.status(), again)
}

#[tokio::test]
async fn a_sites_password_is_guessed_by_nobody_in_numbers() {
    let world = World::builder().edges(2).start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("secret")).await.url;
    ada.put("/projects/engine/password").json(&json!({ "password": PASSWORD })).await.ok();
    let [first, second] = [&world.edges[0], &world.edges[1]];
    let known = client(&world, 100);
    assert_eq!(guess(&known, first, &url, PASSWORD).await.0, StatusCode::OK);

    // All but ten of an hour's.
    let id = world.sql_text("SELECT id FROM projects WHERE name = 'engine'").await;
    let counts = format!("svc:gate:{{{id}}}:counts");
    let wrong = async || world.redis_number("HGET", &[&counts, "wrong"]).await;
    eventually(PATIENCE, "the right one is given back", async || wrong().await == Some(0)).await;
    world.redis_number("HSET", &[&counts, "wrong", &(MOST - 10).to_string()]).await.unwrap();

    let attackers: Vec<_> = (1..=8).map(|number| client(&world, number)).collect();
    let mut refused = 0;
    for round in 0..4 {
        for (number, attacker) in attackers.iter().enumerate() {
            let edge = &world.edges[number % 2];
            let (status, again) = guess(attacker, edge, &url, &format!("guess {round}")).await;
            match status {
                StatusCode::UNAUTHORIZED => {}
                StatusCode::TOO_MANY_REQUESTS => {
                    assert!(again.is_some_and(|seconds| (60..=3_601).contains(&seconds)), "{again:?}");
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
    }
    // Ten of all, and then one of each client.
    assert_eq!(refused, 4 * 8 - 10 - 8, "guesses beyond those");
    assert_eq!(wrong().await, Some(MOST));
    for edge in [first, second] {
        assert_eq!(guess(&attackers[0], edge, &url, PASSWORD).await.0, StatusCode::TOO_MANY_REQUESTS);
    }
    // Somebody who gave the password before goes on, at an edge where nothing is remembered of it as well.
    assert_eq!(guess(&known, second, &url, "mistyped").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(guess(&known, second, &url, PASSWORD).await.0, StatusCode::OK);
    // So does somebody new.
    assert_eq!(guess(&client(&world, 101), second, &url, PASSWORD).await.0, StatusCode::OK);
    let page = attackers[1].get(second.address(&url)).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), StatusCode::UNAUTHORIZED, "the form is there as before");
}

#[tokio::test]
async fn without_redis_each_edge_keeps_the_bound_for_itself() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("secret")).await.url;
    ada.put("/projects/engine/password").json(&json!({ "password": PASSWORD })).await.ok();
    world.edge().get(&url).await.assert_status(401);
    world.redis.kill();
    let visitor = client(&world, 1);
    assert_eq!(guess(&visitor, world.edge(), &url, "wrong").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(guess(&visitor, world.edge(), &url, PASSWORD).await.0, StatusCode::OK);
}
