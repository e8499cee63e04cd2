//! Outages, limits, lost answers and nonsense: a call fails in the right way, and made again it makes nothing twice.

use std::time::Duration;

use domain::{
    Clock, ReversalId,
    billing::{Cents, payment::PaymentSequence},
};
use payments::{PaymentError, PaymentProvider as _};

use super::scene::{Scene, client, refused, unavailable};
use crate::stubs::mollie::{Fault, Mollie, Recurring};

#[tokio::test]
async fn a_lost_answer_makes_no_second_payment() {
    let scene = Scene::start().await;
    let customer = scene.payer().await;
    for fault in [Fault::DropsAfter, Fault::FailsAfter] {
        let (intent, before) = (scene.intent(), scene.mollie.payments().len());
        scene.mollie.next(fault);
        unavailable(scene.pay(&intent, &customer, PaymentSequence::Recurring, 500).await);
        let payment = scene.pay(&intent, &customer, PaymentSequence::Recurring, 500).await.unwrap();
        assert_eq!(payment.order, Some(intent));
        assert_eq!(scene.mollie.payments().len(), before + 1);
    }
}

#[tokio::test]
async fn nor_does_one_that_is_asked_about_after_the_keys_are_forgotten() {
    let scene = Scene::start().await;
    let (customer, intent) = (scene.payer().await, scene.intent());
    scene.mollie.next(Fault::DropsAfter);
    unavailable(scene.pay(&intent, &customer, PaymentSequence::Recurring, 500).await);
    let made = scene.mollie.newest_payment();
    let others = scene.pay(&scene.intent(), &customer, PaymentSequence::Recurring, 700).await.unwrap();
    scene.mollie.forget_keys();
    scene.hours_pass(30);
    let payment = scene.pay(&intent, &customer, PaymentSequence::Recurring, 500).await.unwrap();
    assert_eq!((&payment.id, payment.order), (&made, Some(intent)));
    assert_ne!(payment.id, others.id);
    assert_eq!(scene.mollie.payments().len(), 3);
    // One that never got there is made, however old it is.
    let (late, before) = (scene.intent(), scene.mollie.payments().len());
    scene.mollie.next(Fault::Drops);
    unavailable(scene.pay(&late, &customer, PaymentSequence::Recurring, 500).await);
    scene.hours_pass(30);
    scene.pay(&late, &customer, PaymentSequence::Recurring, 500).await.unwrap();
    assert_eq!(scene.mollie.payments().len(), before + 1);
}

#[tokio::test]
async fn a_payment_is_found_by_its_order_though_the_mandate_is_gone() {
    let scene = Scene::start().await;
    let (customer, intent) = (scene.payer().await, scene.intent());
    scene.mollie.next(Fault::DropsAfter);
    unavailable(scene.pay(&intent, &customer, PaymentSequence::Recurring, 500).await);
    let made = scene.mollie.newest_payment();
    scene.mollie.set_mandates(&customer, "invalid");
    let found = scene.client.find_payment(&intent, &customer).await.unwrap().unwrap();
    assert_eq!((found.id, found.order, found.total), (made, Some(intent.clone()), Cents(500)));
    assert_eq!(scene.client.find_payment(&scene.intent(), &customer).await.unwrap(), None);
    let nobodys = scene.client.find_payment(&intent, "cst_nobody").await;
    assert!(matches!(nobodys, Err(PaymentError::Unknown)), "{nobodys:?}");
    scene.mollie.next(Fault::Status(503));
    unavailable(scene.client.find_payment(&intent, &customer).await);
}

