//! The proof that the rows of billing agree with each other, and with what the provider said when it was last asked.

use domain::Timestamp;
use sqlx::PgExecutor;

/// The numbers of rows that do not agree. All are zero unless a program or a person has made a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Differences {
    /// Payments of which the provider says what the ledger cannot follow.
    pub at_provider: i64,
    /// Paid payments without their invoice, or invoiced with another amount.
    pub not_invoiced: i64,
    /// Payments whose credit notes do not add up to what went back, as far as it was invoiced.
    pub not_credited: i64,
    /// Payments that bought nothing, or were charged back, and whose money did not go back whole.
    pub not_returned: i64,
    /// Series of numbers with a gap.
    pub gaps: i64,
    /// Months of entitled subscriptions that nothing paid, though nothing is due for them.
    pub not_paid: i64,
}

impl Differences {
    /// Returns each number with the word for it.
    pub fn by_kind(&self) -> [(&'static str, i64); 6] {
        [
            ("at_provider", self.at_provider),
            ("not_invoiced", self.not_invoiced),
            ("not_credited", self.not_credited),
            ("not_returned", self.not_returned),
            ("gaps", self.gaps),
            ("not_paid", self.not_paid),
        ]
    }
}

/// Counts what does not agree.
/// `overdue` is the end of a month so long ago that it should have been paid or given up.
pub async fn differences(db: impl PgExecutor<'_>, overdue: Timestamp) -> Result<Differences, sqlx::Error> {
    sqlx::query_as!(
        Differences,
        r#"SELECT
             (SELECT count(*) FROM payments WHERE difference IS NOT NULL) AS "at_provider!",
             (SELECT count(*) FROM payments p
                LEFT JOIN invoices i ON i.payment_id = p.id AND i.kind = 'invoice' AND i.restores IS NULL
              WHERE (p.state = 'paid') <> (i.id IS NOT NULL)
                 OR (i.net_cents, i.vat_cents, i.total_cents) <> (p.net_cents, p.vat_cents, p.total_cents))
               AS "not_invoiced!",
             (SELECT count(*) FROM (
                SELECT r.payment_id, LEAST(COALESCE(sum(r.total_cents) FILTER (WHERE r.state = 'done'), 0),
                                           min(p.total_cents)) AS back
                FROM payment_reversals r JOIN payments p ON p.id = r.payment_id GROUP BY r.payment_id) r
                FULL JOIN (
                SELECT payment_id, COALESCE(sum(total_cents) FILTER (WHERE kind = 'credit_note'), 0)
                                 - COALESCE(sum(total_cents) FILTER (WHERE restores IS NOT NULL), 0) AS credited
                FROM invoices WHERE kind = 'credit_note' OR restores IS NOT NULL GROUP BY payment_id) c USING (payment_id)
              WHERE COALESCE(r.back, 0) <> COALESCE(c.credited, 0)) AS "not_credited!",
             (SELECT count(*) FROM payments p WHERE p.state = 'paid' AND NOT p.covers AND p.total_cents > (
                SELECT COALESCE(sum(r.total_cents), 0) FROM payment_reversals r
                WHERE r.payment_id = p.id AND r.state <> 'canceled')) AS "not_returned!",
             (SELECT count(*) FROM (
                SELECT n.last, count(i.id) AS numbered, max(i.sequence) AS highest
                FROM invoice_numbers n LEFT JOIN invoices i ON i.kind = n.kind AND i.year = n.year
                GROUP BY n.kind, n.year, n.last) s
              WHERE last <> numbered OR last <> COALESCE(highest, 0)) AS "gaps!",
             (SELECT count(*) FROM subscriptions s
              WHERE s.status = 'active' AND NOT EXISTS (
                SELECT FROM payments p WHERE p.subscription_id = s.id AND p.period = s.period
                  AND (p.state = 'paid' OR p.total_cents = 0))
                 -- A charge that does not come to an end: nobody has a plan for longer than it was paid, but for the dunning.
                 OR s.status IN ('active', 'past_due') AND s.period_end < $1) AS "not_paid!""#,
        overdue,
    )
    .fetch_one(db)
    .await
}
