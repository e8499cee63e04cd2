//! Documents of an invoice: a PDF/A-3 for people, and XML of the European standard EN 16931, embedded (Factur-X) and
//! separate (UBL).
//!
//! Rendering needs no IO, database or clock: the same [`Invoice`] gives the same bytes. Start with [`model`], which
//! proves the sums; `einvoice/` writes the XML, and `pdf/` the page. An invoice that breaks the standard's own rules is
//! an error, never a document.

mod country;
mod einvoice;
pub mod model;
mod pdf;
mod text;

pub use country::{Country, CountryError};
pub use einvoice::EinvoiceError;
pub use model::Invoice;
pub use pdf::PdfError;
pub use text::is_blank;

/// The documents of one invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceDocuments {
    /// A PDF/A-3 with [`InvoiceDocuments::cii`] embedded as Factur-X.
    pub pdf: Vec<u8>,
    /// The invoice as Cross Industry Invoice in the profile EN 16931.
    pub cii: String,
    /// The invoice as UBL 2.1. Its profile is Peppol BIS Billing 3.0 if both parties have a number known to the network
    /// and there is a buyer reference; otherwise EN 16931.
    pub ubl: String,
}

/// The reason an invoice could not be rendered: a bug of this crate or its data, not of the caller.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The XML would not be valid.
    #[error(transparent)]
    Einvoice(#[from] EinvoiceError),
    /// The PDF would not be valid.
    #[error(transparent)]
    Pdf(#[from] PdfError),
}

/// Renders the documents of an invoice. This takes milliseconds of CPU time; async callers should use a blocking
/// thread.
pub fn render(invoice: &Invoice) -> Result<InvoiceDocuments, RenderError> {
    let cii = einvoice::cii::write(invoice)?;
    let ubl = einvoice::ubl::write(invoice)?;
    let pdf = pdf::write(invoice, &cii)?;
    Ok(InvoiceDocuments { pdf, cii, ubl })
}
