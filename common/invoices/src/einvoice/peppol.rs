//! Addresses in the Peppol network, which identifies parties by registration numbers and not by email addresses.

use en16931::Identifier;

use super::KVK;
use crate::model::Party;

/// Returns the address of a party: its number in the Dutch company register, or its VAT number.
pub(super) fn address(party: &Party) -> Option<Identifier> {
    if let Some(number) = kvk(party) {
        return Some(Identifier::schemed(number, KVK));
    }
    let number = party.vat_number.as_deref()?;
    let prefix = number.get(..2)?;
    let (_, scheme) = SCHEMES.iter().find(|(known, _)| *known == prefix)?;
    Some(Identifier::schemed(number, *scheme))
}

/// Returns the number in the Dutch company register, if it is well-formed.
pub(super) fn kvk(party: &Party) -> Option<&str> {
    let number = party.registration_id.as_deref()?;
    let has_its_form = number.len() == 8 && number.bytes().all(|digit| digit.is_ascii_digit());
    (party.address.country.code() == "NL" && has_its_form).then_some(number)
}

/// The "Electronic Address Scheme" codes for VAT numbers, by prefix. Denmark, Finland and Sweden use other numbers.
const SCHEMES: [(&str, &str); 25] = [
    ("AT", "9914"),
    ("BE", "9925"),
    ("BG", "9926"),
    ("CY", "9928"),
    ("CZ", "9929"),
    ("DE", "9930"),
    ("EE", "9931"),
    ("EL", "9933"),
    ("ES", "9920"),
    ("FR", "9957"),
    ("HR", "9934"),
    ("HU", "9910"),
    ("IE", "9935"),
    ("IT", "0211"),
    ("LT", "9937"),
    ("LU", "9938"),
    ("LV", "9939"),
    ("MT", "9943"),
    ("NL", "9944"),
    ("PL", "9945"),
    ("PT", "9946"),
    ("RO", "9947"),
    ("SI", "9949"),
    ("SK", "9950"),
    ("XI", "9932"),
];
