//! `POST /projects/:name/transfer`.

use futures_util::future::join;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::world::{Actor, Site, World, answer::Answer, answer::assert_keys};

async fn transfer(actor: &Actor, org: impl Into<Value>) -> Answer {
    actor.post("/projects/engine/transfer").json(&json!({ "org": org.into() })).await
}

async fn names(actor: &Actor, query: &str) -> Vec<String> {
    let list = actor.get(&format!("/projects{query}")).await.ok();
    list["projects"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_project_moves_into_an_org_and_back() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let site = staff.member.publish("engine", &Site::page("x")).await;
    staff.member.put("/projects/engine/env/KEY").json(&json!({ "value": "kept" })).await.ok();
    let robot = staff.org.robot("deploy").await;
    robot.get("/projects/engine").await.assert_error(404, "not_found");

    let moved = transfer(&staff.member, "acme").await;
    assert!(!moved.header("x-svc-propagation").is_empty());
    let moved = moved.ok();
    assert_keys(&moved, "id name org url active_deployment_id expires_at created_at");
    assert_eq!((&moved["name"], &moved["org"]), (&json!("engine"), &json!("acme")));
    assert_eq!(moved["active_deployment_id"], site.id);
    assert_eq!(names(&staff.admin, "?org=acme").await, ["engine"]);
    assert_eq!(names(&staff.member, "").await, Vec::<String>::new());
    assert_eq!(staff.admin.get("/projects/engine/env").await.ok()["env"][0]["value"], "kept");
    robot.deploy("engine", &Site::page("by the org")).await;
    world.edge().get(&site.url).await.assert_body(200, "by the org");

    // Leaving the org takes an admin; it becomes the project of whoever takes it out.
    transfer(&staff.member, Value::Null).await.assert_error(403, "forbidden");
    let back = transfer(&staff.admin, Value::Null).await.ok();
    assert_eq!(back["org"], Value::Null);
    assert_eq!(names(&staff.admin, "").await, ["engine"]);
    for other in [&staff.owner, &staff.member] {
        other.get("/projects/engine").await.assert_error(404, "not_found");
    }
    robot.get("/projects/engine").await.assert_error(404, "not_found");
    world.edge().get(&site.url).await.assert_body(200, "by the org");

    let log = staff.admin.get("/projects/engine/audit").await.ok();
    let moves: Vec<_> = log["entries"].as_array().unwrap().iter().map(|e| (&e["action"], &e["detail"])).collect();
    assert_eq!(moves[0], (&json!("project.transfer_out"), &json!({ "to": null })));
    let in_org = staff.owner.get("/orgs/acme/audit").await.ok();
    assert_eq!(in_org["entries"][0]["action"], "project.transfer_out");
    assert!(in_org.to_string().contains("project.transfer_in"), "{in_org}");
    assert!(!in_org.to_string().contains("env.set"), "what was done before it came is not the org's: {in_org}");
}

#[tokio::test]
async fn a_project_moves_between_orgs() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.admin.create_org("umbrella").await;
    staff.admin.create_project("engine").await;
    transfer(&staff.admin, "acme").await.ok();
    assert_eq!(transfer(&staff.admin, "umbrella").await.ok()["org"], "umbrella");
    staff.owner.get("/projects/engine").await.assert_error(404, "not_found");
    let left = staff.owner.get("/orgs/acme/audit").await.ok()["entries"][0].clone();
    assert_eq!((&left["action"], &left["detail"]), (&json!("project.transfer_out"), &json!({ "to": "umbrella" })));
    let came = staff.admin.get("/orgs/umbrella/audit").await.ok()["entries"][0].clone();
    assert_eq!((&came["action"], &came["detail"]), (&json!("project.transfer_in"), &json!({ "from": "acme" })));
}

