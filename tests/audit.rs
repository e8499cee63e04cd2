//! `/projects/:name/audit`, `/orgs/:name/audit` and `/activity`.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::world::{
    Actor, Site, World,
    answer::{assert_keys, parse_id, parse_timestamp},
};

/// The entries, oldest first.
async fn entries(actor: &Actor, path: &str) -> Vec<Value> {
    let log = actor.get(path).await.ok();
    assert_keys(&log, "entries next_cursor");
    let mut entries = log["entries"].as_array().unwrap().clone();
    for entry in &entries {
        assert_keys(entry, "id created_at action actor org project detail");
        assert_keys(&entry["actor"], "kind name token");
        parse_id(&entry["id"], "aud_");
        parse_timestamp(&entry["created_at"]);
        assert!(entry["detail"].is_object(), "{entry}");
    }
    assert!(entries.is_sorted_by(|newer, older| newer["id"].as_str() > older["id"].as_str()), "{entries:#?}");
    entries.reverse();
    entries
}

/// `action` and what `detail` says, oldest first. Two changes in one millisecond may change places.
fn said(entries: &[Value]) -> Vec<(String, Value)> {
    entries.iter().map(|entry| (entry["action"].as_str().unwrap().to_owned(), entry["detail"].clone())).collect()
}

async fn my_token(actor: &Actor) -> Value {
    actor.get("/tokens").await.ok()["tokens"][0]["id"].clone()
}

#[tokio::test]
async fn every_change_of_a_project_is_recorded() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let token = my_token(&ada).await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    ada.activate("engine", &first.id).await.ok();
    ada.delete(&format!("/projects/engine/deployments/{}", second.id)).await.ok();
    ada.put("/projects/engine/access").json(&json!({ "mode": "password", "password": "hunter22" })).await.ok();
    ada.put("/projects/engine/password").json(&json!({ "password": "correct horse" })).await.ok();
    ada.delete("/projects/engine/password").await.ok();
    ada.put("/projects/engine/env/API_KEY").json(&json!({ "value": "s3cret-value", "scope": "both" })).await.ok();
    ada.delete("/projects/engine/env/API_KEY").await.ok();
    for _ in 0..2 {
        ada.post("/projects/engine/domains").json(&json!({ "domain": "WWW.Example.com" })).await.created();
    }
    ada.delete("/projects/engine/domains/www.example.com").await.ok();
    // What is refused, or changes nothing, is not recorded.
    ada.delete("/projects/engine/domains/www.example.com").await.assert_error(404, "not_found");
    ada.delete(&format!("/projects/engine/deployments/{}", first.id)).await.assert_error(409, "deployment_live");
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.assert_error(400, "invalid_request");
    ada.delete("/projects/engine/env/API_KEY").await.assert_error(404, "not_found");
    ada.post("/projects/engine/transfer").json(&json!({ "org": null })).await.ok();

    let log = entries(&ada, "/projects/engine/audit").await;
    let wanted = [
        ("project.create", json!({})),
        ("deployment.upload", json!({ "deployment": first.id })),
        ("deployment.upload", json!({ "deployment": second.id })),
        ("deployment.activate", json!({ "deployment": first.id })),
        ("deployment.delete", json!({ "deployment": second.id })),
        ("project.access", json!({ "mode": "password" })),
        ("project.password_set", json!({})),
        ("project.password_remove", json!({})),
        ("env.set", json!({ "key": "API_KEY", "scope": "both" })),
        ("env.remove", json!({ "key": "API_KEY" })),
        ("domain.attach", json!({ "domain": "www.example.com" })),
        ("domain.detach", json!({ "domain": "www.example.com" })),
    ];
    assert_eq!(said(&log), wanted.map(|(action, detail)| (action.to_owned(), detail)));
    for entry in &log {
        assert_eq!(entry["actor"], json!({ "kind": "user", "name": "ada", "token": token }));
        assert_eq!((&entry["project"], &entry["org"]), (&json!("engine"), &Value::Null));
    }
    let secrets = "SELECT count(*) FROM audit_log WHERE audit_log::text ~ 'hunter22|correct horse|s3cret-value|argon2'";
    assert_eq!(world.sql_number(secrets).await, 0);
}

#[tokio::test]
async fn an_entry_outlives_whom_and_what_it_is_about() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let robot = staff.org.robot("deploy").await;
    staff.member.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    robot.deploy("engine", &Site::page("x")).await;
    staff.owner.delete("/projects/engine").await.ok();
    world
        .sql(
            "DELETE FROM tokens WHERE kind = 'deploy';
             DELETE FROM users WHERE vcs_login = 'org-member'",
        )
        .await;
    let log = entries(&staff.admin, "/orgs/acme/audit").await;
    let about_it: Vec<_> = log.iter().filter(|entry| entry["project"] == "engine").collect();
    let told: Vec<_> = about_it.iter().map(|e| (e["action"].as_str().unwrap(), &e["actor"])).collect();
    assert_eq!(told.len(), 3, "{log:#?}");
    assert_eq!((told[0].0, &told[0].1["name"]), ("project.create", &json!("org-member")));
    assert_eq!((told[1].0, &told[1].1["kind"]), ("deployment.upload", &json!("deploy_token")));
    assert_eq!(told[1].1["name"], "ci");
    parse_id(&told[1].1["token"], "tok_");
    assert_eq!((told[2].0, &told[2].1["name"]), ("project.delete", &json!("org-owner")));

    // A later project of the same name has a log of its own.
    staff.owner.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    assert_eq!(said(&entries(&staff.owner, "/projects/engine/audit").await).len(), 1);
}

