//! The end of a membership, and of a visit while Postgres is away.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{badge_of, enter, gated, join, leave};
use crate::{
    BACKGROUND,
    world::{World, eventually},
};

#[tokio::test]
async fn a_visit_ends_with_the_membership_on_every_edge() {
    let world = World::builder().edges(3).start().await;
    let (ada, site) = gated(&world).await;
    eventually(BACKGROUND, "admin has heard of every edge", async || {
        ada.activate("engine", &site.id).await.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    let bob = world.user("bob").await;
    for round in 0..5 {
        let person = world.person();
        let seen = enter(&person, &site.url, "bob").await;
        let badge = badge_of(&seen);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_body(200, "secret home");
        }
        let left = leave(&ada, "bob").await;
        assert!(left.header("x-svc-propagation").starts_with("3/3"), "{:?}", left.headers);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_status(401);
        }
        let told = person.visit(&site.url).await;
        assert_eq!(told.answer.status, 403, "round {round}");
        told.assert_says("Members only");
        // The badge from before is as good as the membership: it comes to life with it, on every edge at once.
        let joined = join(&ada, &bob).await;
        assert!(joined.header("x-svc-propagation").starts_with("3/3"), "{:?}", joined.headers);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_body(200, "secret home");
        }
    }
}

#[tokio::test]
async fn a_visit_ends_with_the_access_mode_the_owner_and_signing_out_everywhere() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    let person = world.person();
    let badge = badge_of(&enter(&person, &site.url, "bob").await);
    let status = async |badge: &str| world.edge().get(&site.url).header("cookie", badge).await.status.as_u16();
    assert_eq!(status(&badge).await, 200);
    ada.put("/projects/engine/access").json(&json!({ "mode": "password", "password": "hunter22" })).await.ok();
    assert_eq!(status(&badge).await, 401);
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    assert_eq!(status(&badge).await, 401, "an old badge comes to life again");

    let badge = badge_of(&person.visit(&site.url).await);
    assert_eq!(status(&badge).await, 200);
    let home = person.visit(&world.console_url("/")).await;
    person.fill_nth(&home, 1, &[]).await.assert_says("Sign in");
    assert_eq!(status(&badge).await, 401, "signed out everywhere");

    // Another org's members are other people.
    let badge = badge_of(&enter(&world.person(), &site.url, "bob").await);
    assert_eq!(status(&badge).await, 200);
    ada.create_org("others").await;
    ada.post("/projects/engine/transfer").json(&json!({ "org": "others" })).await.ok();
    assert_eq!(status(&badge).await, 401);
}

#[tokio::test]
async fn a_visit_ends_with_the_session_and_other_browsers_go_on() {
    let world = World::builder().edges(2).start().await;
    let (ada, site) = gated(&world).await;
    eventually(BACKGROUND, "admin has heard of both edges", async || {
        ada.activate("engine", &site.id).await.header("x-svc-propagation").starts_with("2/2")
    })
    .await;
    let refused = async |badge: &str| {
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", badge).await.assert_status(401);
        }
    };
    let (kept, lost) = (world.person(), world.person());
    enter(&kept, &site.url, "bob").await;
    let badge = badge_of(&enter(&lost, &site.url, "bob").await);
    let listed = lost.api(Method::GET, "/sessions").await.ok();
    let current = listed["sessions"].as_array().unwrap().iter().find(|session| session["current"] == true).unwrap();
    let ended = kept.api(Method::DELETE, &format!("/sessions/{}", current["id"].as_str().unwrap())).await;
    assert!(ended.assert_status(200).header("x-svc-propagation").starts_with("2/2"));
    refused(&badge).await;
    lost.visit(&site.url).await.assert_says("Sign in");
    // The browser that is still signed in is let in again, without a question.
    let badge = badge_of(&kept.visit(&site.url).await);
    world.edge().get(&site.url).header("cookie", &badge).await.assert_body(200, "secret home");

    // The form of the console's home signs this browser out.
    let home = kept.visit(&world.console_url("/")).await;
    kept.fill(&home, &[]).await.assert_says("Sign in");
    refused(&badge).await;
}

/// Sessions also end because another person signs in in the same browser, or because there are too many.
#[tokio::test]
async fn a_visit_ends_with_a_session_that_another_one_replaces() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let status = async |badge: &str| world.edge().get(&site.url).header("cookie", badge).await.status.as_u16();
    let shared = world.person();
    let badge = badge_of(&enter(&shared, &site.url, "bob").await);
    assert_eq!(status(&badge).await, 200);
    shared.sign_in("mallory").await;
    assert_eq!(status(&badge).await, 401);

    let first = world.person();
    let badge = badge_of(&enter(&first, &site.url, "bob").await);
    let user = world.sql_text("SELECT id FROM users WHERE vcs_login = 'bob'").await;
    let others = domain::limits::SESSIONS_PER_USER - 1;
    world
        .sql(&format!(
            "INSERT INTO sessions (id, user_id, secret_hash, browser, created_at, last_used_at, expires_at)
             SELECT 'ses_zzzzzzzzzzzzzzzzz' || lpad(n::text, 3, '0'), '{user}', sha256(n::text::bytea), 'x', now(), now(), now() + interval '1 day'
             FROM generate_series(1, {others}) n"
        ))
        .await;
    assert_eq!(status(&badge).await, 200);
    world.person().sign_in("bob").await;
    assert_eq!(status(&badge).await, 401, "the oldest session has ended");
}

#[tokio::test]
async fn without_postgres_members_who_are_known_stay_and_nobody_else_gets_in() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let known = badge_of(&enter(&world.person(), &site.url, "bob").await);
    world.edge().get(&site.url).header("cookie", &known).await.assert_body(200, "secret home");
    world.stop_postgres().await;
    world.edge().get(&site.url).header("cookie", &known).await.assert_body(200, "secret home");
    world.edge().navigate(&site.url).await.assert_status(302);
    let ticket = format!("{}/.svc/enter?ticket={}", site.url, "A".repeat(43));
    let visitor = format!("__Host-svc-visitor={}", "A".repeat(43));
    world.edge().navigate(&ticket).header("cookie", visitor).await.assert_status(503);
    world.start_postgres().await;
    eventually(Duration::from_secs(30), "tickets are looked up again", async || {
        world.edge().navigate(&ticket).header("cookie", format!("__Host-svc-visitor={}", "A".repeat(43))).await.status
            == 403
    })
    .await;
}

#[tokio::test]
async fn an_edge_that_knows_nobody_lets_nobody_in_without_postgres() {
    let mut world = World::start().await;
    let (_, site) = gated(&world).await;
    let badge = badge_of(&enter(&world.person(), &site.url, "bob").await);
    world.edges[0].process.kill();
    world.restart_edge(0).await;
    // The site is known, its members are not.
    world.edge().navigate(&site.url).await.assert_status(302);
    world.stop_postgres().await;
    world.edge().get(&site.url).header("cookie", &badge).await.assert_status(503);
    world.start_postgres().await;
    eventually(BACKGROUND, "the edge asks again", async || {
        world.edge().get(&site.url).header("cookie", &badge).await.status == 200
    })
    .await;
}
