//! Standard VAT rates of the member states, each with its first day, plus rates that an operator adds.
//!
//! Sources: the European Commission's "Taxes in Europe" database, and overviews of 2024 to 2026 that agree on the
//! changes since (Estonia, Finland, Luxembourg, Romania, Slovakia). As of November 2026, no state is known to have
//! decided on another standard rate for 2026 or 2027; the changes of 2026 are to reduced rates. Rates from before 2022,
//! such as the lowered ones of Germany and Ireland in 2020, are left out: there were no sales then. A future rate is
//! one more line here, added before its first day, or a line of the configuration, which needs no release.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{Date, format_description::BorrowedFormatItem, macros::date, macros::format_description};

use super::{Cents, Country};

/// A VAT rate, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaxRate(u16);

impl TaxRate {
    /// No VAT.
    pub const ZERO: Self = Self(0);

    /// Creates a rate from hundredths of a percent: 2,100 is 21 percent.
    pub const fn from_basis_points(points: u16) -> Self {
        Self(points)
    }

    /// Returns the rate in hundredths of a percent.
    pub const fn basis_points(self) -> u16 {
        self.0
    }

    /// Returns the VAT on `net`, rounded half a cent away from zero.
    pub fn vat_on(self, net: Cents) -> Cents {
        let product = i128::from(net.0) * i128::from(self.0);
        let rounded = (product.abs() + 5_000) / 10_000 * product.signum();
        Cents(i64::try_from(rounded).unwrap_or(i64::MAX))
    }
}

/// Formats the rate for people, such as `21%` or `25.5%`.
impl fmt::Display for TaxRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            rest if rest % 10 == 0 => write!(f, "{whole}.{}%", rest / 10),
            rest => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

/// The first day of rates that have applied for longer than this service has sold anything.
const ALWAYS: Date = date!(2022 - 01 - 01);

/// State code, first day, and rate in hundredths of a percent. Each state's lines are in chronological order.
const STANDARD: &[(&str, Date, u16)] = &[
    ("AT", ALWAYS, 2_000),
    ("BE", ALWAYS, 2_100),
    ("BG", ALWAYS, 2_000),
    ("CY", ALWAYS, 1_900),
    ("CZ", ALWAYS, 2_100),
    ("DE", ALWAYS, 1_900),
    ("DK", ALWAYS, 2_500),
    ("EE", ALWAYS, 2_000),
    ("EE", date!(2024 - 01 - 01), 2_200),
    ("EE", date!(2025 - 07 - 01), 2_400),
    ("ES", ALWAYS, 2_100),
    ("FI", ALWAYS, 2_400),
    ("FI", date!(2024 - 09 - 01), 2_550),
    ("FR", ALWAYS, 2_000),
    ("GR", ALWAYS, 2_400),
    ("HR", ALWAYS, 2_500),
    ("HU", ALWAYS, 2_700),
    ("IE", ALWAYS, 2_300),
    ("IT", ALWAYS, 2_200),
    ("LT", ALWAYS, 2_100),
    ("LU", ALWAYS, 1_700),
    ("LU", date!(2023 - 01 - 01), 1_600),
    ("LU", date!(2024 - 01 - 01), 1_700),
    ("LV", ALWAYS, 2_100),
    ("MT", ALWAYS, 1_800),
    ("NL", ALWAYS, 2_100),
    ("PL", ALWAYS, 2_300),
    ("PT", ALWAYS, 2_300),
    ("RO", ALWAYS, 1_900),
    ("RO", date!(2025 - 08 - 01), 2_100),
    ("SE", ALWAYS, 2_500),
    ("SI", ALWAYS, 2_200),
    ("SK", ALWAYS, 2_000),
    ("SK", date!(2025 - 01 - 01), 2_300),
];

/// The highest rate that the configuration may set; the highest of any state is 27 percent.
const HIGHEST: TaxRate = TaxRate(5_000);
const DAY: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// A change of a member state's standard rate from a given day on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ConfiguredRateChange", into = "ConfiguredRateChange")]
pub struct VatRateChange {
    country: Country,
    from: Date,
    rate: TaxRate,
}

/// The reason a rate change is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateChangeError {
    /// The country does not charge VAT of the Union.
    #[error("vat_rates: {0} is not a member of the European Union")]
    Country(Country),
    /// The day is not a valid date.
    #[error("vat_rates: `from` must be a day such as 2027-01-01")]
    Day,
    /// The rate is not a valid percentage.
    #[error("vat_rates: `percent` must be a number from 0 to 50 with at most two decimals, such as 25.5")]
    Percent,
}

/// A rate change as written in the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfiguredRateChange {
    country: Country,
    from: String,
    percent: f64,
}

impl VatRateChange {
    /// Creates a change to `rate` in a member state on the day `from`.
    pub fn new(country: Country, from: Date, rate: TaxRate) -> Result<Self, RateChangeError> {
        if !country.is_in_eu() {
            return Err(RateChangeError::Country(country));
        }
        if rate > HIGHEST { Err(RateChangeError::Percent) } else { Ok(Self { country, from, rate }) }
    }
}

impl TryFrom<ConfiguredRateChange> for VatRateChange {
    type Error = RateChangeError;
    fn try_from(written: ConfiguredRateChange) -> Result<Self, RateChangeError> {
        let from = Date::parse(&written.from, DAY).map_err(|_| RateChangeError::Day)?;
        // Parsing the decimal digits keeps 25.5 exactly 2,550 hundredths.
        let digits = written.percent.to_string();
        let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
        let points = (rest.len() <= 2).then(|| format!("{whole}{rest:0<2}").parse().ok()).flatten();
        Self::new(written.country, from, TaxRate(points.ok_or(RateChangeError::Percent)?))
    }
}

