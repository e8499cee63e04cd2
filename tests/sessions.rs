//! `/sessions`: where a person is signed in on the console, and how that ends.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    cli::Shell,
    world::{
        Site, World,
        answer::{Answer, assert_keys, parse_id, parse_timestamp},
        edge::Edge,
        eventually,
        person::Person,
    },
};

async fn signed_in(world: &World, login: &str) -> Person {
    let person = world.person();
    person.sign_in(login).await;
    person
}

async fn sessions(person: &Person) -> Vec<Value> {
    let list = person.api(Method::GET, "/sessions").await.ok();
    assert_keys(&list, "sessions");
    list["sessions"].as_array().unwrap().clone()
}

/// The id of the session in which the person asks.
async fn own_id(person: &Person) -> String {
    let sessions = sessions(person).await;
    let mut own = sessions.iter().filter(|session| session["current"] == true);
    let id = parse_id(&own.next().expect("no session is the current one")["id"], "ses_");
    assert!(own.next().is_none(), "two sessions are the current one");
    id
}

async fn end(person: &Person, id: &str) -> Answer {
    person.api(Method::DELETE, &format!("/sessions/{id}")).await
}

async fn assert_signed_out(person: &Person) {
    person.api(Method::GET, "/me").await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_session_is_listed_by_an_id_that_opens_nothing() {
    let world = World::start().await;
    let (ada, bob) = (signed_in(&world, "ada").await, signed_in(&world, "bob").await);
    let elsewhere = signed_in(&world, "ada").await;
    let listed = sessions(&ada).await;
    assert_eq!(listed.len(), 2);
    for session in &listed {
        assert_keys(session, "id browser created_at last_used_at current");
        parse_timestamp(&session["created_at"]);
        parse_timestamp(&session["last_used_at"]);
    }
    let (own, other) = (own_id(&ada).await, own_id(&elsewhere).await);
    assert_eq!([&listed[0]["id"], &listed[1]["id"]], [&json!(other), &json!(own)], "the newest comes first");
    // The id is no secret: as a cookie, or a token, it is nobody's.
    for id in [own.as_str(), own.trim_start_matches("ses_")] {
        let thief = world.person();
        let asked = thief.api(Method::GET, "/me").header("cookie", format!("__Host-svc-session={id}"));
        asked.await.assert_error(401, "unauthorized");
        world.nobody().with_token(id).get("/sessions").await.assert_error(401, "unauthorized");
    }
    // Nobody else sees it, or can end it.
    assert_eq!(sessions(&bob).await.len(), 1);
    end(&bob, &own).await.assert_error(404, "not_found");
    end(&bob, "nonsense").await.assert_error(404, "not_found");
    world.user("bob").await.delete(&format!("/sessions/{own}")).await.assert_error(404, "not_found");
    ada.api(Method::GET, "/me").await.ok();
}

#[tokio::test]
async fn one_session_ends_and_the_others_go_on() {
    let mut world = World::builder().edges(2).start().await;
    let (ada, elsewhere) = (signed_in(&world, "ada").await, signed_in(&world, "ada").await);
    let other = own_id(&elsewhere).await;
    let ended = end(&ada, &other).await.assert_status(200);
    assert_eq!(
        (ended.text(), ended.find_header("set-cookie")),
        (r#"{"ok":true}"#.to_owned(), None),
        "it is another browser's"
    );
    assert_signed_out(&elsewhere).await;
    end(&ada, &other).await.assert_error(404, "not_found");
    // Its own: the browser forgets the cookie too.
    let own = own_id(&ada).await;
    let ended = end(&ada, &own).await.assert_status(200);
    assert!(ended.header("set-cookie").starts_with("__Host-svc-session=; Path=/; Max-Age=0;"));
    assert_signed_out(&ada).await;
    // Nothing comes back with a new admin.
    world.restart_admin_later().await;
    assert_signed_out(&ada).await;
}

#[tokio::test]
async fn all_sessions_end_on_every_edge() {
    let world = World::builder().edges(2).start().await;
    let (ada, elsewhere, bob) =
        (signed_in(&world, "ada").await, signed_in(&world, "ada").await, signed_in(&world, "bob").await);
    // A session's cookie works at every edge.
    let asked_of = |edge: &Edge| edge.address(&world.console_url("/api/me")).to_string();
    for edge in &world.edges {
        let seen = elsewhere.request(Method::GET, &asked_of(edge)).header("sec-fetch-site", "same-origin").await;
        assert_eq!(seen.status.as_u16(), 200, "{}", seen.text());
    }
    let owner = world.user("ada").await;
    let site = owner.publish("engine", &Site::page("one")).await;
    eventually(BACKGROUND, "admin has heard of both edges", async || {
        owner.activate("engine", &site.id).await.header("x-svc-propagation").starts_with("2/2")
    })
    .await;
    let ended = ada.api(Method::DELETE, "/sessions").await.assert_status(200);
    assert!(ended.header("x-svc-propagation").starts_with("2/2"), "{:?}", ended.headers);
    assert!(ended.header("set-cookie").contains("Max-Age=0"));
    for edge in &world.edges {
        for person in [&ada, &elsewhere] {
            let seen = person.request(Method::GET, &asked_of(edge)).header("sec-fetch-site", "same-origin").await;
            seen.assert_error(401, "unauthorized");
        }
    }
    bob.api(Method::GET, "/me").await.ok();
    assert_eq!(sessions(&bob).await.len(), 1);
}

#[tokio::test]
async fn tokens_of_a_person_may_end_sessions_and_no_others() {
    let world = World::start().await;
    let (ada, org) = (world.user("ada").await, world.acme().await);
    let browser = signed_in(&world, "ada").await;
    let id = own_id(&browser).await;
    let listed = ada.get("/sessions").await.ok();
    assert_eq!((&listed["sessions"][0]["id"], &listed["sessions"][0]["current"]), (&json!(id), &json!(false)));
    let ai = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let ai = ada.with_token(ai["token"].as_str().unwrap());
    for cannot in [&ai, &org.robot("deploy").await, &world.nobody()] {
        cannot.get("/sessions").await.assert_error(401, "unauthorized");
        cannot.delete("/sessions").await.assert_error(401, "unauthorized");
        cannot.delete(&format!("/sessions/{id}")).await.assert_error(401, "unauthorized");
    }
    browser.api(Method::GET, "/me").await.ok();
    ada.delete("/sessions").await.assert_status(200);
    assert_signed_out(&browser).await;
    // The token itself goes on.
    assert_eq!(ada.get("/sessions").await.ok(), json!({ "sessions": [] }));
}

#[tokio::test]
async fn pages_of_other_origins_end_nothing() {
    let world = World::start().await;
    let ada = signed_in(&world, "ada").await;
    let url = world.console_url("/api/sessions");
    for origin in ["https://evil.example", "null", &world.site_url("engine")] {
        ada.request(Method::DELETE, &url).header("origin", origin).await.assert_error(401, "unauthorized");
    }
    ada.request(Method::DELETE, &url).header("sec-fetch-site", "same-origin").await.assert_error(401, "unauthorized");
    assert_eq!(sessions(&ada).await.len(), 1);
}

#[tokio::test]
async fn svc_lists_and_ends_sessions() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token);
    assert!(shell.text(&["sessions"]).await.contains("signed in nowhere"));
    let (first, second) = (signed_in(&world, "ada").await, signed_in(&world, "ada").await);
    let id = own_id(&first).await;
    let listed = shell.text(&["sessions", "list"]).await;
    assert!(listed.contains(&id) && listed.contains("BROWSER"), "{listed}");
    assert_eq!(shell.json(&["sessions", "end", &id]).await, json!({ "ok": true }));
    assert_signed_out(&first).await;
    assert_eq!(shell.run(&["sessions", "end", &id]).await.code, 4);
    assert_eq!(shell.run(&["sessions", "end"]).await.code, 2);
    second.api(Method::GET, "/me").await.ok();
    assert_eq!(shell.json(&["sessions", "end", "--all"]).await["ok"], true);
    assert_signed_out(&second).await;
    assert_eq!(shell.json(&["sessions"]).await, json!({ "sessions": [] }));
}
