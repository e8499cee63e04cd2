//! The operator's secret, at which strangers guess.

use serde_json::Value;

use crate::world::{Actor, OPERATOR_SECRET, World};

/// Clients that use their guesses up: more guesses than any bound over all clients together allowed.
const STRANGERS: u8 = 21;
const GUESSES: u8 = 10;

async fn answer(client: &Actor, flow: &Value, secret: &str) -> u16 {
    let code = flow["user_code"].as_str().unwrap();
    let fields = [("user_code", code), ("login", "ada"), ("secret", secret), ("decision", "approve")];
    client.post("/device").form(&fields).await.status.as_u16()
}

#[tokio::test]
async fn strangers_who_guess_are_in_nobodys_way() {
    let world = World::start().await;
    let flow = world.nobody().post("/auth/device").await.ok();
    for stranger in 1..=STRANGERS {
        let stranger = world.nobody().at_address(&format!("203.0.113.{stranger}"));
        for _ in 0..GUESSES {
            assert_eq!(answer(&stranger, &flow, "a guess").await, 403);
        }
        assert_eq!(answer(&stranger, &flow, OPERATOR_SECRET).await, 429, "its own guesses are used up");
    }
    let operator = world.nobody().at_address("198.51.100.7");
    assert_eq!(answer(&operator, &flow, OPERATOR_SECRET).await, 200);
}

#[tokio::test]
async fn a_secret_that_can_be_guessed_is_guarded_over_all_clients() {
    const SHORT: &str = "open sesame";
    let world = World::builder().set("CODE_HOST__CLIENT_SECRET", SHORT).start().await;
    assert!(world.admin.log().contains("fewer than 22 characters"));
    let flow = world.nobody().post("/auth/device").await.ok();
    for stranger in 1..STRANGERS {
        let stranger = world.nobody().at_address(&format!("203.0.113.{stranger}"));
        for _ in 0..GUESSES {
            assert_eq!(answer(&stranger, &flow, "a guess").await, 403);
        }
    }
    let another = world.nobody().at_address("198.51.100.7");
    assert_eq!(answer(&another, &flow, SHORT).await, 429);
}
