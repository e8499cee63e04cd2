//! Members, their roles, and the end of what somebody is signed in with.

use domain::role::Role;
use reqwest::Method;
use serde_json::json;

use crate::world::{Site, World, events::EventStream};

#[tokio::test]
async fn members_are_told_what_their_role_may_see() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let (mut members, mut admins) = (staff.member.follow(None).await, staff.admin.follow(None).await);
    staff.org.create_token("deploy").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    staff.owner.post("/projects/engine/transfer").json(&json!({ "org": null })).await.ok();
    let made = admins.next_but_receipts().await.data;
    assert_eq!((&made["type"], &made["account"]), (&json!("token.create"), &json!("acme")));
    assert_eq!((&made["detail"]["kind"], &made["by"]), (&json!("deploy"), &json!("org-owner")));
    // To a member, tokens are not shown.
    let created = members.next_but_receipts().await.data;
    assert_eq!((&created["type"], &created["project"]), (&json!("project.create"), &json!("engine")));
    let moved = members.until("project.transfer_out").await.data;
    assert!(moved["detail"].get("to").is_none(), "{moved}");
    assert!(admins.until("project.transfer_out").await.data["detail"].get("to").is_some());
}

#[tokio::test]
async fn who_joins_is_told_from_then_on_and_who_is_removed_no_more() {
    let world = World::start().await;
    let (org, bob) = (world.acme().await, world.user("bob").await);
    let mut stream = bob.follow(None).await;
    org.owner.create_project_in(&org, "before").await;
    org.admit(&bob, Role::Member).await;
    let joined = stream.next_but_receipts().await.data;
    assert_eq!((&joined["type"], &joined["by"]), (&json!("invite.accept"), &json!("bob")), "{joined}");
    org.owner.deploy("before", &Site::page("one")).await;
    assert_eq!(stream.until("deployment.upload").await.data["account"], "acme");

    org.owner.delete(&org.path("/members/bob")).await.ok();
    let removed = stream.until("member.remove").await.data;
    assert_eq!(removed["subject"], "bob");
    org.owner.deploy("before", &Site::page("two")).await;
    bob.create_project("own").await;
    let types = stream.types_until("project.create").await;
    assert!(!types.contains(&"deployment.upload".to_owned()), "{types:?}");
}

#[tokio::test]
async fn who_is_made_less_is_told_less() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let mut stream = staff.admin.follow(None).await;
    staff.org.create_token("deploy").await;
    stream.until("token.create").await;
    let path = staff.org.path("/members/org-admin");
    staff.owner.put(&path).json(&json!({ "role": "member" })).await.ok();
    let changed = stream.until("member.role").await.data;
    assert_eq!((&changed["subject"], &changed["detail"]["to"]), (&json!("org-admin"), &json!("member")));
    staff.org.create_token("deploy").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    let types = stream.types_until("project.create").await;
    assert!(!types.contains(&"token.create".to_owned()), "{types:?}");
}

#[tokio::test]
async fn a_revoked_token_ends_its_own_stream_only() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let other = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    let mut ended = ada.with_token(other["token"].as_str().unwrap()).follow(None).await;
    let mut stays = ada.follow(None).await;
    ada.delete(&format!("/tokens/{}", other["id"].as_str().unwrap())).await.ok();
    let types = ended.types_until("signed_out").await;
    assert!(!types.contains(&"token.revoke".to_owned()), "{types:?}");
    ended.assert_ends().await;
    stays.until("token.revoke").await;
    ada.create_project("engine").await;
    stays.until("project.create").await;
}

#[tokio::test]
async fn signing_out_ends_the_streams_of_the_session() {
    let world = World::start().await;
    let (here, there) = (world.person(), world.person());
    here.sign_in("ada").await;
    there.sign_in("ada").await;
    let mut first = EventStream::open(here.api(Method::GET, "/events")).await;
    let mut second = EventStream::open(there.api(Method::GET, "/events")).await;
    let sign_out = |path: &str| {
        let url = world.console_url(path);
        here.request(Method::POST, &url).header("origin", world.console_url("")).form(&[])
    };
    sign_out("/sign-out").await;
    first.until("signed_out").await;
    first.assert_ends().await;
    here.sign_in("ada").await;
    sign_out("/sign-out/everywhere").await;
    second.until("session.create").await;
    second.until("signed_out").await;
}

#[tokio::test]
async fn ending_a_session_ends_its_streams_only() {
    let world = World::start().await;
    let (here, there) = (world.person(), world.person());
    here.sign_in("ada").await;
    there.sign_in("ada").await;
    let mut stays = EventStream::open(here.api(Method::GET, "/events")).await;
    let mut ended = EventStream::open(there.api(Method::GET, "/events")).await;
    let listed = here.api(Method::GET, "/sessions").await.ok();
    let mut sessions = listed["sessions"].as_array().unwrap().iter();
    let other = sessions.find(|session| session["current"] == false).unwrap()["id"].as_str().unwrap();
    here.api(Method::DELETE, &format!("/sessions/{other}")).await.ok();
    ended.until("signed_out").await;
    ended.assert_ends().await;
    stays.until("session.end").await;
    world.user("ada").await.create_project("engine").await;
    stays.until("project.create").await;
}
