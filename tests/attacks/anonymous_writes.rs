//! Requests without a token, or with one that is made up: they write nothing, share nothing, and cost their client its rate.

use serde_json::json;

use crate::world::{Actor, World};

/// Requests of one client in a minute whose token does not work.
const LIMIT: u32 = 30;
/// The clients' addresses, as an edge passes them on.
const MALLORY: &str = "203.0.113.9";
const OFFICE: &str = "198.51.100.7";

/// A token of the right form that nobody was given.
fn made_up() -> String {
    format!("svc_{}", hex::encode(rand::random::<[u8; 20]>()))
}

async fn me(actor: &Actor) -> u16 {
    let answer = actor.get("/me").await;
    if answer.status == 429 {
        assert!(answer.header("retry-after").parse::<u64>().unwrap() <= 60);
    }
    answer.status.as_u16()
}

#[tokio::test]
async fn without_a_token_nothing_is_written_for_an_idempotency_key() {
    let world = World::start().await;
    world
        .sql(
            "CREATE TABLE writes (at timestamptz NOT NULL DEFAULT now());
             CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO writes DEFAULT VALUES; RETURN NULL; END $$;
             CREATE TRIGGER note AFTER INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION note_write();",
        )
        .await;
    let nobody = world.nobody();
    for path in ["/tokens", "/projects", "/orgs", "/shares", "/projects/engine/deployments", "/auth/device"] {
        for actor in [nobody.clone(), nobody.with_token(&made_up()), nobody.with_token("svc_short")] {
            for key in ["one", "two", "two"] {
                let request =
                    actor.post(path).header("idempotency-key", key).header("content-type", "application/gzip");
                let answer = request.body("{}").await;
                assert!(matches!(answer.status.as_u16(), 200 | 401), "{path}: {answer:?}");
            }
        }
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM writes").await, 0);
    let ada = world.user("ada").await;
    ada.post("/projects").header("idempotency-key", "one").json(&json!({ "name": "engine" })).await.created();
    assert_eq!(world.sql_number("SELECT count(*) FROM writes").await, 1, "the trigger notes what is written");
}

#[tokio::test]
async fn two_strangers_with_one_key_get_codes_of_their_own() {
    let world = World::start().await;
    let begin = async || {
        let stranger = world.nobody().at_address(OFFICE);
        stranger.post("/auth/device").header("idempotency-key", "one").await.ok()["device_code"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(begin().await, begin().await);
}

#[tokio::test]
async fn made_up_tokens_cost_their_client_its_rate_and_nobody_else() {
    let world = World::builder().set("LIMITS__API_PER_MIN", LIMIT).start().await;
    let (ada, eve) = (world.user("ada").await.at_address(OFFICE), world.user("eve").await.at_address("198.51.100.8"));
    // Ada works from an office, where somebody begins to make tokens up.
    assert_eq!(me(&ada).await, 200);
    for from in [MALLORY, OFFICE] {
        let nobody = world.nobody().at_address(from);
        for sent in 0..LIMIT {
            let actor = if sent % 3 == 0 { nobody.clone() } else { nobody.with_token(&made_up()) };
            assert_eq!(me(&actor).await, 401, "request {sent} from {from}");
        }
        assert_eq!(me(&nobody.with_token(&made_up())).await, 429);
        assert_eq!(me(&nobody).await, 429);
    }
    assert_eq!(me(&ada).await, 200, "a token that worked a moment ago goes on working");
    assert_eq!(me(&eve).await, 200);
}

#[tokio::test]
async fn a_revoked_token_counts_like_a_made_up_one() {
    let world = World::builder().set("LIMITS__API_PER_MIN", LIMIT).start().await;
    let ada = world.user("ada").await;
    let token = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    let spare = world.nobody().at_address(MALLORY).with_token(token["token"].as_str().unwrap());
    assert_eq!(me(&spare).await, 200);
    ada.delete(&format!("/tokens/{}", token["id"].as_str().unwrap())).await.ok();
    // The first refusal ends the memory of its having worked; it is not counted itself.
    for sent in 0..=LIMIT {
        assert_eq!(me(&spare).await, 401, "request {sent}");
    }
    assert_eq!(me(&spare).await, 429);
}
