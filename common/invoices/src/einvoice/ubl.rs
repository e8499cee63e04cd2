//! UBL 2.1: an `Invoice` or a `CreditNote`, in the profile Peppol BIS Billing 3.0 where the parties allow it.

use en16931::{En16931, Invoice as Semantic, PeppolBis3};
use en16931_formats::Syntax;

use super::{EinvoiceError, peppol, prove, semantic};
use crate::Invoice;

/// Peppol's identifier of the billing process (BT-23).
const PROCESS: &str = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0";

pub(crate) fn write(invoice: &Invoice) -> Result<String, EinvoiceError> {
    let terms = semantic(invoice)?;
    // Peppol checks registration numbers more strictly than their issuers: without it, the invoice is still EN 16931.
    match for_peppol(invoice, terms.clone()).map(prove::<PeppolBis3>) {
        Some(Ok(proof)) => super::write(&proof, Syntax::Ubl),
        Some(Err(_)) | None => super::write(&prove::<En16931>(terms)?, Syntax::Ubl),
    }
}

/// Returns the invoice with the fields that Peppol requires; `None` if they are unknown.
fn for_peppol(invoice: &Invoice, mut terms: Semantic) -> Option<Semantic> {
    terms.buyer_reference.as_ref()?;
    terms.seller.electronic_address = Some(peppol::address(&invoice.seller)?);
    terms.buyer.electronic_address = Some(peppol::address(&invoice.buyer)?);
    terms.business_process = Some(PROCESS.to_owned());
    Some(terms)
}
