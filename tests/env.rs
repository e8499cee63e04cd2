//! `/projects/:name/env`.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{Actor, World, answer::assert_keys};

async fn set(actor: &Actor, key: &str, body: &Value) -> crate::world::answer::Answer {
    actor.put(&format!("/projects/engine/env/{key}")).json(body).await
}

async fn list(actor: &Actor) -> Vec<Value> {
    let list = actor.get("/projects/engine/env").await.ok();
    assert_keys(&list, "env");
    list["env"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_variable_is_set_read_and_removed() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    assert_eq!(list(&ada).await, Vec::<Value>::new());

    let set_it = set(&ada, "API_KEY", &json!({ "value": "s3cret" })).await.ok();
    assert_eq!(set_it, json!({ "ok": true, "key": "API_KEY", "scope": "runtime" }));
    set(&ada, "_second", &json!({ "value": "größer\n\"=$x", "scope": "build" })).await.ok();
    let first = json!({ "key": "API_KEY", "value": "s3cret", "scope": "runtime" });
    assert_eq!(list(&ada).await, [json!({ "key": "_second", "value": "größer\n\"=$x", "scope": "build" }), first]);

    // An omitted scope keeps the stored one; a given one changes it.
    set(&ada, "_second", &json!({ "value": "" })).await.ok();
    assert_eq!(list(&ada).await[0], json!({ "key": "_second", "value": "", "scope": "build" }));
    set(&ada, "_second", &json!({ "value": "", "scope": null })).await.ok();
    assert_eq!(list(&ada).await[0]["scope"], "build");
    set(&ada, "_second", &json!({ "value": "2", "scope": "both" })).await.ok();
    assert_eq!(list(&ada).await[0], json!({ "key": "_second", "value": "2", "scope": "both" }));

    assert_eq!(ada.delete("/projects/engine/env/_second").await.ok(), json!({ "ok": true }));
    ada.delete("/projects/engine/env/_second").await.assert_error(404, "not_found");
    assert_eq!(list(&ada).await.len(), 1);
    // Names are told apart by their case.
    ada.delete("/projects/engine/env/api_key").await.assert_error(404, "not_found");
}

#[tokio::test]
async fn variables_have_rules() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let long = "K".repeat(129);
    for bad in ["1KEY", "A-B", "A.B", "A%20B", "%C3%84", "A%3DB", &long] {
        let message = set(&ada, bad, &json!({ "value": "x" })).await.assert_error(400, "invalid_request");
        assert!(message.contains("key"), "{bad}: {message}");
        ada.delete(&format!("/projects/engine/env/{bad}")).await.assert_error(404, "not_found");
    }
    for bad in [
        json!({}),
        json!({ "value": null }),
        json!({ "value": 5 }),
        json!({ "value": "a\u{0}b" }),
        json!({ "value": "x".repeat(32_769) }),
    ] {
        let message = set(&ada, "KEY", &bad).await.assert_error(400, "invalid_request");
        assert!(message.contains("value"), "{message}");
    }
    for scope in [json!("everywhere"), json!("Runtime"), json!(1)] {
        let bad = json!({ "value": "x", "scope": scope });
        let message = set(&ada, "KEY", &bad).await.assert_error(400, "invalid_request");
        assert!(message.contains("scope"), "{message}");
    }
    assert_eq!(list(&ada).await, Vec::<Value>::new());
    for good in ["K".repeat(128), "_".to_owned(), "a1".to_owned()] {
        set(&ada, &good, &json!({ "value": "é".repeat(32_768) })).await.ok();
    }
}

#[tokio::test]
async fn a_project_keeps_so_many_variables_and_so_much_in_them() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let fill = "INSERT INTO env_vars (project_id, key, sealed_value, value_bytes, created_at, updated_at)
                SELECT p.id, 'FILL_' || n, '', 0, now(), now() FROM projects p, generate_series(1, 199) n";
    world.sql(fill).await;
    let racers = (0..10).map(|n| {
        let ada = ada.clone();
        async move { set(&ada, &format!("LAST_{n}"), &json!({ "value": "x" })).await }
    });
    let statuses: Vec<_> = join_all(racers).await.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 400).count(), 9, "{statuses:?}");
    assert_eq!(world.sql_number("SELECT count(*) FROM env_vars").await, 200);

    world.sql("DELETE FROM env_vars WHERE key LIKE 'FILL%' OR key LIKE 'LAST%'").await;
    for n in 0..16 {
        set(&ada, &format!("BIG_{n}"), &json!({ "value": "x".repeat(32_768) })).await.ok();
    }
    let message = set(&ada, "MORE", &json!({ "value": "x" })).await.assert_error(400, "invalid_request");
    assert!(message.contains("512 KB"), "{message}");
    set(&ada, "BIG_0", &json!({ "value": "smaller" })).await.ok();
    set(&ada, "MORE", &json!({ "value": "x" })).await.ok();
}

#[tokio::test]
async fn values_are_sealed_and_die_with_their_project() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    set(&ada, "API_KEY", &json!({ "value": "correct horse battery" })).await.ok();
    let clear = "SELECT count(*) FROM env_vars WHERE position('correct horse'::bytea IN sealed_value) > 0";
    assert_eq!(world.sql_number(clear).await, 0);
    assert!(!world.admin.log().contains("correct horse"));

    // A value belongs to its row: one that was moved to another does not open, and the answer shows nothing of it.
    ada.create_project("other").await;
    world
        .sql(
            "INSERT INTO env_vars (project_id, key, sealed_value, value_bytes, created_at, updated_at)
             SELECT p.id, key, sealed_value, value_bytes, now(), now() FROM env_vars, projects p WHERE p.name = 'other'",
        )
        .await;
    ada.get("/projects/other/env").await.assert_error(500, "internal");

    ada.delete("/projects/engine").await.ok();
    ada.delete("/projects/other").await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM env_vars").await, 0);
    ada.create_project("engine").await;
    assert_eq!(list(&ada).await, Vec::<Value>::new());
}

#[tokio::test]
async fn racing_writers_leave_one_whole_value() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let write = |n: u32| {
        let scope = ["runtime", "build", "both"][n as usize % 3];
        let (ada, body) = (ada.clone(), json!({ "value": format!("value {n} {scope}"), "scope": scope }));
        async move { set(&ada, "API_KEY", &body).await.ok() }
    };
    join_all((0..30).map(write)).await;
    let stored = list(&ada).await;
    assert_eq!(stored.len(), 1);
    let (value, scope) = (stored[0]["value"].as_str().unwrap(), stored[0]["scope"].as_str().unwrap());
    assert!(value.ends_with(scope), "a value of one writer with the scope of another: {stored:?}");
    let recorded = "SELECT count(*) FROM audit_log WHERE action = 'env.set'";
    assert_eq!(world.sql_number(recorded).await, 30);
}

#[tokio::test]
async fn members_share_their_projects_variables() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    for (actor, key) in [(&staff.owner, "A"), (&staff.admin, "B"), (&staff.member, "C")] {
        set(actor, key, &json!({ "value": key })).await.ok();
    }
    let names: HashSet<_> = list(&staff.member).await.iter().map(|v| v["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, HashSet::from(["A", "B", "C"].map(str::to_owned)));
    let robot = staff.org.robot("deploy").await;
    robot.get("/projects/engine/env").await.assert_error(401, "unauthorized");
}
