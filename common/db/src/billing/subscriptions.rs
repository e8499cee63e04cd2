//! Subscriptions of accounts to plans.

use domain::{
    Account, SubscriptionId, Timestamp, UserId,
    billing::{
        period::months_after,
        subscription::{EndReason, SubscriptionStatus},
    },
};
use sqlx::{PgConnection, PgExecutor};

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The id.
    pub id: SubscriptionId,
    /// The subscribed account.
    pub account: Account,
    /// The owner of the organization who gave the mandate that is charged; `None` for a person's own subscription, and
    /// where it is not known.
    pub payer: Option<UserId>,
    /// The id of the plan.
    pub plan: String,
    /// The id of the plan from the next month on, if it differs.
    pub next_plan: Option<String>,
    /// The state.
    pub status: SubscriptionStatus,
    /// The time of the first payment, from which the months are counted; `None` while the subscription is pending.
    pub anchored_at: Option<Timestamp>,
    /// The number of the current month, starting at 0.
    pub period: i32,
    /// The start of the current month.
    pub period_start: Option<Timestamp>,
    /// The end of the current month.
    pub period_end: Option<Timestamp>,
    /// The number of the month that is charged next: the next month, or the current one after its payment was reversed.
    pub due_period: i32,
    /// Whether it ends with the current month.
    pub cancel_at_period_end: bool,
    /// The number of failed charges for the due month.
    pub failures: i32,
    /// The time a job next works on it; `None` while it waits for the payer or the provider.
    pub next_attempt_at: Option<Timestamp>,
    /// The creation time.
    pub created_at: Timestamp,
    /// The time it ended.
    pub ended_at: Option<Timestamp>,
    /// The reason it ended.
    pub end_reason: Option<EndReason>,
}

impl Subscription {
    /// Returns the start of a month; `None` while the subscription is pending.
    pub fn month_start(&self, period: i32) -> Option<Timestamp> {
        Some(months_after(self.anchored_at?, u32::try_from(period).ok()?))
    }

    /// Makes `period` the current month, and the following month the next to be charged.
    pub fn begin_period(&mut self, period: i32) {
        self.period = period;
        self.due_period = period.saturating_add(1);
        (self.period_start, self.period_end) = (self.month_start(period), self.month_start(self.due_period));
        self.next_attempt_at = self.period_end;
        self.failures = 0;
    }
}

/// Reads subscriptions. The literal follows `FROM subscriptions`.
macro_rules! select_subscriptions {
    ($rest:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            Subscription,
            "SELECT id, account, payer, plan, next_plan, status, anchored_at, period, period_start, period_end, due_period,
                    cancel_at_period_end, failures, next_attempt_at, created_at, ended_at, end_reason
             FROM subscriptions " + $rest,
            $($argument),*
        )
    };
}

