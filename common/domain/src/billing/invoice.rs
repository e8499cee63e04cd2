//! Invoices and credit notes: kinds, numbers, and the split of a refunded amount.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Cents, vat::SaleAmounts};

/// The kind of a numbered document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceKind {
    /// Bills a payment.
    Invoice,
    /// Corrects an invoice by a refunded amount.
    CreditNote,
}

/// The payment status of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceStatus {
    /// Paid.
    Paid,
    /// Paid, then fully refunded.
    Refunded,
    /// Paid, then partly refunded.
    PartlyRefunded,
    /// Paid, then charged back by the payer's bank.
    ChargedBack,
}

/// A numbering series, restarted every year. Play money has its own, so that trials leave no trace in the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum InvoiceSeries {
    /// Invoices.
    Invoice,
    /// Credit notes.
    CreditNote,
    /// Invoices paid with play money.
    PlayInvoice,
    /// Credit notes for invoices paid with play money.
    PlayCreditNote,
}

impl InvoiceSeries {
    /// Returns the series of a document.
    pub fn new(kind: InvoiceKind, is_play: bool) -> Self {
        match (kind, is_play) {
            (InvoiceKind::Invoice, false) => Self::Invoice,
            (InvoiceKind::CreditNote, false) => Self::CreditNote,
            (InvoiceKind::Invoice, true) => Self::PlayInvoice,
            (InvoiceKind::CreditNote, true) => Self::PlayCreditNote,
        }
    }

    /// Returns the kind of the documents in this series.
    pub fn kind(self) -> InvoiceKind {
        match self {
            Self::Invoice | Self::PlayInvoice => InvoiceKind::Invoice,
            Self::CreditNote | Self::PlayCreditNote => InvoiceKind::CreditNote,
        }
    }

    /// Returns whether the documents in this series are paid with play money.
    pub fn is_play(self) -> bool {
        matches!(self, Self::PlayInvoice | Self::PlayCreditNote)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Invoice => "",
            Self::CreditNote => "CN-",
            Self::PlayInvoice => "PLAY-",
            Self::PlayCreditNote => "PLAY-CN-",
        }
    }
}

/// The number of an invoice or a credit note, such as `2026-000001`, `CN-2026-000001` or `PLAY-2026-000001`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvoiceNumber {
    /// The series.
    pub series: InvoiceSeries,
    /// The year of issue.
    pub year: i32,
    /// The position in the year's series, starting at 1.
    pub sequence: i32,
}

impl fmt::Display for InvoiceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}-{:06}", self.series.prefix(), self.year, self.sequence)
    }
}

/// Splits a refund of `total` on an invoice over `whole` into net and VAT, given the `credited` earlier refunds.
///
/// The VAT of all refunds together is the invoice's VAT in proportion, rounded once, so that partial credit notes over
/// the whole add up to the invoice. The result never exceeds the remaining amount.
pub fn credit(whole: SaleAmounts, credited: SaleAmounts, total: Cents) -> SaleAmounts {
    let left = SaleAmounts {
        net: Cents((whole.net.0 - credited.net.0).max(0)),
        vat: Cents((whole.vat.0 - credited.vat.0).max(0)),
        total: Cents((whole.total.0 - credited.total.0).max(0)),
    };
    let total = total.0.clamp(0, left.total.0);
    if total == left.total.0 {
        return left;
    }
    let (all, vat) = (i128::from(credited.total.0 + total), i128::from(whole.vat.0));
    let whole_total = i128::from(whole.total.0.max(1));
    let proportional = (all * vat * 2 + whole_total) / (whole_total * 2);
    let proportional = i64::try_from(proportional).unwrap_or(i64::MAX).saturating_sub(credited.vat.0);
    // If money came back in between, the proportion can exceed the remaining net or VAT.
    let vat = proportional.max(total - left.net.0).max(0).min(left.vat.0).min(total);
    SaleAmounts { net: Cents(total - vat), vat: Cents(vat), total: Cents(total) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(net: i64, vat: i64) -> SaleAmounts {
        SaleAmounts { net: Cents(net), vat: Cents(vat), total: Cents(net + vat) }
    }

    #[test]
    fn numbers_name_kind_year_and_place() {
        let number = |kind, is_play, sequence| {
            let series = InvoiceSeries::new(kind, is_play);
            assert_eq!((series.kind(), series.is_play()), (kind, is_play));
            InvoiceNumber { series, year: 2026, sequence }.to_string()
        };
        assert_eq!(number(InvoiceKind::Invoice, false, 1), "2026-000001");
        assert_eq!(number(InvoiceKind::CreditNote, false, 42), "CN-2026-000042");
        assert_eq!(number(InvoiceKind::Invoice, false, 1_234_567), "2026-1234567");
        assert_eq!(number(InvoiceKind::Invoice, true, 1), "PLAY-2026-000001");
        assert_eq!(number(InvoiceKind::CreditNote, true, 1), "PLAY-CN-2026-000001");
    }

    #[test]
    fn parts_of_an_invoice_carry_their_part_of_the_vat() {
        let whole = amounts(2_000, 420);
        assert_eq!(credit(whole, amounts(0, 0), Cents(1_210)), amounts(1_000, 210));
        assert_eq!(credit(whole, amounts(1_000, 210), Cents(1_210)), amounts(1_000, 210));
        assert_eq!(credit(whole, amounts(1_000, 210), Cents(9_999)), amounts(1_000, 210), "no more than is left");
        assert_eq!(credit(whole, whole, Cents(1)), amounts(0, 0));
    }

    proptest! {
        #[test]
        fn credit_notes_of_the_whole_add_up_to_the_invoice(
            net in 1_i64..100_000, points in 0_i64..3_000, parts in proptest::collection::vec(1_i64..40_000, 1..12),
        ) {
            let whole = amounts(net, net * points / 10_000);
            let mut credited = amounts(0, 0);
            for part in parts.into_iter().chain([i64::MAX]) {
                let note = credit(whole, credited, Cents(part));
                prop_assert!(note.net.0 >= 0 && note.vat.0 >= 0 && note.net.0 + note.vat.0 == note.total.0);
                credited = amounts(credited.net.0 + note.net.0, credited.vat.0 + note.vat.0);
                let apart = i128::from(credited.vat.0) * i128::from(whole.total.0)
                    - i128::from(credited.total.0) * i128::from(whole.vat.0);
                prop_assert!(apart.abs() * 2 <= i128::from(whole.total.0), "more than half a cent");
            }
            prop_assert_eq!(credited, whole);
        }
    }
}
