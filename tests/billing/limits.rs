//! Limits of plans: held where a thing is made, for each account by itself, and refused with the way out.

use db::billing::plan;
use domain::plans::Plans;
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::plans::{end_subscription, org, person, small_and_large, subscribe};
use crate::world::{Actor, Site, World, answer::Answer, org::token_of};

/// The end of a refusal where the larger plan has room.
const LARGER: &str = "or choose the Large plan.";

#[track_caller]
fn assert_reached(answer: Answer, parts: &[&str]) {
    let message = answer.assert_error(403, "plan_limit_reached");
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

async fn make(actor: &Actor, path: &str, body: Value) -> Answer {
    actor.post(path).json(&body).await
}

async fn attach(actor: &Actor, project: &str, domain: &str) -> Answer {
    make(actor, &format!("/projects/{project}/domains"), json!({ "domain": domain })).await
}

async fn invite(actor: &Actor, email: &str) -> Answer {
    make(actor, "/orgs/acme/invites", json!({ "email": email, "role": "member" })).await
}

#[tokio::test]
async fn a_refusal_says_what_how_many_and_which_plan_has_more() {
    let small = json!({ "orgs": 1, "members": 2, "projects": 1, "domains": 1, "shares": 1 });
    let world = small_and_large(&small, &json!({ "domains": 1 })).start().await;
    let ada = world.user("ada").await;
    ada.create_project("one").await;
    assert_reached(make(&ada, "/projects", json!({ "name": "two" })).await, &["1 project,", LARGER]);
    ada.share(&Site::page("look"), 1).await;
    assert_reached(ada.post("/shares").upload(Site::page("look").tarball()).await, &["1 live share,", LARGER]);
    ada.create_org("acme").await;
    assert_reached(make(&ada, "/orgs", json!({ "name": "other" })).await, &["1 organization,", LARGER]);
    invite(&ada, "eve@example.com").await.created();
    assert_reached(invite(&ada, "bob@example.com").await, &["2 members with pending invites,", LARGER]);
    attach(&ada, "one", "shop.example.com").await.created();
    let no_more = ["1 custom domain,", "No plan has room for it."];
    assert_reached(attach(&ada, "one", "www.example.com").await, &no_more);
    // The org has a plan of its own, which is used up on its own.
    make(&ada, "/projects", json!({ "name": "team", "org": "acme" })).await.created();
    assert_reached(make(&ada, "/projects", json!({ "name": "more", "org": "acme" })).await, &["1 project,", LARGER]);
    // A plan is that of its account, and of nobody else.
    subscribe(&world, &person(&world, "ada").await, "large").await;
    ada.create_project("two").await;
    make(&ada, "/orgs", json!({ "name": "other" })).await.created();
    assert_reached(invite(&ada, "bob@example.com").await, &["2 members with pending invites,", LARGER]);
    subscribe(&world, &org(&world, "acme").await, "large").await;
    invite(&ada, "bob@example.com").await.created();
    assert_reached(attach(&ada, "two", "www.example.com").await, &no_more);
}

#[tokio::test]
async fn invites_at_once_take_no_more_seats_than_there_are() {
    let world = small_and_large(&json!({ "members": 4 }), &json!({})).start().await;
    let ada = world.user("ada").await;
    ada.create_org("acme").await;
    let answers = join_all((0..8).map(async |n| invite(&ada, &format!("person-{n}@example.com")).await)).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (3, 5));
    for answer in refused {
        assert_reached(answer, &["4 members"]);
    }
    // One that is revoked gives its seat back; one that is accepted keeps it.
    let id = made[0].clone().created()["id"].as_str().unwrap().to_owned();
    ada.delete(&format!("/orgs/acme/invites/{id}")).await.ok();
    let token = token_of(&invite(&ada, "late@example.com").await.created());
    let late = world.user("late").await;
    late.post(&format!("/invites/{token}/accept")).await.ok();
    assert_reached(invite(&ada, "later@example.com").await, &["4 members"]);
}

#[tokio::test]
async fn an_invite_of_a_larger_plan_finds_no_seat_in_the_smaller() {
    let world = small_and_large(&json!({ "members": 2 }), &json!({})).start().await;
    let ada = world.user("ada").await;
    ada.create_org("acme").await;
    let account = org(&world, "acme").await;
    subscribe(&world, &account, "large").await;
    let mut tokens = Vec::new();
    for login in ["eve", "bob"] {
        tokens.push(token_of(&invite(&ada, &format!("{login}@example.com")).await.created()));
    }
    end_subscription(&world, &account).await;
    let (eve, bob) = (world.user("eve").await, world.user("bob").await);
    let accept = async |actor: &Actor, token: &str| actor.post(&format!("/invites/{token}/accept")).await;
    accept(&eve, &tokens[0]).await.ok();
    assert_reached(accept(&bob, &tokens[1]).await, &["2 members", "Large"]);
    // The invite is not spent by that.
    subscribe(&world, &account, "large").await;
    accept(&bob, &tokens[1]).await.ok();
}

#[tokio::test]
async fn a_transfer_needs_room_in_the_plan_of_the_new_owner() {
    let world = small_and_large(&json!({ "domains": 1 }), &json!({})).start().await;
    let ada = world.user("ada").await;
    ada.create_org("acme").await;
    let account = org(&world, "acme").await;
    subscribe(&world, &account, "large").await;
    make(&ada, "/projects", json!({ "name": "team", "org": "acme" })).await.created();
    for domain in ["a.example.com", "b.example.com"] {
        attach(&ada, "team", domain).await.created();
    }
    let to_ada = async || ada.post("/projects/team/transfer").json(&json!({ "org": null })).await;
    assert_reached(to_ada().await, &["1 custom domain,", "choose the Large plan"]);
    ada.detach("team", "b.example.com").await;
    to_ada().await.ok();
}

#[tokio::test]
async fn what_a_larger_plan_kept_stays_when_it_ends() {
    let world = World::start().await;
    world.user("ada").await;
    let account = person(&world, "ada").await;
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let plans = Plans::default();
    let kept = async || plan::kept_deployments(&mut db.acquire().await.unwrap(), &plans, &account).await.unwrap();
    let limits = async || plan::limits(&db, &plans, &account).await.unwrap();
    let of = |id: &str| plans.find(id).unwrap().limits;
    assert_eq!((kept().await, limits().await), (of("free").deployments, of("free")));
    subscribe(&world, &account, "pro").await;
    assert_eq!((kept().await, limits().await), (of("pro").deployments, of("pro")));
    // A charge failed, and is tried again: nothing is taken away meanwhile.
    world.sql("UPDATE subscriptions SET status = 'past_due', failures = 1").await;
    assert_eq!(limits().await, of("pro"));
    world.sql("UPDATE subscriptions SET status = 'active'").await;
    end_subscription(&world, &account).await;
    assert_eq!((kept().await, limits().await), (of("pro").deployments, of("free")));
    subscribe(&world, &account, "business").await;
    assert_eq!((kept().await, limits().await), (of("business").deployments, of("business")));
    // A plan that the configuration lost: nobody has less than they pay for.
    world.sql("UPDATE subscriptions SET plan = 'pro-2025' WHERE status = 'active'").await;
    assert_eq!(limits().await, of("business"));
    let counted = plan::subscriptions_by_plan(&db).await.unwrap();
    assert_eq!(counted, [("pro-2025".to_owned(), 1)]);
}
