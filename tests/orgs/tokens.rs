//! `/orgs/:name/tokens`.

use domain::role::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{
    Site, World,
    answer::{assert_keys, parse_id, parse_secret, parse_timestamp},
};

fn assert_record(record: &Value) {
    assert_keys(
        record,
        "id kind label created_at revoked_at created_by monthly_limit_cents month_cents month_microcents",
    );
    parse_id(&record["id"], "tok_");
    parse_timestamp(&record["created_at"]);
    assert_eq!(record["revoked_at"], Value::Null);
}

#[tokio::test]
async fn an_org_makes_lists_and_revokes_its_tokens() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let mut made = Vec::new();
    for (kind, label) in [("deploy", json!("ci")), ("ai", json!(null)), ("deploy", json!("  "))] {
        let body = json!({ "kind": kind, "label": label });
        let mut created = admin.post("/orgs/acme/tokens").json(&body).await.created();
        let token = parse_secret(&created.as_object_mut().unwrap().remove("token").unwrap());
        assert_record(&created);
        assert_eq!(created["kind"], kind);
        assert_eq!(created["created_by"], "admin");
        made.push((created, token));
    }
    let list = org.owner.get("/orgs/acme/tokens").await.ok();
    assert_keys(&list, "tokens next_cursor");
    let records: Vec<_> = made.iter().rev().map(|(record, _)| record.clone()).collect();
    assert_eq!(list["tokens"], Value::from(records));
    assert!(!list.to_string().contains(&made[0].1));
    // They are the org's: in nobody's own list, and nobody's to revoke there.
    assert_eq!(admin.get("/tokens").await.ok()["tokens"].as_array().unwrap().len(), 1);
    let of_id = |record: &Value| record["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/tokens/{}", of_id(&made[0].0))).await.assert_error(404, "not_found");

    let robot = world.nobody().with_token(&made[0].1);
    assert_eq!(robot.get("/me").await.ok()["org"], "acme");
    world.nobody().with_token(&made[1].1).get("/me").await.assert_error(401, "unauthorized");
    let path = org.path(&format!("/tokens/{}", of_id(&made[0].0)));
    assert_eq!(org.owner.delete(&path).await.ok(), json!({ "ok": true }));
    robot.get("/me").await.assert_error(401, "unauthorized");
    org.owner.delete(&path).await.assert_error(404, "not_found");
    let ai = org.owner.delete(&org.path(&format!("/tokens/{}", of_id(&made[1].0)))).await;
    assert!(!ai.header("x-svc-propagation").is_empty(), "the gateway's edges must forget it");
    ai.ok();
    let left = org.owner.get("/orgs/acme/tokens").await.ok();
    assert_eq!(left["tokens"].as_array().unwrap().len(), 1, "revoked ones are not listed");

    // Another org's are not there.
    let eve = world.user("eve").await;
    eve.create_org("evil").await;
    let path = format!("/orgs/evil/tokens/{}", of_id(&made[2].0));
    eve.delete(&path).await.assert_error(404, "not_found");
    for unknown in ["tok_00000000000000000000", "nonsense", "%00"] {
        org.owner.delete(&org.path(&format!("/tokens/{unknown}"))).await.assert_error(404, "not_found");
    }
    for body in [
        json!({}),
        json!({ "kind": "cli" }),
        json!({ "kind": "Deploy" }),
        json!({ "kind": null }),
        json!({ "kind": "ai", "label": "x".repeat(201) }),
        json!({ "kind": "ai", "label": "a\nb" }),
    ] {
        org.owner.post("/orgs/acme/tokens").json(&body).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn tokens_of_an_org_are_paged() {
    let world = World::start().await;
    let org = world.acme().await;
    for _ in 0..5 {
        org.create_token("ai").await;
    }
    let (mut seen, mut path) = (Vec::new(), "/orgs/acme/tokens?limit=2".to_owned());
    loop {
        let page = org.owner.get(&path).await.ok();
        let tokens = page["tokens"].as_array().unwrap();
        assert!(tokens.len() <= 2);
        seen.extend(tokens.iter().map(|token| token["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/orgs/acme/tokens?limit=2&cursor={cursor}");
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
    for query in ["limit=0", "limit=101", "cursor=x"] {
        org.owner.get(&format!("/orgs/acme/tokens?{query}")).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_token_survives_who_made_it() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    admin.create_project_in(&org, "engine").await;
    let token = admin.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let robot = world.nobody().with_token(token["token"].as_str().unwrap());
    admin.delete("/orgs/acme/members/admin").await.ok();
    robot.deploy("engine", &Site::page("still there")).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "still there");
    assert_eq!(org.owner.get("/orgs/acme/tokens").await.ok()["tokens"][0]["created_by"], "admin");

    world.sql("DELETE FROM users WHERE vcs_login = 'admin'").await;
    assert_eq!(robot.get("/me").await.ok()["org"], "acme");
    let listed = org.owner.get("/orgs/acme/tokens").await.ok();
    assert_eq!(listed["tokens"][0]["id"], token["id"]);
    assert_eq!(listed["tokens"][0]["created_by"], Value::Null);
}

#[tokio::test]
async fn a_deploy_token_sees_its_orgs_projects_alone() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    member.create_project_in(&org, "engine").await;
    member.create_project("members-own").await;
    let other = world.user("eve").await.create_org("evil").await;
    other.owner.create_project_in(&other, "theirs").await;
    let token = org.create_token("deploy").await;
    let robot = world.nobody().with_token(token["token"].as_str().unwrap());
    let names = |list: Value| -> Vec<String> {
        list["projects"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(robot.get("/projects").await.ok()), ["engine"]);
    for query in ["org=acme", "all=true"] {
        assert_eq!(names(robot.get(&format!("/projects?{query}")).await.ok()), ["engine"]);
    }
    // A person's own, and those of all organizations of the person's.
    let query = async |query: &str| names(member.get(&format!("/projects{query}")).await.ok());
    assert_eq!(query("").await, ["members-own"]);
    assert_eq!(query("?all=true").await, ["members-own", "engine"]);
    assert_eq!(query("?all=false").await, ["members-own"]);
    let first = member.get("/projects?all=true&limit=1").await.ok();
    let next = format!("?all=true&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!((names(first), query(&next).await), (vec!["members-own".into()], vec!["engine".to_owned()]));
    member.get("/projects?all=true&org=acme").await.assert_error(400, "invalid_request");
    member.get("/projects?all=perhaps").await.assert_error(400, "invalid_request");
    robot.get("/projects?org=evil").await.assert_error(404, "not_found");
    let first = robot.deploy("engine", &Site::page("one")).await;
    robot.activate("engine", &first.id).await.ok();
    for foreign in ["theirs", "members-own"] {
        robot.get(&format!("/projects/{foreign}")).await.assert_error(404, "not_found");
        robot.upload(foreign, &Site::page("x")).await.assert_error(404, "not_found");
        robot.activate(foreign, &first.id).await.assert_error(404, "not_found");
    }
    for forbidden in ["/orgs", "/orgs/acme", "/orgs/acme/tokens", "/tokens", "/shares"] {
        robot.get(forbidden).await.assert_error(401, "unauthorized");
    }
}

#[tokio::test]
async fn an_org_limits_what_its_keys_cost() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let key = admin.post("/orgs/acme/tokens").json(&json!({ "kind": "ai", "monthly_limit_cents": 7 })).await.created();
    let path = org.path(&format!("/tokens/{}", key["id"].as_str().unwrap()));
    let changed = admin.request(Method::PATCH, &path).json(&json!({ "monthly_limit_cents": 9 })).await.ok();
    assert_record(&changed);
    assert_eq!((&changed["monthly_limit_cents"], &changed["created_by"]), (&json!(9), &json!("admin")));
    assert_eq!(org.owner.get("/orgs/acme/tokens").await.ok()["tokens"][0], changed);
    let entry = org.owner.get("/orgs/acme/audit").await.ok()["entries"][0].clone();
    assert_eq!((&entry["action"], &entry["detail"]["monthly_limit_cents"]), (&json!("token.limit"), &json!(9)));

    let limit = json!({ "monthly_limit_cents": 5 });
    let deploy = admin.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let deploy = org.path(&format!("/tokens/{}", deploy["id"].as_str().unwrap()));
    let message = admin.request(Method::PATCH, &deploy).json(&limit).await.assert_error(400, "invalid_request");
    assert!(message.contains("`deploy`"), "{message}");
    let body = json!({ "kind": "deploy", "monthly_limit_cents": 7 });
    admin.post("/orgs/acme/tokens").json(&body).await.assert_error(400, "invalid_request");
    let eve = world.user("eve").await;
    eve.create_org("evil").await;
    let theirs = path.replace("acme", "evil");
    eve.request(Method::PATCH, &theirs).json(&limit).await.assert_error(404, "not_found");

    // All keys together: the owners' money.
    let all = "/orgs/acme/usage/ai/limit";
    admin.put(all).json(&limit).await.assert_error(403, "forbidden");
    let set = json!({ "monthly_limit_cents": 5, "month_cents": 0, "month_microcents": 0 });
    assert_eq!(org.owner.put(all).json(&limit).await.ok(), set);
    assert_eq!(admin.get(all).await.ok(), set);
    for body in [json!({}), json!({ "monthly_limit_cents": -1 }), json!({ "monthly_limit_cents": "5" })] {
        org.owner.put(all).json(&body).await.assert_error(400, "invalid_request");
    }
}