#[tokio::test]
async fn a_refund_is_made_once() {
    let scene = Scene::start().await;
    scene.payer().await;
    let (payment, id) = (scene.mollie.newest_payment(), ReversalId::new(scene.now()));
    scene.mollie.next(Fault::DropsAfter);
    unavailable(scene.refund(&id, &payment, 210).await);
    let refund = scene.refund(&id, &payment, 210).await.unwrap();
    scene.mollie.forget_keys();
    scene.hours_pass(30);
    assert_eq!(scene.refund(&id, &payment, 210).await.unwrap(), refund);
    let made = &scene.mollie.payment(&payment)["_embedded"]["refunds"];
    assert_eq!(made.as_array().unwrap().len(), 1, "{made}");
    let more = ReversalId::new(scene.now());
    assert!(refused(scene.refund(&more, &payment, 1_210).await).contains("cannot be refunded"));
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let scene = Scene::start().await;
    for (seconds, wait) in [(Some(7), 7), (None, 60), (Some(1_000_000), 3_600)] {
        scene.mollie.next(Fault::RateLimited(seconds));
        match scene.client.payment("tr_1").await {
            Err(PaymentError::Unavailable { retry_after, .. }) => {
                assert_eq!(retry_after, Some(Duration::from_secs(wait)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_outage_is_no_refusal() {
    let scene = Scene::start().await;
    let customer = scene.payer().await;
    let payment = scene.mollie.newest_payment();
    for fault in [
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(401),
        Fault::Status(403),
        Fault::Status(409),
        Fault::Drops,
        Fault::Garbage,
        Fault::Huge,
        Fault::Redirect("https://elsewhere.example/v2/payments".to_owned()),
        Fault::Redirect(format!("{}/v2/payments/{payment}", scene.mollie.url)),
    ] {
        scene.mollie.always(Some(fault));
        let asked = scene.mollie.asked().len();
        unavailable(scene.client.payment(&payment).await);
        unavailable(scene.client.mandate(&customer).await);
        unavailable(scene.pay(&scene.intent(), &customer, PaymentSequence::Recurring, 100).await);
        assert_eq!(scene.mollie.asked().len(), asked + 3, "nothing is tried again here");
        scene.mollie.always(None);
    }
    assert_eq!(scene.mollie.payments().len(), 1);
    let nobody = client("http://127.0.0.1:1", "test_x", Clock::system());
    unavailable(nobody.payment("tr_1").await);
}

#[tokio::test]
async fn a_wrong_key_is_not_the_payers_failure() {
    let mollie = Mollie::start().await;
    let stranger = client(&mollie.url, "live_stranger", Clock::system());
    let reason = unavailable(stranger.payment("tr_1").await);
    assert!(reason.contains("401") && reason.contains("authenticat") && !reason.contains("live_stranger"), "{reason}");
}

#[tokio::test]
async fn what_mollie_does_not_know_is_unknown() {
    let scene = Scene::start().await;
    for id in ["tr_nobody", "../customers", "tr_1?embed=x", ""] {
        assert!(matches!(scene.client.payment(id).await, Err(PaymentError::Unknown)), "{id}");
    }
    assert!(matches!(scene.client.mandate("cst_nobody").await, Err(PaymentError::Unknown)));
    scene.mollie.next(Fault::Status(410));
    assert!(matches!(scene.client.mandate("cst_gone").await, Err(PaymentError::Unknown)));
}

#[tokio::test]
async fn a_refusal_says_why() {
    let scene = Scene::start().await;
    let customer = scene.payer().await;
    scene.mollie.recurring_become(Recurring::Refused);
    let why = refused(scene.pay(&scene.intent(), &customer, PaymentSequence::Recurring, 100).await);
    assert!(why.contains("No suitable mandates"), "{why}");
    let why = refused(scene.pay(&scene.intent(), &customer, PaymentSequence::First, 0).await);
    assert!(why.contains("minimum (amount)"), "{why}");
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let scene = Scene::start().await;
    let customer = scene.customer().await;
    scene.mollie.next(Fault::Holds);
    let intent = scene.intent();
    let (payment, ()) = tokio::join!(scene.pay(&intent, &customer, PaymentSequence::First, 100), async {
        scene.mollie.go_on();
    });
    assert_eq!(payment.unwrap().order, Some(intent));
}