#[tokio::test]
async fn a_log_is_read_by_admins_and_paged() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    for number in 0..5 {
        let path = format!("/projects/engine/env/KEY_{number}");
        staff.member.put(&path).json(&json!({ "value": "x" })).await.ok();
    }
    for path in ["/projects/engine/audit", "/orgs/acme/audit"] {
        staff.member.get(path).await.assert_error(403, "forbidden");
        world.user("eve").await.get(path).await.assert_error(404, "not_found");
        let whole: Vec<_> = entries(&staff.admin, path).await.iter().rev().map(|entry| entry["id"].clone()).collect();
        assert!(whole.len() >= 6);
        let (mut pages, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = staff.owner.get(&format!("{path}?limit=2{cursor}")).await.ok();
            let rows = page["entries"].as_array().unwrap();
            assert!((1..=2).contains(&rows.len()));
            pages.extend(rows.iter().map(|entry| entry["id"].clone()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(pages, whole);
        for query in ["limit=0", "limit=101", "cursor=nonsense"] {
            staff.owner.get(&format!("{path}?{query}")).await.assert_error(400, "invalid_request");
        }
    }
}

#[tokio::test]
async fn the_database_refuses_to_change_an_entry() {
    let world = World::start().await;
    world.user("ada").await.create_project("engine").await;
    let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
    for sql in ["UPDATE audit_log SET actor_name = 'eve'", "DELETE FROM audit_log", "TRUNCATE audit_log"] {
        let refused = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{sql}: {refused}");
    }
    let created = "SELECT count(*) FROM audit_log WHERE actor_name = 'ada' AND action = 'project.create'";
    assert_eq!(world.sql_number(created).await, 1);
}

#[tokio::test]
async fn a_share_is_recorded_too() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let share = ada.share(&Site::page("x"), 1).await;
    let project = ada.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    let log = entries(&ada, &format!("/projects/{project}/audit")).await;
    assert_eq!(said(&log), [("share.create".to_owned(), json!({ "deployment": share.id }))]);
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM audit_log WHERE action = 'share.delete'").await, 1);
}

#[tokio::test]
async fn a_person_sees_what_they_did_and_what_was_done_to_them() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let token = my_token(&ada).await;
    let person = world.person();
    person.sign_in("ada").await;
    let site = ada.publish("engine", &Site::page("one")).await;
    let key = ada.post("/tokens").json(&json!({ "kind": "ai", "label": "notebook" })).await.created();
    let key_path = format!("/tokens/{}", key["id"].as_str().unwrap());
    ada.request(Method::PATCH, &key_path).json(&json!({ "monthly_limit_cents": 500 })).await.ok();
    ada.delete(&key_path).await.ok();
    ada.delete("/sessions").await.ok();
    world.admin_prints(&["suspend", "engine", "--reason", "abuse"]).await;
    world.admin_prints(&["suspend", "--account", "ada", "--reason", "legal"]).await;

    let log = entries(&ada, "/activity").await;
    let id = &key["id"];
    let wanted = [
        ("session.create", json!({ "browser": "A browser" })),
        ("project.create", json!({})),
        ("deployment.upload", json!({ "deployment": site.id })),
        ("token.create", json!({ "token": id, "kind": "ai", "label": "notebook" })),
        ("token.limit", json!({ "token": id, "monthly_limit_cents": 500 })),
        ("token.revoke", json!({ "token": id, "kind": "ai", "label": "notebook" })),
        ("session.end", json!({})),
        ("project.suspend", json!({ "reason": "abuse" })),
        ("account.suspend", json!({ "reason": "legal" })),
    ];
    // The first is the token that signed the tests in.
    assert_eq!(said(&log[..1]), [("token.create".to_owned(), log[0]["detail"].clone())]);
    assert_eq!(said(&log[1..]), wanted.map(|(action, detail)| (action.to_owned(), detail)));
    assert_eq!(log[2]["actor"], json!({ "kind": "user", "name": "ada", "token": token }));
    assert_eq!(log[8]["actor"], json!({ "kind": "platform", "name": null, "token": null }));
    let theirs = entries(&eve, "/activity").await;
    // The operator has made the token that the test signs in with.
    assert_eq!((theirs.len(), &theirs[0]["action"]), (1, &json!("token.create")), "{theirs:#?}");
    assert_eq!(theirs[0]["actor"], json!({ "kind": "platform", "name": null, "token": null }));
}

#[tokio::test]
async fn a_member_sees_what_they_did_in_an_organization_and_nothing_of_the_others() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let before = entries(&staff.member, "/activity").await.len();
    staff.member.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    staff.owner.put("/projects/engine/env/API_KEY").json(&json!({ "value": "x" })).await.ok();
    staff.owner.put("/orgs/acme/members/org-member").json(&json!({ "role": "admin" })).await.ok();
    staff.owner.delete("/orgs/acme/members/org-member").await.ok();
    // What they did, and what was done to them, stays theirs.
    let log = entries(&staff.member, "/activity").await;
    let role = json!({ "login": "org-member", "from": "member", "to": "admin" });
    let wanted = [
        ("project.create", json!({})),
        ("member.role", role),
        ("member.remove", json!({ "login": "org-member", "role": "admin" })),
    ];
    assert_eq!(said(&log[before..]), wanted.map(|(action, detail)| (action.to_owned(), detail)));
    for entry in &log[before + 1..] {
        assert_eq!(entry["actor"], json!({ "kind": "user", "name": "org-owner", "token": null }), "{entry}");
        assert_eq!(entry["org"], "acme");
    }
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = staff.member.get(&format!("/activity?limit=2{cursor}")).await.ok();
        pages.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, log.iter().rev().map(|entry| entry["id"].clone()).collect::<Vec<_>>());
}
