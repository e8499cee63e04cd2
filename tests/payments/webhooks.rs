//! `POST /webhooks/payments`: a hint by which nothing is believed, and signed events.

use admin::payments::{PaymentOrder, PaymentProvider as _};
use domain::{
    Clock, PaymentId,
    billing::{Cents, payment::Sequence},
};
use serde_json::json;

use super::scene::{account, client, url};
use crate::{
    stubs::mollie::{API_KEY, Fault, Mollie, WEBHOOK_SECRET, sign},
    world::{World, answer::Answer},
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

#[tokio::test]
async fn the_providers_own_way_leads_through_the_edge() {
    let mollie = Mollie::start().await;
    let world = World::builder().mollie(&mollie).start().await;
    let client = client(&mollie.url, API_KEY, Clock::system());
    let customer = client.create_customer(&account(), "Ada", None).await.unwrap();
    let webhook_url = url(&format!("https://api.svc.localhost:{}{PATH}", world.public_port()));
    let (first, second) = (PaymentId::new(Clock::system().now()), PaymentId::new(Clock::system().now()));
    for id in [&first, &second] {
        let order = PaymentOrder {
            id,
            customer_id: &customer,
            sequence: Sequence::First,
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
