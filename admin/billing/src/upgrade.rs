//! Upgrades that are not paid yet.
//!
//! An upgrade applies immediately, and its price is charged from the renewal on. To make sure it is charged at all, a
//! plan is left for a cheaper one only after a month of it was paid. An account that left a plan unpaid, by a
//! cancellation or by failed charges, gets its next upgrade only with a paid renewal.

use app::App;
use db::billing::{
    payments,
    subscriptions::{self, Subscription},
};
use domain::Account;
use sqlx::PgConnection;

/// Returns whether the subscription's plan costs more than the one charged for its present month.
pub(super) async fn is_unpaid(
    app: &App,
    conn: &mut PgConnection,
    subscription: &Subscription,
) -> Result<bool, sqlx::Error> {
    let charged = payments::find_month_plan(conn, &subscription.id, subscription.period).await?;
    let price = |plan: &str| app.plans().find(plan).map(|plan| plan.price_cents);
    let prices = charged.and_then(|charged| price(&charged)).zip(price(&subscription.plan));
    Ok(prices.is_some_and(|(charged, present)| charged < present))
}

/// Returns whether the account left a plan at the end of a subscription without paying as much for a month since.
pub(super) async fn has_left_unpaid_plan(
    app: &App,
    conn: &mut PgConnection,
    account: &Account,
) -> Result<bool, sqlx::Error> {
    let left = subscriptions::list_former_plans(&mut *conn, account).await?;
    if left.is_empty() {
        return Ok(false);
    }
    let paid = payments::list_paid_plans(conn, account).await?;
    let price = |plan: &str| app.plans().find(plan).map(|plan| plan.price_cents);
    Ok(left.iter().any(|(left, since)| {
        // A plan that is no longer configured has no price to compare.
        let Some(owed) = price(left) else { return false };
        !paid.iter().any(|(plan, at)| at >= since && price(plan).is_some_and(|paid| paid >= owed))
    }))
}
