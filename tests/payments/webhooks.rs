//! `POST /webhooks/payments`: a hint by which nothing is believed, and signed events.

use domain::{
    Clock, PaymentId,
    billing::{Cents, payment::PaymentSequence},
};
use futures_util::future::join_all;
use payments::{PaymentOrder, PaymentProvider as _};
use reqwest::Method;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use super::scene::{account, client, url};
use crate::{
    BACKGROUND,
    stubs::mollie::{API_KEY, Asked, Fault, Mollie, WEBHOOK_SECRET, sign},
    world::{Actor, World, answer::Answer, eventually},
};

const PATH: &str = "/webhooks/payments";

async fn start() -> (Mollie, World) {
    let mollie = Mollie::start().await;
    let world = World::builder().mollie(&mollie).start().await;
    (mollie, world)
}

async fn deliver(world: &World, id: &str) -> Answer {
    world.nobody().post(PATH).form(&[("id", id)]).await
}

async fn deliver_event(world: &World, body: &str, signature: &str) -> Answer {
    let request = world.nobody().post(PATH).header("content-type", "application/json");
    request.header("x-mollie-signature", signature).body(body.to_owned()).await
}

#[tokio::test]
async fn a_hint_is_answered_alike_whether_or_not_it_is_known() {
    let (mollie, world) = start().await;
    for id in ["tr_nobody", "tr_7UhSN1zuXS", "sub_rVKGtNd6s3", "x"] {
        assert_eq!(deliver(&world, id).await.ok(), json!({ "ok": true }));
    }
    mollie.always(Some(Fault::Status(500)));
    assert_eq!(deliver(&world, "tr_away").await.ok(), json!({ "ok": true }));
}

#[tokio::test]
async fn what_names_no_payment_is_refused() {
    let (mollie, world) = start().await;
    for id in ["", "../customers", "tr 1", "tr_1/refunds", "tr_\u{e9}", &"x".repeat(65)] {
        deliver(&world, id).await.assert_error(400, "invalid_request");
    }
    for body in ["", "id", "tr_1", "{\"id\":\"tr_1\"}", "[]", "\u{0}"] {
        world.nobody().post(PATH).body(body).await.assert_error(400, "invalid_request");
    }
    world.nobody().post(PATH).body("x".repeat(64 * 1024 + 1)).await.assert_error(413, "payload_too_large");
    assert_eq!(mollie.asked().len(), 0, "nothing of it was looked at");
}

#[tokio::test]
async fn an_event_counts_only_with_its_signature() {
    let (mollie, world) = start().await;
    let body = json!({ "resource": "event", "type": "payment.paid", "entityId": "tr_1" }).to_string();
    let genuine = sign(&body);
    for signature in ["", "sha256=", &genuine[..60], &sign("another body"), &"0".repeat(64), WEBHOOK_SECRET] {
        deliver_event(&world, &body, signature).await.assert_error(401, "unauthorized");
    }
    deliver_event(&world, &format!("{body} "), &genuine).await.assert_error(401, "unauthorized");
    world.nobody().post(PATH).json(&json!({ "entityId": "tr_1" })).await.assert_error(401, "unauthorized");
    assert_eq!(mollie.asked().len(), 0, "nothing of it was looked at");
    deliver_event(&world, &body, &genuine).await.ok();
    deliver_event(&world, &body, &format!("sha256={genuine}")).await.ok();
    let about_others = json!({ "resource": "event", "type": "payout.paid", "entityId": "po_1" }).to_string();
    deliver_event(&world, &about_others, &sign(&about_others)).await.ok();
}

#[tokio::test]
async fn without_a_secret_no_event_is_taken() {
    let mollie = Mollie::start().await;
    let world = World::builder().mollie(&mollie).set("BILLING__MOLLIE_WEBHOOK_SECRET", "").start().await;
    let body = json!({ "entityId": "tr_1" }).to_string();
    deliver_event(&world, &body, &sign(&body)).await.assert_error(401, "unauthorized");
    deliver(&world, "tr_1").await.ok();
}

#[tokio::test]
async fn a_platform_without_payments_takes_none() {
    let world = World::start().await;
    deliver(&world, "tr_1").await.assert_error(404, "not_found");
}

#[tokio::test]
async fn who_makes_ids_up_is_slowed_down() {
    let (_mollie, world) = start().await;
    let mut refused = 0;
    for number in 0..130 {
        let answer = deliver(&world, &format!("tr_{number}")).await;
        match answer.status.as_u16() {
            200 => assert_eq!(refused, 0),
            429 => {
                assert!(!answer.header("retry-after").is_empty());
                refused += 1;
            }
            status => panic!("{status}"),
        }
    }
    assert_eq!(refused, 10);
}

