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

/// Wrong guesses of each client.
const ROUNDS: u32 = 6;

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
    for round in 0..ROUNDS {
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
    // Ten of all, and then three of each client.
    assert_eq!(refused, ROUNDS * 8 - 10 - 3 * 8, "guesses beyond those");
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
async fn one_client_does_not_use_up_the_guesses_of_all() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("secret")).await.url;
    ada.put("/projects/engine/password").json(&json!({ "password": PASSWORD })).await.ok();
    let (edge, attacker) = (world.edge(), client(&world, 1));
    assert_eq!(guess(&attacker, edge, &url, "wrong").await.0, StatusCode::UNAUTHORIZED);
    // All of its guesses of an hour but one.
    let id = world.sql_text("SELECT id FROM projects WHERE name = 'engine'").await;
    let [counts, day] = ["counts", "day"].map(|kind| format!("svc:gate:{{{id}}}:{kind}"));
    let fields = fields(&world, &counts).await;
    assert!(fields.iter().all(|(_, count)| *count == 1) && fields.len() == 2, "{fields:?}");
    let mark = fields.into_iter().map(|(field, _)| field).find(|field| field != "wrong").unwrap();
    world.redis_number("HSET", &[&counts, "wrong", "29", &mark, "29"]).await.unwrap();
    // That one, and the three of a day that are judged in any case.
    for _ in 0..4 {
        assert_eq!(guess(&attacker, edge, &url, "wrong").await.0, StatusCode::UNAUTHORIZED);
    }
    let (status, again) = guess(&attacker, edge, &url, PASSWORD).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(again.is_some_and(|seconds| (60..=3_601).contains(&seconds)), "{again:?}");
    assert_eq!(world.redis_number("HGET", &[&counts, "wrong"]).await, Some(30));
    // Others have what is left, and more than one guess.
    let newcomer = client(&world, 2);
    assert_eq!(guess(&newcomer, edge, &url, "mistyped").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(guess(&newcomer, edge, &url, PASSWORD).await.0, StatusCode::OK);

    // Where a day's are used up as well, each client still has its three; and is told when it has more.
    world.redis_number("HSET", &[&day, "wrong", "1200"]).await.unwrap();
    let late = client(&world, 3);
    for _ in 0..3 {
        assert_eq!(guess(&late, edge, &url, "mistyped").await.0, StatusCode::UNAUTHORIZED);
    }
    let (status, again) = guess(&late, edge, &url, PASSWORD).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(again.is_some_and(|seconds| seconds > 80_000), "{again:?}");
    assert_eq!(guess(&newcomer, edge, &url, "mistyped").await.0, StatusCode::UNAUTHORIZED, "it has proved itself");
    // Beyond ten times an hour's guesses the site is under an attack of very many.
    world.redis_number("HSET", &[&day, "first", "3000"]).await.unwrap();
    assert_eq!(guess(&client(&world, 4), edge, &url, PASSWORD).await.0, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(guess(&newcomer, edge, &url, PASSWORD).await.0, StatusCode::OK);
}

#[tokio::test]
async fn who_knows_one_password_of_a_site_guesses_no_other() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let rules = "/*\n  Basic-Auth: ann:open-sesame bob:correct-horse\n";
    let url = ada.publish("engine", &Site::page("secret").file("_headers", rules)).await.url;
    let (edge, guest) = (world.edge(), client(&world, 1));
    let guess = async |client: &Client, name_and_password: &str| {
        let credentials = format!("Basic {}", base64(name_and_password));
        client.get(edge.address(&url)).header("authorization", credentials).send().await.unwrap().status()
    };
    assert_eq!(guess(&guest, "ann:open-sesame").await, StatusCode::OK);
    assert_eq!(guess(&guest, "bob:wrong").await, StatusCode::UNAUTHORIZED);
    let id = world.sql_text("SELECT id FROM projects WHERE name = 'engine'").await;
    let [counts, day, proved] = ["counts", "day", "proved"].map(|kind| format!("svc:gate:{{{id}}}:{kind}"));
    eventually(PATIENCE, "the right one is remembered", async || {
        world.redis_number("SCARD", &[&proved]).await == Some(1)
            && world.redis_number("HGET", &[&counts, "wrong"]).await == Some(1)
    })
    .await;
    let counted = fields(&world, &counts).await;
    let mark = counted.into_iter().map(|(field, _)| field).find(|field| field != "wrong").unwrap();

    // A client has only so many of the places of those who are remembered.
    let places = format!("svc:gate:{{{id}}}:proved-of");
    assert_eq!(world.redis_number("HGET", &[&places, &mark]).await, Some(1));
    world.redis_number("HSET", &[&places, &mark, "100"]).await;
    assert_eq!(guess(&guest, "bob:correct-horse").await, StatusCode::OK);
    eventually(PATIENCE, "the right one is given back", async || {
        world.redis_number("HGET", &[&counts, "wrong"]).await == Some(1)
    })
    .await;
    assert_eq!(world.redis_number("SCARD", &[&proved]).await, Some(1));

    // An hour's are used up. The guest has the three of a newcomer at another's password, and at a name that nobody has.
    world.redis_number("HSET", &[&counts, "wrong", "300", &mark, "30"]).await;
    for wrong in ["bob:guess", "bob:another", "eve:guess"] {
        assert_eq!(guess(&guest, wrong).await, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    for beyond in ["bob:one more", "eve:another"] {
        assert_eq!(guess(&guest, beyond).await, StatusCode::TOO_MANY_REQUESTS, "{beyond}");
    }
    // It may still mistype its own, a hundred times in a day.
    assert_eq!(guess(&guest, "ann:mistyped").await, StatusCode::UNAUTHORIZED);
    let mistyped = format!("proved:{mark}");
    assert_eq!(world.redis_number("HGET", &[&day, &mistyped]).await, Some(1));
    world.redis_number("HSET", &[&day, &mistyped, "100"]).await;
    assert_eq!(guess(&guest, "ann:mistyped").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        guess(&guest, "ann:open-sesame").await,
        StatusCode::OK,
        "what was right a moment ago is not weighed anew"
    );
    assert_eq!(guess(&client(&world, 2), "bob:correct-horse").await, StatusCode::OK, "others are not locked out");
}

/// The fields of a hash of numbers.
async fn fields(world: &World, key: &str) -> Vec<(String, i64)> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("HGETALL").arg(key).query_async(&mut connection).await.unwrap()
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
