//! Renewals: ends of months, failures, changes of plan, cancellations.

use ::payments::MandateState;
use admin_http::error::Code;
use db::audit::Actor;
use domain::billing::{
    payment::PaymentState,
    subscription::{EndReason, SubscriptionStatus},
};

use super::{Bench, DAY, at, payer, provider::ProviderFault};
use crate::{PlanChangeTime, cancel, change_plan, poll_by_provider_id, poll_due, renew_due, resume, upcoming};

#[tokio::test]
async fn months_end_on_the_anchor_s_day_through_a_leap_year() {
    let bench = Bench::start().await;
    bench.set_time("2027-12-31T12:00:00Z");
    let (account, _) = bench.subscriber("NL", "pro").await;
    let mut ends = Vec::new();
    for _ in 0..4 {
        let current = bench.current(&account).await.unwrap();
        let next = upcoming(&bench.app, &account).await.unwrap().unwrap();
        assert_eq!(Some(next.charged_at), current.period_end);
        *bench.time.lock().unwrap() = current.period_end.unwrap();
        bench.work().await;
        let charged = bench.invoices(&account).await.pop().unwrap();
        assert_eq!((charged.total_cents, charged.vat_cents), (next.total, next.vat));
        ends.push(bench.current(&account).await.unwrap().period_end.unwrap());
    }
    let wanted = ["2028-02-29", "2028-03-31", "2028-04-30", "2028-05-31"];
    assert_eq!(ends, wanted.map(|day| at(&format!("{day}T12:00:00Z"))));
    let numbers: Vec<_> = bench.numbered(&account).await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, ["2027-000001", "2028-000001", "2028-000002", "2028-000003", "2028-000004"]);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn failures_are_tried_on_schedule_and_end_on_the_free_plan() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.failures), (SubscriptionStatus::PastDue, 1));
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"), "until the last attempt");
    bench.days(20).await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'failed'").await, 5);
    assert_eq!(bench.letters("payment_failed").await, 5);
    assert_eq!(bench.letters("subscription_ended").await, 1);
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE end_reason = 'unpaid'").await, 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_that_succeeds_later_pays_the_same_month() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    bench.provider.known().recurring = PaymentState::Paid;
    bench.days(2).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period, current.failures), (SubscriptionStatus::Active, 1, 0));
    assert_eq!(current.period_end, Some(at("2027-01-23T10:00:00Z")));
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_cut_off_between_intent_and_provider_is_made_once() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.set_time("2026-12-23T10:00:00Z");
    // The first payment is polled now, so that it takes no part in the fault.
    poll_due(&bench.app, 10).await.unwrap();
    bench.provider.known().faults.push_back(ProviderFault::Away);
    renew_due(&bench.app, 10).await.unwrap();
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'intended'").await, 1);
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    bench.pass(DAY / 24);
    // The mandate request succeeds and the payment is made, but its response is lost.
    bench.provider.call_ok_then(ProviderFault::AnswerLost);
    bench.work().await;
    bench.pass(DAY / 24);
    bench.work().await;
    assert_eq!(bench.provider.known().payments.len(), 2);
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    assert_eq!(bench.invoices(&account).await.len(), 2);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn two_admins_renew_a_subscription_once() {
    let bench = Bench::start().await;
    let mut accounts = Vec::new();
    for _ in 0..5 {
        accounts.push(bench.subscriber("NL", "pro").await.0);
    }
    bench.set_time("2026-12-23T10:00:00Z");
    let runs = (0..4).map(|_| renew_due(&bench.app, 2));
    let runs: Vec<_> = futures_util::future::join_all(runs).await;
    let renewed: usize = runs.into_iter().map(Result::unwrap).sum();
    bench.work().await;
    assert_eq!((renewed, bench.provider.known().payments.len()), (5, 10));
    for account in &accounts {
        assert_eq!(bench.invoices(account).await.len(), 2);
    }
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn an_open_charge_keeps_the_plan_and_webhooks_in_any_order_settle_it() {
    let bench = Bench::start().await;
    let (account, first) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Open;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    let second = bench.provider.last().id;
    bench.days(9).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period), (SubscriptionStatus::Active, 0));
    bench.pay(&second).await;
    for id in [&first, &second, &second, &first] {
        poll_by_provider_id(&bench.app, id).await.unwrap();
    }
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    assert_eq!(bench.invoices(&account).await.len(), 2);
    bench.stop().await;
}

#[tokio::test]
async fn a_pending_mandate_is_waited_for() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().mandate = MandateState::Pending;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    bench.days(2).await;
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::Active);
    assert_eq!(bench.provider.known().payments.len(), 1);
    bench.days(2).await;
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::PastDue);
    bench.provider.known().mandate = MandateState::Valid;
    bench.days(2).await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    bench.stop().await;
}

#[tokio::test]
async fn cancelled_subscriptions_end_with_the_month_and_can_be_resumed_before() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    cancel(&bench.app, Actor::Platform, &payer(&account)).await.unwrap();
    cancel(&bench.app, Actor::Platform, &payer(&account)).await.unwrap();
    assert_eq!(upcoming(&bench.app, &account).await.unwrap(), None);
    resume(&bench.app, Actor::Platform, &payer(&account)).await.unwrap();
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    cancel(&bench.app, Actor::Platform, &payer(&account)).await.unwrap();
    bench.set_time("2027-01-23T09:59:59Z");
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    bench.set_time("2027-01-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!(bench.provider.known().payments.len(), 2);
    let refused = resume(&bench.app, Actor::Platform, &payer(&account)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidRequest);
    bench.stop().await;
}

