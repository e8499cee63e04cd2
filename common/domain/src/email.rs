//! Email addresses.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

/// A deliverable ASCII address in the form of HTML's `<input type=email>`. Contains nothing that ends a header line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, format = Email, max_length = 254))]
pub struct EmailAddress(String);

/// The text is not an email address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("email must be an address such as ada@example.com")]
pub struct EmailError;

/// The limit of RFC 5321, section 4.5.3.1, with its erratum 1690.
const MAX_LEN: usize = 254;
const LOCAL_MAX_LEN: usize = 64;
const LABEL_MAX_LEN: usize = 63;

impl EmailAddress {
    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns one canonical spelling of the mailbox, under which per-recipient limits are counted.
    ///
    /// Mail servers ignore the case of an address, many of them a tag after `+`, and some of them dots; so two people
    /// whose addresses differ by a dot share a count. Never send mail to the result: its owner may write it
    /// differently.
    #[must_use]
    pub fn mailbox(&self) -> Self {
        let whole = self.0.to_ascii_lowercase();
        let (local, domain) = whole.rsplit_once('@').unwrap_or((&whole, ""));
        let untagged = local.split('+').next().filter(|untagged| !untagged.is_empty()).unwrap_or(local);
        let domain = if domain == "googlemail.com" { "gmail.com" } else { domain };
        Self(format!("{}@{domain}", untagged.replace('.', "")))
    }
}

fn is_local(local: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&b);
    let dotted = local.split('.').all(|part| !part.is_empty());
    (1..=LOCAL_MAX_LEN).contains(&local.len()) && local.bytes().all(allowed) && dotted
}

fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=LABEL_MAX_LEN).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Accounts of the local kind have their mailbox on this machine.
    domain.split('.').all(is_label) && (domain.contains('.') || domain.eq_ignore_ascii_case("localhost"))
}

impl FromStr for EmailAddress {
    type Err = EmailError;
    fn from_str(text: &str) -> Result<Self, EmailError> {
        let text = text.trim_matches(' ');
        let (local, domain) = text.rsplit_once('@').ok_or(EmailError)?;
        if text.len() <= MAX_LEN && is_local(local) && is_domain(domain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(EmailError)
        }
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for EmailAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_address_are_one_mailbox() {
        let mailbox = |text: &str| text.parse::<EmailAddress>().unwrap().mailbox().to_string();
        for spelling in [
            "ada.lovelace@gmail.com",
            "Ada.Lovelace@GMail.com",
            "a.d.a.lovelace+news@gmail.com",
            "adalovelace+a+b@googlemail.com",
        ] {
            assert_eq!(mailbox(spelling), "adalovelace@gmail.com", "{spelling}");
        }
        assert_eq!(mailbox("ada-1@example.com"), "ada-1@example.com");
        assert_eq!(mailbox("+tag@example.com"), "+tag@example.com");
    }

    #[test]
    fn addresses_are_told_from_other_text() {
        for good in ["ada@example.com", "a.b+c@x-y.co.uk", "ada@localhost", "x@1.example", " ada@example.com "] {
            assert!(good.parse::<EmailAddress>().is_ok(), "{good}");
        }
        let long = format!("{}@example.com", "x".repeat(65));
        let longer = format!("x@{}.com", vec!["y".repeat(60); 5].join("."));
        for bad in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@example",
            "ada@@example.com",
            "a b@example.com",
            "ada@-x.com",
            "ada@x..com",
            ".ada@example.com",
            "a..b@example.com",
            "ada@example.com\r\nBcc: eve@example.com",
            "ada@example.com\n",
            "ada@exa\0mple.com",
            "ädä@example.com",
            "Ada <ada@example.com>",
            "a@b.c,d@e.f",
            "ada@[127.0.0.1]",
            "\"a b\"@example.com",
            &long,
            &longer,
        ] {
            assert_eq!(bad.parse::<EmailAddress>(), Err(EmailError), "{bad:?}");
        }
    }
}
