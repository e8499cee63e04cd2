//! The standard rates of VAT of the member states, with the days from which they apply, and those that an operator adds.
//!
//! Sources: the European Commission's "Taxes in Europe" database, and overviews of the years 2024 to 2026 that agree with each
//! other on the changes since (Estonia, Finland, Luxembourg, Romania, Slovakia). For 2026 and 2027 no state is known to have
//! decided on another standard rate, as of November 2026; the changes of 2026 are to reduced rates. Rates from before 2022, such
//! as the lowered ones of Germany and Ireland in 2020, are left out: nothing was sold then.
//!
//! A rate that is to come is a line more, before its day; or a line of the configuration, which needs no release.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{Date, format_description::BorrowedFormatItem, macros::date, macros::format_description};

use super::{Cents, Country};

/// A rate of VAT, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u16);

impl Rate {
    /// No VAT.
    pub const ZERO: Self = Self(0);

    /// Makes a rate of hundredths of a percent: 2,100 is 21 percent.
    pub const fn from_basis_points(points: u16) -> Self {
        Self(points)
    }

    /// Returns the rate in hundredths of a percent.
    pub const fn basis_points(self) -> u16 {
        self.0
    }

    /// Returns the rate's part of `net`, rounded half a cent away from zero.
    pub fn of(self, net: Cents) -> Cents {
        let product = i128::from(net.0) * i128::from(self.0);
        let rounded = (product.abs() + 5_000) / 10_000 * product.signum();
        Cents(i64::try_from(rounded).unwrap_or(i64::MAX))
    }
}

/// Written for people, such as `21%` or `25.5%`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            rest if rest % 10 == 0 => write!(f, "{whole}.{}%", rest / 10),
            rest => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

/// The first day of a rate that has applied for longer than this service sells.
const ALWAYS: Date = date!(2022 - 01 - 01);

/// A state's code, the first day of a rate, the rate in hundredths of a percent. A state's lines are in the order of time.
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

/// The highest rate that is taken from a configuration; the highest of all states is 27 percent.
const HIGHEST: Rate = Rate(5_000);
const DAY: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// A standard rate that a member state has from a day on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenChange", into = "WrittenChange")]
pub struct RateChange {
    country: Country,
    from: Date,
    rate: Rate,
}

/// Why a change of a rate is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateChangeError {
    /// The country charges no VAT of the Union.
    #[error("vat_rates: {0} is not a member of the European Union")]
    Country(Country),
    /// The day is none.
    #[error("vat_rates: `from` must be a day such as 2027-01-01")]
    Day,
    /// The rate is no percentage.
    #[error("vat_rates: `percent` must be a number from 0 to 50 with at most two decimals, such as 25.5")]
    Percent,
}

/// A change of a rate as it is written in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChange {
    country: Country,
    from: String,
    percent: f64,
}

impl RateChange {
    /// Makes the change to `rate` in a member state on the day `from`.
    pub fn new(country: Country, from: Date, rate: Rate) -> Result<Self, RateChangeError> {
        if !country.is_in_eu() {
            return Err(RateChangeError::Country(country));
        }
        if rate > HIGHEST { Err(RateChangeError::Percent) } else { Ok(Self { country, from, rate }) }
    }
}

impl TryFrom<WrittenChange> for RateChange {
    type Error = RateChangeError;
    fn try_from(written: WrittenChange) -> Result<Self, RateChangeError> {
        let from = Date::parse(&written.from, DAY).map_err(|_| RateChangeError::Day)?;
        // By its decimal digits: 25.5 is exactly 2,550 hundredths.
        let digits = written.percent.to_string();
        let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
        let points = (rest.len() <= 2).then(|| format!("{whole}{rest:0<2}").parse().ok()).flatten();
        Self::new(written.country, from, Rate(points.ok_or(RateChangeError::Percent)?))
    }
}

impl From<RateChange> for WrittenChange {
    fn from(change: RateChange) -> Self {
        let percent = f64::from(change.rate.0) / 100.0;
        Self { country: change.country, from: change.from.to_string(), percent }
    }
}

/// The standard rates: those that are known to this program, and changes that an operator has added. On the day of both, the
/// operator's counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rates(Vec<RateChange>);

impl Rates {
    /// Adds changes to the rates that are known to this program.
    pub fn with(changes: Vec<RateChange>) -> Self {
        Self(changes)
    }

    /// Returns the standard rate of a member state on the day `on`; `None` for countries outside the Union. Days before the
    /// table begins have its first rate.
    pub fn standard(&self, country: Country, on: Date) -> Option<Rate> {
        let known = STANDARD.iter().filter(|(code, ..)| *code == country.as_str());
        let known = known.map(|&(_, from, points)| (from, Rate(points)));
        let first = known.clone().next()?;
        let added = self.0.iter().filter(|change| change.country == country).map(|change| (change.from, change.rate));
        // Of those with the same day, the last is taken.
        let latest = known.chain(added).filter(|(from, _)| *from <= on).max_by_key(|(from, _)| *from);
        Some(latest.unwrap_or(first).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(country: &str, on: Date) -> Option<Rate> {
        Rates::default().standard(country.parse().unwrap(), on)
    }

    #[test]
    fn every_member_has_a_rate_and_nobody_else() {
        for (code, ..) in STANDARD {
            assert!(code.parse::<Country>().unwrap().is_in_eu(), "{code}");
            // A clock that is wrong makes no sale free of VAT.
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
            assert_eq!(shipped(country, on), Some(Rate(points)), "{country} {on}");
        }
    }

    #[test]
    fn an_operators_rate_applies_from_its_day_on_and_comes_first() {
        let rates: Rates = serde_json::from_str(
            r#"[{"country": "NL", "from": "2027-01-01", "percent": 22}, {"country": "SK", "from": "2025-01-01", "percent": 23.5}]"#,
        )
        .unwrap();
        let of = |country: &str, on| rates.standard(country.parse().unwrap(), on).unwrap().basis_points();
        assert_eq!((of("NL", date!(2026 - 12 - 31)), of("NL", date!(2027 - 01 - 01))), (2_100, 2_200));
        assert_eq!((of("SK", date!(2024 - 12 - 31)), of("SK", date!(2025 - 01 - 01))), (2_000, 2_350));
        assert_eq!(of("DE", date!(2027 - 01 - 01)), 1_900);
        let again: Rates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
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
            let error = serde_json::from_str::<Rates>(&written).unwrap_err().to_string();
            assert!(error.contains(wanted), "{written}: {error}");
        }
    }

    #[test]
    fn rates_are_written_without_needless_digits() {
        assert_eq!([2_100, 2_550, 5, 0].map(|points| Rate(points).to_string()), ["21%", "25.5%", "0.05%", "0%"]);
    }
}
