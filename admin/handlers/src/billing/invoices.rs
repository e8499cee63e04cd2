//! `/billing/invoices` and `/orgs/:name/billing/invoices`: the list of invoices and credit notes.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery},
};
use api::{
    Page,
    billing::{Invoice, InvoiceList},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::extract::State;
use db::{billing::invoices, permits::Admin};
use domain::{
    Account, InvoiceId,
    billing::{Cents, invoice::InvoiceKind},
};

pub(super) const CURRENCY: &str = "EUR";

/// Lists your invoices and credit notes, newest first.
///
/// An invoice is made when a payment is received, and a credit note when one is returned. Neither changes
/// afterwards.
#[utoipa::path(
    get, path = "/billing/invoices", operation_id = "list_invoices", tag = "Billing",
    params(Page),
    responses((status = 200, description = "The invoices and credit notes", body = InvoiceList)),
)]
pub async fn for_user(
    State(app): State<App>,
    caller: CliUser,
    page: PageQuery<InvoiceId>,
) -> Result<Json<InvoiceList>, ApiError> {
    list(&app, &caller.user.id.into(), &page).await
}

/// Lists an organization's invoices and credit notes, newest first.
///
/// Needs the role of an admin. Neither an invoice nor a credit note changes after it was made.
#[utoipa::path(
    get, path = "/orgs/{name}/billing/invoices", operation_id = "list_org_invoices", tag = "Billing",
    params(("name" = String, Path, description = "The organization's name"), Page),
    responses((status = 200, description = "The invoices and credit notes", body = InvoiceList)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    page: PageQuery<InvoiceId>,
) -> Result<Json<InvoiceList>, ApiError> {
    list(&app, &org.id.clone().into(), &page).await
}

async fn list(app: &App, account: &Account, page: &PageQuery<InvoiceId>) -> Result<Json<InvoiceList>, ApiError> {
    let mut rows = invoices::page(&app.db, account, page.before.as_ref(), page.rows()).await?;
    let next_cursor = page.truncate(&mut rows, |row| row.id.to_string());
    Ok(Json(InvoiceList { invoices: rows.into_iter().map(view).collect(), next_cursor }))
}

pub(super) fn view(row: invoices::Invoice) -> Invoice {
    // Rows store refunded amounts as positive numbers.
    let signed = |amount: Cents| if row.kind == InvoiceKind::CreditNote { -amount } else { amount };
    Invoice {
        net_cents: signed(row.net_cents),
        vat_cents: signed(row.vat_cents),
        total_cents: signed(row.total_cents),
        id: row.id,
        kind: row.kind,
        number: row.number,
        issued_at: row.issued_at,
        currency: CURRENCY.to_owned(),
        status: row.status,
        has_document: row.has_document,
    }
}
