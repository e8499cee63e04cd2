//! Cross Industry Invoice (D16B) in the profile EN 16931, as embedded in the PDF.

use en16931::En16931;
use en16931_formats::Syntax;

use super::{EinvoiceError, prove, semantic};
use crate::Invoice;

pub(crate) fn write(invoice: &Invoice) -> Result<String, EinvoiceError> {
    let proof = prove::<En16931>(semantic(invoice)?)?;
    super::write(&proof, Syntax::Cii)
}
