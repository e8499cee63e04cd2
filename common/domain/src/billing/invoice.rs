//! Invoices and credit notes: their kinds, their numbers, and the parts of an amount that is given back.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Cents, vat::Amounts};

/// The kind of a numbered document. Each has a series of numbers of its own for each year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceKind {
    /// Bills a payment.
    Invoice,
    /// Corrects an invoice by what was given back.
    CreditNote,
}

/// What became of the money of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceStatus {
    /// It is paid.
    Paid,
    /// It was paid, and all of it given back.
    Refunded,
    /// It was paid, and a part of it given back.
    PartlyRefunded,
    /// It was paid, and the payer's bank took the money back.
    ChargedBack,
}

/// The number of an invoice or a credit note, such as `2026-000001` or `CN-2026-000001`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvoiceNumber {
    /// The kind, which has a series of its own.
    pub kind: InvoiceKind,
    /// The year of issue.
    pub year: i32,
    /// The place in the year's series, from 1 on.
    pub sequence: i32,
}

impl fmt::Display for InvoiceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            InvoiceKind::Invoice => "",
            InvoiceKind::CreditNote => "CN-",
        };
        write!(f, "{prefix}{}-{:06}", self.year, self.sequence)
    }
}

/// Divides `total`, which is given back of an invoice over `whole`, into net and VAT. `credited` was given back before.
/// The VAT of all that is given back is the invoice's VAT in proportion, rounded once, so that partial credit notes of
/// the whole add up to the invoice. Never more than what is left is credited.
pub fn credit(whole: Amounts, credited: Amounts, total: Cents) -> Amounts {
    let left = Amounts {
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
    // Where money came back in between, the proportion may ask for more than what is left on either side.
    let vat = proportional.max(total - left.net.0).max(0).min(left.vat.0).min(total);
    Amounts { net: Cents(total - vat), vat: Cents(vat), total: Cents(total) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(net: i64, vat: i64) -> Amounts {
        Amounts { net: Cents(net), vat: Cents(vat), total: Cents(net + vat) }
    }

    #[test]
    fn numbers_name_kind_year_and_place() {
        let number = |kind, sequence| InvoiceNumber { kind, year: 2026, sequence }.to_string();
        assert_eq!(number(InvoiceKind::Invoice, 1), "2026-000001");
        assert_eq!(number(InvoiceKind::CreditNote, 42), "CN-2026-000042");
        assert_eq!(number(InvoiceKind::Invoice, 1_234_567), "2026-1234567");
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
