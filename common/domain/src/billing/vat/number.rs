//! VAT numbers: the prefix of the state, and the state's number formats.
//!
//! The formats are those of the European Commission's "VIES on-the-web" FAQ (question 11), as of 2026. Checksums are
//! not verified: only the registry knows whether a number is registered.

use serde::{Deserialize, Serialize};

use crate::billing::Country;

/// A VAT number with its prefix, in capitals without separators, such as `NL123456789B01`. Not necessarily registered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, max_length = 40))]
pub struct VatNumber(String);

/// The reason a text is not a VAT number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VatNumberError {
    /// The text does not begin with the prefix of a state whose numbers the EU's registry knows.
    #[error(
        "vat_number must begin with the prefix of an EU member state (EL for Greece) or XI for Northern Ireland, \
         such as NL123456789B01"
    )]
    Prefix,
    /// The rest does not match any format of the state.
    #[error("vat_number must have the form of {prefix} numbers, such as {example}")]
    Form {
        /// The state's prefix.
        prefix: &'static str,
        /// A number in the state's format.
        example: &'static str,
    },
}

/// The longest text to parse: the longest format, with a separator after each character.
const LONGEST_TEXT: usize = 40;

/// State prefix, example, and formats of the part after the prefix. In a format, `9` is a digit, `A` a letter, `X`
/// either, `S` either or one of `+` and `*`; a letter after `=` stands for itself.
const FORMS: &[(&str, &str, &[&str])] = &[
    ("AT", "ATU12345678", &["=U99999999"]),
    ("BE", "BE0123456789", &["9999999999"]),
    ("BG", "BG123456789", &["999999999", "9999999999"]),
    ("CY", "CY12345678X", &["99999999A"]),
    ("CZ", "CZ12345678", &["99999999", "999999999", "9999999999"]),
    ("DE", "DE123456789", &["999999999"]),
    ("DK", "DK12345678", &["99999999"]),
    ("EE", "EE123456789", &["999999999"]),
    ("EL", "EL123456789", &["999999999"]),
    ("ES", "ESX12345678", &["A99999999", "99999999A", "A9999999A"]),
    ("FI", "FI12345678", &["99999999"]),
    ("FR", "FR12345678901", &["XX999999999"]),
    ("HR", "HR12345678901", &["99999999999"]),
    ("HU", "HU12345678", &["99999999"]),
    ("IE", "IE1234567WA", &["9S99999A", "9999999AA"]),
    ("IT", "IT12345678901", &["99999999999"]),
    ("LT", "LT123456789", &["999999999", "999999999999"]),
    ("LU", "LU12345678", &["99999999"]),
    ("LV", "LV12345678901", &["99999999999"]),
    ("MT", "MT12345678", &["99999999"]),
    ("NL", "NL123456789B01", &["999999999=B99"]),
    ("PL", "PL1234567890", &["9999999999"]),
    ("PT", "PT123456789", &["999999999"]),
    ("RO", "RO1234567890", &["99", "999", "9999", "99999", "999999", "9999999", "99999999", "999999999", "9999999999"]),
    ("SE", "SE123456789001", &["999999999999"]),
    ("SI", "SI12345678", &["99999999"]),
    ("SK", "SK1234567890", &["9999999999"]),
    ("XI", "XI123456789", &["999999999", "999999999999", "=G=D999", "=H=A999"]),
];

impl VatNumber {
    /// Returns the number as text, with its prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the registry's prefix of the state: `EL` for Greece, `XI` for Northern Ireland.
    pub fn prefix(&self) -> &str {
        &self.0[..2]
    }

    /// Returns the number without its prefix.
    pub fn national(&self) -> &str {
        &self.0[2..]
    }

    /// Returns whether businesses of `country` have numbers with this prefix. Businesses of Monaco have French ones.
    pub fn is_from(&self, country: Country) -> bool {
        prefix_for(country) == Some(self.prefix())
    }
}

/// Returns the prefix of VAT numbers of businesses in `country`, or `None` if the EU's registry has none for them.
pub fn prefix_for(country: Country) -> Option<&'static str> {
    let state = country.vat_state().unwrap_or(country);
    let prefix = if state.as_str() == "GR" { "EL" } else { state.as_str() };
    FORMS.iter().map(|(known, ..)| *known).find(|known| *known == prefix)
}

fn has_form(number: &str, form: &str) -> bool {
    let mut rest = number.bytes();
    let mut form = form.bytes();
    while let Some(wanted) = form.next() {
        let Some(found) = rest.next() else { return false };
        let fits = match wanted {
            b'9' => found.is_ascii_digit(),
            b'A' => found.is_ascii_uppercase(),
            b'X' => found.is_ascii_digit() || found.is_ascii_uppercase(),
            b'S' => found.is_ascii_digit() || found.is_ascii_uppercase() || matches!(found, b'+' | b'*'),
            _ => form.next() == Some(found),
        };
        if !fits {
            return false;
        }
    }
    rest.next().is_none()
}

