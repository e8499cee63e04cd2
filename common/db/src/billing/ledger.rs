//! An account's ledger: its documents and its payments in chronological order.
//!
//! Every invoice has a payment, and every credit note has the refund or charge-back that it was written for; money that
//! came back after that is invoiced again. So the sum of the documents equals the sum of the payments.

use domain::{
    Account, Timestamp,
    billing::{Cents, payment::ReversalKind},
};
use sqlx::PgExecutor;

/// A ledger entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The time money moved or a document was issued.
    pub at: Timestamp,
    /// The kind of entry.
    pub kind: LedgerEntryKind,
    /// The id of the payment, reversal or document.
    pub id: String,
    /// The number of the document, or of the document that belongs to the money.
    pub number: Option<String>,
    /// The id of the plan.
    pub plan: String,
    /// The amount of a document without VAT; negative on a credit note.
    pub net: Option<Cents>,
    /// The VAT of a document; negative on a credit note.
    pub vat: Option<Cents>,
    /// The amount with VAT; negative on a credit note and for money that went back.
    pub total: Cents,
    /// The payment method, as the provider names it.
    pub method: Option<String>,
    place: i32,
}

/// The kind of a ledger entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerEntryKind {
    /// An invoice was issued.
    Invoice,
    /// A credit note was issued.
    CreditNote,
    /// Money was received.
    Payment,
    /// Money went back.
    Reversal(ReversalKind),
    /// Reversed money was received again: the refund failed, or the bank changed its decision.
    Returned(ReversalKind),
}

impl LedgerEntryKind {
    /// Returns the string form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::CreditNote => "credit_note",
            Self::Payment => "payment",
            Self::Reversal(ReversalKind::Refund) => "refund",
            Self::Reversal(ReversalKind::Chargeback) => "chargeback",
            Self::Returned(ReversalKind::Refund) => "refund_returned",
            Self::Returned(ReversalKind::Chargeback) => "chargeback_returned",
        }
    }

    fn parse(word: &str) -> Result<Self, sqlx::Error> {
        const KINDS: [LedgerEntryKind; 7] = [
            LedgerEntryKind::Invoice,
            LedgerEntryKind::CreditNote,
            LedgerEntryKind::Payment,
            LedgerEntryKind::Reversal(ReversalKind::Refund),
            LedgerEntryKind::Reversal(ReversalKind::Chargeback),
            LedgerEntryKind::Returned(ReversalKind::Refund),
            LedgerEntryKind::Returned(ReversalKind::Chargeback),
        ];
        let known = KINDS.into_iter().find(|kind| kind.as_str() == word);
        known.ok_or_else(|| sqlx::Error::Decode(format!("{word} is no kind of entry").into()))
    }

    /// Returns whether the entry is a document rather than money.
    pub const fn is_document(self) -> bool {
        matches!(self, Self::Invoice | Self::CreditNote)
    }
}

/// Returns at most `limit` entries of the account's ledger after `after` (or the first ones) and up to the time
/// `until`.
pub async fn page(
    db: impl PgExecutor<'_>,
    account: &Account,
    after: Option<&LedgerEntry>,
    until: Timestamp,
    limit: i64,
) -> Result<Vec<LedgerEntry>, sqlx::Error> {
    // Rows of one transaction share a timestamp, so `place` orders a document before its money. Credited money counts
    // as gone from the issue of the credit note, whatever happened to it later.
    let rows = sqlx::query!(
        r#"SELECT at AS "at!: Timestamp", place AS "place!", id AS "id!", kind AS "kind!", number, plan AS "plan!",
                  net AS "net: Cents", vat AS "vat: Cents", total AS "total!: Cents", method
           FROM (
               SELECT i.issued_at AS at, CASE i.kind WHEN 'invoice' THEN 1 ELSE 3 END AS place, i.id, i.kind, i.number,
                      p.plan, s.sign * i.net_cents AS net, s.sign * i.vat_cents AS vat, s.sign * i.total_cents AS total,
                      NULL AS method
               FROM invoices i JOIN payments p ON p.id = i.payment_id,
                    LATERAL (SELECT CASE i.kind WHEN 'invoice' THEN 1 ELSE -1 END AS sign) AS s
               WHERE i.account = $1
               UNION ALL
               SELECT p.settled_at, 2, p.id, 'payment', i.number, p.plan, NULL, NULL, p.total_cents, p.method
               FROM payments p
                    LEFT JOIN invoices i ON i.payment_id = p.id AND i.kind = 'invoice' AND i.restores IS NULL
               WHERE p.account = $1 AND p.state = 'paid'
               UNION ALL
               SELECT COALESCE(i.issued_at, r.settled_at), 4, r.id, r.kind, i.number, p.plan, NULL, NULL, -r.total_cents,
                      p.method
               FROM payments p JOIN payment_reversals r ON r.payment_id = p.id
                    LEFT JOIN invoices i ON i.reversal_id = r.id
               WHERE p.account = $1 AND (r.state = 'done' OR i.id IS NOT NULL)
               UNION ALL
               SELECT i.issued_at, 2, r.id, r.kind || '_returned', i.number, p.plan, NULL, NULL, r.total_cents, p.method
               FROM payments p JOIN invoices i ON i.payment_id = p.id JOIN payment_reversals r ON r.id = i.restores
               WHERE p.account = $1
           ) AS entries
           WHERE at <= $2 AND ($3::timestamptz IS NULL OR (at, place, id) > ($3, $4::integer, $5::text))
           ORDER BY at, place, id LIMIT $6"#,
        account.as_str(),
        until,
        after.map(|entry| entry.at) as Option<Timestamp>,
        after.map(|entry| entry.place),
        after.map(|entry| entry.id.as_str()),
        limit,
    )
    .fetch_all(db)
    .await?;
    let entries = rows.into_iter().map(|row| {
        Ok(LedgerEntry {
            at: row.at,
            kind: LedgerEntryKind::parse(&row.kind)?,
            id: row.id,
            number: row.number,
            plan: row.plan,
            net: row.net,
            vat: row.vat,
            total: row.total,
            method: row.method,
            place: row.place,
        })
    });
    entries.collect()
}
