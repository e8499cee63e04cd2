//! The documents of invoices: which are still to be rendered, and those that were, as they are handed out.

use std::time::Duration;

use domain::{Account, InvoiceId, Timestamp};
use serde_json::Value;
use sqlx::{PgExecutor, PgPool};

/// A form in which an invoice is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentForm {
    /// PDF/A-3 with the XML inside.
    Pdf,
    /// EN 16931 as Cross Industry Invoice.
    Cii,
    /// EN 16931 as UBL.
    Ubl,
}

impl DocumentForm {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Pdf, Self::Cii, Self::Ubl];

    /// Returns the form's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Cii => "cii",
            Self::Ubl => "ubl",
        }
    }
}

/// A document of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The invoice's number.
    pub number: String,
    /// The document itself.
    pub body: Vec<u8>,
}

/// Returns whether an invoice of the account has its documents; `None` when the account has no such invoice.
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

/// Returns a document of an invoice; `None` when there is none yet. Whoever asks holds a link that names both.
pub async fn find(
    db: impl PgExecutor<'_>,
    invoice: &InvoiceId,
    form: DocumentForm,
) -> Result<Option<Document>, sqlx::Error> {
    sqlx::query_as!(
        Document,
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
    /// The PDF, with the XML in it.
    pub pdf: &'a [u8],
    /// The XML that is in the PDF: Cross Industry Invoice.
    pub cii: &'a str,
    /// The same as UBL.
    pub ubl: &'a str,
}

/// An invoice whose documents are to be rendered.
#[derive(Debug)]
pub struct DueDocuments {
    /// The invoice.
    pub id: InvoiceId,
    /// Everything that they are rendered from.
    pub content: Value,
    /// Attempts that failed.
    pub failures: i32,
}

/// Returns invoices whose documents are due, the longest due first, and holds them for `lease`: until then nobody else
/// gets them.
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

/// Stores the documents of an invoice. Those that are there already stay: what was sent is never exchanged.
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

/// Notes that the documents could not be rendered; they are due again at `next`.
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