#[tokio::test]
async fn a_project_moves_only_where_its_mover_belongs() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    world.user("eve").await.create_org("elsewhere").await;
    staff.owner.create_project("engine").await;
    for org in ["elsewhere", "nowhere", "NOT A NAME", ""] {
        transfer(&staff.owner, org).await.assert_error(404, "not_found");
    }
    for body in [json!({}), json!({ "org": 5 }), json!({ "org": ["acme"] }), json!("acme")] {
        staff.owner.post("/projects/engine/transfer").json(&body).await.assert_error(400, "invalid_request");
    }
    // A share stays what it is.
    staff.owner.share(&Site::page("x"), 1).await;
    let share = staff.owner.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    let body = json!({ "org": "acme" });
    let share = staff.owner.post(&format!("/projects/{share}/transfer")).json(&body).await;
    share.assert_error(400, "invalid_request");
    // It is where it was: personal, and moving it there again changes nothing.
    assert_eq!(transfer(&staff.owner, Value::Null).await.ok()["org"], Value::Null);
    assert_eq!(staff.owner.get("/projects/engine/audit").await.ok()["entries"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_site_for_members_never_becomes_public_by_a_move() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let site = staff.owner.publish("engine", &Site::page("for members")).await;
    transfer(&staff.owner, "acme").await.ok();
    staff.owner.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    let message = transfer(&staff.owner, Value::Null).await.assert_error(400, "invalid_request");
    assert!(message.contains("access"), "{message}");
    assert_eq!(staff.owner.project("engine").await["org"], "acme");
    let visit = world.edge().get(&site.url).await;
    assert!(visit.status != 200 && !visit.text().contains("for members"), "{visit:?}");
    staff.owner.put("/projects/engine/access").json(&json!({ "mode": "public" })).await.ok();
    transfer(&staff.owner, Value::Null).await.ok();
    world.edge().get(&site.url).await.assert_body(200, "for members");
}

#[tokio::test]
async fn who_was_let_in_before_a_move_is_asked_again() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let site = staff.owner.publish("engine", &Site::page("let in")).await;
    staff.owner.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    let visitor = world.person();
    let form = visitor.visit(&site.url).await;
    assert_eq!(form.answer.status, 401);
    visitor.fill(&form, &[("password", "hunter22")]).await.assert_says("let in");
    visitor.visit(&site.url).await.assert_says("let in");
    transfer(&staff.owner, "acme").await.ok();
    let form = visitor.visit(&site.url).await;
    assert_eq!(form.answer.status, 401, "the cookie still opens the gate");
    visitor.fill(&form, &[("password", "hunter22")]).await.assert_says("let in");
}

#[tokio::test]
async fn a_move_and_a_deletion_at_once_leave_one_of_them() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let mut deleted = 0;
    for round in 0..20 {
        staff.owner.create_project("engine").await;
        let removal = async { staff.owner.delete("/projects/engine").await };
        let (moved, removed) = join(transfer(&staff.owner, "acme"), removal).await;
        let outcome = (moved.status, removed.status);
        let left = world.sql_number("SELECT count(*) FROM projects").await;
        let is_whole = match outcome {
            (StatusCode::OK | StatusCode::NOT_FOUND, StatusCode::OK) => left == 0,
            // The move was first: who was permitted to delete a personal project is not yet permitted to delete the org's.
            (StatusCode::OK, StatusCode::NOT_FOUND) => left == 1,
            _ => false,
        };
        assert!(is_whole, "round {round}: {outcome:?}, {left} left");
        deleted += i64::from(left == 0);
        world.sql("DELETE FROM projects; DELETE FROM retired_names").await;
    }
    let recorded = "SELECT count(*) FROM audit_log WHERE action = 'project.delete'";
    assert_eq!(world.sql_number(recorded).await, deleted, "what is recorded is what happened");
}

#[tokio::test]
async fn an_org_and_a_project_that_comes_to_it_do_not_both_go() {
    let world = World::builder().plan(&json!({})).start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    transfer(&ada, Value::Null).await.ok();
    for round in 0..10 {
        let org = format!("acme-{round}");
        ada.create_org(&org).await;
        let removal = async { ada.delete(&format!("/orgs/{org}")).await };
        let (moved, removed) = join(transfer(&ada, org.as_str()), removal).await;
        let outcome = (moved.status.as_u16(), removed.status.as_u16());
        assert!(matches!(outcome, (200, 409) | (404, 200)), "round {round}: {outcome:?} {}", moved.text());
        if outcome.0 == 200 {
            transfer(&ada, Value::Null).await.ok();
        }
    }
}
