//! Checks that the billing rows agree with each other and with the provider's last reports.

use domain::{
    Timestamp,
    billing::invoice::{InvoiceKind, InvoiceSeries},
};
use sqlx::{PgExecutor, PgPool};

/// The kind of the payments with a discrepancy at the provider.
pub const AT_PROVIDER: &str = "at_provider";
/// The number of payments or subscriptions that one statement checks, in some tens of milliseconds.
const PAGE: i64 = 5_000;
/// The number of invoice numbers that one statement counts.
const NUMBERS: i32 = 50_000;

/// The numbers of rows that disagree. All are zero unless a program or a person made a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BillingDifferences {
    /// Payments for which the provider reports something that the ledger cannot follow.
    pub at_provider: i64,
    /// Paid payments without an invoice, or with an invoice of another amount.
    pub not_invoiced: i64,
    /// Payments whose credit notes do not add up to the invoiced money that went back.
    pub not_credited: i64,
    /// Payments that bought nothing, or were charged back, and were not fully returned.
    pub not_returned: i64,
    /// Number series with a gap.
    pub gaps: i64,
    /// Unpaid months of entitled subscriptions that are not due.
    pub not_paid: i64,
}

impl BillingDifferences {
    /// Returns each number with its kind.
    pub fn by_kind(&self) -> [(&'static str, i64); 6] {
        [
            (AT_PROVIDER, self.at_provider),
            ("not_invoiced", self.not_invoiced),
            ("not_credited", self.not_credited),
            ("not_returned", self.not_returned),
            ("gaps", self.gaps),
            ("not_paid", self.not_paid),
        ]
    }
}

/// Counts the disagreements page by page, so that the duration of a statement does not grow with the number of rows.
/// `overdue` is the end of a month so long ago that it should have been paid or given up.
pub async fn count_differences(db: &PgPool, overdue: Timestamp) -> Result<BillingDifferences, sqlx::Error> {
    let mut found = BillingDifferences {
        at_provider: count_at_provider(db).await?,
        gaps: count_gaps(db).await?,
        ..BillingDifferences::default()
    };
    let mut after = String::new();
    while let Some(page) = check_payments(db, &after).await? {
        found.not_invoiced += page.not_invoiced;
        found.not_credited += page.not_credited;
        found.not_returned += page.not_returned;
        after = page.last;
    }
    let mut after = String::new();
    while let Some(page) = check_subscriptions(db, &after, overdue).await? {
        found.not_paid += page.not_paid;
        after = page.last;
    }
    Ok(found)
}

/// Counts the payments for which the provider reports something that the ledger cannot follow.
pub async fn count_at_provider(db: impl PgExecutor<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM payments WHERE difference IS NOT NULL"#).fetch_one(db).await
}

struct PaymentsPage {
    last: String,
    not_invoiced: i64,
    not_credited: i64,
    not_returned: i64,
}

async fn check_payments(db: &PgPool, after: &str) -> Result<Option<PaymentsPage>, sqlx::Error> {
    let row = sqlx::query!(
        r#"WITH page AS MATERIALIZED (
               SELECT id, state, covers, net_cents, vat_cents, total_cents FROM payments
               WHERE id > $1 ORDER BY id LIMIT $2)
           SELECT max(p.id) AS last,
                  count(*) FILTER (
                      WHERE (p.state = 'paid') <> (i.id IS NOT NULL)
                         OR (i.net_cents, i.vat_cents, i.total_cents) <> (p.net_cents, p.vat_cents, p.total_cents))
                      AS "not_invoiced!",
                  count(*) FILTER (
                      WHERE LEAST(COALESCE(r.done, 0), p.total_cents) <> COALESCE(c.noted, 0) - COALESCE(c.restored, 0))
                      AS "not_credited!",
                  count(*) FILTER (
                      WHERE p.state = 'paid' AND NOT p.covers AND p.total_cents > COALESCE(r.begun, 0))
                      AS "not_returned!"
           FROM page p
                LEFT JOIN invoices i ON i.payment_id = p.id AND i.kind = 'invoice' AND i.restores IS NULL,
                LATERAL (SELECT sum(total_cents) FILTER (WHERE state = 'done') AS done,
                                sum(total_cents) FILTER (WHERE state <> 'canceled') AS begun
                         FROM payment_reversals WHERE payment_id = p.id) AS r,
                LATERAL (SELECT sum(total_cents) FILTER (WHERE kind = 'credit_note') AS noted,
                                sum(total_cents) FILTER (WHERE restores IS NOT NULL) AS restored
                         FROM invoices WHERE payment_id = p.id) AS c"#,
        after,
        PAGE,
    )
    .fetch_one(db)
    .await?;
    Ok(row.last.map(|last| PaymentsPage {
        last,
        not_invoiced: row.not_invoiced,
        not_credited: row.not_credited,
        not_returned: row.not_returned,
    }))
}

struct SubscriptionsPage {
    last: String,
    not_paid: i64,
}

async fn check_subscriptions(
    db: &PgPool,
    after: &str,
    overdue: Timestamp,
) -> Result<Option<SubscriptionsPage>, sqlx::Error> {
    // Past due or not, a plan lasts no longer than it was paid, plus the dunning: a later end means a charge that never
    // ends.
    let row = sqlx::query!(
        r#"WITH page AS MATERIALIZED (
               SELECT id, status, period, period_end FROM subscriptions WHERE id > $1 ORDER BY id LIMIT $2),
           judged AS (
               SELECT s.id, s.status = 'active' AND NOT EXISTS (
                                SELECT FROM payments p WHERE p.subscription_id = s.id AND p.period = s.period
                                   AND (p.state = 'paid' OR p.total_cents = 0))
                            OR s.status IN ('active', 'past_due') AND s.period_end < $3 AS is_not_paid
               FROM page s)
           SELECT max(id) AS last, count(*) FILTER (WHERE is_not_paid) AS "not_paid!" FROM judged"#,
        after,
        PAGE,
        overdue,
    )
    .fetch_one(db)
    .await?;
    Ok(row.last.map(|last| SubscriptionsPage { last, not_paid: row.not_paid }))
}

async fn count_gaps(db: &PgPool) -> Result<i64, sqlx::Error> {
    // Read all series in one statement, so that invoices issued while the pages are read do not count as gaps.
    let series = sqlx::query!(
        r#"SELECT kind AS "series: InvoiceSeries", year, last,
                  COALESCE((SELECT max(i.sequence) FROM invoices i
                            WHERE i.kind = replace(n.kind, 'play_', '') AND i.is_play = starts_with(n.kind, 'play_')
                              AND i.year = n.year), 0) AS "highest!"
           FROM invoice_numbers n"#
    )
    .fetch_all(db)
    .await?;
    let mut gaps = 0;
    for series in series {
        let (mut from, mut has_gap) = (0, series.highest > series.last);
        while !has_gap && from < series.last {
            let to = from.saturating_add(NUMBERS).min(series.last);
            let numbered = sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM invoices
                   WHERE kind = $1 AND is_play = $2 AND year = $3 AND sequence > $4 AND sequence <= $5"#,
                series.series.kind() as InvoiceKind,
                series.series.is_play(),
                series.year,
                from,
                to,
            )
            .fetch_one(db)
            .await?;
            has_gap = numbered != i64::from(to - from);
            from = to;
        }
        gaps += i64::from(has_gap);
    }
    Ok(gaps)
}
