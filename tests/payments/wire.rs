//! What is sent to Mollie, to the byte, and what its answers mean.

use axum::http::Method;
use domain::{
    ReversalId,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
    },
};
use payments::{MandateState, PaymentProvider as _, ProviderKind};
use serde_json::json;

use super::scene::{Scene, account};
use crate::stubs::mollie::{API_KEY, Recurring};

#[tokio::test]
async fn a_customer_is_made_with_name_address_and_account() {
    let scene = Scene::start().await;
    let email = "ada@example.com".parse().unwrap();
    let id = scene.client.create_customer(&account(), None, "Ada\nLovelace", Some(&email)).await.unwrap();
    let asked = scene.mollie.last_asked();
    assert_eq!((asked.method.clone(), asked.path.as_str()), (Method::POST, "/v2/customers"));
    assert_eq!(asked.header("authorization"), format!("Bearer {API_KEY}"));
    assert!(asked.header("user-agent").starts_with("svc/"));
    assert_eq!(
        asked.body,
        json!({
            "name": "AdaLovelace", "email": "ada@example.com",
            "metadata": { "account": "usr_0123456789abcdefghij" },
        })
    );
    let again = scene.client.create_customer(&account(), None, "Ada\nLovelace", Some(&email)).await.unwrap();
    assert_eq!(again, id, "the same customer");
    assert_ne!(scene.client.create_customer(&account(), None, "Ada King", Some(&email)).await.unwrap(), id);
    assert_eq!(scene.client.kind(), ProviderKind::Mollie);
}

#[tokio::test]
async fn a_first_payment_leads_to_mollies_page() {
    let scene = Scene::start().await;
    let (customer, intent) = (scene.customer().await, scene.intent());
    let payment = scene.pay(&intent, &customer, PaymentSequence::First, 1_234).await.unwrap();
    let asked = scene.mollie.last_asked();
    assert_eq!((asked.method.clone(), asked.path.as_str()), (Method::POST, "/v2/payments"));
    assert_eq!(asked.header("idempotency-key"), intent.as_str());
    assert_eq!(
        asked.body,
        json!({
            "amount": { "currency": "EUR", "value": "12.34" },
            "description": "Pro, January 2026",
            "redirectUrl": "https://app.example/billing",
            "webhookUrl": "https://api.example/webhooks/payments",
            "sequenceType": "first",
            "customerId": customer,
            "metadata": { "intent_id": intent.as_str() },
        })
    );
    assert_eq!(
        (payment.state, payment.total, payment.order.as_ref()),
        (PaymentState::Open, Cents(1_234), Some(&intent))
    );
    assert!(payment.checkout_url.unwrap().as_str().starts_with("https://www.mollie.com/checkout/"));

    scene.mollie.settle(&payment.id, "paid");
    let paid = scene.client.payment(&payment.id).await.unwrap();
    assert_eq!(scene.mollie.last_asked().path, format!("/v2/payments/{}?embed=refunds%2Cchargebacks", payment.id));
    assert_eq!((paid.state, paid.method.as_deref(), paid.checkout_url), (PaymentState::Paid, Some("ideal"), None));
}

#[tokio::test]
async fn later_payments_need_the_mandate_and_nobodys_presence() {
    let scene = Scene::start().await;
    let customer = scene.payer().await;
    let recurring = async || scene.pay(&scene.intent(), &customer, PaymentSequence::Recurring, 2_420).await.unwrap();
    let paid = recurring().await;
    let body = scene.mollie.last_asked().body;
    assert_eq!((&body["sequenceType"], body.get("redirectUrl")), (&json!("recurring"), None));
    assert_eq!((paid.state, paid.checkout_url), (PaymentState::Paid, None));
    scene.mollie.recurring_become(Recurring::Pending);
    assert_eq!(recurring().await.state, PaymentState::Open);
    scene.mollie.recurring_become(Recurring::Failed);
    let failed = recurring().await;
    assert_eq!((failed.state, failed.failure.as_deref()), (PaymentState::Failed, Some("Insufficient funds")));
}

