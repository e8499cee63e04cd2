//! Buyer details shown on invoices.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use crate::line;

const LINE_CHARS: usize = 100;
/// Maximum lines of an address above its postcode and city.
const ADDRESS_LINES: usize = 3;

/// A line of text on an invoice, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, min_length = 1, max_length = 100))]
pub struct InvoiceLine(String);

/// The text does not fit on a line of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one line of 1 to 100 characters without control characters and invisible ones")]
pub struct InvoiceLineError;

impl InvoiceLine {
    /// Returns the line as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InvoiceLine {
    type Err = InvoiceLineError;
    fn from_str(text: &str) -> Result<Self, InvoiceLineError> {
        match line::validate(text.trim(), LINE_CHARS) {
            Ok("") | Err(_) => Err(InvoiceLineError),
            Ok(line) => Ok(Self(line.to_owned())),
        }
    }
}

impl fmt::Display for InvoiceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for InvoiceLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One to three address lines above the postcode and city: street and number, building, department.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<InvoiceLine>")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = Vec<InvoiceLine>, min_items = 1, max_items = 3))]
pub struct AddressLines(Vec<InvoiceLine>);

/// The address has no line or too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("lines must be 1 to 3 lines of text")]
pub struct AddressLinesError;

impl AddressLines {
    /// Returns the lines.
    pub fn as_slice(&self) -> &[InvoiceLine] {
        &self.0
    }
}

impl TryFrom<Vec<InvoiceLine>> for AddressLines {
    type Error = AddressLinesError;
    fn try_from(lines: Vec<InvoiceLine>) -> Result<Self, AddressLinesError> {
        if (1..=ADDRESS_LINES).contains(&lines.len()) { Ok(Self(lines)) } else { Err(AddressLinesError) }
    }
}

/// A postal address without its country.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Address {
    /// Street and number, building, department: one to three lines.
    pub lines: AddressLines,
    /// The postcode; absent in countries without postcodes.
    #[serde(default)]
    pub postcode: Option<InvoiceLine>,
    /// The city.
    pub city: InvoiceLine,
}

#[cfg(feature = "sqlx")]
mod column {
    use sqlx::{
        Decode, Postgres, Type,
        error::BoxDynError,
        postgres::{PgTypeInfo, PgValueRef},
        types::Json,
    };

    use super::Address;

    impl Type<Postgres> for Address {
        fn type_info() -> PgTypeInfo {
            <Json<Self> as Type<Postgres>>::type_info()
        }

        fn compatible(ty: &PgTypeInfo) -> bool {
            <Json<Self> as Type<Postgres>>::compatible(ty)
        }
    }

    impl<'r> Decode<'r, Postgres> for Address {
        fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
            Ok(Json::<Self>::decode(value)?.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_one_visible_line() {
        assert_eq!("  Acme & Söhne ".parse::<InvoiceLine>().unwrap().as_str(), "Acme & Söhne");
        assert!("é".repeat(LINE_CHARS).parse::<InvoiceLine>().is_ok());
        for bad in ["", " \t", "a\nb", "a\0b", "a\u{2028}b", "a\u{202e}b", &"é".repeat(LINE_CHARS + 1)] {
            assert_eq!(bad.parse::<InvoiceLine>(), Err(InvoiceLineError), "{bad:?}");
        }
    }

    #[test]
    fn an_address_has_one_to_three_lines() {
        let address = |lines: &str| {
            serde_json::from_str::<Address>(&format!(
                r#"{{"lines": [{lines}], "postcode": "1016 AA", "city": "Amsterdam"}}"#
            ))
        };
        assert_eq!(address(r#""Keizersgracht 1""#).unwrap().lines.as_slice().len(), 1);
        assert!(address(r#""a", "b", "c""#).is_ok());
        assert!(address("").is_err() && address(r#""a", "b", "c", "d""#).is_err());
        let without_postcode: Address =
            serde_json::from_str(r#"{"lines": ["1 Queen's Road"], "city": "Hong Kong"}"#).unwrap();
        assert_eq!(without_postcode.postcode, None);
    }
}
