//! `/billing/invoices/:id/pdf` and `/xml`, and `/documents/:link`: invoice documents and links to them.
//!
//! A link contains the invoice, the form, an expiry time and a signature over the three; the server stores nothing. A
//! browser, which sends no token, can therefore follow it.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, Path, Query},
};
use api::billing::{DocumentLink, XmlFormat, XmlQuery};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, http::header, response::IntoResponse};
use db::{
    billing::documents::{self, DocumentForm},
    permits::Admin,
};
use domain::{Account, InvoiceId, Timestamp};
use secrets::{KeyPurpose, MasterKey};
use serde::Deserialize;

const LINK_LIFE: Duration = Duration::from_mins(5);

/// The invoice in a path.
#[derive(Debug, Deserialize)]
pub struct InvoicePath {
    id: InvoiceId,
}

/// Creates a link to an invoice's PDF that works for five minutes.
///
/// The PDF is PDF/A-3 with the XML embedded (Factur-X), which bookkeeping programs read.
#[utoipa::path(
    get, path = "/billing/invoices/{id}/pdf", operation_id = "link_invoice_pdf", tag = "Billing",
    params(("id" = String, Path, description = "The invoice's id")),
    responses((status = 200, description = "The link", body = DocumentLink)),
    extensions(("x-errors" = json!({
        "not_found": "there is no such invoice of yours, or its documents are still being made",
    }))),
)]
pub async fn pdf_for_user(
    State(app): State<App>,
    caller: CliUser,
    Path(InvoicePath { id }): Path<InvoicePath>,
) -> Result<Json<DocumentLink>, ApiError> {
    link(&app, &caller.user.id.clone().into(), id, DocumentForm::Pdf).await
}

/// Creates a link to the PDF of an organization's invoice that works for five minutes.
///
/// The PDF is PDF/A-3 with the XML embedded (Factur-X), which bookkeeping programs read.
#[utoipa::path(
    get, path = "/orgs/{name}/billing/invoices/{id}/pdf", operation_id = "link_org_invoice_pdf", tag = "Billing",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = String, Path, description = "The invoice's id"),
    ),
    responses((status = 200, description = "The link", body = DocumentLink)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
        "not_found": "there is no such invoice of the organization, or its documents are still being made",
    }))),
)]
pub async fn pdf_for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    Path(InvoicePath { id }): Path<InvoicePath>,
) -> Result<Json<DocumentLink>, ApiError> {
    link(&app, &org.id.clone().into(), id, DocumentForm::Pdf).await
}

/// Creates a link to an invoice's XML (EN 16931) that works for five minutes.
///
/// The link needs no token: whoever has it can fetch the document until it expires. The XML is the one that is
/// embedded in the PDF.
#[utoipa::path(
    get, path = "/billing/invoices/{id}/xml", operation_id = "link_invoice_xml", tag = "Billing",
    params(("id" = String, Path, description = "The invoice's id"), XmlQuery),
    responses((status = 200, description = "The link", body = DocumentLink)),
    extensions(("x-errors" = json!({
        "not_found": "there is no such invoice of yours, or its documents are still being made",
    }))),
)]
pub async fn xml_for_user(
    State(app): State<App>,
    caller: CliUser,
    Path(InvoicePath { id }): Path<InvoicePath>,
    Query(query): Query<XmlQuery>,
) -> Result<Json<DocumentLink>, ApiError> {
    link(&app, &caller.user.id.clone().into(), id, document_form(&query)).await
}

/// Creates a link to the XML (EN 16931) of an organization's invoice that works for five minutes.
///
/// The link needs no token: whoever has it can fetch the document until it expires. The XML is the one that is
/// embedded in the PDF.
#[utoipa::path(
    get, path = "/orgs/{name}/billing/invoices/{id}/xml", operation_id = "link_org_invoice_xml", tag = "Billing",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = String, Path, description = "The invoice's id"),
        XmlQuery,
    ),
    responses((status = 200, description = "The link", body = DocumentLink)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
        "not_found": "there is no such invoice of the organization, or its documents are still being made",
    }))),
)]
pub async fn xml_for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    Path(InvoicePath { id }): Path<InvoicePath>,
    Query(query): Query<XmlQuery>,
) -> Result<Json<DocumentLink>, ApiError> {
    link(&app, &org.id.clone().into(), id, document_form(&query)).await
}

