//! Identifiers: a prefix for the kind, then 20 characters of a-z0-9 that sort by creation time.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;
use rand::RngExt as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::Timestamp;

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Characters after the prefix: 9 for milliseconds since 1970 (good until the year 5188), 11 random (56 bits).
pub const BODY_LEN: usize = TIME_LEN + RANDOM_LEN;
const TIME_LEN: usize = 9;
const RANDOM_LEN: usize = 11;
const RANDOM_PARTS: u64 = 36_u64.pow(11);
const _: () = assert!(RANDOM_LEN == 11, "RANDOM_PARTS is 36 to the power of RANDOM_LEN");
const PREFIX_LEN: usize = 4;

/// The text of an id. Stored inline so that a copy does not allocate: a gateway request makes about twenty.
type IdText = ArrayString<{ PREFIX_LEN + BODY_LEN }>;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is a prefix that names its kind, such as tok_, then 20 characters of a-z and 0-9")]
pub struct IdError;

/// Returns whether `body` has the form of an id without its prefix.
pub fn is_body(body: &str) -> bool {
    body.len() == BODY_LEN && body.bytes().all(|b| ALPHABET.contains(&b))
}

fn text(prefix: &str, body: impl IntoIterator<Item = u8>) -> IdText {
    let mut text = IdText::new();
    for byte in prefix.bytes().chain(body) {
        text.push(char::from(byte));
    }
    text
}

fn time_part(time: Timestamp) -> [u8; TIME_LEN] {
    digits(time.unix_millis())
}

fn random_part() -> [u8; RANDOM_LEN] {
    digits(rand::rng().random_range(0..RANDOM_PARTS))
}

/// Returns the last `N` digits of `number`, in the base of the alphabet's length.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[usize::try_from(number % 36).unwrap_or(0)];
        number /= 36;
    }
    digits
}

fn parse_time(body: &str) -> Timestamp {
    let digits = body.chars().take(TIME_LEN).map(|digit| i64::from(digit.to_digit(36).unwrap_or(0)));
    Timestamp::from_unix_millis(digits.fold(0, |millis, digit| millis * 36 + digit))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, pattern = $pattern))]
        pub struct $name(IdText);

        const _: () = assert!($prefix.len() == PREFIX_LEN, "a prefix has PREFIX_LEN characters");

        impl $name {
            /// Prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Creates a new id. Ids created later sort after it.
            pub fn new(now: Timestamp) -> Self {
                Self(text($prefix, time_part(now).into_iter().chain(random_part())))
            }

            /// Creates the lowest id of `time`: every id created at `time` or later sorts at or after it.
            pub fn first_of(time: Timestamp) -> Self {
                Self(text($prefix, time_part(time).into_iter().chain([b'0'; RANDOM_LEN])))
            }

            /// Returns the creation time, to the millisecond.
            pub fn time(&self) -> Timestamp {
                parse_time(self.body())
            }

            /// Returns the id without its prefix.
            pub fn body(&self) -> &str {
                &self.0[$prefix.len()..]
            }

            /// Creates an id from `body`, an id without its prefix.
            pub fn from_body(body: &str) -> Result<Self, IdError> {
                if is_body(body) { Ok(Self(text($prefix, body.bytes()))) } else { Err(IdError) }
            }

            /// Returns the id as text, with its prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix).ok_or(IdError).and_then(Self::from_body)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "sqlx")]
        crate::column::text!($name);
    };
}

id!(
    /// A project: `prj_…`.
    ProjectId, "prj_", "^prj_[a-z0-9]{20}$"
);
id!(
    /// A deployment: `dep_…`.
    DeploymentId, "dep_", "^dep_[a-z0-9]{20}$"
);
id!(
    /// A token: `tok_…`.
    TokenId, "tok_", "^tok_[a-z0-9]{20}$"
);
id!(
    /// An organization: `org_…`.
    OrgId, "org_", "^org_[a-z0-9]{20}$"
);
id!(
    /// An invite to an organization: `inv_…`.
    InviteId, "inv_", "^inv_[a-z0-9]{20}$"
);
id!(
    /// A user: `usr_…`.
    UserId, "usr_", "^usr_[a-z0-9]{20}$"
);
id!(
    /// A web session: `ses_…`.
    SessionId, "ses_", "^ses_[a-z0-9]{20}$"
);
id!(
    /// An account at a certificate authority: `acm_…`.
    AcmeAccountId, "acm_", "^acm_[a-z0-9]{20}$"
);
id!(
    /// A stored certificate: `crt_…`.
    CertificateId, "crt_", "^crt_[a-z0-9]{20}$"
);
id!(
    /// A completion of the AI gateway: `cmp_…`.
    CompletionId, "cmp_", "^cmp_[a-z0-9]{20}$"
);
id!(
    /// An entry of the audit log: `aud_…`.
    AuditId, "aud_", "^aud_[a-z0-9]{20}$"
);
id!(
    /// A subscription to a plan: `sub_…`.
    SubscriptionId, "sub_", "^sub_[a-z0-9]{20}$"
);
id!(
    /// A payment: `pay_…`.
    PaymentId, "pay_", "^pay_[a-z0-9]{20}$"
);
id!(
    /// A refund or a charge-back of a payment: `rev_…`.
    ReversalId, "rev_", "^rev_[a-z0-9]{20}$"
);
id!(
    /// An invoice or a credit note: `ivc_…`.
    InvoiceId, "ivc_", "^ivc_[a-z0-9]{20}$"
);
id!(
    /// A mail that is queued or was sent: `eml_…`.
    LetterId, "eml_", "^eml_[a-z0-9]{20}$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_parse_back() {
        let early = ProjectId::new(Timestamp::from_unix_millis(1_700_000_000_000));
        let late = ProjectId::new(Timestamp::from_unix_millis(1_700_000_000_001));
        assert!(early < late);
        assert_eq!(late.time(), Timestamp::from_unix_millis(1_700_000_000_001));
        assert_eq!(early.as_str().parse::<ProjectId>(), Ok(early.clone()));
        assert_eq!(early.as_str().parse::<DeploymentId>(), Err(IdError));
        assert_eq!("prj_UPPERCASE00000000000".parse::<ProjectId>(), Err(IdError));
        let first = ProjectId::first_of(late.time());
        assert_eq!(first.as_str(), "prj_0loyw3v2900000000000");
        assert!(early < first && first <= late);
    }
}
