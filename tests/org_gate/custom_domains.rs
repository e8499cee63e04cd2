//! The gate at a hostname of the organization's own: another site than the console's, by every rule of a browser.

use serde_json::json;
use url::Url;

use super::{badge_of, enter, gated, join, leave, ticket, visitor_cookie, world_member};
use crate::{
    BACKGROUND,
    world::{Actor, OPERATOR_SECRET, Site, World, actor::Uploaded, eventually},
};

pub const DOMAIN: &str = "handbook.team.localhost";

/// `engine` of `team`, at [`DOMAIN`] too: its address there.
pub async fn gated_at_domain(world: &World) -> (Actor, Uploaded, String) {
    world.certify(&[DOMAIN]).await;
    let (ada, site) = gated(world).await;
    ada.attach("engine", DOMAIN).await;
    (ada, site, world.domain_url(DOMAIN))
}

#[tokio::test]
async fn members_sign_in_and_see_the_site_at_its_domain() {
    let world = World::start().await;
    let (_, site, url) = gated_at_domain(&world).await;
    let person = world.person();
    let page = format!("{url}/deep/page?x=1&y=%2F");
    let form = person.visit(&page).await;
    form.assert_says(DOMAIN).assert_says("Sign in");
    assert_eq!(form.url.host_str(), Some("app.svc.localhost"));
    let seen = person.fill(&form, &[("login", "bob"), ("password", OPERATOR_SECRET)]).await;
    seen.assert_at(200, &page);
    assert_eq!(seen.answer.text(), "secret page");
    let cookies: Vec<_> = form.cookies_set().into_iter().chain(seen.cookies_set()).collect();
    let of = |wanted: &str| {
        let of_host = cookies.iter().filter(|(host, _)| host == wanted);
        of_host.map(|(_, cookie)| cookie.split('=').next().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(DOMAIN), ["__Host-svc-visitor", "__Host-svc-gate"]);
    assert_eq!(of("app.svc.localhost"), ["__Host-svc-session"]);
    assert_eq!(cookies.len(), 3);
    let session = cookies.iter().find(|(_, cookie)| cookie.starts_with("__Host-svc-session")).unwrap();
    let secret = session.1.split(['=', ';']).nth(1).unwrap();
    for (address, answer) in seen.trail.iter().filter(|(address, _)| address.host_str() == Some(DOMAIN)) {
        assert!(!address.as_str().contains(secret) && !format!("{:?}", answer.headers).contains(secret));
    }
    // The project's own address asks for itself: it is another host, and its badge another one.
    let badge = badge_of(&seen);
    world.edge().get(&site.url).header("cookie", &badge).await.assert_status(401);
    let own = person.visit(&site.url).await;
    own.assert_at(200, &format!("{}/", site.url));
    world.edge().get(&url).header("cookie", badge_of(&own)).await.assert_status(401);
    world.edge().get(&url).header("cookie", badge).await.assert_body(200, "secret home");
    // Strangers see nothing here either.
    for path in ["/", "/nothing", "/_headers", "/.svc/gate"] {
        let sent = world.edge().navigate(&format!("{url}{path}")).await.assert_status(302);
        assert!(sent.header("location").starts_with(&world.console_url(&format!("/gate?host={DOMAIN}&"))));
        world.edge().get(&format!("{url}{path}")).await.assert_status(401);
    }
}

#[tokio::test]
async fn a_ticket_is_for_the_domain_alone() {
    let world = World::start().await;
    let (ada, site, url) = gated_at_domain(&world).await;
    world.certify(&["second.team.localhost"]).await;
    let second = world.domain_url("second.team.localhost");
    ada.attach("engine", "second.team.localhost").await;
    let person = world_member(&world).await;
    let addresses = [url.clone(), site.url.clone(), second];
    for from in &addresses {
        for to in addresses.iter().filter(|to| *to != from) {
            let address = ticket(&person, from).await;
            assert!(address.starts_with(&format!("{from}/.svc/enter?ticket=")), "{address}");
            let elsewhere = address.replace(from, to);
            // Even with the very cookie that the other host knows the browser by.
            let cookie = visitor_cookie(&person, from).await;
            let refused = world.edge().navigate(&elsewhere).header("cookie", &cookie).await.assert_status(403);
            assert_eq!(refused.find_header("set-cookie"), None);
            person.step(&address).await.assert_status(403);
        }
    }
    // Once, and not again.
    let address = ticket(&person, &url).await;
    let cookie = visitor_cookie(&person, &url).await;
    world.edge().navigate(&address).header("cookie", &cookie).await.assert_redirect(303, "/");
    world.edge().navigate(&address).header("cookie", &cookie).await.assert_status(403);
}

#[tokio::test]
async fn the_console_leads_to_attached_domains_only() {
    let world = World::start().await;
    let (ada, _, url) = gated_at_domain(&world).await;
    ada.publish("public", &Site::page("public")).await;
    ada.attach("public", "public.team.localhost").await;
    let person = world_member(&world).await;
    let sent = person.step(&url).await.assert_status(302).header("location").to_owned();
    let asked = |host: &str| sent.replace(&format!("host={DOMAIN}"), &format!("host={host}"));
    for host in [
        "evil.example",
        "team.localhost",
        "x.handbook.team.localhost",
        "handbook.team.localhost.",
        "HANDBOOK.team.localhost",
        "handbook.team.localhost%3A8443",
        "handbook.team.localhost%40evil.example",
        "handbook.team.localhost%2F.evil.example",
        "public.team.localhost",
    ] {
        let answer = person.step(&asked(host)).await.assert_status(404);
        assert_eq!(answer.find_header("location"), None, "{host}");
    }
    let address = person.step(&sent).await.assert_status(303).header("location").to_owned();
    assert_eq!(Url::parse(&address).unwrap().origin(), Url::parse(&url).unwrap().origin());
    // Detached between the question and the answer, and between the answer and its use.
    ada.detach("engine", DOMAIN).await;
    person.step(&address).await.assert_status(404);
    assert_eq!(person.step(&sent).await.assert_status(404).find_header("location"), None);
    // Attached again, the door is open again; the ticket was not used up, and is still this browser's.
    ada.attach("engine", DOMAIN).await;
    person.step(&address).await.assert_redirect(303, "/");
}

#[tokio::test]
async fn a_visit_ends_with_the_domain_the_membership_and_the_project_behind_it() {
    let world = World::builder().edges(3).start().await;
    let (ada, site, url) = gated_at_domain(&world).await;
    eventually(BACKGROUND, "admin has heard of every edge", async || {
        ada.activate("engine", &site.id).await.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    let bob = world.user("bob").await;
    let person = world.person();
    let badge = badge_of(&enter(&person, &url, "bob").await);
    let everywhere = async |status: u16| {
        for edge in &world.edges {
            edge.get(&url).header("cookie", &badge).await.assert_status(status);
        }
    };
    everywhere(200).await;
    for _ in 0..3 {
        ada.detach("engine", DOMAIN).await;
        everywhere(404).await;
        ada.attach("engine", DOMAIN).await;
        everywhere(200).await;
        leave(&ada, "bob").await;
        everywhere(401).await;
        let told = person.visit(&url).await;
        assert_eq!(told.answer.status, 403);
        told.assert_says("Members only").assert_says(DOMAIN);
        join(&ada, &bob).await;
        everywhere(200).await;
    }
    // The same name before another project, of another org that bob belongs to as well.
    bob.create_org("bobs").await;
    bob.post("/projects").json(&json!({ "name": "mine", "org": "bobs" })).await.created();
    bob.deploy("mine", &Site::page("another secret")).await;
    bob.put("/projects/mine/access").json(&json!({ "mode": "org" })).await.ok();
    ada.detach("engine", DOMAIN).await;
    // The domain is kept for the org, whose admins may take it elsewhere.
    ada.put("/orgs/team/members/bob").json(&json!({ "role": "admin" })).await.ok();
    bob.attach("mine", DOMAIN).await;
    everywhere(401).await;
    let seen = person.visit(&url).await;
    assert_eq!(seen.answer.text(), "another secret");
    assert_eq!(enter_as(&world, &url, "ada").await, 403);
}

/// How far somebody else gets.
async fn enter_as(world: &World, url: &str, login: &str) -> u16 {
    enter(&world.person(), url, login).await.answer.status.as_u16()
}