/// Fetches the document that a link points to.
///
/// The operations that create links to invoices return such addresses. A link works for five minutes, without a
/// token.
#[utoipa::path(
    get, path = "/documents/{link}", operation_id = "download_document", tag = "Billing", security(()),
    params(("link" = String, Path, description = "The last part of the link")),
    responses((
        status = 200, description = "The document",
        headers(("Cache-Control"), ("Content-Disposition"), ("X-Content-Type-Options")),
        content((Vec<u8> = "application/pdf"), (String = "application/xml")),
    )),
    extensions(("x-errors" = json!({
        "not_found": "the link has ended, or was never made",
    }))),
)]
pub async fn by_link(State(app): State<App>, Path(link): Path<String>) -> Result<impl IntoResponse, ApiError> {
    let gone = || {
        let message = "This link has ended, or was never made; ask for a new one where your invoices are listed.";
        ApiError::new(Code::NotFound, message)
    };
    let link = SignedLink::parse(&link, &app.master_key, app.clock.now()).ok_or_else(gone)?;
    let document = documents::find(&app.db, &link.invoice, link.form).await?.ok_or_else(gone)?;
    let (kind, ending) = match link.form {
        DocumentForm::Pdf => ("application/pdf", ".pdf"),
        DocumentForm::Cii => ("application/xml", ".xml"),
        DocumentForm::Ubl => ("application/xml", "-ubl.xml"),
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}{ending}\"", document.number)),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, document.body))
}

async fn link(
    app: &App,
    account: &Account,
    invoice: InvoiceId,
    form: DocumentForm,
) -> Result<Json<DocumentLink>, ApiError> {
    let is_rendered = documents::are_rendered(&app.db, account, &invoice).await?;
    if !is_rendered.ok_or_else(|| ApiError::not_found("invoice"))? {
        let message = "The documents of this invoice are still being made; ask again in a minute.";
        return Err(ApiError::new(Code::NotFound, message));
    }
    let link = SignedLink { invoice, form, ends_at: (app.clock.now() + LINK_LIFE).unix_seconds() };
    let base = app.config.site.base_url.as_str().trim_end_matches('/');
    let url = format!("{base}/documents/{}", link.encode(&app.master_key));
    Ok(Json(DocumentLink { url, expires_at: Timestamp::from_unix_millis(link.ends_at * 1_000) }))
}

fn document_form(query: &XmlQuery) -> DocumentForm {
    match query.format.unwrap_or_default() {
        XmlFormat::Cii => DocumentForm::Cii,
        XmlFormat::Ubl => DocumentForm::Ubl,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct SignedLink {
    invoice: InvoiceId,
    form: DocumentForm,
    ends_at: i64,
}

impl SignedLink {
    fn signed_text(&self) -> String {
        format!("{}.{}.{}", self.invoice, self.form.as_str(), self.ends_at)
    }

    /// Returns the last segment of the link's address.
    fn encode(&self, key: &MasterKey) -> String {
        let claim = self.signed_text();
        let signature = key.sign(KeyPurpose::DocumentLinks, claim.as_bytes());
        format!("{claim}.{}", hex::encode(signature))
    }

    /// Parses the last segment of a link's address; `None` if the signature is wrong or the link has expired.
    fn parse(text: &str, key: &MasterKey, now: Timestamp) -> Option<Self> {
        let (claim, signature) = text.rsplit_once('.')?;
        let mut given = [0; secrets::signatures::SIGNATURE_LEN];
        hex::decode_to_slice(signature, &mut given).ok()?;
        if !key.is_signature(KeyPurpose::DocumentLinks, claim.as_bytes(), &given) {
            return None;
        }
        let mut parts = claim.split('.');
        let invoice = parts.next()?.parse().ok()?;
        let word = parts.next()?;
        let form = DocumentForm::ALL.into_iter().find(|form| form.as_str() == word)?;
        let ends_at = parts.next()?.parse().ok()?;
        (now.unix_seconds() < ends_at).then_some(Self { invoice, form, ends_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1_000)
    }

    #[test]
    fn a_link_is_good_until_it_ends_and_only_as_it_was_made() {
        let (key, other) = (MasterKey::generate(), MasterKey::generate());
        for form in DocumentForm::ALL {
            let link = SignedLink { invoice: InvoiceId::new(at(0)), form, ends_at: 1_000 };
            let text = link.encode(&key);
            assert_eq!(SignedLink::parse(&text, &key, at(999)).as_ref(), Some(&link));
            assert_eq!(SignedLink::parse(&text, &key, at(1_000)), None, "at its end");
            assert_eq!(SignedLink::parse(&text, &other, at(999)), None, "signed by others");
            for changed in [
                text.replace(".1000.", ".2000."),
                text.replace(form.as_str(), if form == DocumentForm::Pdf { "ubl" } else { "pdf" }),
                text.replace(link.invoice.as_str(), InvoiceId::new(at(1)).as_str()),
                text[..text.len() - 1].to_owned(),
                text[..text.len() - 2].to_owned(),
                format!("{text}00"),
                text.split('.').next_back().unwrap().to_owned(),
                String::new(),
            ] {
                assert_eq!(SignedLink::parse(&changed, &key, at(999)), None, "{changed}");
            }
        }
    }
}
