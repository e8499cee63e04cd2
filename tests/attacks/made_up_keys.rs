//! Keys for the gateway that nobody has: each is another one, so that none is remembered, and costs a read of Postgres.

use serde_json::json;

use super::platform_floods::client;
use crate::{
    stubs::provider::{KEY, Provider},
    world::World,
};

/// Keys that are made up, twice as many as are looked up in a minute.
const KEYS: usize = 120;

#[tokio::test]
async fn made_up_keys_of_one_client_are_not_looked_up_for_ever() {
    let provider = Provider::start().await;
    let world = World::builder()
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("GATEWAY__PROVIDER_API_KEY", KEY)
        .start()
        .await;
    let ada = world.user("ada").await;
    let key = async || {
        let created = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        created["token"].as_str().unwrap().to_owned()
    };
    let (known, fresh) = (key().await, key().await);
    let url = format!("https://ai.svc.localhost:{}/v1/models", world.public_port());
    let greedy = client(&world, 1);
    let ask = async |client: &reqwest::Client, key: &str| {
        client.get(world.edge().address(&url)).bearer_auth(key).send().await.unwrap()
    };
    assert_eq!(ask(&greedy, &known).await.status(), 200);

    let mut statuses = Vec::new();
    for number in 0..KEYS {
        let made_up = format!("svc_{number:043}");
        let answer = ask(&greedy, &made_up).await;
        statuses.push(answer.status().as_u16());
        if answer.status() == 429 {
            let wait: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            let body: serde_json::Value = answer.json().await.unwrap();
            assert_eq!(
                (&body["error"]["code"], &body["error"]["type"]),
                (&json!("rate_limit_exceeded"), &json!("requests"))
            );
        }
    }
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    // The bound is 60 in a minute; a slow machine may be through with one of those before the end.
    assert!(refused >= KEYS / 4, "{refused} of {KEYS} were refused");
    assert_eq!(ask(&greedy, &known).await.status(), 200, "a key that is remembered goes on working");
    let other = client(&world, 2);
    assert_eq!(ask(&other, &fresh).await.status(), 200, "another client is not the one");
    assert_eq!(ask(&other, &format!("svc_{:043}", 7)).await.status(), 401);
}
