//! Documents of an invoice: a PDF/A-3 that people read, and the same invoice as XML of the European standard EN 16931, in the PDF
//! (Factur-X) and beside it (UBL).
//!
//! No IO, no database, no clock: the same [`Invoice`] gives the same bytes. Start with [`model`], which proves the sums; `einvoice/`
//! writes the XML, and `pdf/` the page. What does not pass the standard's own rules is an error, never a document.

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
pub struct Documents {
    /// A PDF/A-3 with [`Documents::cii`] in it, as Factur-X has it.
    pub pdf: Vec<u8>,
    /// The invoice as Cross Industry Invoice, of the profile EN 16931.
    pub cii: String,
    /// The invoice as UBL 2.1: of the profile Peppol BIS Billing 3.0 when it has what Peppol demands, which is a number of either
    /// party that the network knows and a reference of the buyer; of EN 16931 otherwise.
    pub ubl: String,
}

/// Why an invoice did not become documents. It is an error of this crate or of its data, and none of the caller's.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The XML would not be valid.
    #[error(transparent)]
    Einvoice(#[from] EinvoiceError),
    /// The PDF would not be valid.
    #[error(transparent)]
    Pdf(#[from] PdfError),
}

/// Renders the documents of an invoice. It takes milliseconds of a processor, which an async caller should leave to a blocking thread.
pub fn render(invoice: &Invoice) -> Result<Documents, RenderError> {
    let cii = einvoice::cii::write(invoice)?;
    let ubl = einvoice::ubl::write(invoice)?;
    let pdf = pdf::write(invoice, &cii)?;
    Ok(Documents { pdf, cii, ubl })
}
