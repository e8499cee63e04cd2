//! Links to the documents of invoices.

use serde_json::{Value, json};

use crate::{
    billing::books::Books,
    world::{
        Actor, World,
        answer::{assert_keys, parse_timestamp},
    },
};

async fn link(actor: &Actor, path: &str) -> String {
    let link = actor.get(path).await.ok();
    assert_keys(&link, "url expires_at");
    parse_timestamp(&link["expires_at"]);
    link["url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_leads_to_the_document_without_a_token() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let books = Books::of_user(&world, "ada").await;
    let paid = books.pay(0, 2_000, 420, 0).await;
    let id = &paid.invoice;
    let pdf = format!("/billing/invoices/{id}/pdf");
    let message = ada.get(&pdf).await.assert_error(404, "not_found");
    assert!(message.contains("still being made"), "{message}");
    assert_eq!(ada.get("/billing").await.ok()["invoices"][0]["has_document"], false);
    books.render(id).await;
    assert_eq!(ada.get("/billing").await.ok()["invoices"][0]["has_document"], true);

    for (path, kind, name, body) in [
        ("/pdf", "application/pdf", "2026-000001.pdf", format!("%PDF-1.7 {id}")),
        ("/xml", "application/xml", "2026-000001.xml", "<cii>é</cii>".to_owned()),
        ("/xml?format=cii", "application/xml", "2026-000001.xml", "<cii>é</cii>".to_owned()),
        ("/xml?format=ubl", "application/xml", "2026-000001-ubl.xml", "<ubl/>".to_owned()),
    ] {
        let url = link(&ada, &format!("/billing/invoices/{id}{path}")).await;
        let document = world.edge().get(&url).await.assert_body(200, body);
        assert_eq!(document.header("content-type"), kind);
        assert_eq!(document.header("content-disposition"), format!("attachment; filename=\"{name}\""));
        assert_eq!(document.header("cache-control"), "private, no-store");
        assert_eq!(document.header("x-content-type-options"), "nosniff");
    }
    ada.get(&format!("/billing/invoices/{id}/xml?format=csv")).await.assert_error(400, "invalid_request");
}

#[tokio::test]
async fn a_link_opens_nothing_but_what_it_was_made_for() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let books = Books::of_user(&world, "ada").await;
    let (first, second) = (books.pay(0, 2_000, 420, 0).await, books.pay(1, 2_000, 420, 1).await);
    for paid in [&first, &second] {
        books.render(&paid.invoice).await;
    }
    let url = link(&ada, &format!("/billing/invoices/{}/pdf", first.invoice)).await;
    let (base, last) = url.rsplit_once('/').unwrap();
    let parts: Vec<&str> = last.split('.').collect();
    let [id, form, end, signature] = parts[..] else { panic!("{last}") };
    assert_eq!((id, form), (first.invoice.as_str(), "pdf"));
    let later = (end.parse::<i64>().unwrap() + 600).to_string();
    for changed in [
        [second.invoice.as_str(), form, end, signature].join("."),
        [id, "ubl", end, signature].join("."),
        [id, form, &later, signature].join("."),
        [id, form, end, &"0".repeat(64)].join("."),
        [id, form, end].join("."),
        "x".to_owned(),
        "%00".to_owned(),
    ] {
        world.edge().get(&format!("{base}/{changed}")).await.assert_error(404, "not_found");
    }
    world.edge().get(&url).await.assert_status(200);
    for path in ["pdf", "xml"] {
        let theirs = format!("/billing/invoices/{}/{path}", first.invoice);
        eve.get(&theirs).await.assert_error(404, "not_found");
        world.nobody().get(&theirs).await.assert_error(401, "unauthorized");
        ada.get(&format!("/billing/invoices/ivc_00000000000000000000/{path}")).await.assert_error(404, "not_found");
        ada.get(&format!("/billing/invoices/nonsense/{path}")).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn an_organizations_invoices_are_its_admins() {
    let world = World::start().await;
    let (org, admin) = world.org_with(domain::role::Role::Admin).await;
    let member = world.user("member").await;
    org.admit(&member, domain::role::Role::Member).await;
    let books = Books::of_org(&world, "acme").await;
    let paid = books.pay(0, 10_000, 2_100, 0).await;
    books.render(&paid.invoice).await;
    let path = format!("/orgs/acme/billing/invoices/{}/pdf", paid.invoice);
    for who in [&org.owner, &admin] {
        world.edge().get(&link(who, &path).await).await.assert_status(200);
    }
    member.get(&path).await.assert_error(403, "forbidden");
    admin.get(&format!("/billing/invoices/{}/pdf", paid.invoice)).await.assert_error(404, "not_found");
    let list = admin.get("/orgs/acme/billing/invoices").await.ok();
    assert_keys(&list, "invoices next_cursor");
    assert_eq!((&list["invoices"][0]["number"], &list["next_cursor"]), (&json!(paid.number), &Value::Null));
}
