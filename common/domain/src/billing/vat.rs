//! VAT on electronically supplied services: who owes it, and how much.
//!
//! Directive 2006/112/EC: articles 44 and 196 (businesses of other states: reverse charge), 58 (consumers: the rate of
//! their state), 59 (buyers outside the Union). Choices that the law leaves open, and simplifications:
//!
//! - The buyer's country is the one of the billing details. It is part of every payment's terms and of the invoice; the
//!   payment provider keeps the country of the bank or card, the other piece of evidence of Regulation 282/2011,
//!   articles 24b and 24f.
//! - A consumer of another member state is charged that state's rate from the first cent on: the threshold of article
//!   59c, 10,000 euros a year, below which a seller may charge its own state's rate, is not used.
//! - A business is a buyer with a number that the registry has confirmed, from the country of the billing details.
//!   Every other buyer is a consumer; within the seller's own state there is no difference.
//! - A seller outside the Union charges no EU VAT. VAT that such a seller owes under the non-Union scheme is not
//!   computed.
//! - Territories of members to which the directive does not apply are outside if they have a code of their own (`GP`,
//!   `AX`), and otherwise part of their member (the Canary Islands are `ES`). Monaco counts as France (article 7),
//!   Northern Ireland as outside: it is inside for goods only.

mod number;

use serde::{Deserialize, Serialize};
use time::Date;

pub use self::number::{VatNumber, VatNumberError, prefix_for};
pub use super::rates::TaxRate;
use super::{Cents, Country, rates::VatRates};

/// The registry's status of a VAT number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum VatStatus {
    /// The registry has not answered yet; the check is retried.
    Pending,
    /// The number is registered.
    Valid,
    /// The number is not registered any more.
    Invalid,
}

impl VatStatus {
    /// Returns the word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
        }
    }
}

/// The VAT of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VatTreatment {
    /// Seller and buyer are in the same state, whose rate applies.
    Domestic {
        /// The state's rate.
        rate: TaxRate,
    },
    /// The buyer is a business of another state and owes the VAT there.
    ReverseCharge,
    /// The buyer is a consumer of another state, whose rate applies, declared through the one-stop shop.
    OtherState {
        /// The consumer's state.
        country: Country,
        /// The rate of the consumer's state.
        rate: TaxRate,
    },
    /// Buyer or seller is outside the Union: no EU VAT.
    Outside,
}

impl VatTreatment {
    /// Returns the VAT treatment of a sale on the day `on`. A buyer with an unconfirmed number counts as a consumer.
    pub fn for_sale(
        rates: &VatRates,
        seller: Country,
        buyer: Country,
        number: Option<(&VatNumber, VatStatus)>,
        on: Date,
    ) -> Self {
        let (Some(from), Some(to)) = (seller.vat_state(), buyer.vat_state()) else { return Self::Outside };
        let Some(rate) = rates.standard(to, on) else { return Self::Outside };
        let is_business = number.is_some_and(|(number, status)| status == VatStatus::Valid && number.is_from(to));
        match () {
            () if from == to => Self::Domestic { rate },
            () if is_business => Self::ReverseCharge,
            () => Self::OtherState { country: to, rate },
        }
    }

    /// Returns the rate that is charged.
    pub fn rate(self) -> TaxRate {
        match self {
            Self::Domestic { rate } | Self::OtherState { rate, .. } => rate,
            Self::ReverseCharge | Self::Outside => TaxRate::ZERO,
        }
    }

    /// Returns the amounts of a sale of `net`. VAT is rounded once per invoice, half a cent away from zero.
    pub fn amounts(self, net: Cents) -> SaleAmounts {
        let vat = self.rate().vat_on(net);
        SaleAmounts { net, vat, total: Cents(net.0.saturating_add(vat.0)) }
    }
}

/// The amounts of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleAmounts {
    /// The amount without VAT.
    pub net: Cents,
    /// The VAT.
    pub vat: Cents,
    /// The amount with VAT.
    pub total: Cents,
}

#[cfg(test)]
mod tests {
    use time::macros::date;

    use super::*;

    fn country(code: &str) -> Country {
        code.parse().unwrap()
    }

    fn number(text: &str) -> VatNumber {
        text.parse().unwrap()
    }

    #[test]
    fn the_states_of_seller_and_buyer_decide() {
        let on = date!(2026 - 11 - 23);
        let (nl, de, us) = (country("NL"), country("DE"), country("US"));
        let german = number("DE123456789");
        let valid = Some((&german, VatStatus::Valid));
        let rate = |points| TaxRate::from_basis_points(points);
        let of = |seller, buyer, number| VatTreatment::for_sale(&VatRates::default(), seller, buyer, number, on);
        assert_eq!(of(nl, nl, None), VatTreatment::Domestic { rate: rate(2_100) });
        assert_eq!(of(nl, de, valid), VatTreatment::ReverseCharge);
        for unconfirmed in [None, Some((&german, VatStatus::Pending)), Some((&german, VatStatus::Invalid))] {
            let consumer = VatTreatment::OtherState { country: de, rate: rate(1_900) };
            assert_eq!(of(nl, de, unconfirmed), consumer);
        }
        assert_eq!(
            of(nl, country("FR"), valid),
            VatTreatment::OtherState { country: country("FR"), rate: rate(2_000) },
            "a number of another state than the address"
        );
        assert_eq!(of(nl, us, None), VatTreatment::Outside);
        assert_eq!(of(us, de, valid), VatTreatment::Outside);
        assert_eq!(of(nl, country("XI"), None), VatTreatment::Outside, "services are not goods");
        assert_eq!(of(nl, country("AX"), None), VatTreatment::Outside, "no part of the territory of VAT");
        let greek = number("EL123456789");
        assert_eq!(of(nl, country("GR"), Some((&greek, VatStatus::Valid))), VatTreatment::ReverseCharge);
        assert_eq!(of(country("GR"), country("GR"), None), VatTreatment::Domestic { rate: rate(2_400) });
        assert_eq!(of(de, de, valid), VatTreatment::Domestic { rate: rate(1_900) }, "no reverse charge at home");
        let monegasque = number("FR12345678901");
        let (monaco, france) = (country("MC"), country("FR"));
        assert_eq!(of(nl, monaco, Some((&monegasque, VatStatus::Valid))), VatTreatment::ReverseCharge);
        assert_eq!(of(nl, monaco, None), VatTreatment::OtherState { country: france, rate: rate(2_000) });
        assert_eq!(of(france, monaco, None), VatTreatment::Domestic { rate: rate(2_000) });
    }

    #[test]
    fn vat_is_rounded_half_a_cent_away_from_zero() {
        let domestic = VatTreatment::Domestic { rate: TaxRate::from_basis_points(2_550) };
        for (net, vat) in [(2_000, 510), (10, 3), (-10, -3), (9, 2), (0, 0)] {
            let amounts = domestic.amounts(Cents(net));
            assert_eq!((amounts.vat, amounts.total), (Cents(vat), Cents(net + vat)), "{net}");
        }
        assert_eq!(VatTreatment::ReverseCharge.amounts(Cents(2_000)).total, Cents(2_000));
    }
}
