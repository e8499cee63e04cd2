//! Checkouts and first payments.

use admin_http::error::Code;
use db::audit::Actor;
use domain::{
    PaymentId,
    billing::{
        invoice::InvoiceStatus,
        payment::{PaymentState, ReversalState},
        subscription::SubscriptionStatus,
    },
};

use super::{Bench, DAY, payer, provider::ProviderFault};
use crate::{InvoiceContent, checkout, poll_by_provider_id};

#[tokio::test]
async fn a_paid_checkout_entitles_and_is_invoiced_once() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let id = bench.begin(&account, "pro").await;
    assert_eq!(bench.begin(&account, "pro").await, id, "the same page while it can be paid");
    assert_eq!(bench.entitled(&account).await, None, "a checkout is no payment");
    bench.pay(&id).await;
    // Reported again, and afterwards in another order.
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    let invoices = bench.invoices(&account).await;
    let [invoice] = &*invoices else { panic!("{invoices:?}") };
    assert_eq!((&*invoice.number, invoice.amounts().vat.0 * 100 / invoice.amounts().net.0), ("2026-000001", 21));
    let content: InvoiceContent = serde_json::from_value(invoice.content.clone()).unwrap();
    assert_eq!(content.lines.iter().map(|line| line.net).sum::<domain::billing::Cents>(), content.amounts.net);
    assert_eq!((content.payment.is_play, content.lines[0].period_start), (false, Some(bench.now())));
    assert_eq!(bench.letters("invoice").await, 1);
    let refused = checkout(&bench.app, Actor::Platform, &payer(&account), "business").await.unwrap_err();
    assert_eq!(refused.code(), Code::SubscriptionActive);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_checkout_needs_a_provider_a_price_and_details() {
    let mut bench = Bench::start().await;
    let account = bench.person("NL").await;
    let code = async |bench: &Bench, account, plan| {
        checkout(&bench.app, Actor::Platform, &payer(account), plan).await.unwrap_err().code()
    };
    assert_eq!(code(&bench, &account, "free").await, Code::InvalidRequest);
    assert_eq!(code(&bench, &account, "gold").await, Code::InvalidRequest);
    let stranger = domain::UserId::new(bench.now()).into();
    let refused = checkout(&bench.app, Actor::Platform, &payer(&stranger), "pro").await.unwrap_err();
    assert!(refused.message().contains("PUT /billing/profile"), "{refused:?}");
    bench.app.payments = None;
    assert_eq!(code(&bench, &account, "pro").await, Code::BillingUnavailable);
    bench.stop().await;
}

#[tokio::test]
async fn an_answer_that_was_lost_makes_no_second_payment() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    bench.begin(&account, "pro").await;
    let other = bench.person("DE").await;
    // The customer is known; the payment is made, but the response is lost.
    bench.provider.call_ok_then(ProviderFault::AnswerLost);
    let refused = checkout(&bench.app, Actor::Platform, &payer(&other), "pro").await.unwrap_err();
    assert_eq!(refused.code(), Code::BillingUnavailable);
    bench.provider.known().faults.extend([ProviderFault::Busy]);
    checkout(&bench.app, Actor::Platform, &payer(&other), "pro").await.unwrap_err();
    let id = bench.begin(&other, "pro").await;
    assert_eq!(bench.provider.known().payments.len(), 2);
    // Its webhook arrives although we never received the id.
    bench.pay(&id).await;
    assert_eq!(bench.entitled(&other).await.as_deref(), Some("pro"));
    bench.stop().await;
}

