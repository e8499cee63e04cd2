//! Maps an address to a country, with a `MaxMind` database (`.mmdb`).

use std::{net::IpAddr, path::Path};

use domain::traffic::UNKNOWN_COUNTRY;
use serde::Deserialize;

use super::country_file::CountryFile;

/// A country, as its two-letter code in capitals; `XX` if it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Country([u8; 2]);

/// The reason `stats.geoip_file` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("not a MaxMind database that can be read")]
pub struct CountriesError(#[from] maxminddb::MaxMindDbError);

pub(super) struct CountryLookup(Option<CountryFile>);

/// A record in the nested form of `MaxMind` and DB-IP, or in the flat form of others.
#[derive(Deserialize)]
struct GeoRecord<'r> {
    #[serde(borrow)]
    country: Option<GeoCountry<'r>>,
    country_code: Option<&'r str>,
}

#[derive(Deserialize)]
struct GeoCountry<'r> {
    iso_code: Option<&'r str>,
}

impl Country {
    const UNKNOWN: Self = {
        let letters = UNKNOWN_COUNTRY.as_bytes();
        Self([letters[0], letters[1]])
    };

    fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Self(letters.map(|letter| letter.to_ascii_uppercase())))
    }

    /// Returns the letters, or `None` if the country is unknown.
    pub fn code(self) -> Option<[u8; 2]> {
        (self != Self::UNKNOWN).then_some(self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or(UNKNOWN_COUNTRY)
    }
}

impl CountryLookup {
    /// Opens the countries of `file`. Without a file, every country is unknown.
    pub(super) fn open(file: Option<&Path>) -> Result<Self, CountriesError> {
        Ok(Self(file.map(CountryFile::open).transpose()?))
    }

    pub(super) fn find(&self, address: IpAddr) -> Country {
        let country = || {
            let reader = self.0.as_ref()?.reader();
            let record: GeoRecord<'_> = reader.lookup(address.to_canonical()).ok()?.decode().ok()??;
            Country::parse(record.country.and_then(|country| country.iso_code).or(record.country_code)?)
        };
        country().unwrap_or(Country::UNKNOWN)
    }

    pub(super) fn refresh(&self) {
        if let Some(file) = &self.0 {
            file.refresh();
        }
    }
}
