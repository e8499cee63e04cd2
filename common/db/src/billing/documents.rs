//! The rendered documents of invoices, and the queue of invoices that are still to be rendered.

use std::time::Duration;

use domain::{Account, InvoiceId, Timestamp};
use serde_json::Value;
use sqlx::{PgExecutor, PgPool};

/// A form in which an invoice is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentForm {
    /// PDF/A-3 with embedded XML.
    Pdf,
    /// EN 16931 as Cross Industry Invoice.
    Cii,
    /// EN 16931 as UBL.
    Ubl,
}

impl DocumentForm {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Pdf, Self::Cii, Self::Ubl];

    /// Returns the string form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Cii => "cii",
            Self::Ubl => "ubl",
        }
    }
}

/// A rendered document of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedDocument {
    /// The invoice's number.
    pub number: String,
    /// The document's bytes.
    pub body: Vec<u8>,
}

/// Returns whether the documents of an account's invoice are rendered; `None` when the account has no such invoice.
pub async fn are_rendered(
    db: impl PgExecutor<'_>,
    account: &Account,
    invoice: &InvoiceId,
) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM invoice_documents d WHERE d.invoice_id = i.id) AS "rendered!"
           FROM invoices i WHERE i.id = $1 AND i.account = $2"#,
        invoice.as_str(),
        account.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns a document of an invoice; `None` until it is rendered. The caller has verified a link to it.
pub async fn find(
    db: impl PgExecutor<'_>,
    invoice: &InvoiceId,
    form: DocumentForm,
) -> Result<Option<RenderedDocument>, sqlx::Error> {
    sqlx::query_as!(
        RenderedDocument,
        r#"SELECT i.number, CASE $2 WHEN 'pdf' THEN d.pdf WHEN 'cii' THEN convert_to(d.cii, 'UTF8')
                            ELSE convert_to(d.ubl, 'UTF8') END AS "body!"
           FROM invoice_documents d JOIN invoices i ON i.id = d.invoice_id WHERE d.invoice_id = $1"#,
        invoice.as_str(),
        form.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// The documents of one invoice.
#[derive(Debug)]
pub struct NewDocuments<'a> {
    /// The PDF with embedded XML.
    pub pdf: &'a [u8],
    /// The embedded XML, as Cross Industry Invoice.
    pub cii: &'a str,
    /// The invoice as UBL.
    pub ubl: &'a str,
}

/// An invoice whose documents are due to be rendered.
#[derive(Debug)]
pub struct DueDocuments {
    /// The invoice.
    pub id: InvoiceId,
    /// The data that the documents are rendered from.
    pub content: Value,
    /// The number of failed attempts.
    pub failures: i32,
}

/// Leases invoices whose documents are due for `lease`, the longest due first.
pub async fn take_due(
    db: &PgPool,
    now: Timestamp,
    lease: Duration,
    limit: i64,
) -> Result<Vec<DueDocuments>, sqlx::Error> {
    sqlx::query_as!(
        DueDocuments,
        r#"UPDATE invoices i SET render_at = $2
           FROM (SELECT id FROM invoices WHERE render_at <= $1 ORDER BY render_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
           WHERE i.id = due.id
           RETURNING i.id, i.content, i.render_failures AS failures"#,
        now,
        now + lease,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Stores the documents of an invoice. Existing documents are kept, because a sent document must never change.
pub async fn store(
    db: &PgPool,
    id: &InvoiceId,
    documents: &NewDocuments<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let mut transaction = db.begin().await?;
    sqlx::query!(
        "INSERT INTO invoice_documents (invoice_id, pdf, cii, ubl, rendered_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (invoice_id) DO NOTHING",
        id.as_str(),
        documents.pdf,
        documents.cii,
        documents.ubl,
        now,
    )
    .execute(&mut *transaction)
    .await?;
    sqlx::query!("UPDATE invoices SET render_at = NULL WHERE id = $1", id.as_str()).execute(&mut *transaction).await?;
    transaction.commit().await
}

/// Records that the documents could not be rendered, and makes them due again at `next`.
pub async fn put_off(db: impl PgExecutor<'_>, id: &InvoiceId, next: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE invoices SET render_at = $2, render_failures = render_failures + 1 WHERE id = $1",
        id.as_str(),
        next,
    )
    .execute(db)
    .await
    .map(drop)
}
