//! Countries, for addresses and VAT.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

/// An ISO 3166-1 alpha-2 country code, in capitals, or `XI`, the VAT registry's code for Northern Ireland.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, pattern = "^[A-Z]{2}$"))]
pub struct Country([u8; 2]);

/// The text is not a country code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("country must be a two-letter code of ISO 3166, such as NL")]
pub struct CountryError;

/// The codes assigned by ISO 3166-1, and `XI`.
const CODES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV \
    BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM \
    FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM \
    JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR \
    MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS \
    RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ \
    UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XI YE YT ZA ZM ZW";

/// The members of the European Union.
const MEMBERS: &str = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK";

impl Country {
    /// Returns the Netherlands.
    pub const fn netherlands() -> Self {
        Self(*b"NL")
    }

    /// Returns the code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns whether the country is a member of the European Union.
    pub fn is_in_eu(self) -> bool {
        has_code(MEMBERS, self.as_str())
    }

    /// Returns the state whose VAT applies there (France for Monaco), or `None` outside the Union.
    pub fn vat_state(self) -> Option<Self> {
        match &self.0 {
            b"MC" => Some(Self(*b"FR")),
            _ => self.is_in_eu().then_some(self),
        }
    }
}

fn has_code(codes: &str, code: &str) -> bool {
    codes.split_ascii_whitespace().any(|known| known == code)
}

impl FromStr for Country {
    type Err = CountryError;
    fn from_str(text: &str) -> Result<Self, CountryError> {
        let code: [u8; 2] = text.as_bytes().try_into().map_err(|_| CountryError)?;
        if has_code(CODES, text) { Ok(Self(code)) } else { Err(CountryError) }
    }
}

impl From<Country> for String {
    fn from(country: Country) -> Self {
        country.as_str().to_owned()
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Country {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "sqlx")]
crate::column::text!(Country);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_of_countries_are_taken() {
        for good in ["NL", "GR", "US", "XI"] {
            assert_eq!(good.parse::<Country>().unwrap().as_str(), good);
        }
        for bad in ["", "N", "nl", "EL", "UK", "XX", "N L", "NLD", "é"] {
            assert_eq!(bad.parse::<Country>(), Err(CountryError), "{bad}");
        }
        assert_eq!(MEMBERS.split_ascii_whitespace().count(), 27);
        assert!(MEMBERS.split_ascii_whitespace().all(|member| member.parse::<Country>().unwrap().is_in_eu()));
        assert!(!"CH".parse::<Country>().unwrap().is_in_eu());
        let vat_state = |code: &str| code.parse::<Country>().unwrap().vat_state().map(String::from);
        assert_eq!((vat_state("MC").as_deref(), vat_state("GR").as_deref()), (Some("FR"), Some("GR")));
        assert_eq!((vat_state("XI"), vat_state("AX")), (None, None));
    }
}
