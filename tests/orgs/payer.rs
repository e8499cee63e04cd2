//! `/orgs/:name/payer`: whose free plan an organization counts against, whatever becomes of its owners.

use db::gateway::free_credit;
use domain::{Clock, OrgId, month::Month, role::Role, usage::Microcents};
use serde_json::json;
use sqlx::PgPool;

use crate::{
    billing::plans::small_and_large,
    world::{Actor, Site, World, answer::Answer, org::Org},
};

/// A world in which a person may have two organizations, with two projects in all.
async fn start() -> World {
    small_and_large(&json!({ "orgs": 2, "projects": 2 }), &json!({})).start().await
}

/// An organization that ada has created and owns with bob, with a project.
async fn acme(world: &World) -> (Org, Actor, Actor) {
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let org = ada.create_org("acme").await;
    org.admit(&bob, Role::Owner).await;
    ada.create_project_in(&org, "engine").await;
    (org, ada, bob)
}

async fn payer(world: &World) -> String {
    world.sql_text("SELECT u.vcs_login FROM orgs o JOIN users u ON u.id = o.created_by WHERE o.name = 'acme'").await
}

async fn create(actor: &Actor, name: &str) -> Answer {
    actor.post("/orgs").json(&json!({ "name": name })).await
}

async fn create_project(actor: &Actor, org: &str, name: &str) -> Answer {
    actor.post("/projects").json(&json!({ "name": name, "org": org })).await
}

#[tokio::test]
async fn an_owner_who_removes_or_demotes_the_payer_pays() {
    let world = start().await;
    let (org, ada, bob) = acme(&world).await;
    bob.put("/orgs/acme/members/ada").json(&json!({ "role": "admin" })).await.ok();
    assert_eq!(payer(&world).await, "bob");
    let entries = bob.get("/orgs/acme/audit").await.ok();
    let entry = &entries["entries"][0];
    assert_eq!((&entry["action"], &entry["detail"]["login"]), (&json!("org.take_over"), &json!("bob")));
    // It has taken its place in the plan of one, and left that of the other.
    create(&bob, "bobs").await.created();
    create(&bob, "bobs-too").await.assert_error(403, "plan_limit_reached");
    for name in ["adas", "adas-too"] {
        create(&ada, name).await.created();
    }
    create_project(&bob, "bobs", "one").await.created();
    create_project(&bob, "bobs", "two").await.assert_error(403, "plan_limit_reached");
    create_project(&ada, "adas", "two").await.created();
    // Who pays no more may go without any consequence.
    bob.delete("/orgs/acme/members/ada").await.ok();
    assert_eq!(payer(&world).await, "bob");
    assert_eq!(org.name, "acme");
}

#[tokio::test]
async fn nobody_is_handed_an_organization_by_who_leaves_it() {
    let world = start().await;
    let (_, ada, bob) = acme(&world).await;
    let robot = bob.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let robot = bob.with_token(robot["token"].as_str().unwrap());
    robot.upload("engine", &Site::page("before")).await.created();
    ada.delete("/orgs/acme/members/ada").await.ok();
    // What there is stays, and counts for who has left; nothing is added.
    assert_eq!(payer(&world).await, "ada");
    for refused in [
        create_project(&bob, "acme", "more").await,
        robot.upload("engine", &Site::page("after")).await,
        bob.post("/projects/engine/domains").json(&json!({ "domain": "www.example.com" })).await,
        bob.post("/orgs/acme/invites").json(&json!({ "email": "x@example.com", "role": "member" })).await,
    ] {
        let message = refused.assert_error(403, "plan_limit_reached");
        assert!(message.contains("take it over"), "{message}");
    }
    let pool = PgPool::connect(world.database.as_str()).await.unwrap();
    let id: OrgId = world.sql_text("SELECT id FROM orgs WHERE name = 'acme'").await.parse().unwrap();
    let month = Month::from_timestamp(Clock::system().now());
    let drawn = free_credit::draw(&pool, &id, month, Microcents(1_000), Microcents(10)).await.unwrap();
    assert_eq!(drawn.part, Microcents(0));
    // Leaving makes no room for another one.
    create(&ada, "adas").await.created();
    create(&ada, "adas-too").await.assert_error(403, "plan_limit_reached");
    bob.post("/orgs/acme/payer").await.ok();
    bob.post("/orgs/acme/payer").await.ok();
    assert_eq!(payer(&world).await, "bob");
    create_project(&bob, "acme", "more").await.created();
    robot.upload("engine", &Site::page("after")).await.created();
    create(&ada, "adas-too").await.created();
    let drawn = free_credit::draw(&pool, &id, month, Microcents(1_000), Microcents(10)).await.unwrap();
    assert_eq!(drawn.part, Microcents(10));
}

#[tokio::test]
async fn an_organization_is_taken_over_only_where_there_is_room() {
    let world = start().await;
    let (org, ada, bob) = acme(&world).await;
    let carol = world.user("carol").await;
    org.admit(&carol, Role::Owner).await;
    create(&bob, "bobs").await.created();
    for name in ["one", "two"] {
        create_project(&bob, "bobs", name).await.created();
    }
    bob.delete("/orgs/acme/members/ada").await.ok();
    assert_eq!(payer(&world).await, "ada", "three projects are one too many");
    let message = bob.post("/orgs/acme/payer").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("2 projects"), "{message}");
    bob.delete("/projects/two").await.ok();
    create(&bob, "bobs-too").await.created();
    let message = bob.post("/orgs/acme/payer").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("2 organizations"), "{message}");
    carol.post("/orgs/acme/payer").await.ok();
    assert_eq!(payer(&world).await, "carol");
    // One that is deleted takes nobody's place any more.
    carol.delete("/orgs/acme/members/carol").await.ok();
    bob.delete("/projects/engine").await.ok();
    create(&carol, "carols").await.created();
    create(&carol, "carols-too").await.assert_error(403, "plan_limit_reached");
    bob.delete("/orgs/acme").await.ok();
    create(&carol, "carols-too").await.created();
    create(&ada, "adas").await.created();
}

#[tokio::test]
async fn what_the_operator_has_suspended_keeps_its_payer() {
    let world = start().await;
    let (_, _, bob) = acme(&world).await;
    let done = world.operate(&["suspend", "engine", "--reason", "abuse"]).await;
    assert!(done.status.success(), "{done:?}");
    bob.post("/orgs/acme/payer").await.assert_error(409, "suspended");
    bob.delete("/orgs/acme/members/ada").await.ok();
    assert_eq!(payer(&world).await, "ada");
    world.operate(&["resume", "engine"]).await;
    bob.post("/orgs/acme/payer").await.ok();
    assert_eq!(payer(&world).await, "bob");
}
