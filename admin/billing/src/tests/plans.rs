//! Plan changes, up and down: their charges, and what may be created meanwhile.

use db::billing::plan::{self, ChargedPlan};
use domain::{Account, billing::payment::PaymentState, plans::LimitKind};

use super::{Bench, payer};
use crate::{PlanChangeTime, cancel, change_plan, upcoming};

async fn change(bench: &Bench, account: &Account, plan: &str) -> PlanChangeTime {
    change_plan(&bench.app, db::audit::Actor::Platform, &payer(account), plan).await.unwrap()
}

/// Lets the month end, checks that the next charge was predicted to the cent, and returns it.
async fn renew(bench: &Bench, account: &Account) -> (String, i64) {
    let foretold = upcoming(&bench.app, account).await.unwrap().unwrap();
    let end = bench.current(account).await.unwrap().period_end.unwrap();
    assert_eq!(foretold.charged_at, end);
    *bench.time.lock().unwrap() = end;
    bench.work().await;
    let charged = bench.invoices(account).await.pop().unwrap();
    assert_eq!(charged.total_cents, foretold.total);
    assert_eq!(bench.entitled(account).await.as_ref(), Some(&foretold.plan));
    (foretold.plan, charged.net_cents.0)
}

#[tokio::test]
async fn up_and_down_each_month_pays_for_every_other_month_of_the_dearer_plan() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    let mut charged = Vec::new();
    for _ in 0..3 {
        assert_eq!(change(&bench, &account, "business").await, PlanChangeTime::Immediately);
        let current = bench.current(&account).await.unwrap();
        let after_next = current.month_start(current.due_period + 1).unwrap();
        assert_eq!(change(&bench, &account, "pro").await, PlanChangeTime::AtRenewal(after_next), "once it was paid");
        assert_eq!(upcoming(&bench.app, &account).await.unwrap().unwrap().plan, "business");
        charged.push(renew(&bench, &account).await);
        charged.push(renew(&bench, &account).await);
    }
    let pair = [("business".to_owned(), 10_000), ("pro".to_owned(), 2_000)];
    assert_eq!(charged, [pair.clone(), pair.clone(), pair].concat());
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_plan_that_was_paid_is_left_with_the_next_month() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    change(&bench, &account, "business").await;
    assert_eq!(renew(&bench, &account).await.0, "business");
    let end = bench.current(&account).await.unwrap().period_end.unwrap();
    assert_eq!(change(&bench, &account, "pro").await, PlanChangeTime::AtRenewal(end));
    assert_eq!(renew(&bench, &account).await.0, "pro");
    bench.stop().await;
}

async fn credit(bench: &Bench, account: &Account) -> u32 {
    let ChargedPlan { subscribed, charged } = plan::charged_plan(&bench.app.db, account).await.unwrap();
    bench.app.plans().paid_limits_for(subscribed.as_deref(), charged.as_deref()).ai_credit_cents
}

#[tokio::test]
async fn the_credit_of_an_upgrade_is_in_reach_once_it_is_paid() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    assert_eq!(credit(&bench, &account).await, 3_000);
    assert_eq!(change(&bench, &account, "business").await, PlanChangeTime::Immediately);
    assert_eq!(credit(&bench, &account).await, 3_000);
    let told = "SELECT (SELECT count(*) FROM route_changes) + (SELECT count(*) FROM pending_route_changes)";
    let before = bench.count(told).await;
    renew(&bench, &account).await;
    assert_eq!(credit(&bench, &account).await, 15_000);
    assert!(bench.count(told).await > before, "the edges are told");
    // The downgrade applies a month later, and until then everything paid for is available.
    change(&bench, &account, "pro").await;
    assert_eq!(credit(&bench, &account).await, 15_000);
    renew(&bench, &account).await;
    assert_eq!(credit(&bench, &account).await, 3_000);
    bench.stop().await;
}

#[tokio::test]
async fn the_credit_of_an_upgrade_that_is_never_paid_stays_out_of_reach() {
    for is_canceled in [true, false] {
        let bench = Bench::start().await;
        let (account, _) = bench.subscriber("NL", "pro").await;
        change(&bench, &account, "business").await;
        if is_canceled {
            cancel(&bench.app, db::audit::Actor::Platform, &payer(&account)).await.unwrap();
        }
        bench.provider.known().recurring = PaymentState::Failed;
        let mut most = 0;
        while bench.current(&account).await.is_some() {
            most = most.max(credit(&bench, &account).await);
            bench.days(1).await;
        }
        assert_eq!((most, credit(&bench, &account).await), (3_000, 100));
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_plan_that_was_left_unpaid_is_next_had_with_the_renewal() {
    for is_canceled in [true, false] {
        let bench = Bench::start().await;
        let (account, _) = bench.subscriber("NL", "pro").await;
        change(&bench, &account, "business").await;
        if is_canceled {
            cancel(&bench.app, db::audit::Actor::Platform, &payer(&account)).await.unwrap();
        }
        bench.provider.known().recurring = PaymentState::Failed;
        bench.days(50).await;
        assert_eq!(bench.current(&account).await, None);
        bench.provider.known().recurring = PaymentState::Paid;
        // The month of Business was never paid; the account gets no other before it is.
        let again = bench.begin(&account, "pro").await;
        bench.pay(&again).await;
        let end = bench.current(&account).await.unwrap().period_end.unwrap();
        assert_eq!(change(&bench, &account, "business").await, PlanChangeTime::AtRenewal(end));
        assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
        assert_eq!(renew(&bench, &account).await, ("business".to_owned(), 10_000));
        // It is paid now, and an upgrade applies immediately as before.
        change(&bench, &account, "pro").await;
        renew(&bench, &account).await;
        assert_eq!(change(&bench, &account, "business").await, PlanChangeTime::Immediately);
        bench.assert_reconciled().await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn what_the_smaller_plan_to_come_has_no_room_for_is_not_made() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "business").await;
    let (plans, db) = (bench.app.plans(), &bench.app.db);
    let allowed = async |limit, wanted| plan::allowance(db, plans, &account).await.unwrap().check(limit, wanted);
    assert_eq!(allowed(LimitKind::Projects, 501).await, Ok(()));
    change(&bench, &account, "pro").await;
    assert_eq!(allowed(LimitKind::Projects, 500).await, Ok(()));
    let reached = allowed(LimitKind::Projects, 501).await.unwrap_err();
    assert_eq!((reached.allowed, reached.larger.as_deref()), (500, Some("Business")), "which takes the change back");
    for limit in [LimitKind::Orgs, LimitKind::Members, LimitKind::Domains, LimitKind::Shares, LimitKind::StoredBytes] {
        let most = limit.value_in(&plans.find("pro").unwrap().limits);
        assert_eq!(allowed(limit, most).await, Ok(()));
        assert_eq!(allowed(limit, most + 1).await.unwrap_err().allowed, most);
    }
    // What the month uses up is bounded by the paid plan until the month ends.
    let limits = plan::limits(db, plans, &account).await.unwrap();
    assert_eq!(limits, plans.find("business").unwrap().limits);
    change(&bench, &account, "business").await;
    assert_eq!(allowed(LimitKind::Projects, 501).await, Ok(()));
    bench.stop().await;
}