/// Begins a checkout, and returns the id of its payment at Mollie.
async fn known_payment(world: &World, mollie: &Mollie, login: &str) -> String {
    let person = world.user(login).await;
    person.put("/billing/profile").json(&json!({ "name": login, "country": "NL" })).await.ok();
    person.post("/billing/checkout").json(&json!({ "plan": "pro" })).await.ok();
    mollie.newest_payment()
}

/// Delivers a webhook while the test goes on.
fn deliver_beside(sender: &Actor, id: &str) -> JoinHandle<u16> {
    let (sender, id) = (sender.clone(), id.to_owned());
    tokio::spawn(async move { sender.post(PATH).form(&[("id", &id)]).await.status.as_u16() })
}

/// The looks at a payment so far.
fn looks(mollie: &Mollie, id: &str) -> usize {
    let is_look = |asked: &&Asked| asked.method == Method::GET && asked.path.contains(id);
    mollie.asked().iter().filter(is_look).count()
}

#[tokio::test]
async fn a_payment_that_somebody_knows_is_no_way_around_the_bounds() {
    let (mollie, world) = start().await;
    let id = known_payment(&world, &mollie, "ada").await;
    let (before, began) = (looks(&mollie, &id), std::time::Instant::now());
    let answers = join_all((0..400).map(|_| deliver(&world, &id))).await;
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert!(refused >= 200, "{refused} were refused");
    assert!(answers.iter().all(|answer| [200, 429].contains(&answer.status.as_u16())));
    // One look, and those that came meanwhile share another some seconds later, as often as that may be.
    let most = 2 + usize::try_from(began.elapsed().as_secs() / 2).unwrap();
    let made = looks(&mollie, &id) - before;
    assert!((1..=most).contains(&made), "{made} looks");
}

#[tokio::test]
async fn a_webhook_that_comes_during_a_look_is_answered_by_another() {
    let (mollie, world) = start().await;
    let id = known_payment(&world, &mollie, "ada").await;
    // The first look read the payment before it was paid.
    mollie.next(Fault::Holds);
    let first = deliver_beside(&world.nobody(), &id);
    eventually(BACKGROUND, "the payment is looked at", async || looks(&mollie, &id) == 1).await;
    mollie.settle(&id, "paid");
    let second = deliver_beside(&world.nobody(), &id);
    mollie.go_on();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));
    let paid = "SELECT count(*) FROM payments WHERE state = 'paid'";
    eventually(BACKGROUND, "it is paid", async || world.sql_number(paid).await == 1).await;
}

#[tokio::test]
async fn the_looks_of_one_client_hold_up_no_other() {
    let (mollie, world) = start().await;
    let id = known_payment(&world, &mollie, "ada").await;
    mollie.settle(&id, "paid");
    mollie.hold("tr_slow");
    let mallory = world.nobody().at_address("203.0.113.9");
    let mut flood = JoinSet::new();
    for number in 0..60 {
        let (mallory, id) = (mallory.clone(), format!("tr_slow{number}"));
        flood.spawn(async move { mallory.post(PATH).form(&[("id", &id)]).await.status });
    }
    eventually(BACKGROUND, "her looks are made", async || looks(&mollie, "tr_slow") >= 4).await;
    let provider = world.nobody().at_address("87.233.229.26");
    provider.post(PATH).form(&[("id", &id)]).await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM payments WHERE state = 'paid'").await, 1, "it was looked at");
    assert_eq!(looks(&mollie, "tr_slow"), 4, "so many at a time");
}

#[tokio::test]
async fn the_providers_own_way_leads_through_the_edge() {
    let mollie = Mollie::start().await;
    let world = World::builder().mollie(&mollie).start().await;
    let client = client(&mollie.url, API_KEY, Clock::system());
    let customer = client.create_customer(&account(), None, "Ada", None).await.unwrap();
    let webhook_url = url(&format!("https://api.svc.localhost:{}{PATH}", world.public_port()));
    let (first, second) = (PaymentId::new(Clock::system().now()), PaymentId::new(Clock::system().now()));
    for id in [&first, &second] {
        let order = PaymentOrder {
            id,
            customer_id: &customer,
            sequence: PaymentSequence::First,
            total: Cents(100),
            description: "Pro",
            redirect_url: &webhook_url,
            webhook_url: &webhook_url,
        };
        let payment = client.create_payment(&order).await.unwrap();
        mollie.settle(&payment.id, "paid");
    }
    // Repeated, and the later one first.
    for payment in mollie.take_webhooks().iter().rev().chain([&mollie.newest_payment()]) {
        assert_eq!(mollie.send_webhook(payment).await, 200);
    }
    mollie.settle(&mollie.newest_payment(), "paid");
    mollie.send_webhooks().await;
    assert!(mollie.take_webhooks().is_empty());
}