#[tokio::test]
async fn a_webhook_before_the_answer_is_settled_by_our_own_id() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    bench.begin(&bench.person("NL").await, "pro").await;
    // The customer and the payment are created, but the response is lost: only the provider knows the payment's id.
    let customer = async |bench: &Bench| checkout(&bench.app, Actor::Platform, &payer(&account), "pro").await;
    bench.provider.known().faults.extend([ProviderFault::Away]);
    customer(&bench).await.unwrap_err();
    let told = customer(&bench).await.unwrap();
    sqlx::query("UPDATE payments SET state = 'intended', provider_id = NULL WHERE account = $1")
        .bind(account.as_str())
        .execute(&bench.app.db)
        .await
        .unwrap();
    let id = bench.provider.last().id;
    bench.pay(&id).await;
    assert!(told.as_str().starts_with("https://pay.example/"));
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    poll_by_provider_id(&bench.app, "tr_nobody").await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn what_was_not_paid_ends_and_what_is_paid_late_is_entitled() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let id = bench.begin(&account, "pro").await;
    bench.turn(&id, PaymentState::Expired).await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!(bench.letters("subscription_ended").await, 0, "nothing that was had has ended");
    bench.pass(DAY);
    bench.pay(&id).await;
    let subscription = bench.current(&account).await.unwrap();
    assert_eq!((subscription.status, subscription.anchored_at), (SubscriptionStatus::Active, Some(bench.now())));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn the_payment_of_a_replaced_checkout_is_given_back() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let pro = bench.begin(&account, "pro").await;
    bench.pass(DAY / 24);
    let business = bench.begin(&account, "business").await;
    assert_ne!(pro, business);
    bench.pay(&business).await;
    bench.pay(&pro).await;
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("business"));
    assert_eq!(bench.provider.calls("refund"), 1);
    bench.provider.move_reversals(ReversalState::Pending, ReversalState::Done);
    poll_by_provider_id(&bench.app, &pro).await.unwrap();
    let statuses: Vec<_> = bench.invoices(&account).await.into_iter().map(|i| (i.number, i.status)).collect();
    let wanted = [
        ("2026-000001", InvoiceStatus::Paid),
        ("2026-000002", InvoiceStatus::Refunded),
        ("CN-2026-000001", InvoiceStatus::Paid),
    ];
    assert_eq!(statuses, wanted.map(|(number, status)| (number.to_owned(), status)));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_replaced_checkout_that_expires_changes_nothing() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let pro = bench.begin(&account, "pro").await;
    bench.pass(DAY / 24);
    let business = bench.begin(&account, "business").await;
    bench.pay(&business).await;
    bench.turn(&pro, PaymentState::Expired).await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("business"));
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE end_reason = 'replaced'").await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn two_lookers_settle_a_payment_once() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let (pro, business) = (bench.begin(&account, "pro").await, bench.begin(&account, "business").await);
    bench.provider.set(&pro, PaymentState::Paid);
    bench.provider.set(&business, PaymentState::Paid);
    let looks = [&pro, &business, &pro, &business, &pro, &business].map(|id| poll_by_provider_id(&bench.app, id));
    for looked in futures_util::future::join_all(looks).await {
        looked.unwrap();
    }
    assert_eq!(bench.invoices(&account).await.len(), 2);
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'paid' AND covers").await, 1);
    assert_eq!(bench.count("SELECT count(*) FROM payment_reversals").await, 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_payment_of_another_amount_is_left_to_a_person() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let id = bench.begin(&account, "pro").await;
    bench.provider.known().payments[0].total.0 += 1;
    bench.pay(&id).await;
    assert_eq!(bench.entitled(&account).await, None);
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE difference IS NOT NULL").await, 1);
    let unknown: Option<PaymentId> = None;
    bench.provider.known().payments[0].order = unknown;
    bench.provider.known().payments[0].total.0 -= 1;
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_provider_that_has_forgotten_everything_is_begun_with_anew() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let before = bench.begin(&account, "pro").await;
    bench.provider.known().payments.clear();
    let after = bench.begin(&account, "pro").await;
    assert_ne!(before, after);
    assert_eq!(bench.provider.calls("create_customer"), 2);
    bench.pay(&after).await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    bench.stop().await;
}
