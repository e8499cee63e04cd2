//! `svc billing invoices` and `svc billing invoice`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use api::billing::{DocumentLink, Invoice, InvoiceList};
use domain::{
    billing::invoice::{InvoiceKind, InvoiceStatus},
    limits,
};

use super::{BillingAccount, show::day};
use crate::{
    failure::{Failure, FailureClass},
    output::{Output, bold, lines},
};

const DOCUMENT_BYTES: u64 = 20 * limits::MB;

pub(super) struct DocumentPaths {
    pub(super) pdf: Option<SaveAs>,
    pub(super) xml: Option<SaveAs>,
    pub(super) ubl: Option<SaveAs>,
}

#[derive(Debug, Clone)]
pub(super) enum SaveAs {
    /// A file in the working directory that is named after the invoice number.
    Number,
    File(PathBuf),
}

impl From<OsString> for SaveAs {
    fn from(name: OsString) -> Self {
        if name.is_empty() { Self::Number } else { Self::File(name.into()) }
    }
}

pub(super) async fn list(scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let invoices = all(scope).await?;
    output.result(&serde_json::json!({ "invoices": invoices }), || format_invoices(&invoices, output))
}

async fn all(scope: &BillingAccount<'_>) -> Result<Vec<Invoice>, Failure> {
    let invoices =
        scope.client.list(&scope.path("/invoices"), |page: InvoiceList| (page.invoices, page.next_cursor)).await;
    invoices.map_err(|failure| scope.explain(failure))
}

pub(super) fn format_invoices(invoices: &[Invoice], output: Output) -> String {
    lines(invoices, &["NUMBER", "ISSUED", "NET", "VAT", "TOTAL", "STATE"], "No invoices yet.", |invoice| {
        vec![
            invoice.number.clone(),
            format!("{} ({})", day(invoice.issued_at), output.relative(invoice.issued_at)),
            invoice.net_cents.to_string(),
            invoice.vat_cents.to_string(),
            invoice.total_cents.to_string(),
            state(invoice).to_owned(),
        ]
    })
}

fn state(invoice: &Invoice) -> &'static str {
    match (invoice.kind, invoice.status) {
        (InvoiceKind::CreditNote, _) => "credit note",
        (InvoiceKind::Invoice, InvoiceStatus::Paid) => "paid",
        (InvoiceKind::Invoice, InvoiceStatus::Refunded) => "refunded",
        (InvoiceKind::Invoice, InvoiceStatus::PartlyRefunded) => "partly refunded",
        (InvoiceKind::Invoice, InvoiceStatus::ChargedBack) => "charged back",
    }
}

pub(super) async fn show(
    scope: &BillingAccount<'_>,
    wanted: &str,
    files: DocumentPaths,
    output: Output,
) -> anyhow::Result<()> {
    let is_wanted = |invoice: &Invoice| invoice.number == wanted || invoice.id.as_str() == wanted;
    let invoice = all(scope).await?.into_iter().find(is_wanted).ok_or_else(|| {
        Failure::new(FailureClass::NotFound, "not_found", format!("There is no invoice {wanted}."))
            .with_hint(format!("`svc billing invoices{}` lists them.", scope.option()))
    })?;
    let documents = [(files.pdf, "pdf", ".pdf"), (files.xml, "xml", ".xml"), (files.ubl, "xml?format=ubl", "-ubl.xml")];
    for (file, form, ending) in documents {
        if let Some(file) = file {
            let file = match file {
                SaveAs::Number => default_file_name(&invoice.number, ending)?,
                SaveAs::File(file) => file,
            };
            save(scope, &invoice, form, &file).await?;
            output.success(&format!("Saved {}.", file.display()));
        }
    }
    output.result(&invoice, || {
        let kind = if invoice.kind == InvoiceKind::CreditNote { "Credit note" } else { "Invoice" };
        let head = bold(&format!("{kind} {}", invoice.number));
        let (net, vat, total) = (invoice.net_cents, invoice.vat_cents, invoice.total_cents);
        let state = if invoice.kind == InvoiceKind::CreditNote { "given back" } else { state(&invoice) };
        format!("{head}: {total} ({net} and {vat} VAT), {}, {state}.", day(invoice.issued_at))
    })
}

/// Returns the path, in the working directory, for a document of the invoice with this number.
fn default_file_name(number: &str, ending: &str) -> Result<PathBuf, Failure> {
    // The number comes from the server, which must not be able to choose another folder.
    if number.starts_with(|first: char| first.is_ascii_alphanumeric())
        && number.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    {
        return Ok(format!("{number}{ending}").into());
    }
    Err(Failure::usage(format!("The invoice's number, {number}, is no name for a file."))
        .with_hint("Name the file, as in `--pdf invoice.pdf`."))
}

async fn save(scope: &BillingAccount<'_>, invoice: &Invoice, form: &str, file: &Path) -> Result<(), Failure> {
    if !invoice.has_document {
        let message = format!("The documents of {} are still being made.", invoice.number);
        return Err(Failure::new(FailureClass::NotFound, "not_found", message).with_hint("Try again in a minute."));
    }
    let link = scope.client.get::<DocumentLink>(&scope.path(&format!("/invoices/{}/{form}", invoice.id))).await;
    let link = link.map_err(|failure| scope.explain(failure))?.body;
    let document = scope.client.download(&link.url, DOCUMENT_BYTES).await?;
    write(file, &document)
}

pub(super) fn write(file: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, content).map_err(|error| Failure::usage(format!("Cannot write {}: {error}.", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_a_file_of_the_present_folder_or_none() {
        for number in ["2026-000001", "PLAY-2026-000001", "CN_7.1"] {
            assert_eq!(default_file_name(number, ".pdf").unwrap(), PathBuf::from(format!("{number}.pdf")));
        }
        for number in ["", ".bashrc", "../2026", "a/b", "/etc/x", "-rf", "a\\b", "a\nb", "..", "é"] {
            assert!(default_file_name(number, ".pdf").is_err(), "{number}");
        }
    }
}
