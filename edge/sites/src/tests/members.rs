//! The gate of an organization.

use std::time::Duration;

use domain::opaque::{self, OpaqueSecret};
use http::Request;
use limits::{GATE_RETURN_BYTES, MEMBER_COOKIE_LIFE};

use super::*;

/// A site of an org with one member, and that member.
fn gated() -> (World, OrgId, UserId) {
    let mut world = World::new(Folder::of(&["index.html", "404.html", "x"]));
    let (org, user) = (OrgId::new(now()), UserId::new(now()));
    world.site.gate = SiteGate::Org(org.clone());
    world.club.places.lock().unwrap().insert((org.clone(), user.clone()), 1);
    (world, org, user)
}

fn pair(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// Issues a ticket as the console does for the browser whose cookie is `visitor`.
fn issue(world: &World, user: &UserId, visitor: &str) -> (OpaqueSecret, SiteTicket) {
    let secret = OpaqueSecret::generate();
    let visitor = OpaqueSecret::parse(visitor.split_once('=').unwrap().1).unwrap();
    let ticket = SiteTicket {
        visitor_hash: visitor.hash().to_vec(),
        host: world.visit.host.to_string(),
        project: world.site.project.clone(),
        access_version: world.site.access_version,
        user: user.clone(),
        gate_version: 1,
        expires_at: now() + Duration::from_mins(1),
    };
    world.club.tickets.lock().unwrap().insert(secret.hash(), ticket.clone());
    (secret, ticket)
}

fn enter(secret: &OpaqueSecret, back: &str, cookies: &str) -> Builder {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("ticket", secret.expose())
        .append_pair("return", back)
        .finish();
    Request::get(format!("/.svc/enter?{query}")).header("cookie", cookies)
}

/// The badge of a member who completed the sign-in.
async fn badge(world: &World, user: &UserId) -> String {
    let visitor = pair(&world.navigate("/x").await);
    let (secret, _) = issue(world, user, &visitor);
    pair(&world.send(enter(&secret, "/x", &visitor)).await)
}

#[tokio::test]
async fn strangers_are_sent_to_the_console_and_programs_are_refused() {
    let (world, ..) = gated();
    for target in ["/", "/x?a=b&c", "/missing", "/%zz", "/.svc/gate"] {
        let sent = world.navigate(target).await;
        assert_eq!(sent.status, 302, "{target}");
        let location = url::Url::parse(sent.header("location")).unwrap();
        assert_eq!(location.origin().ascii_serialization(), "https://app.svc.test:8443");
        assert_eq!(location.path(), "/gate");
        let said: Vec<_> = location.query_pairs().collect();
        let visitor = OpaqueSecret::parse(pair(&sent).strip_prefix("__Host-svc-visitor=").unwrap()).unwrap();
        let back = if target.starts_with("/.svc") { "/" } else { target };
        assert_eq!(said[0], ("host".into(), "site.svc.test".into()));
        assert_eq!(said[1], ("return".into(), back.into()));
        assert_eq!(said[2], ("visitor".into(), opaque::encode(&visitor.hash()).into()));
        assert!(sent.header("set-cookie").ends_with("; Secure; HttpOnly; SameSite=Lax"));
        assert_eq!(sent.header("cache-control"), "private, no-store");
        let program = world.get(target).await;
        assert_eq!(program.brief(), (401, "our page"), "{target}");
        assert_eq!(program.header("set-cookie"), "");
    }
    let script = Request::get("/x").header("accept", "text/html").header("sec-fetch-mode", "cors");
    assert_eq!(world.send(script).await.status, 401);
    assert_eq!(world.send(Request::post("/x").header("accept", "text/html")).await.status, 401);
    let long = format!("/{}", "x".repeat(GATE_RETURN_BYTES));
    assert!(world.navigate(&long).await.header("location").contains("&return=%2F&"));
}

#[tokio::test]
async fn several_tabs_share_what_the_browser_is_known_by() {
    let (world, ..) = gated();
    let visitor = pair(&world.navigate("/").await);
    let again = world.send(Request::get("/x").header("accept", "text/html").header("cookie", &visitor)).await;
    assert_eq!(pair(&again), visitor);
    let forged = Request::get("/x").header("accept", "text/html").header("cookie", "__Host-svc-visitor=short");
    assert_ne!(pair(&world.send(forged).await), "__Host-svc-visitor=short");
}

#[tokio::test]
async fn a_ticket_lets_its_member_in_once() {
    let (world, _, user) = gated();
    let visitor = pair(&world.navigate("/x").await);
    let (secret, _) = issue(&world, &user, &visitor);
    let entered = world.send(enter(&secret, "/x?a=1", &visitor)).await;
    assert_eq!(entered.brief(), (303, "/x?a=1"));
    assert_eq!(
        (entered.header("cache-control"), entered.header("referrer-policy")),
        ("private, no-store", "no-referrer")
    );
    let badge = pair(&entered);
    assert!(badge.starts_with("__Host-svc-gate="));
    for (target, expected) in [("/x", (200, "<x>")), ("/missing", (404, "<404.html>")), ("/.svc/enter", (303, "/"))] {
        let inside = world.send(Request::get(target).header("cookie", &badge)).await;
        assert_eq!(inside.brief(), expected, "{target}");
        assert_eq!(inside.header("cache-control"), "private, no-store", "{target}");
    }
    // A replay by the same browser without its badge: refused, without a redirect loop.
    let replayed = world.send(enter(&secret, "/x?a=1", &visitor)).await;
    assert_eq!((replayed.brief(), replayed.header("set-cookie")), ((403, "our page"), ""));
    assert!(replayed.body.contains(" href=\"/x?a=1\">"), "{}", replayed.body);
    // With its badge, as after the browser's "back" button: redirected to the page.
    let back = world.send(enter(&secret, "/x?a=1", &format!("{visitor}; {badge}"))).await;
    assert_eq!(back.brief(), (303, "/x?a=1"));
}

#[tokio::test]
async fn a_ticket_is_good_for_one_browser_one_host_and_one_gate() {
    let (world, _, user) = gated();
    let visitor = pair(&world.navigate("/x").await);
    let other = pair(&world.navigate("/x").await);
    for wrong_cookie in ["", "a=b", &other] {
        let (secret, _) = issue(&world, &user, &visitor);
        assert_eq!(world.send(enter(&secret, "/x", wrong_cookie)).await.status, 403, "{wrong_cookie}");
        assert_eq!(world.send(enter(&secret, "/x", &visitor)).await.status, 403, "it was presented before");
    }
    let spoils: [fn(&mut SiteTicket); 4] = [
        |ticket| ticket.host = "other.svc.test".into(),
        |ticket| ticket.project = ProjectId::new(now()),
        |ticket| ticket.access_version += 1,
        |ticket| ticket.expires_at = now(),
    ];
    for spoil in spoils {
        let (secret, mut ticket) = issue(&world, &user, &visitor);
        spoil(&mut ticket);
        world.club.tickets.lock().unwrap().insert(secret.hash(), ticket);
        let refused = world.send(enter(&secret, "/x", &visitor)).await;
        assert_eq!((refused.status.as_u16(), refused.header("set-cookie")), (403, ""));
    }
    let unknown = world.send(enter(&OpaqueSecret::generate(), "/x", &visitor)).await;
    assert_eq!(unknown.status, 403);
    let (secret, _) = issue(&world, &user, &visitor);
    let head = enter(&secret, "/x", &visitor).method("HEAD");
    assert_eq!(world.send(head).await.status, 401, "only a visit takes the ticket");
    assert_eq!(world.send(enter(&secret, "/x", &visitor)).await.status, 303);
}

#[tokio::test]
async fn the_way_back_is_on_the_site() {
    let (world, _, user) = gated();
    let visitor = pair(&world.navigate("/x").await);
    for bad in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/.svc/enter?ticket=x", "/a\r\nb"] {
        let (secret, _) = issue(&world, &user, &visitor);
        assert_eq!(world.send(enter(&secret, bad, &visitor)).await.brief(), (303, "/"), "{bad:?}");
        let refused = world.send(enter(&secret, bad, &visitor)).await;
        assert!(refused.body.contains(" href=\"/\">"), "{bad:?}: {}", refused.body);
    }
}

