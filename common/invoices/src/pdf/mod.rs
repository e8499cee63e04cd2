//! The invoice as a page for people: PDF/A-3 with embedded XML.
//!
//! `compose.rs` places everything on `sheets.rs`, independent of PDF; `paint.rs` paints the sheets with krilla, which
//! rejects what the standards forbid; `xmp.rs` adds the metadata by which Factur-X readers find the XML. Start with
//! [`write()`].

mod closing;
mod compose;
mod fonts;
mod paint;
mod sheets;
mod style;
mod table;
mod words;
mod wrap;
mod xmp;

use krilla::{
    Document,
    destination::XyzDestination,
    embed::{AssociationKind, EmbeddedFile, MimeType},
    error::KrillaError,
    geom::Point,
    metadata::{DateTime, Metadata, TextDirection},
    outline::{Outline, OutlineNode},
};
use time::Date;

use crate::Invoice;

/// The mark on a document for which no real money moves.
pub(crate) const PLAY_MONEY: &str = "PLAY MONEY – not a real invoice";

/// The reason an invoice could not be painted. Such an error is a bug, because the input was proved before.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// A typeface of this crate could not be read.
    #[error("a typeface could not be read")]
    Typeface,
    /// Something does not fit on the page.
    #[error("the page has an impossible size or shape")]
    Geometry,
    /// The name or the media type of the XML is invalid.
    #[error("the XML could not be embedded")]
    Embedding,
    /// The document would violate one of the standards.
    #[error("the PDF would break its standards: {0}")]
    Standard(String),
    /// The metadata could not be added to the PDF.
    #[error("the PDF has no metadata to add to")]
    Metadata,
}

impl From<KrillaError> for PdfError {
    fn from(error: KrillaError) -> Self {
        Self::Standard(format!("{error:?}"))
    }
}

/// Writes the PDF of an invoice with its XML embedded.
pub(crate) fn write(invoice: &Invoice, cii: &str) -> Result<Vec<u8>, PdfError> {
    if !fonts::are_readable() {
        return Err(PdfError::Typeface);
    }
    let mut document = paint::document()?;
    paint::paint(&compose::compose(invoice), &mut document)?;
    document.set_metadata(metadata(invoice));
    let mut outline = Outline::new();
    let start = XyzDestination::new(0, Point::from_xy(0.0, 0.0));
    outline.push_child(OutlineNode::new(title(invoice), start));
    document.set_outline(outline);
    embed(&mut document, invoice, cii)?;
    xmp::add_factur_x(document.finish()?)
}

fn title(invoice: &Invoice) -> String {
    format!("{} {}", invoice.title(), invoice.number)
}

fn metadata(invoice: &Invoice) -> Metadata {
    let subject = format!("{} of {}, issued on {}", title(invoice), invoice.seller.name, words::date(invoice.issued));
    Metadata::new()
        .title(title(invoice))
        .description(subject)
        .authors(vec![invoice.seller.name.clone()])
        .creator(invoice.brand.clone())
        .producer("krilla".to_owned())
        .language("en".to_owned())
        .text_direction(TextDirection::LeftToRight)
        .document_id(format!("{} {}", invoice.seller.name, title(invoice)))
        .creation_date(midnight(invoice.issued))
}

fn embed(document: &mut Document, invoice: &Invoice, cii: &str) -> Result<(), PdfError> {
    let file = EmbeddedFile {
        path: xmp::FILE_NAME.to_owned(),
        mime_type: Some(MimeType::new("text/xml").ok_or(PdfError::Embedding)?),
        description: Some("The invoice as XML of EN 16931 (Factur-X)".to_owned()),
        // German authorities expect `Alternative`, because the XML is the invoice, too.
        association_kind: AssociationKind::Alternative,
        data: cii.as_bytes().to_vec().into(),
        modification_date: Some(midnight(invoice.issued)),
        compress: Some(true),
        location: None,
    };
    document.embed_file(file).ok_or(PdfError::Embedding)
}

/// Returns the beginning of a day in UTC. Documents are dated by their invoice, so that rendering is reproducible.
fn midnight(date: Date) -> DateTime {
    let year = u16::try_from(date.year()).unwrap_or(0);
    DateTime::new(year).month(date.month().into()).day(date.day()).hour(0).minute(0).second(0).utc_offset_hour(0)
}
