//! The limits of a month that an account sets itself, for a key or for all keys of an organization: in force on every edge when
//! the API answers, never overrun, and known again when Redis has forgotten them.

use std::slice;

use domain::{Clock, Timestamp, month::Month};
use reqwest::Method;

use super::{
    limits::{ask_held, assert_code, retry_after},
    provider::Report,
    *,
};

/// A model of which a million tokens read cost 300 cents, and written 900.
const MODEL: &str = "svc/mistral-large";

/// A completion that costs 1.2 cents, and reserves a little less than one.
fn dear() -> Completion {
    Completion::of(1_000, 1_000).at_most(1_000).by(MODEL)
}

/// A completion that costs 0.12 cents, and reserves more than 0.36.
fn modest() -> Completion {
    Completion::of(100, 100).at_most(400).by(MODEL)
}

/// A key and its id.
#[derive(Clone)]
struct Key {
    secret: String,
    path: String,
}

async fn start(edges: usize) -> Metered {
    start_with(|builder| builder.edges(edges)).await
}

async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Metered {
    let plans = json!({"large": {"name": "Large", "price_cents": 0, "limits": {
        "projects": 1, "domains": 1, "ready_apps": 0, "bandwidth_bytes": 1, "ai_credit_cents": 1_000,
    }}});
    let builder = |builder: Builder| builder.set("BILLING__PLANS", &plans).set("LIMITS__GATEWAY_PER_MIN", 1_000);
    let metered = Metered::start_with(|world| configure(builder(world))).await;
    let all = metered.world.edges.len();
    eventually(BACKGROUND, "admin has heard of every edge", async || {
        let answer = metered.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.assert_status(201);
        answer.header("x-svc-propagation").starts_with(&format!("{all}/{all}"))
    })
    .await;
    metered
}

/// Creates a key in a folder of the API, `""` or `/orgs/…`.
async fn key_with(owner: &Actor, folder: &str, limit: Value) -> Key {
    let body = json!({ "kind": "ai", "monthly_limit_cents": limit });
    let created = owner.post(&format!("{folder}/tokens")).json(&body).await.created();
    assert_eq!(created["monthly_limit_cents"], limit);
    assert_eq!(created["month_cents"], 0);
    let path = format!("{folder}/tokens/{}", created["id"].as_str().unwrap());
    Key { secret: created["token"].as_str().unwrap().to_owned(), path }
}

async fn set_limit(owner: &Actor, key: &Key, limit: Value) {
    let answer = owner.request(Method::PATCH, &key.path).json(&json!({ "monthly_limit_cents": limit })).await;
    assert!(!answer.header("x-svc-propagation").is_empty());
    assert_eq!(answer.ok()["monthly_limit_cents"], limit);
}

impl Metered {
    /// Checks that every edge refuses a key for a limit, which the message names.
    async fn assert_refused(&self, keys: &[Key], wanted: &Completion, whose: &str) {
        for edge in 0..self.world.edges.len() {
            for key in keys {
                let answer = self.ask_at(edge, &key.secret, wanted).await.assert_status(429);
                assert_code(&answer, "limit_reached");
                assert!(answer.text().contains(whose), "{}", answer.text());
                assert_eq!(answer.header("x-should-retry"), "false");
                assert!(answer.find_header("x-ratelimit-limit-requests").is_none());
            }
        }
    }

    async fn is_served(&self, edge: usize, key: &Key, wanted: &Completion) -> bool {
        self.ask_at(edge, &key.secret, wanted).await.status == 200
    }

    /// Spends 1.2 cents of a key, and returns once Redis knows that it was more than the reservation.
    async fn spend(&self, edge: usize, key: &Key) {
        self.ask_at(edge, &key.secret, &dear()).await.assert_status(200);
        self.is_settled(key).await;
    }

    /// Returns once nothing of a key is under way.
    async fn is_settled(&self, key: &Key) {
        let id = key.path.rsplit('/').next().unwrap_or_default();
        eventually(BACKGROUND, "the completion is settled", async || open_in_redis(self, id).await == Some(0)).await;
    }
}

