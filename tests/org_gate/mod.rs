//! The gate of an organization's site, as its members, strangers and thieves meet it.

pub mod custom_domains;
mod entering;
mod leaving;
mod tickets;

use serde_json::json;

use crate::world::{
    Actor, OPERATOR_SECRET, Site, World,
    actor::Uploaded,
    answer::Answer,
    person::{Page, Person},
};

/// `engine`, which ada's org `team` keeps for its members, of whom bob is one.
pub async fn gated(world: &World) -> (Actor, Uploaded) {
    let ada = world.user("ada").await;
    let bob = world.user("bob").await;
    ada.create_org("team").await;
    join(&ada, &bob).await;
    ada.post("/projects").json(&json!({ "name": "engine", "org": "team" })).await.created();
    let site = Site::page("secret home").file("deep/page.html", "secret page");
    let deployed = ada.deploy("engine", &site).await;
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    (ada, deployed)
}

/// Makes somebody a member of `team`, by an invitation.
async fn join(ada: &Actor, person: &Actor) -> Answer {
    let invite = json!({ "email": "somebody@localhost", "role": "member" });
    let invite = ada.post("/orgs/team/invites").json(&invite).await.created();
    let token = invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    person.post(&format!("/invites/{token}/accept")).await.assert_status(200)
}

async fn leave(ada: &Actor, login: &str) -> Answer {
    ada.delete(&format!("/orgs/team/members/{login}")).await.assert_status(200)
}

/// From the site to the console, through the form, and back.
async fn enter(person: &Person, url: &str, login: &str) -> Page {
    let form = person.visit(url).await;
    form.assert_says("Sign in");
    person.fill(&form, &[("login", login), ("password", OPERATOR_SECRET)]).await
}

/// The ticket that the console gives, not yet redeemed: the address that it leads to.
async fn ticket(person: &Person, site: &str) -> String {
    let sent = person.step(site).await.assert_status(302);
    person.step(sent.header("location")).await.assert_status(303).header("location").to_owned()
}

async fn world_member(world: &World) -> Person {
    let person = world.person();
    person.sign_in("bob").await;
    person
}

/// What the person's browser is known by at the site: asked for anew, which changes nothing.
async fn visitor_cookie(person: &Person, site: &str) -> String {
    person.step(site).await.assert_status(302).header("set-cookie").split(';').next().unwrap().to_owned()
}

fn badge_of(page: &Page) -> String {
    let cookies = page.cookies_set();
    let badge = cookies.iter().find(|(_, cookie)| cookie.starts_with("__Host-svc-gate=")).expect("no badge");
    badge.1.split(';').next().unwrap().to_owned()
}