/// Returns the account's subscription: the entitled one, otherwise the newest that waits for its first payment.
pub async fn current(db: impl PgExecutor<'_>, account: &Account) -> Result<Option<Subscription>, sqlx::Error> {
    select_subscriptions!(
        "WHERE account = $1 AND status <> 'ended' ORDER BY status = 'pending', id DESC LIMIT 1",
        account.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns the subscription that [`current`] returns, otherwise the one that ended last.
pub async fn latest(db: impl PgExecutor<'_>, account: &Account) -> Result<Option<Subscription>, sqlx::Error> {
    select_subscriptions!(
        "WHERE account = $1
         ORDER BY status = 'ended', status = 'pending', ended_at DESC, id DESC LIMIT 1",
        account.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns the plans of the account's ended subscriptions, each with the start of its last month.
pub async fn list_former_plans(
    db: impl PgExecutor<'_>,
    account: &Account,
) -> Result<Vec<(String, Timestamp)>, sqlx::Error> {
    let left = sqlx::query!(
        r#"SELECT plan, max(period_start) AS "since!: Timestamp" FROM subscriptions
           WHERE account = $1 AND status = 'ended' AND period_start IS NOT NULL GROUP BY plan"#,
        account.as_str(),
    )
    .fetch_all(db)
    .await?;
    Ok(left.into_iter().map(|left| (left.plan, left.since)).collect())
}

/// Locks the account's subscriptions until the end of the transaction, and returns them, the oldest first.
pub async fn lock(conn: &mut PgConnection, account: &Account) -> Result<Vec<Subscription>, sqlx::Error> {
    select_subscriptions!("WHERE account = $1 ORDER BY id FOR NO KEY UPDATE", account.as_str()).fetch_all(conn).await
}

/// Locks at most `limit` due subscriptions, the longest due first, skipping those that another transaction has locked.
pub async fn lock_due(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Result<Vec<Subscription>, sqlx::Error> {
    select_subscriptions!(
        "WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED",
        now,
        limit,
    )
    .fetch_all(conn)
    .await
}

/// A due subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSubscription {
    /// The id.
    pub id: SubscriptionId,
    /// The start of the due month.
    pub since: Timestamp,
}

/// Returns at most `limit` due subscriptions, the longest due first, reading only the returned columns.
pub async fn list_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DueSubscription>, sqlx::Error> {
    sqlx::query_as!(
        DueSubscription,
        r#"SELECT id, COALESCE(CASE WHEN due_period > period THEN period_end ELSE period_start END, created_at)
                      AS "since!: Timestamp"
           FROM subscriptions WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2"#,
        now,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Locks one due subscription; `None` when it is not due or another transaction has locked it.
pub async fn lock_one_due(
    conn: &mut PgConnection,
    id: &SubscriptionId,
    now: Timestamp,
) -> Result<Option<Subscription>, sqlx::Error> {
    select_subscriptions!("WHERE id = $1 AND next_attempt_at <= $2 FOR NO KEY UPDATE SKIP LOCKED", id.as_str(), now)
        .fetch_optional(conn)
        .await
}

/// Postpones a subscription's due work to `next`.
pub async fn postpone(
    db: impl PgExecutor<'_>,
    id: &SubscriptionId,
    now: Timestamp,
    next: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE subscriptions SET next_attempt_at = $3 WHERE id = $1 AND next_attempt_at <= $2",
        id.as_str(),
        now,
        next,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns whether the mandate that an organization's subscription is charged to may no longer be: the person who gave
/// it is no owner any more, or is suspended and can decide nothing.
pub async fn is_mandate_gone(db: impl PgExecutor<'_>, subscription: &Subscription) -> Result<bool, sqlx::Error> {
    let Some(payer) = &subscription.payer else { return Ok(false) };
    sqlx::query_scalar!(
        r#"SELECT NOT EXISTS (SELECT FROM org_members WHERE org_id = $1 AND user_id = $2 AND role = 'owner')
                  OR EXISTS (SELECT FROM account_suspensions WHERE account = $2) AS "is_gone!""#,
        subscription.account.as_str(),
        payer.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Returns whether the person who gave the mandate of an organization's subscription is no owner any more.
pub async fn has_payer_left(db: impl PgExecutor<'_>, id: &SubscriptionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM subscriptions s JOIN orgs o ON o.id = s.account
               WHERE s.id = $1 AND s.payer IS NOT NULL AND NOT EXISTS (
                   SELECT FROM org_members m WHERE m.org_id = o.id AND m.user_id = s.payer AND m.role = 'owner')
           ) AS "has_left!""#,
        id.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Returns the person whose mandate a subscription is charged to, as [`Subscription::payer`].
pub async fn find_payer(db: impl PgExecutor<'_>, id: &SubscriptionId) -> Result<Option<UserId>, sqlx::Error> {
    let payer = sqlx::query_scalar!("SELECT payer FROM subscriptions WHERE id = $1", id.as_str());
    Ok(payer.fetch_optional(db).await?.flatten())
}

/// Inserts a subscription that waits for its first payment.
pub async fn insert(
    conn: &mut PgConnection,
    id: &SubscriptionId,
    account: &Account,
    payer: Option<&UserId>,
    plan: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO subscriptions (id, account, payer, plan, status, created_at)
         VALUES ($1, $2, $3, $4, 'pending', $5)",
        id.as_str(),
        account.as_str(),
        payer.map(UserId::as_str),
        plan,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Marks a payer's ended subscriptions of an account: one that a late payment revives ends with the paid month.
pub async fn cancel_ended(conn: &mut PgConnection, account: &Account, payer: &UserId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE subscriptions SET cancel_at_period_end = true
         WHERE account = $1 AND payer = $2 AND status = 'ended' AND NOT cancel_at_period_end",
        account.as_str(),
        payer.as_str(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Updates a subscription that the transaction has locked.
pub async fn store(conn: &mut PgConnection, subscription: &Subscription) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE subscriptions SET plan = $2, next_plan = $3, status = $4, anchored_at = $5, period = $6,
             period_start = $7, period_end = $8, due_period = $9, cancel_at_period_end = $10, failures = $11,
             next_attempt_at = $12, ended_at = $13, end_reason = $14
         WHERE id = $1",
        subscription.id.as_str(),
        subscription.plan,
        subscription.next_plan,
        subscription.status as SubscriptionStatus,
        subscription.anchored_at as Option<Timestamp>,
        subscription.period,
        subscription.period_start as Option<Timestamp>,
        subscription.period_end as Option<Timestamp>,
        subscription.due_period,
        subscription.cancel_at_period_end,
        subscription.failures,
        subscription.next_attempt_at as Option<Timestamp>,
        subscription.ended_at as Option<Timestamp>,
        subscription.end_reason as Option<EndReason>,
    )
    .execute(conn)
    .await
    .map(drop)
}
