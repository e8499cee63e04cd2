//! The VAT of an invoice: the reason it is charged or not, its rate, and its amount for each rate.

use std::fmt;

use time::Date;

use super::{DraftLine, InvoiceError, proof::ProvedAmount};
use crate::Country;

/// The reason VAT is charged or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VatTreatment {
    /// The VAT of the seller's country.
    Standard,
    /// The buyer, a business in another member state, accounts for VAT.
    ReverseCharge {
        /// The proof that the buyer's number was valid, if VIES gave one.
        consultation: Option<ViesConsultation>,
    },
    /// The VAT of the country where the buyer, a consumer, lives; declared through the one-stop shop.
    ConsumerOfAnotherState {
        /// The country whose VAT is charged.
        country: Country,
    },
    /// The service is supplied outside the European Union.
    OutsideScope,
}

/// A response of VIES that a VAT number is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViesConsultation {
    /// The consultation number.
    pub number: String,
    /// The date of the response.
    pub on: Date,
}

impl VatTreatment {
    /// Returns the category of a line with this treatment.
    pub fn category(&self, rate: VatRate) -> VatCategory {
        match self {
            Self::Standard | Self::ConsumerOfAnotherState { .. } if rate == VatRate::ZERO => VatCategory::Zero,
            Self::Standard | Self::ConsumerOfAnotherState { .. } => VatCategory::Standard,
            Self::ReverseCharge { .. } => VatCategory::ReverseCharge,
            Self::OutsideScope => VatCategory::OutsideScope,
        }
    }

    /// Returns the note that the law requires on the document; `None` for ordinary VAT.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Standard => None,
            Self::ReverseCharge { .. } => Some(
                "VAT reverse charged: the customer accounts for the VAT (articles 44 and 196 of Directive 2006/112/EC).".to_owned(),
            ),
            Self::ConsumerOfAnotherState { country } => Some(format!(
                "VAT of {}, declared under the Union scheme of the one-stop shop (OSS).",
                country.name()
            )),
            Self::OutsideScope => Some(
                "Outside the scope of EU VAT: the place of supply is the customer's country (articles 44 and 58 of Directive \
                 2006/112/EC)."
                    .to_owned(),
            ),
        }
    }
}

/// A VAT category of the European standard, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VatCategory {
    /// `S`: a rate above zero.
    Standard,
    /// `Z`: a rate of zero.
    Zero,
    /// `AE`: the buyer accounts for VAT.
    ReverseCharge,
    /// `O`: not subject to VAT.
    OutsideScope,
}

impl VatCategory {
    /// Returns the category's code in UNCL 5305.
    pub fn code(self) -> &'static str {
        match self {
            Self::Standard => "S",
            Self::Zero => "Z",
            Self::ReverseCharge => "AE",
            Self::OutsideScope => "O",
        }
    }
}

/// A VAT rate from 0 to 100 per cent, in hundredths of a per cent. Displayed as `21` or `5.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VatRate(u16);

/// The error for a number that is not a VAT rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a VAT rate is 0 to 10000 hundredths of a per cent")]
pub struct VatRateError;

impl VatRate {
    /// The rate of zero.
    pub const ZERO: Self = Self(0);
    const WHOLE: u16 = 10_000;

    /// Creates a rate from hundredths of a per cent: 2100 is 21%.
    pub fn from_basis_points(points: u16) -> Result<Self, VatRateError> {
        if points <= Self::WHOLE { Ok(Self(points)) } else { Err(VatRateError) }
    }

    /// Returns the rate in hundredths of a per cent.
    pub fn basis_points(self) -> u16 {
        self.0
    }

    /// Returns the VAT of a net amount, rounded half up (half away from zero if the amount is negative).
    pub fn tax_on(self, net_cents: i64) -> i64 {
        let exact = i128::from(net_cents) * i128::from(self.0);
        let half = i128::from(Self::WHOLE / 2) * exact.signum();
        i64::try_from((exact + half) / i128::from(Self::WHOLE)).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for VatRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => write!(f, "{whole}"),
            _ if part % 10 == 0 => write!(f, "{whole}.{}", part / 10),
            _ => write!(f, "{whole}.{part:02}"),
        }
    }
}

/// The VAT of all lines of one category and rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VatShare {
    /// The category.
    pub category: VatCategory,
    /// The rate.
    pub rate: VatRate,
    /// The sum of the lines.
    pub net_cents: i64,
    /// The VAT of the lines, rounded once.
    pub vat_cents: i64,
}

impl VatShare {
    /// Calculates the VAT of lines, the highest rate first.
    pub fn from_lines(lines: &[DraftLine]) -> Result<Vec<Self>, InvoiceError> {
        let mut shares: Vec<Self> = Vec::new();
        for line in lines {
            match shares.iter_mut().find(|share| (share.category, share.rate) == (line.category, line.rate)) {
                Some(share) => share.net_cents = ProvedAmount::VatShare.sum([share.net_cents, line.net_cents])?,
                None => shares.push(Self {
                    category: line.category,
                    rate: line.rate,
                    net_cents: line.net_cents,
                    vat_cents: 0,
                }),
            }
        }
        for share in &mut shares {
            share.vat_cents = share.rate.tax_on(share.net_cents);
        }
        shares.sort_by(|a, b| b.rate.cmp(&a.rate).then(a.category.cmp(&b.category)));
        Ok(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(points: u16) -> VatRate {
        VatRate::from_basis_points(points).unwrap()
    }

    #[test]
    fn vat_is_rounded_half_up() {
        for (points, net, vat) in [
            (2100, 1000, 210),
            (2100, 50, 11),
            (2100, 49, 10),
            (550, 100, 6),
            (2100, -50, -11),
            (0, 999, 0),
            (10_000, 1, 1),
        ] {
            assert_eq!(rate(points).tax_on(net), vat, "{points} of {net}");
        }
    }

    #[test]
    fn rates_are_shown_without_idle_zeros() {
        for (points, shown) in [(2100, "21"), (550, "5.5"), (0, "0"), (1925, "19.25"), (5, "0.05"), (10_000, "100")] {
            assert_eq!(rate(points).to_string(), shown);
        }
        assert_eq!(VatRate::from_basis_points(10_001), Err(VatRateError));
    }
}
