//! Names that were given up: kept for their former owner where somebody may follow them, and no more than the plan has room for.

use serde_json::{Value, json};

use crate::world::{Actor, Site, World};

fn take(actor: &Actor, name: &str) -> crate::world::request::Request {
    actor.post("/projects").json(&json!({ "name": name }))
}

async fn publish_and_delete(actor: &Actor, name: &str) {
    actor.publish(name, &Site::page("home")).await;
    actor.delete(&format!("/projects/{name}")).await.ok();
}

#[tokio::test]
async fn names_are_not_taken_away_by_making_and_deleting() {
    let world = World::builder().plan(&json!({ "projects": 2 })).start().await;
    let (mallory, bob) = (world.user("mallory").await, world.user("bob").await);
    for name in ["apple", "banana", "cherry"] {
        mallory.create_project(name).await;
        mallory.delete(&format!("/projects/{name}")).await.ok();
    }
    take(&bob, "apple").await.created();
    // What was published is kept, for the newest.
    for name in ["red", "green", "blue"] {
        publish_and_delete(&mallory, name).await;
    }
    take(&bob, "green").await.assert_error(409, "name_taken");
    take(&bob, "blue").await.assert_error(409, "name_taken");
    take(&world.user("carol").await, "red").await.created();
    let deleted = mallory.get("/deleted-projects").await.ok();
    let names: Vec<_> = deleted["projects"].as_array().unwrap().iter().map(|project| &project["name"]).collect();
    assert_eq!(names, ["blue", "green"], "as many can be restored");
    // A former owner does not lose a name by another project that publishes nothing.
    take(&mallory, "blue").await.created();
    mallory.delete("/projects/blue").await.ok();
    take(&bob, "blue").await.assert_error(409, "name_taken");
}

#[tokio::test]
async fn an_organizations_name_is_kept_once_others_knew_it() {
    let world = World::builder().plan(&json!({ "orgs": 2, "projects": 3 })).start().await;
    let (mallory, bob, eve) = (world.user("mallory").await, world.user("bob").await, world.user("eve").await);
    let org = |name: &str| json!({ "name": name });
    for name in ["apple", "banana", "cherry"] {
        mallory.create_org(name).await;
        mallory.delete(&format!("/orgs/{name}")).await.ok();
    }
    let free = world.user("carol").await;
    free.post("/orgs").json(&org("apple")).await.created();
    // Somebody joined, or something was published: kept, for the newest two.
    for name in ["red", "green", "blue"] {
        let made = mallory.create_org(name).await;
        if name == "blue" {
            let project = format!("{name}-site");
            mallory.create_project_in(&made, &project).await;
            mallory.deploy(&project, &Site::page("home")).await;
            mallory.delete(&format!("/projects/{project}")).await.ok();
        } else {
            made.admit(&eve, domain::role::Role::Member).await;
        }
        mallory.delete(&made.path("")).await.ok();
    }
    bob.post("/orgs").json(&org("green")).await.assert_error(409, "name_taken");
    bob.post("/orgs").json(&org("blue")).await.assert_error(409, "name_taken");
    bob.post("/orgs").json(&org("red")).await.created();
    take(&bob, "blue-site").await.assert_error(409, "name_taken");
    mallory.post("/orgs").json(&org("blue")).await.created();
}

#[tokio::test]
async fn names_of_deleted_organizations_do_not_heap_up_on_their_owner() {
    let world = World::builder().plan(&json!({ "projects": 2 })).start().await;
    let (mallory, bob) = (world.user("mallory").await, world.user("bob").await);
    for round in 0..2 {
        let org = mallory.create_org(&format!("org-{round}")).await;
        for number in 0..2 {
            let name = format!("site-{round}-{number}");
            mallory.create_project_in(&org, &name).await;
            mallory.deploy(&name, &Site::page("home")).await;
            mallory.delete(&format!("/projects/{name}")).await.ok();
        }
        mallory.delete(&org.path("")).await.ok();
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM retired_names WHERE kind = 'project'").await, 2);
    take(&bob, "site-0-0").await.created();
    take(&bob, "site-1-1").await.assert_error(409, "name_taken");
}

#[tokio::test]
async fn what_a_plan_gives_by_the_month_is_not_given_again_for_another_organization() {
    let world = World::builder().plan(&json!({ "orgs": 2 })).start().await;
    let mallory = world.user("mallory").await;
    let make = |name: &str| mallory.post("/orgs").json(&json!({ "name": name }));
    // Those that used nothing do not count.
    for name in ["one", "two", "three"] {
        make(name).await.created();
        mallory.delete(&format!("/orgs/{name}")).await.ok();
    }
    for name in ["four", "five"] {
        make(name).await.created();
        world
            .sql(&format!(
                "INSERT INTO ai_usage_days (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
                 SELECT id, (now() AT TIME ZONE 'UTC')::date, 'svc/x', 1, 1, 1, 100000000 FROM orgs WHERE name = '{name}'"
            ))
            .await;
        mallory.delete(&format!("/orgs/{name}")).await.ok();
    }
    let message = make("six").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("month"), "{message}");
    let _: Value = world.user("bob").await.post("/orgs").json(&json!({ "name": "six" })).await.created();
    world.sql("UPDATE deleted_orgs SET deleted_at = deleted_at - interval '31 days'").await;
    make("seven").await.created();
}