#[tokio::test]
async fn every_end_of_a_payment_is_told_apart() {
    let scene = Scene::start().await;
    let customer = scene.customer().await;
    for (status, state) in [
        ("pending", PaymentState::Open),
        ("authorized", PaymentState::Open),
        ("canceled", PaymentState::Canceled),
        ("expired", PaymentState::Expired),
        ("failed", PaymentState::Failed),
        ("paid", PaymentState::Paid),
    ] {
        let payment = scene.pay(&scene.intent(), &customer, PaymentSequence::First, 100).await.unwrap();
        scene.mollie.settle(&payment.id, status);
        assert_eq!(scene.client.payment(&payment.id).await.unwrap().state, state);
    }
    assert_eq!(scene.mollie.take_webhooks().len(), 6);
    let payment = scene.pay(&scene.intent(), &customer, PaymentSequence::First, 100).await.unwrap();
    scene.mollie.fail(&payment.id, "The card has expired");
    let failed = scene.client.payment(&payment.id).await.unwrap();
    assert_eq!((failed.state, failed.failure.as_deref()), (PaymentState::Failed, Some("The card has expired")));
}

#[tokio::test]
async fn a_mandate_may_be_pending_though_the_payment_was_paid() {
    let scene = Scene::start().await;
    scene.mollie.mandates_become("pending");
    let customer = scene.customer().await;
    assert_eq!(scene.client.mandate(&customer).await.unwrap(), MandateState::Missing);
    let first = scene.pay(&scene.intent(), &customer, PaymentSequence::First, 100).await.unwrap();
    scene.mollie.settle(&first.id, "paid");
    assert_eq!(scene.client.mandate(&customer).await.unwrap(), MandateState::Pending);
    assert_eq!(scene.mollie.last_asked().path, format!("/v2/customers/{customer}/mandates?limit=250"));
    scene.mollie.set_mandates(&customer, "valid");
    assert_eq!(scene.client.mandate(&customer).await.unwrap(), MandateState::Valid);
    scene.mollie.set_mandates(&customer, "invalid");
    assert_eq!(scene.client.mandate(&customer).await.unwrap(), MandateState::Missing);
}

#[tokio::test]
async fn refunds_and_charge_backs_are_read_with_their_payment() {
    let scene = Scene::start().await;
    scene.payer().await;
    let payment = scene.mollie.newest_payment();
    let id = ReversalId::new(scene.now());
    let refund = scene.refund(&id, &payment, 210).await.unwrap();
    let asked = scene.mollie.last_asked();
    assert_eq!((asked.method.clone(), asked.path.clone()), (Method::POST, format!("/v2/payments/{payment}/refunds")));
    assert_eq!(asked.header("idempotency-key"), id.as_str());
    assert_eq!(
        asked.body,
        json!({
            "amount": { "currency": "EUR", "value": "2.10" },
            "description": "Credit note CN-2026-000001",
            "metadata": { "reversal_id": id.as_str() },
        })
    );
    assert_eq!((refund.order.as_ref(), refund.state, refund.total), (Some(&id), ReversalState::Pending, Cents(210)));
    let chargeback = scene.mollie.charge_back(&payment, 1_000);

    let states = async || {
        let found = scene.client.payment(&payment).await.unwrap().reversals;
        found.iter().map(|one| (one.kind, one.id.clone(), one.state)).collect::<Vec<_>>()
    };
    let (refunded, taken) = ((ReversalKind::Refund, refund.id.clone()), (ReversalKind::Chargeback, chargeback.clone()));
    let expect =
        |refund, chargeback| vec![(refunded.0, refunded.1.clone(), refund), (taken.0, taken.1.clone(), chargeback)];
    assert_eq!(states().await, expect(ReversalState::Pending, ReversalState::Done));
    scene.mollie.set_refund(&refund.id, "canceled");
    scene.mollie.reverse_chargeback(&chargeback);
    assert_eq!(states().await, expect(ReversalState::Canceled, ReversalState::Canceled));
    scene.mollie.set_refund(&refund.id, "refunded");
    assert_eq!(states().await, expect(ReversalState::Done, ReversalState::Canceled));
    assert_eq!(scene.mollie.take_webhooks(), vec![payment.clone(); 5]);
    scene.mollie.refunds_become("refunded");
    let second = scene.refund(&ReversalId::new(scene.now()), &payment, 10).await.unwrap();
    assert_eq!(second.state, ReversalState::Done, "some methods give back while one waits");
}
