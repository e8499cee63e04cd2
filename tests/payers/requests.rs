//! Requests of the API, and the tokens that they are made with.

use futures_util::future::join_all;
use serde_json::json;

use super::{count_on, counted};
use crate::world::{Actor, World, answer::parse_secret};

/// Requests of an account in a minute.
const ACCOUNT: u32 = 12;

async fn robot_of_a_new_org(owner: &Actor, name: &str) -> Actor {
    owner.create_org(name).await.robot("deploy").await
}

#[tokio::test]
async fn organizations_give_their_creator_no_further_requests() {
    let world = World::builder().plan(&json!({})).set("LIMITS__API_ACCOUNT_PER_MIN", ACCOUNT).start().await;
    let (mallory, eve) = (world.user("mallory").await, world.user("eve").await);
    let one = robot_of_a_new_org(&mallory, "one").await;
    let two = robot_of_a_new_org(&mallory, "two").await;
    for sent in 0..ACCOUNT * 2 / 3 {
        let robot = if sent % 2 == 0 { &one } else { &two };
        robot.get("/me").await.ok();
    }
    one.get("/me").await.assert_error(429, "rate_limit_exceeded");
    two.get("/me").await.assert_error(429, "rate_limit_exceeded");
    // Another one in the place of the first has what they left, and the next has nothing.
    mallory.delete("/orgs/one").await.ok();
    let three = robot_of_a_new_org(&mallory, "three").await;
    for _ in 0..ACCOUNT / 3 {
        three.get("/me").await.ok();
    }
    mallory.delete("/orgs/two").await.ok();
    let four = robot_of_a_new_org(&mallory, "four").await;
    four.get("/me").await.assert_error(429, "rate_limit_exceeded");
    // Pipelines are not in their owner's way, nor in that of others.
    mallory.get("/me").await.ok();
    robot_of_a_new_org(&eve, "eves").await.get("/me").await.ok();
}

#[tokio::test]
async fn a_person_has_a_hundred_working_tokens() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    world
        .sql(
            "INSERT INTO tokens (id, kind, user_id, secret_hash, created_at, revoked_at)
             SELECT 'tok_' || lpad(n::text, 20, '0'), 'cli', u.id, sha256(n::text::bytea), now(), CASE WHEN n > 98 THEN now() END
             FROM generate_series(1, 1200) AS n, users u WHERE u.vcs_login = 'ada'",
        )
        .await;
    let create = || async { ada.post("/tokens").json(&json!({ "kind": "ai" })).await };
    let (made, refused): (Vec<_>, Vec<_>) =
        join_all((0..6).map(|_| create())).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(made.len(), 1);
    for answer in refused {
        let message = answer.assert_error(403, "plan_limit_reached");
        assert!(message.contains("100") && message.contains("revoke"), "{message}");
    }
    // A sign-in makes a token, too.
    let flow = world.nobody().post("/auth/device").await.ok();
    world.sql("UPDATE device_grants SET state = 'approved', user_id = (SELECT id FROM users)").await;
    let poll = || async {
        world.nobody().post("/auth/device/poll").json(&json!({ "device_code": flow["device_code"] })).await
    };
    poll().await.assert_error(403, "plan_limit_reached");
    // Of those that were revoked, the newest thousand are still shown.
    let revoked = "SELECT count(*) FROM tokens WHERE revoked_at IS NOT NULL";
    assert_eq!(world.sql_number(revoked).await, 1_000);
    ada.delete("/tokens/tok_00000000000000000001").await.ok();
    let token = parse_secret(&poll().await.ok()["token"]);
    ada.with_token(&token).get("/me").await.ok();
    create().await.assert_error(403, "plan_limit_reached");
    // Another person's are another's.
    world.user("eve").await.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
}

#[tokio::test]
async fn what_stays_of_requests_is_counted_for_the_account() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let spare = parse_secret(&ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created()["token"]);
    let spare = ada.with_token(&spare);
    let create = |actor: &Actor, name: &str| {
        actor.post("/projects").header("idempotency-key", name).json(&json!({ "name": name }))
    };
    create(&ada, "first").await.created();
    count_on(&world, "idempotency-key", 10_000).await;
    create(&ada, "second").await.assert_error(429, "rate_limit_exceeded");
    create(&spare, "second").await.assert_error(429, "rate_limit_exceeded");
    assert_eq!(world.sql_number("SELECT count(*) FROM idempotency_keys").await, 1);
    // Without a key nothing is kept.
    spare.create_project("second").await;
    create(&eve, "third").await.created();

    count_on(&world, "change", 50_000).await;
    for actor in [&ada, &spare] {
        let answer = actor.post("/projects").json(&json!({ "name": "fourth" })).await;
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 3_600);
        answer.assert_error(429, "rate_limit_exceeded");
        actor.get("/projects").await.ok();
    }
}

#[tokio::test]
async fn leaked_tokens_of_all_organizations_but_one_leave_that_one_its_part() {
    let world = World::builder().plan(&json!({})).set("LIMITS__API_ACCOUNT_PER_MIN", ACCOUNT).start().await;
    let mallory = world.user("mallory").await;
    let mut robots = Vec::new();
    for name in ["one", "two", "three"] {
        robots.push(robot_of_a_new_org(&mallory, name).await);
    }
    let other = robots.pop().unwrap();
    for leaked in &robots {
        let mut admitted = 0;
        while leaked.get("/me").await.status == 200 {
            admitted += 1;
        }
        assert_eq!(admitted, ACCOUNT / 4);
        // What is refused takes nothing from the others.
        for _ in 0..ACCOUNT {
            leaked.get("/me").await.assert_error(429, "rate_limit_exceeded");
        }
    }
    for _ in 0..ACCOUNT / 4 {
        other.get("/me").await.ok();
    }
}

#[tokio::test]
async fn a_token_of_the_wrong_kind_leaves_nothing() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let org = ada.create_org("acme").await;
    let robot = org.robot("deploy").await;
    let key = parse_secret(&ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created()["token"]);
    let before = counted(&world, "change").await;
    for actor in [&robot, &ada.with_token(&key)] {
        for number in 0..3 {
            let create = actor.post("/projects").header("idempotency-key", format!("key-{number}"));
            create.json(&json!({ "name": "engine" })).await.assert_error(401, "unauthorized");
            actor.delete("/orgs/acme").await.assert_error(401, "unauthorized");
        }
    }
    assert_eq!(counted(&world, "change").await, before);
    for bucket in ["change-org", "idempotency-key", "idempotency-key-org", "api-org"] {
        assert_eq!(counted(&world, bucket).await, [0; 0], "{bucket}");
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM idempotency_keys").await, 0);
    robot.get("/me").await.ok();
}

#[tokio::test]
async fn a_person_begins_a_bounded_number_of_checkouts_for_whichever_accounts() {
    let world = World::start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    ada.create_org("acme").await;
    let checkout = |actor: &Actor, path: &str| actor.post(path).json(&json!({ "plan": "pro" }));
    // This world takes no payments.
    checkout(&ada, "/billing/checkout").await.assert_error(503, "billing_unavailable");
    count_on(&world, "checkout", 20).await;
    for path in ["/billing/checkout", "/orgs/acme/billing/checkout"] {
        checkout(&ada, path).await.assert_error(429, "rate_limit_exceeded");
    }
    checkout(&bob, "/billing/checkout").await.assert_error(503, "billing_unavailable");
}
