//! Tickets: each leads one browser from the console to one site, once.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use url::Url;

use super::{gated, ticket, visitor_cookie, world_member};
use crate::{
    BACKGROUND,
    world::{Site, World, eventually},
};

#[tokio::test]
async fn a_ticket_works_once() {
    let world = World::builder().edges(3).start().await;
    let (_, site) = gated(&world).await;
    let person = world.person();
    person.sign_in("bob").await;
    let address = ticket(&person, &format!("{}/deep/page", site.url)).await;
    assert!(address.starts_with(&format!("{}/.svc/enter?ticket=", site.url)), "{address}");
    let stored =
        world.sql_number("SELECT count(*) FROM gate_tickets WHERE expires_at <= now() + interval '60 s'").await;
    assert_eq!(stored, 1);
    let secret = Url::parse(&address).unwrap().query_pairs().next().unwrap().1.into_owned();
    let in_clear = format!("SELECT count(*) FROM gate_tickets t WHERE t::text LIKE '%{secret}%'");
    assert_eq!(world.sql_number(&in_clear).await, 0);

    // Twenty times at once, at all edges: one of them gets in.
    let visitor = visitor_cookie(&person, &site.url).await;
    let tries = (0..20).map(|at| world.edges[at % 3].navigate(&address).header("cookie", &visitor).attempt());
    let answers: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let entered: Vec<_> = answers.iter().filter(|answer| answer.status == 303).collect();
    assert_eq!(entered.len(), 1);
    entered[0].clone().assert_redirect(303, "/deep/page");
    assert!(answers.iter().filter(|answer| answer.status != 303).all(|answer| {
        answer.status == 403 && answer.find_header("set-cookie").is_none() && answer.text().contains("Open the site")
    }));
}

#[tokio::test]
async fn a_ticket_is_for_one_browser_one_host_and_one_minute() {
    let mut world = World::start().await;
    let (ada, site) = gated(&world).await;
    let [person, thief] = [world.person(), world.person()];
    person.sign_in("bob").await;
    // Overheard: another browser gets nowhere, and the ticket is spent.
    let address = ticket(&person, &site.url).await;
    thief.step(&site.url).await.assert_status(302);
    thief.step(&address).await.assert_status(403);
    person.step(&address).await.assert_status(403);
    // A member's ticket, pressed upon somebody who asked for nothing.
    let address = ticket(&person, &site.url).await;
    assert_eq!(world.person().step(&address).await.status, 403);
    // It is spent all the same.
    person.step(&address).await.assert_status(403);
    // At another address of the same project.
    let address = ticket(&person, &site.url).await.replace(&site.url, &site.permanent_url());
    person.step(&site.permanent_url()).await.assert_status(302);
    person.step(&address).await.assert_status(403);
    // Too late.
    let address = ticket(&person, &site.url).await;
    world.sql("UPDATE gate_tickets SET expires_at = now()").await;
    person.step(&address).await.assert_status(403);
    // After the gate was changed.
    let address = ticket(&person, &site.url).await;
    for mode in ["public", "org"] {
        ada.put("/projects/engine/access").json(&json!({ "mode": mode })).await.ok();
    }
    person.step(&address).await.assert_status(403);
    // And the real one still works.
    let address = ticket(&person, &site.url).await;
    person.visit(&address).await.assert_at(200, &format!("{}/", site.url));
    // Tickets that nobody redeemed are cleared away.
    ticket(&world_member(&world).await, &site.url).await;
    world.sql("UPDATE gate_tickets SET expires_at = now() - interval '1 hour'").await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "they are forgotten", async || {
        world.sql_number("SELECT count(*) FROM gate_tickets").await == 0
    })
    .await;
}

#[tokio::test]
async fn the_way_through_leads_nowhere_else() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    ada.publish("public", &Site::page("public")).await;
    let person = world_member(&world).await;
    let visitor = "A".repeat(43);
    let gate = |host: &str, back: &str, visitor: &str| {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("host", host)
            .append_pair("return", back)
            .append_pair("visitor", visitor)
            .finish();
        world.console_url(&format!("/gate?{query}"))
    };
    for host in [
        "",
        "evil.example",
        "engine.svc.localhost.evil.example",
        "engine.svc.localhost@evil.example",
        "evil.example/engine.svc.localhost",
        "engine.svc.localhost:8443",
        "ENGINE.svc.localhost",
        "engine.svc.localhost.",
        "engine.svc.localhost/",
        "engine.svc.localhost#",
        "engine.svc.localhost\\",
        "//evil.example",
        ".svc.localhost",
        "a.engine.svc.localhost",
        "public.svc.localhost",
        "nothing.svc.localhost",
        "app.svc.localhost",
        "api.svc.localhost",
        "svc.localhost",
        "engine.svc.localhost\r\nx: y",
        "127.0.0.1",
        "[::1]",
    ] {
        let answer = person.step(&gate(host, "/", &visitor)).await.assert_status(404);
        assert!(answer.find_header("location").is_none(), "{host:?}");
        assert!(!answer.text().contains("evil.example"), "{host:?}: {}", answer.text());
    }
    for bad in ["", "x", "AAAA", &"A".repeat(44), &format!("{}B", "A".repeat(42))] {
        person.step(&gate("engine.svc.localhost", "/", bad)).await.assert_status(404);
    }
    person.step(&world.console_url("/gate")).await.assert_status(404);
    // The way back is a path of the site, whatever the console was told.
    for back in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "x",
        "javascript:alert(1)",
        "/.svc/enter?ticket=x",
        "/\r\nSet-Cookie: a=b",
        "@evil.example",
    ] {
        let fresh = world_member(&world).await;
        let sent = fresh.step(&site.url).await.assert_status(302);
        let asked: Url = sent.header("location").parse().unwrap();
        let visitor = asked.query_pairs().find(|(name, _)| name == "visitor").unwrap().1.into_owned();
        let given = fresh.step(&gate("engine.svc.localhost", back, &visitor)).await.assert_status(303);
        let there: Url = given.header("location").parse().unwrap();
        assert_eq!(there.origin(), Url::parse(&site.url).unwrap().origin(), "{back:?}");
        fresh.step(there.as_str()).await.assert_redirect(303, "/");
    }
    // Asked by a form of elsewhere it gives nothing.
    let post = person.request(Method::POST, &gate("engine.svc.localhost", "/", &visitor));
    post.header("origin", "https://evil.example").await.assert_status(405);
}
