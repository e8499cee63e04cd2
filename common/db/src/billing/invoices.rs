//! Invoices and credit notes. Their numbers have no gaps: a number is chosen under the lock of its series, in the
//! transaction that inserts the row.

use domain::{
    Account, InvoiceId, PaymentId, ReversalId, Timestamp,
    billing::{
        Cents,
        invoice::{InvoiceKind, InvoiceNumber, InvoiceSeries, InvoiceStatus},
        vat::SaleAmounts,
    },
};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};

/// An invoice or a credit note.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoice {
    /// The id.
    pub id: InvoiceId,
    /// The account that is billed.
    pub account: Account,
    /// Invoice or credit note.
    pub kind: InvoiceKind,
    /// The number.
    pub number: String,
    /// The payment that is billed, or whose reversal is credited.
    pub payment_id: PaymentId,
    /// The reversal that is credited.
    pub reversal_id: Option<ReversalId>,
    /// The invoice that a credit note corrects.
    pub corrects: Option<InvoiceId>,
    /// The reversal whose money came back, so that it is invoiced again.
    pub restores: Option<ReversalId>,
    /// The state of its payment.
    pub status: InvoiceStatus,
    /// The time of issue.
    pub issued_at: Timestamp,
    /// The amount without VAT; on a credit note, the amount given back.
    pub net_cents: Cents,
    /// The VAT.
    pub vat_cents: Cents,
    /// The amount with VAT.
    pub total_cents: Cents,
    /// The data that its documents are rendered from.
    pub content: Value,
    /// Whether its documents are rendered.
    pub has_document: bool,
}

impl Invoice {
    /// Returns the amounts.
    pub fn amounts(&self) -> SaleAmounts {
        SaleAmounts { net: self.net_cents, vat: self.vat_cents, total: self.total_cents }
    }
}

/// Reads invoices. The literal follows the join of `invoices i` with `invoice_documents d`.
macro_rules! select_invoices {
    ($rest:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            Invoice,
            r#"SELECT i.id, i.account, i.kind, i.number, i.payment_id, i.reversal_id, i.corrects, i.restores, i.status,
                      i.issued_at, i.net_cents, i.vat_cents, i.total_cents, i.content,
                      EXISTS (SELECT FROM invoice_documents d WHERE d.invoice_id = i.id) AS "has_document!"
               FROM invoices i "# + $rest,
            $($argument),*
        )
    };
}

/// Takes the next number of a series, which stays locked until the transaction ends so that a rollback leaves no gap.
pub async fn take_number(
    conn: &mut PgConnection,
    series: InvoiceSeries,
    year: i32,
) -> Result<InvoiceNumber, sqlx::Error> {
    let sequence = sqlx::query_scalar!(
        "INSERT INTO invoice_numbers (kind, year, last) VALUES ($1, $2, 1)
         ON CONFLICT (kind, year) DO UPDATE SET last = invoice_numbers.last + 1 RETURNING last",
        series as InvoiceSeries,
        year,
    )
    .fetch_one(conn)
    .await?;
    Ok(InvoiceNumber { series, year, sequence })
}

/// Inserts an invoice under its number, and makes its documents due for rendering.
pub async fn insert(conn: &mut PgConnection, invoice: &Invoice, number: InvoiceNumber) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO invoices (id, account, kind, number, year, sequence, payment_id, reversal_id, corrects, restores,
                               status, issued_at, net_cents, vat_cents, total_cents, content, is_play, render_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $12)",
        invoice.id.as_str(),
        invoice.account.as_str(),
        invoice.kind as InvoiceKind,
        invoice.number,
        number.year,
        number.sequence,
        invoice.payment_id.as_str(),
        invoice.reversal_id.as_ref().map(ReversalId::as_str),
        invoice.corrects.as_ref().map(InvoiceId::as_str),
        invoice.restores.as_ref().map(ReversalId::as_str),
        invoice.status as InvoiceStatus,
        invoice.issued_at,
        invoice.net_cents.0,
        invoice.vat_cents.0,
        invoice.total_cents.0,
        invoice.content,
        number.series.is_play(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns the invoice of a payment, its credit notes and the invoices that restore them, in order of issue.
pub async fn list_for_payment(db: impl PgExecutor<'_>, payment: &PaymentId) -> Result<Vec<Invoice>, sqlx::Error> {
    select_invoices!("WHERE i.payment_id = $1 ORDER BY i.issued_at, i.id", payment.as_str()).fetch_all(db).await
}

/// Sets the payment state of an invoice.
pub async fn set_status(conn: &mut PgConnection, id: &InvoiceId, status: InvoiceStatus) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE invoices SET status = $2 WHERE id = $1 AND status <> $2", id.as_str(), status as InvoiceStatus)
        .execute(conn)
        .await
        .map(drop)
}

/// Returns the account's invoices and credit notes, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    account: &Account,
    before: Option<&InvoiceId>,
    rows: i64,
) -> Result<Vec<Invoice>, sqlx::Error> {
    select_invoices!(
        "WHERE i.account = $1 AND ($2::text IS NULL OR i.id < $2) ORDER BY i.id DESC LIMIT $3",
        account.as_str(),
        before.map(InvoiceId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns an invoice or a credit note of the account.
pub async fn find(db: impl PgExecutor<'_>, account: &Account, id: &InvoiceId) -> Result<Option<Invoice>, sqlx::Error> {
    select_invoices!("WHERE i.account = $1 AND i.id = $2", account.as_str(), id.as_str()).fetch_optional(db).await
}

/// Returns an invoice or a credit note of any account.
pub async fn find_by_id(db: impl PgExecutor<'_>, id: &InvoiceId) -> Result<Option<Invoice>, sqlx::Error> {
    select_invoices!("WHERE i.id = $1", id.as_str()).fetch_optional(db).await
}

/// Returns an invoice or a credit note by its number.
pub async fn find_by_number(db: impl PgExecutor<'_>, number: &str) -> Result<Option<Invoice>, sqlx::Error> {
    select_invoices!("WHERE i.number = $1", number).fetch_optional(db).await
}

/// The documents of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedDocuments {
    /// The PDF with embedded CII.
    pub pdf: Vec<u8>,
    /// The invoice in CII syntax.
    pub cii: String,
    /// The invoice in UBL syntax.
    pub ubl: String,
}

/// Returns the documents of an invoice; `None` until they are rendered.
pub async fn documents(db: impl PgExecutor<'_>, id: &InvoiceId) -> Result<Option<RenderedDocuments>, sqlx::Error> {
    sqlx::query_as!(RenderedDocuments, "SELECT pdf, cii, ubl FROM invoice_documents WHERE invoice_id = $1", id.as_str())
        .fetch_optional(db)
        .await
}