#[tokio::test]
async fn a_visit_ends_with_the_membership_the_gate_and_the_time() {
    let (mut world, org, user) = gated();
    let badge = badge(&world, &user).await;
    let status = async |world: &World| {
        world.send(Request::get("/x").header("accept", "text/html").header("cookie", &badge)).await.status.as_u16()
    };
    assert_eq!(status(&world).await, 200);
    let place = (org.clone(), user.clone());
    world.club.places.lock().unwrap().insert(place.clone(), 2);
    assert_eq!(status(&world).await, 302, "signed out everywhere");
    world.club.places.lock().unwrap().remove(&place);
    assert_eq!(status(&world).await, 302, "no longer a member");
    world.club.places.lock().unwrap().insert(place, 1);
    assert_eq!(status(&world).await, 200);

    world.site.access_version += 1;
    assert_eq!(status(&world).await, 302, "the access was changed");
    world.site.access_version -= 1;
    world.site.gate = SiteGate::Org(OrgId::new(now()));
    assert_eq!(status(&world).await, 302, "the site is another org's");
    world.site.gate = SiteGate::Password("no hash".into());
    assert_eq!(status(&world).await, 401, "a badge is no password");
    world.site.gate = SiteGate::Org(org);
    assert_eq!(status(&world).await, 200);

    *world.time.lock().unwrap() = now() + MEMBER_COOKIE_LIFE;
    assert_eq!(status(&world).await, 302);
}

#[tokio::test]
async fn whom_nobody_can_ask_about_does_not_pass() {
    let (mut world, _, user) = gated();
    let badge = badge(&world, &user).await;
    let visitor = pair(&world.navigate("/x").await);
    let (secret, _) = issue(&world, &user, &visitor);
    world.club.away.store(true, Ordering::SeqCst);
    assert_eq!(world.send(Request::get("/x").header("cookie", &badge)).await.status, 503);
    assert_eq!(world.send(enter(&secret, "/x", &visitor)).await.status, 503);
    assert_eq!(world.navigate("/x").await.status, 302);
    world.club.away.store(false, Ordering::SeqCst);
    assert_eq!(world.send(Request::get("/x").header("cookie", &badge)).await.status, 200);
    world.visit.tls = false;
    let plain = world.send(Request::get("/x").header("cookie", &badge)).await;
    assert_eq!((plain.status.as_u16(), plain.header("location")), (308, "https://site.svc.test:8443/x"));
}

#[tokio::test]
async fn a_gate_that_was_taken_away_lets_those_on_their_way_go_on() {
    let (mut world, _, user) = gated();
    let visitor = pair(&world.navigate("/x").await);
    let (secret, _) = issue(&world, &user, &visitor);
    world.site.gate = SiteGate::Public;
    let entered = world.send(enter(&secret, "/x", &visitor)).await;
    assert_eq!((entered.status.as_u16(), entered.header("location")), (303, "/x"));
    let elsewhere = world.send(enter(&secret, "https://evil.test/", &visitor)).await;
    assert_eq!((elsewhere.status.as_u16(), elsewhere.header("location")), (303, "/"));
    assert_eq!(world.send(Request::post("/.svc/gate")).await.header("location"), "/");
}