/// What is under way counts with the dearest price of each kind, and what has ended with what it costs.
#[tokio::test]
async fn cheaper_tokens_leave_more_of_a_limit() {
    let models = json!({ "svc/cached": {
        "provider": "ovhcloud", "upstream": "x", "input_cents": 1_000, "cached_input_cents": 0, "output_cents": 1_000,
    }});
    let metered = start_with(|builder| builder.set("GATEWAY__MODELS", models)).await;
    let key = key_with(&metered.ada, "", json!(1)).await;
    // Half of the prompt is cached. Each costs 0.081 cents, and reserves about 0.17; without the cache it would cost 0.161.
    let wanted = Completion { report: Report::Cached, ..Completion::of(160, 1).at_most(1).by("svc/cached") };
    assert!((160..180).contains(&wanted.reserves()), "{}", wanted.reserves());
    let mut served = 0;
    while metered.is_served(0, &key, &wanted).await {
        served += 1;
        metered.is_settled(&key).await;
        assert!(served < 13, "the limit does not hold");
    }
    metered.assert_refused(slice::from_ref(&key), &wanted, "This key's monthly limit").await;
    assert!(served > 1_000_000 / 161_000 + 1, "{served}");
    metered.rows_become(served, "cost_microcents = 81000 AND cached_tokens = 80 AND assumed = 0").await;
    assert_eq!(
        metered.world.sql_number("SELECT sum(cost_microcents)::bigint FROM ai_usage_keys").await,
        served * 81_000
    );
    assert!(served * 81_000 <= 1_000_000);
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_keys_limit_holds_on_every_edge_from_its_answer_on() {
    let metered = start(2).await;
    let (key, other) = (key_with(&metered.ada, "", json!(2)).await, key_with(&metered.ada, "", json!(null)).await);
    metered.spend(0, &key).await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;
    let refused = metered.ask_at(1, &key.secret, &dear()).await;
    let now = Clock::system().now();
    let left = Month::from_timestamp(now).next().start().since(now).as_secs();
    assert!(retry_after(&refused).unsigned_abs().abs_diff(left) <= 5, "{} s, {left} s left", retry_after(&refused));
    assert!(metered.is_served(0, &other, &dear()).await && metered.is_served(1, &other, &dear()).await);

    // Raised: three completions in all. An edge has only just refused one.
    set_limit(&metered.ada, &key, json!(4)).await;
    metered.spend(1, &key).await;
    metered.spend(0, &key).await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;
    // Lowered below what is spent: not even the cheapest.
    set_limit(&metered.ada, &key, json!(3)).await;
    metered.assert_refused(slice::from_ref(&key), &Completion::of(1, 1).at_most(1), "This key's monthly limit").await;
    // Removed.
    set_limit(&metered.ada, &key, json!(null)).await;
    assert!(metered.is_served(0, &key, &dear()).await && metered.is_served(1, &key, &dear()).await);

    // Six cents are five completions of 1.2.
    let month_cents = async |key: &Key| {
        let list = metered.ada.get("/tokens").await.ok();
        let found =
            list["tokens"].as_array().unwrap().iter().find(|token| key.path.ends_with(token["id"].as_str().unwrap()));
        found.unwrap()["month_cents"].as_u64().unwrap()
    };
    eventually(SEEN_WITHIN, "the key's cost is seen", async || month_cents(&key).await == 6).await;
    eventually(SEEN_WITHIN, "the other's, too", async || month_cents(&other).await == 3).await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn concurrent_requests_do_not_overrun_a_keys_limit_and_leave_what_they_did_not_use() {
    let metered = start(2).await;
    let key = key_with(&metered.ada, "", json!(1)).await;
    let wanted = modest().held();
    let answers = ask_held(&metered, (0..20).map(|n| metered.ask_at(n % 2, &key.secret, &wanted))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2);
    assert_code(answers.iter().find(|answer| answer.status != 200).unwrap(), "limit_reached");
    // They used 0.24 of the cent; a third of 0.36 and its prompt fits once that is known.
    eventually(BACKGROUND, "the rest is free", async || metered.is_served(0, &key, &modest()).await).await;
    metered.rows_become(3, "NOT estimated AND cost_microcents = 100 * 300 + 100 * 900").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_completion_that_used_nothing_leaves_its_keys_limit_whole() {
    let metered = start(1).await;
    let key = key_with(&metered.ada, "", json!(1)).await;
    for _ in 0..5 {
        let failed = metered.ask_at(0, &key.secret, &dear().failing()).await;
        assert!(failed.status != 200 && failed.status != 429, "{}", failed.text());
    }
    eventually(BACKGROUND, "what it reserved is given back", async || metered.is_served(0, &key, &dear()).await).await;
}

#[tokio::test]
async fn a_limit_that_is_set_later_counts_what_the_key_has_spent_and_has_under_way() {
    let metered = start(2).await;
    let key = key_with(&metered.ada, "", json!(null)).await;
    let other = key_with(&metered.ada, "", json!(null)).await;
    metered.spend(0, &key).await;
    metered.spend(1, &other).await;
    let asker = Asker { key: key.secret.clone(), ..metered.asker(1) };
    let under_way = tokio::spawn(async move { asker.is_served(&modest().held()).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 3).await;
    // 1.2 are spent, and more than 0.36 reserved.
    set_limit(&metered.ada, &key, json!(2)).await;
    metered.assert_refused(slice::from_ref(&key), &modest().at_most(500), "This key's monthly limit").await;
    metered.provider.release();
    assert!(under_way.await.unwrap());
    // 1.32 are spent.
    let more = modest().at_most(500);
    eventually(BACKGROUND, "the rest is free", async || metered.is_served(0, &key, &more).await).await;
}

#[tokio::test]
async fn an_orgs_limit_is_that_of_all_its_keys() {
    let metered = start(2).await;
    metered.ada.create_org("analytical").await;
    let keys = [
        key_with(&metered.ada, "/orgs/analytical", json!(null)).await,
        key_with(&metered.ada, "/orgs/analytical", json!(100)).await,
    ];
    let path = "/orgs/analytical/usage/ai/limit";
    let set = async |limit: Value| {
        let answer = metered.ada.put(path).json(&json!({ "monthly_limit_cents": limit })).await;
        assert!(answer.header("x-svc-propagation").starts_with("2/2"));
        assert_eq!(answer.ok()["monthly_limit_cents"], limit);
    };
    assert_eq!(
        metered.ada.get(path).await.ok(),
        json!({ "monthly_limit_cents": null, "month_cents": 0, "month_microcents": 0 })
    );
    assert!(metered.is_served(0, &keys[0], &dear()).await && metered.is_served(1, &keys[1], &dear()).await);
    eventually(SEEN_WITHIN, "the cost is seen", async || metered.ada.get(path).await.ok()["month_cents"] == 3).await;
    set(json!(3)).await;
    metered.assert_refused(&keys, &dear(), "The organization's monthly limit").await;
    metered.ask(&dear()).await.assert_status(200);
    set(json!(5)).await;
    assert!(metered.is_served(1, &keys[0], &dear()).await);
    set(json!(0)).await;
    metered.assert_refused(&keys, &Completion::of(1, 1).at_most(1), "The organization's monthly limit").await;
    set(json!(null)).await;
    assert!(metered.is_served(0, &keys[1], &dear()).await && metered.is_served(1, &keys[0], &dear()).await);

    let log = metered.ada.get("/orgs/analytical/audit").await.ok();
    let limits: Vec<_> =
        log["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == "usage.limit").collect();
    assert_eq!(limits.len(), 4);
    assert_eq!(limits[1]["detail"]["monthly_limit_cents"], 0);
}

#[tokio::test]
async fn a_redis_that_has_forgotten_learns_what_a_key_has_spent() {
    let metered = start(2).await;
    let key = key_with(&metered.ada, "", json!(2)).await;
    let other = key_with(&metered.ada, "", json!(9)).await;
    assert!(metered.is_served(0, &key, &dear()).await && metered.is_served(1, &other, &dear()).await);
    metered.rows_become(2, "NOT estimated").await;
    metered.world.redis_command("FLUSHALL").await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;

    // What only an edge knows of counts, too.
    let asker = Asker { key: key.secret.clone(), ..metered.asker(1) };
    let under_way = tokio::spawn(async move { asker.is_served(&modest().held()).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 3).await;
    metered.world.redis_command("FLUSHALL").await;
    metered.assert_refused(slice::from_ref(&key), &modest(), "This key's monthly limit").await;
    assert!(metered.is_served(0, &other, &modest()).await);
    metered.provider.release();
    assert!(under_way.await.unwrap());
    eventually(BACKGROUND, "the rest is free", async || metered.is_served(0, &key, &modest()).await).await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_new_month_begins_with_the_whole_limit() {
    let first = Month::from_timestamp(Clock::system().now()).next().next().start();
    let ahead = |of: Timestamp| of.since(Clock::system().now());
    let before = first - Duration::from_hours(1);
    let metered = start_with(|builder| builder.edges(2).redis_ahead(ahead(before))).await;
    let key = key_with(&metered.ada, "", json!(2)).await;
    metered.spend(0, &key).await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;
    metered.world.set_redis_ahead(ahead(first + Duration::from_secs(1)));
    eventually(BACKGROUND, "the month is new", async || metered.is_served(1, &key, &dear()).await).await;
    metered.is_settled(&key).await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;
    metered.rows_become(2, "NOT estimated").await;
    metered.assert_sums().await;
    assert_eq!(metered.world.sql_number("SELECT count(DISTINCT month) FROM ai_usage_keys").await, 2);
}

#[tokio::test]
async fn what_was_used_before_keys_had_sums_is_summed_by_whoever_comes_first() {
    let mut metered = start(1).await;
    let (key, other) = (key_with(&metered.ada, "", json!(2)).await, new_key(&metered.world.user("eve").await).await);
    assert!(metered.is_served(0, &key, &dear()).await);
    metered.ask_at(0, &other, &modest()).await.assert_status(200);
    metered.rows_become(2, "NOT estimated").await;
    let sums = "SELECT string_agg(token_id || cost_microcents, ' ' ORDER BY token_id) FROM ai_usage_keys";
    let before = metered.world.sql_text(sums).await;
    // As the migration leaves it.
    metered.world.sql("DELETE FROM ai_usage_keys; UPDATE ai_usage_versions SET keys_summed = false").await;
    metered.world.redis_command("FLUSHALL").await;
    metered.assert_refused(slice::from_ref(&key), &dear(), "This key's monthly limit").await;
    metered.world.restart_admin_later().await;
    let left = "SELECT count(*) FROM ai_usage_versions WHERE NOT keys_summed";
    eventually(BACKGROUND, "admin has summed the other", async || metered.world.sql_number(left).await == 0).await;
    assert_eq!(metered.world.sql_text(sums).await, before);
}
