//! `/billing/ledger.csv` and `/orgs/:name/billing/ledger.csv`: everything that was billed and paid.

use std::fmt::Write as _;

use admin_http::{csv::cell, error::ApiError};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use db::{
    billing::ledger::{self, LedgerEntry},
    permits::Admin,
};
use domain::{Account, Timestamp, billing::Cents};
use futures_util::stream;
use sqlx::PgPool;

const HEADINGS: &str = "time,kind,number,plan,net,vat,billed,paid,currency,method,id\r\n";
const BATCH: i64 = 500;

/// Exports your ledger: invoices, payments, credit notes, refunds and chargebacks, in chronological order.
///
/// Amounts are in euros. Document amounts are in `net`, `vat` and `billed`, negative on a credit note; payments are in
/// `paid`, negative when refunded. `billed` and `paid` have the same sum. `number` is the document's number, or for a
/// payment that of its document. An apostrophe precedes anything that a spreadsheet could interpret as a formula, at
/// the start of a cell and after `;`, a tab, a line break or a quote; negative amounts stay numbers.
#[utoipa::path(
    get, path = "/billing/ledger.csv", operation_id = "export_ledger", tag = "Billing",
    responses((
        status = 200, description = "The entries, oldest first", body = String, content_type = "text/csv",
        headers(("Cache-Control"), ("Content-Disposition")),
    )),
)]
pub async fn for_user(State(app): State<App>, caller: CliUser) -> Result<Response, ApiError> {
    export(&app, caller.user.id.into(), "ledger.csv").await
}

/// Exports an organization's ledger: invoices, payments, credit notes, refunds and chargebacks, oldest first.
///
/// Amounts are in euros. Document amounts are in `net`, `vat` and `billed`, negative on a credit note; payments are in
/// `paid`, negative when refunded. `billed` and `paid` have the same sum. `number` is the document's number, or for a
/// payment that of its document. An apostrophe precedes anything that a spreadsheet could interpret as a formula, at
/// the start of a cell and after `;`, a tab, a line break or a quote; negative amounts stay numbers.
#[utoipa::path(
    get, path = "/orgs/{name}/billing/ledger.csv", operation_id = "export_org_ledger", tag = "Billing",
    params(("name" = String, Path, description = "The organization's name")),
    responses((
        status = 200, description = "The entries, oldest first", body = String, content_type = "text/csv",
        headers(("Cache-Control"), ("Content-Disposition")),
    )),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn for_org(State(app): State<App>, OrgAccess(org): OrgAccess<Admin>) -> Result<Response, ApiError> {
    export(&app, org.id.clone().into(), &format!("{}-ledger.csv", org.name)).await
}

async fn export(app: &App, account: Account, file_name: &str) -> Result<Response, ApiError> {
    let mut export = LedgerExport { db: app.db.clone(), account, until: app.clock.now(), last: None, has_ended: false };
    // Before the response starts, so that a read error can still be reported.
    let mut first = export.next_batch().await?.unwrap_or_default();
    first.insert_str(0, HEADINGS);
    let rows = stream::try_unfold((Some(first), export), |(first, mut export)| async move {
        let rows = match first {
            Some(first) => Some(first),
            None => export.next_batch().await.inspect_err(|error| tracing::error!("a ledger broke off: {error:#}"))?,
        };
        Ok::<_, sqlx::Error>(rows.map(|rows| (Bytes::from(rows), (None, export))))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file_name}\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(rows)).into_response())
}

struct LedgerExport {
    db: PgPool,
    account: Account,
    until: Timestamp,
    last: Option<LedgerEntry>,
    has_ended: bool,
}

impl LedgerExport {
    /// Returns the next batch of rows, or `None` after the last.
    async fn next_batch(&mut self) -> Result<Option<String>, sqlx::Error> {
        if self.has_ended {
            return Ok(None);
        }
        let entries = ledger::page(&self.db, &self.account, self.last.as_ref(), self.until, BATCH).await?;
        self.has_ended = i64::try_from(entries.len()).is_ok_and(|read| read < BATCH);
        let mut text = String::new();
        for entry in &entries {
            write_row(entry, &mut text);
        }
        self.last = entries.into_iter().next_back();
        Ok(Some(text))
    }
}

fn write_row(entry: &LedgerEntry, into: &mut String) {
    let amount = |amount: Option<Cents>| amount.map(Cents::decimal).unwrap_or_default();
    let of = |is_wanted: bool| amount(is_wanted.then_some(entry.total));
    let is_document = entry.kind.is_document();
    // Writing to a string cannot fail.
    let _ = write!(
        into,
        "{},{},{},{},{},{},{},{},EUR,{},{}\r\n",
        entry.at,
        entry.kind.as_str(),
        cell(entry.number.as_deref().unwrap_or_default()),
        cell(&entry.plan),
        amount(entry.net),
        amount(entry.vat),
        of(is_document),
        of(!is_document),
        cell(entry.method.as_deref().unwrap_or_default()),
        entry.id,
    );
}