impl From<VatRateChange> for ConfiguredRateChange {
    fn from(change: VatRateChange) -> Self {
        let percent = f64::from(change.rate.0) / 100.0;
        Self { country: change.country, from: change.from.to_string(), percent }
    }
}

/// The standard rates: the built-in table and an operator's changes, which win on the same day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VatRates(Vec<VatRateChange>);

impl VatRates {
    /// Returns the built-in rates with these changes added.
    pub fn with_changes(changes: Vec<VatRateChange>) -> Self {
        Self(changes)
    }

    /// Returns the standard rate of a member state on the day `on` (the first known rate if earlier), or `None` outside
    /// the Union.
    pub fn standard(&self, country: Country, on: Date) -> Option<TaxRate> {
        let known = STANDARD.iter().filter(|(code, ..)| *code == country.as_str());
        let known = known.map(|&(_, from, points)| (from, TaxRate(points)));
        let first = known.clone().next()?;
        let added = self.0.iter().filter(|change| change.country == country).map(|change| (change.from, change.rate));
        // `max_by_key` returns the last of several with the same day.
        let latest = known.chain(added).filter(|(from, _)| *from <= on).max_by_key(|(from, _)| *from);
        Some(latest.unwrap_or(first).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(country: &str, on: Date) -> Option<TaxRate> {
        VatRates::default().standard(country.parse().unwrap(), on)
    }

    #[test]
    fn every_member_has_a_rate_and_nobody_else() {
        for (code, ..) in STANDARD {
            assert!(code.parse::<Country>().unwrap().is_in_eu(), "{code}");
            // A wrong clock must not make a sale free of VAT.
            for on in [date!(1999 - 01 - 01), date!(2026 - 11 - 23), date!(2099 - 01 - 01)] {
                assert!(shipped(code, on).is_some(), "{code}");
            }
        }
        let states: std::collections::BTreeSet<_> = STANDARD.iter().map(|(code, ..)| code).collect();
        assert_eq!(states.len(), 27);
        assert_eq!(shipped("US", date!(2026 - 11 - 23)), None);
        assert!(STANDARD.is_sorted_by(|(code, from, _), (next, later, _)| (code, from) < (next, later)));
    }

    #[test]
    fn a_new_rate_applies_from_its_day_on() {
        for (country, on, points) in [
            ("EE", date!(2023 - 12 - 31), 2_000),
            ("EE", date!(2024 - 01 - 01), 2_200),
            ("EE", date!(2025 - 07 - 01), 2_400),
            ("FI", date!(2024 - 08 - 31), 2_400),
            ("FI", date!(2024 - 09 - 01), 2_550),
            ("LU", date!(2022 - 12 - 31), 1_700),
            ("LU", date!(2023 - 12 - 31), 1_600),
            ("LU", date!(2024 - 01 - 01), 1_700),
            ("RO", date!(2025 - 07 - 31), 1_900),
            ("RO", date!(2025 - 08 - 01), 2_100),
            ("SK", date!(2024 - 12 - 31), 2_000),
            ("SK", date!(2025 - 01 - 01), 2_300),
        ] {
            assert_eq!(shipped(country, on), Some(TaxRate(points)), "{country} {on}");
        }
    }

    #[test]
    fn an_operators_rate_applies_from_its_day_on_and_comes_first() {
        let rates: VatRates = serde_json::from_str(
            r#"[{"country": "NL", "from": "2027-01-01", "percent": 22}, {"country": "SK", "from": "2025-01-01", "percent": 23.5}]"#,
        )
        .unwrap();
        let of = |country: &str, on| rates.standard(country.parse().unwrap(), on).unwrap().basis_points();
        assert_eq!((of("NL", date!(2026 - 12 - 31)), of("NL", date!(2027 - 01 - 01))), (2_100, 2_200));
        assert_eq!((of("SK", date!(2024 - 12 - 31)), of("SK", date!(2025 - 01 - 01))), (2_000, 2_350));
        assert_eq!(of("DE", date!(2027 - 01 - 01)), 1_900);
        let again: VatRates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!(again, rates);
    }

    #[test]
    fn a_wrong_change_of_a_rate_says_why() {
        for (country, from, percent, wanted) in [
            ("US", "2027-01-01", "20", "US is not a member"),
            ("MC", "2027-01-01", "20", "MC is not a member"),
            ("NL", "1/1/2027", "20", "`from` must be"),
            ("NL", "2027-02-29", "20", "`from` must be"),
            ("NL", "2027-01-01", "-1", "`percent` must be"),
            ("NL", "2027-01-01", "20.125", "`percent` must be"),
            ("NL", "2027-01-01", "51", "`percent` must be"),
            ("NL", "2027-01-01", "1e300", "`percent` must be"),
        ] {
            let written = format!(r#"[{{"country": "{country}", "from": "{from}", "percent": {percent}}}]"#);
            let error = serde_json::from_str::<VatRates>(&written).unwrap_err().to_string();
            assert!(error.contains(wanted), "{written}: {error}");
        }
    }

    #[test]
    fn rates_are_written_without_needless_digits() {
        assert_eq!([2_100, 2_550, 5, 0].map(|points| TaxRate(points).to_string()), ["21%", "25.5%", "0.05%", "0%"]);
    }
}
