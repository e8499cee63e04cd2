//! Upgrades that nobody has paid for yet.
//!
//! An upgrade applies immediately, and its price is charged from the renewal on. So that it is charged at all, a plan is
//! left for a cheaper one only once a month of it was paid; and who has left one unpaid, by a cancellation or by charges
//! that failed, has the next upgrade with a renewal, when it is paid.

use db::billing::{
    payments,
    subscriptions::{self, Subscription},
};
use domain::Account;
use sqlx::PgConnection;

use crate::app::App;

/// Returns whether the subscription's plan costs more than the one for which its present month was charged.
pub(super) async fn is_unpaid(
    app: &App,
    conn: &mut PgConnection,
    subscription: &Subscription,
) -> Result<bool, sqlx::Error> {
    let charged = payments::plan_of_month(conn, &subscription.id, subscription.period).await?;
    let price = |plan: &str| app.plans().find(plan).map(|plan| plan.price_cents);
    let prices = charged.and_then(|charged| price(&charged)).zip(price(&subscription.plan));
    Ok(prices.is_some_and(|(charged, present)| charged < present))
}

/// Returns whether the account has had a plan to the end of a subscription without paying as much for a month since.
pub(super) async fn was_left_unpaid(
    app: &App,
    conn: &mut PgConnection,
    account: &Account,
) -> Result<bool, sqlx::Error> {
    let left = subscriptions::plans_left(&mut *conn, account).await?;
    if left.is_empty() {
        return Ok(false);
    }
    let paid = payments::plans_paid(conn, account).await?;
    let price = |plan: &str| app.plans().find(plan).map(|plan| plan.price_cents);
    Ok(left.iter().any(|(left, since)| {
        // A plan that the configuration has no more cannot be compared.
        let Some(owed) = price(left) else { return false };
        !paid.iter().any(|(plan, at)| at >= since && price(plan).is_some_and(|paid| paid >= owed))
    }))
}