impl std::str::FromStr for VatNumber {
    type Err = VatNumberError;
    fn from_str(text: &str) -> Result<Self, VatNumberError> {
        if text.len() > LONGEST_TEXT {
            return Err(VatNumberError::Prefix);
        }
        let mut text: String = text.chars().filter(|c| !matches!(c, '.' | '-' | '/') && !c.is_whitespace()).collect();
        text.make_ascii_uppercase();
        // Greece's prefix differs from its country code, and people write either.
        if text.starts_with("GR") {
            text.replace_range(..2, "EL");
        }
        let known = FORMS.iter().find(|(prefix, ..)| text.starts_with(prefix)).ok_or(VatNumberError::Prefix)?;
        let (prefix, example, forms) = *known;
        if forms.iter().any(|form| has_form(&text[2..], form)) {
            Ok(Self(text))
        } else {
            Err(VatNumberError::Form { prefix, example })
        }
    }
}

impl<'de> Deserialize<'de> for VatNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> VatNumber {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_are_taken_with_and_without_separators() {
        assert_eq!(number("nl 1234.567.89-B01").as_str(), "NL123456789B01");
        assert_eq!((number("EL123456789").prefix(), number("EL123456789").national()), ("EL", "123456789"));
        assert_eq!(number("GR 123456789").as_str(), "EL123456789");
        assert_eq!(number("DE\u{a0}123\u{2009}456 789").as_str(), "DE123456789");
    }

    #[test]
    fn every_example_is_of_its_form_and_every_member_has_one() {
        for (prefix, example, forms) in FORMS {
            assert_eq!(number(example).prefix(), *prefix);
            let longest = forms.iter().map(|form| form.replace('=', "").len()).max().unwrap();
            assert!(2 * (longest + 2) <= LONGEST_TEXT, "{prefix}");
        }
        let members = FORMS.iter().filter(|(prefix, ..)| *prefix != "XI");
        assert!(members.clone().all(|(prefix, ..)| {
            let code = if *prefix == "EL" { "GR" } else { prefix };
            code.parse::<Country>().unwrap().is_in_eu()
        }));
        assert_eq!(members.count(), 27);
    }

    #[test]
    fn other_forms_of_a_state_are_taken() {
        for good in [
            "BG1234567890",
            "CZ1234567890",
            "ESA1234567B",
            "ES12345678Z",
            "FRK7399859412",
            "IE1A23456B",
            "IE1+23456B",
            "IE1234567T",
            "LT123456789012",
            "RO12",
            "XI123456789012",
            "XIGD123",
        ] {
            assert_eq!(number(good).as_str(), good);
        }
    }

    #[test]
    fn a_wrong_number_is_told_what_its_states_numbers_look_like() {
        for bad in ["", "N", "NL", "123456789B01", "GB123456789", "CHE123456789", "US12", "é", "€€"] {
            let error = bad.parse::<VatNumber>().unwrap_err();
            assert!(error == VatNumberError::Prefix || bad == "NL", "{bad}: {error}");
        }
        assert_eq!(format!("DE{}", "1".repeat(100)).parse::<VatNumber>(), Err(VatNumberError::Prefix));
        for (bad, example) in [
            ("NL123456789", "NL123456789B01"),
            ("NL123456789C01", "NL123456789B01"),
            ("DE12345678", "DE123456789"),
            ("DE1234567890", "DE123456789"),
            ("AT12345678", "ATU12345678"),
            ("ES123456789", "ESX12345678"),
            ("GR12345678", "EL123456789"),
            ("RO1", "RO1234567890"),
            ("FR1234567890é", "FR12345678901"),
        ] {
            let error = bad.parse::<VatNumber>().unwrap_err().to_string();
            assert!(error.starts_with("vat_number must have the form of"), "{bad}: {error}");
            assert!(error.ends_with(&format!("such as {example}")), "{bad}: {error}");
        }
    }

    #[test]
    fn the_prefix_tells_the_country() {
        let is_of = |text: &str, country: &str| number(text).is_from(country.parse().unwrap());
        assert!(is_of("DE123456789", "DE") && is_of("EL123456789", "GR") && is_of("XI123456789", "XI"));
        assert!(is_of("FR12345678901", "MC"), "Monaco's businesses are registered in France");
        assert!(!is_of("DE123456789", "AT") && !is_of("XI123456789", "GB") && !is_of("FR12345678901", "US"));
        assert_eq!(prefix_for("US".parse().unwrap()), None);
    }
}