#[tokio::test]
async fn a_cancelled_subscription_whose_charge_is_open_follows_the_charge() {
    for (state, is_entitled) in [(PaymentState::Paid, true), (PaymentState::Failed, false)] {
        let bench = Bench::start().await;
        let (account, _) = bench.subscriber("NL", "pro").await;
        bench.provider.known().recurring = PaymentState::Open;
        bench.set_time("2026-12-23T10:00:00Z");
        bench.work().await;
        cancel(&bench.app, Actor::Platform, &payer(&account)).await.unwrap();
        let id = bench.provider.last().id;
        bench.turn(&id, state).await;
        bench.work().await;
        assert_eq!(bench.entitled(&account).await.is_some(), is_entitled);
        bench.set_time("2027-01-23T10:00:00Z");
        bench.work().await;
        assert_eq!(bench.current(&account).await, None);
        bench.assert_reconciled().await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_charge_that_is_paid_after_the_end_revives_or_is_given_back() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    bench.days(18).await;
    assert_eq!(bench.current(&account).await, None);
    let last = bench.provider.last().id;
    bench.pay(&last).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period), (SubscriptionStatus::Active, 1));
    assert_eq!(current.end_reason, None::<EndReason>);
    // Another failed charge for the same month is paid as well.
    let other = bench.provider.known().payments[1].id.clone();
    bench.pay(&other).await;
    bench.work().await;
    assert_eq!(bench.provider.calls("refund"), 1);
    bench.stop().await;
}

#[tokio::test]
async fn upgrades_apply_now_and_downgrades_at_renewal() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    let change = async |plan: &'static str| change_plan(&bench.app, Actor::Platform, &payer(&account), plan).await;
    assert_eq!(change("business").await.unwrap(), PlanChangeTime::Immediately);
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("business"));
    assert_eq!(bench.invoices(&account).await.len(), 1, "the new price is charged at the renewal");
    let dear = upcoming(&bench.app, &account).await.unwrap().unwrap();
    // Business is paid for one month first.
    *bench.time.lock().unwrap() = bench.current(&account).await.unwrap().period_end.unwrap();
    bench.work().await;
    assert_eq!(bench.invoices(&account).await.pop().unwrap().total_cents, dear.total);
    let end = bench.current(&account).await.unwrap().period_end.unwrap();
    assert_eq!(change("pro").await.unwrap(), PlanChangeTime::AtRenewal(end));
    let cheap = upcoming(&bench.app, &account).await.unwrap().unwrap();
    assert!(cheap.total < dear.total && cheap.plan == "pro");
    assert_eq!(change("business").await.unwrap(), PlanChangeTime::Immediately);
    assert_eq!(bench.current(&account).await.unwrap().next_plan, None);
    change("pro").await.unwrap();
    *bench.time.lock().unwrap() = end;
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    assert_eq!(bench.invoices(&account).await.pop().unwrap().total_cents, cheap.total);
    assert_eq!(change("free").await.unwrap_err().code(), Code::InvalidRequest);
    bench.stop().await;
}

#[tokio::test]
async fn a_downgrade_is_refused_by_name_while_there_is_more_than_it_allows() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "business").await;
    let projects = "INSERT INTO projects (id, name, user_id, created_at)
                    SELECT 'prj_' || lpad(n::text, 20, '0'), 'p' || n, $1, $2 FROM generate_series(1, 501) n";
    sqlx::query(projects).bind(account.as_str()).bind(bench.now()).execute(&bench.app.db).await.unwrap();
    let refused = change_plan(&bench.app, Actor::Platform, &payer(&account), "pro").await.unwrap_err();
    assert_eq!(refused.code(), Code::PlanLimitReached);
    assert_eq!(refused.message(), "Pro allows 500 projects, and there are 501; remove what is over first.");
    sqlx::query("DELETE FROM projects WHERE name = 'p1'").execute(&bench.app.db).await.unwrap();
    change_plan(&bench.app, Actor::Platform, &payer(&account), "pro").await.unwrap();
    assert_eq!(bench.current(&account).await.unwrap().next_plan.as_deref(), Some("pro"));
    bench.stop().await;
}

#[tokio::test]
async fn the_rate_of_the_month_s_first_day_is_charged() {
    let bench = Bench::start().await;
    bench.set_time("2025-06-10T10:00:00Z");
    let (account, _) = bench.subscriber("EE", "pro").await;
    bench.set_time("2025-07-10T10:00:00Z");
    bench.work().await;
    bench.move_to(&account, "DE", Some("DE123456789")).await;
    bench.set_time("2025-08-10T10:00:00Z");
    bench.work().await;
    let rates = bench.invoices(&account).await.into_iter().map(|i| i.vat_cents.0 * 10_000 / i.net_cents.0);
    assert_eq!(rates.collect::<Vec<_>>(), [2_200, 2_400, 0]);
    bench.stop().await;
}
