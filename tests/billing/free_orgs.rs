//! Organizations without a subscription: those of one creator have one free plan together, however many they are, and their number follows
//! the plan that was paid for.

use serde_json::{Value, json};

use super::plans::{charge, end_subscription, org, person, small_and_large, subscribe};
use crate::world::{Actor, Site, World, answer::Answer, site::noise};

const TOGETHER: &str = "over all organizations without a subscription that the payer of this one pays for";

async fn project(actor: &Actor, org: Option<&str>, name: &str) -> Answer {
    actor.post("/projects").json(&json!({ "name": name, "org": org })).await
}

#[track_caller]
fn assert_shared(answer: Answer, what: &str) {
    let message = answer.assert_error(403, "plan_limit_reached");
    assert!(message.contains(&format!("{what} {TOGETHER}")), "{message}");
    assert!(message.ends_with("or choose the Large plan for this organization."), "{message}");
}

#[tokio::test]
async fn organizations_without_a_subscription_have_one_free_plan_together() {
    let small = json!({ "projects": 2, "domains": 1, "storage_bytes": 512_000 });
    let world = small_and_large(&small, &json!({})).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    for name in ["acme", "band"] {
        ada.create_org(name).await;
    }
    project(&ada, Some("acme"), "one").await.created();
    project(&ada, Some("band"), "two").await.created();
    for name in ["acme", "band"] {
        assert_shared(project(&ada, Some(name), "three").await, "2 projects");
    }
    // What the person has is counted apart, and so are the organizations of others.
    for name in ["mine", "mine-too"] {
        project(&ada, None, name).await.created();
    }
    project(&ada, None, "three").await.assert_error(403, "plan_limit_reached");
    bob.create_org("other").await;
    project(&bob, Some("other"), "three").await.created();
    project(&bob, Some("other"), "four").await.created();

    let domain = async |project: &str, domain: &str| {
        ada.post(&format!("/projects/{project}/domains")).json(&json!({ "domain": domain })).await
    };
    domain("one", "one.example.com").await.created();
    assert_shared(domain("two", "two.example.com").await, "1 custom domain");
    domain("mine", "mine.example.com").await.created();

    let large = || Site::page("large").file("noise.bin", noise(300_000));
    ada.deploy("one", &large()).await;
    assert_shared(ada.upload("two", &large()).await, "500 KB of stored files");
    ada.deploy("mine", &large()).await;

    // What is shown is what is counted.
    let shown = async |org: &str| ada.get(&format!("/orgs/{org}/billing")).await.ok();
    let overview = shown("band").await;
    assert_eq!((&overview["usage"]["projects"], &overview["usage"]["domains"]), (&json!(1), &json!(0)));
    let shared = &overview["shared_usage"];
    assert_eq!(shared["organizations"], 2);
    assert_eq!((&shared["usage"]["projects"], &shared["usage"]["domains"]), (&json!(2), &json!(1)));
    assert_eq!(ada.get("/billing").await.ok()["shared_usage"], Value::Null);
    assert_eq!(bob.get("/orgs/other/billing").await.ok()["shared_usage"], Value::Null);

    // An organization with a subscription has a plan of its own, and leaves the others the free one.
    let acme = org(&world, "acme").await;
    subscribe(&world, &acme, "large").await;
    assert_eq!(shown("acme").await["shared_usage"], Value::Null);
    project(&ada, Some("acme"), "three-of-acme").await.created();
    project(&ada, Some("band"), "three-of-band").await.created();
    domain("two", "two.example.com").await.created();
    ada.deploy("two", &large()).await;
    // When it ends nothing is taken away, and nothing more is made.
    end_subscription(&world, &acme).await;
    assert_eq!(shown("band").await["shared_usage"]["usage"]["projects"], 4);
    assert_shared(project(&ada, Some("band"), "five").await, "2 projects");
}

#[tokio::test]
async fn concurrent_changes_of_several_organizations_take_no_more_than_one_plan() {
    let world = small_and_large(&json!({ "projects": 3 }), &json!({})).start().await;
    let ada = world.user("ada").await;
    let orgs = ["acme", "band", "club", "dojo"];
    for name in orgs {
        ada.create_org(name).await;
    }
    let made = (0..12).map(|number| {
        let ada = &ada;
        async move { project(ada, Some(orgs[number % 4]), &format!("project-{number}")).await.status }
    });
    let made = futures_util::future::join_all(made).await;
    assert_eq!(made.iter().filter(|status| **status == 201).count(), 3, "{made:?}");
}

async fn create(actor: &Actor, name: &str) -> Answer {
    actor.post("/orgs").json(&json!({ "name": name })).await
}

#[tokio::test]
async fn the_number_of_organizations_follows_the_plan_that_is_paid() {
    let world: World = small_and_large(&json!({ "orgs": 1 }), &json!({ "orgs": 3 })).start().await;
    let ada = world.user("ada").await;
    create(&ada, "acme").await.created();
    let account = person(&world, "ada").await;
    // An upgrade in the course of a month that was charged for less.
    subscribe(&world, &account, "large").await;
    charge(&world, &account, "free").await;
    let message = create(&ada, "band").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("1 organization,") && message.contains("its first month is paid"), "{message}");
    assert_eq!(ada.get("/billing").await.ok()["limits"]["orgs"], 1);
    // Cancelled, it is as unpaid as before.
    world.sql("UPDATE subscriptions SET cancel_at_period_end = true").await;
    create(&ada, "band").await.assert_error(403, "plan_limit_reached");
    world.sql("UPDATE subscriptions SET cancel_at_period_end = false").await;
    charge(&world, &account, "large").await;
    create(&ada, "band").await.created();
    // A renewal that failed is not paid either; what there is stays.
    world.sql("UPDATE subscriptions SET status = 'past_due', failures = 1").await;
    create(&ada, "club").await.assert_error(403, "plan_limit_reached");
    assert_eq!(ada.get("/orgs").await.ok()["orgs"].as_array().unwrap().len(), 2);
    world.sql("UPDATE subscriptions SET status = 'active', failures = 0").await;
    create(&ada, "club").await.created();
}
