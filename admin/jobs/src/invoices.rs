//! Renders the documents of issued invoices.
//!
//! An invoice is numbered with its payment, and is complete without a document. A document that cannot be rendered is
//! retried with growing pauses, and its letter waits for it.

use std::time::Duration;

use app::App;
use db::billing::documents::{self, DueDocuments, NewDocuments};

use super::{BatchOutcome, Job};

/// The invoices rendered in one batch, at some milliseconds each.
const AT_A_TIME: i64 = 20;
/// The lease within which an invoice is rendered.
const TURN: Duration = Duration::from_mins(2);
/// The pause after the first failure. It doubles with each further failure.
const RETRY: Duration = Duration::from_mins(1);
/// The most doublings of the pause, which is then 17 hours.
const DOUBLINGS: u32 = 10;

pub(super) struct RenderInvoices;

impl Job for RenderInvoices {
    const NAME: &'static str = "render invoices";
    const EVERY: Duration = Duration::from_secs(2);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let due = documents::take_due(&app.db, app.clock.now(), TURN, AT_A_TIME).await?;
        let taken = due.len();
        for invoice in due {
            if let Err(error) = render(app, &invoice).await {
                let error = format!("{error:#}");
                tracing::error!(invoice = %invoice.id, error, "the documents of an invoice cannot be rendered");
                let doublings = u32::try_from(invoice.failures).unwrap_or_default().min(DOUBLINGS);
                let next = app.clock.now() + RETRY * 2_u32.pow(doublings);
                documents::put_off(&app.db, &invoice.id, next).await?;
            }
        }
        Ok(BatchOutcome::new(taken, AT_A_TIME))
    }
}

async fn render(app: &App, invoice: &DueDocuments) -> anyhow::Result<()> {
    let content = serde_json::from_value(invoice.content.clone())?;
    let rendered = tokio::task::spawn_blocking(move || billing::render(&content)).await??;
    let documents = NewDocuments { pdf: &rendered.pdf, cii: &rendered.cii, ubl: &rendered.ubl };
    documents::store(&app.db, &invoice.id, &documents, app.clock.now()).await?;
    Ok(())
}
