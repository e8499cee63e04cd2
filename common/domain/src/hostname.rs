//! Hostnames of custom domains.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use idna::{
    AsciiDenyList,
    uts46::{DnsLength, Hyphens, Uts46},
};
use serde::{Deserialize, Deserializer, Serialize};

/// The longest hostname, in its DNS form.
const MAX_LEN: usize = 253;
const LABEL_MAX_LEN: usize = 63;
/// Inputs longer than this are rejected before they are normalized.
const INPUT_MAX_LEN: usize = 4 * MAX_LEN;

/// A hostname of at least two labels in the form of DNS and TLS: lower case, internationalized labels as `xn--…`, no
/// trailing dot. Neither an IP address nor a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(
    value_type = String, max_length = 253, example = "www.example.com",
    pattern = r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$",
))]
pub struct Hostname(String);

/// The reason a text is not a hostname. The message is shown to its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostnameError {
    /// The text has a scheme or a path.
    #[error("domain must be the hostname alone, such as www.example.com, without https:// and without a path")]
    Address,
    /// The text has a port.
    #[error("domain must be without a port: sites are served on the usual one")]
    Port,
    /// The text is an IP address.
    #[error("domain must be a name such as www.example.com, not an IP address")]
    IpAddress,
    /// The text is a wildcard such as `*.example.com`.
    #[error("domain must be one hostname, not a wildcard; attach each hostname of its own")]
    Wildcard,
    /// The text is a single label such as `localhost` or `com`.
    #[error("domain must have at least two labels, such as example.com")]
    SingleLabel,
    /// The text is longer than a DNS name may be.
    #[error("domain is too long: at most {MAX_LEN} characters in all, and {LABEL_MAX_LEN} between two dots")]
    Length,
    /// The text is not a hostname for another reason.
    #[error(
        "domain must be a hostname such as www.example.com: letters, digits and hyphens between dots, \
         no hyphen beside a dot"
    )]
    Form,
}

impl Hostname {
    /// Returns the hostname as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `host` as a hostname if it is already in canonical form. Examines each byte once.
    pub fn from_canonical(host: &str) -> Option<Self> {
        is_canonical(host).then(|| Self(host.to_owned()))
    }
}

/// Returns whether `host` is `domain` or lies under it. Both must be in lower case.
pub fn is_within(host: &str, domain: &str) -> bool {
    let rest = host.strip_suffix(domain);
    !domain.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_label(label: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LABEL_MAX_LEN).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns whether the last label is a number, which URL parsers take for some spelling of an IPv4 address.
fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || last.bytes().all(|b| b.is_ascii_digit())
}

fn is_canonical(host: &str) -> bool {
    host.len() <= MAX_LEN && host.contains('.') && host.split('.').all(is_label) && !ends_in_number(host)
}

fn canonical(text: &str) -> Result<String, HostnameError> {
    use HostnameError::{Address, Form, IpAddress, Length, Port, SingleLabel, Wildcard};
    let text = text.trim_matches(' ');
    if text.contains(['/', '\\', '?', '#', '@']) {
        return Err(Address);
    }
    if text.contains('*') {
        return Err(Wildcard);
    }
    if text.starts_with('[') || text.parse::<IpAddr>().is_ok() {
        return Err(IpAddress);
    }
    if text.contains(':') {
        return Err(Port);
    }
    if text.len() > INPUT_MAX_LEN {
        return Err(Length);
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    // Names in use have hyphens in the third and fourth place: r3---sn-x.example.com.
    let ascii = Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
        .map_err(|_| Form)?;
    if ascii.split('.').any(str::is_empty) {
        return Err(Form);
    }
    if ascii.len() > MAX_LEN || ascii.split('.').any(|label| label.len() > LABEL_MAX_LEN) {
        return Err(Length);
    }
    // Checked again for digits and dots of other scripts; and for 127.1, 0x7f.1.
    if ends_in_number(&ascii) {
        return Err(if ascii.contains('.') { IpAddress } else { SingleLabel });
    }
    if !ascii.contains('.') {
        return Err(SingleLabel);
    }
    if is_canonical(&ascii) { Ok(Cow::into_owned(ascii)) } else { Err(Form) }
}

impl FromStr for Hostname {
    type Err = HostnameError;
    fn from_str(text: &str) -> Result<Self, HostnameError> {
        canonical(text).map(Self)
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hostname {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostnames_are_brought_to_one_form() {
        for (given, expected) in [
            ("www.example.com", "www.example.com"),
            ("WWW.Example.COM", "www.example.com"),
            ("example.com.", "example.com"),
            (" example.com ", "example.com"),
            ("r3---sn-x.example.com", "r3---sn-x.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("straße.example", "xn--strae-oqa.example"),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
            ("ｗｗｗ．example.com", "www.example.com"),
            ("1.example", "1.example"),
            ("4.com", "4.com"),
            ("shop.localhost", "shop.localhost"),
        ] {
            let parsed: Hostname = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(parsed.as_str(), expected, "{given}");
            assert_eq!(Hostname::from_canonical(expected), Some(parsed));
        }
    }

    #[test]
    fn what_is_no_hostname_is_refused_with_the_reason() {
        use HostnameError::{Address, Form, IpAddress, Length, Port, SingleLabel, Wildcard};
        let long_label = format!("{}.com", "a".repeat(64));
        let long = vec!["a".repeat(60); 5].join(".");
        let huge = "ü.".repeat(100_000);
        for (bad, why) in [
            ("https://example.com", Address),
            ("example.com/path", Address),
            ("example.com?x", Address),
            ("ada@example.com", Address),
            ("example.com\\x", Address),
            ("example.com:8443", Port),
            ("example.com:", Port),
            ("127.0.0.1", IpAddress),
            ("::1", IpAddress),
            ("::ffff:127.0.0.1", IpAddress),
            ("[::1]", IpAddress),
            ("127.1", IpAddress),
            ("0x7f.1", IpAddress),
            ("example.0x7f", IpAddress),
            ("１２７.0.0.1", IpAddress),
            ("127。0。0。1", IpAddress),
            ("1.2.3.4.5", IpAddress),
            ("2130706433", SingleLabel),
            ("*.example.com", Wildcard),
            ("www.*.com", Wildcard),
            ("localhost", SingleLabel),
            ("com.", SingleLabel),
            ("", Form),
            (".", Form),
            ("..", Form),
            ("example..com", Form),
            (".example.com", Form),
            ("example.com..", Form),
            ("-a.example.com", Form),
            ("a-.example.com", Form),
            ("a_b.example.com", Form),
            ("a b.example.com", Form),
            ("example.com\n", Form),
            ("exam\0ple.com", Form),
            ("exam%70le.com", Form),
            ("xn--a.example", Form),
            ("xn--.example", Form),
            ("\u{200b}.example", Form),
            ("a,b.example", Form),
            (&long_label, Length),
            (&long, Length),
            (&huge, Length),
        ] {
            assert_eq!(bad.parse::<Hostname>(), Err(why), "{bad:.80?}");
        }
        for bad in ["Example.com", "example.com.", "bücher.example", "127.0.0.1", "localhost", "a_b.com", "a..b", ""] {
            assert_eq!(Hostname::from_canonical(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_lies_within_its_own_and_its_parents_domains() {
        for domain in ["a.svc.example", "svc.example", "example"] {
            assert!(is_within("a.svc.example", domain), "{domain}");
        }
        for domain in ["vc.example", "b.a.svc.example", "x.example", ""] {
            assert!(!is_within("a.svc.example", domain), "{domain}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_in_the_one_form(text in "[\\PC.]{0,40}\\.[a-zA-Zü例ß.\\-0-9]{1,20}") {
            if let Ok(name) = text.parse::<Hostname>() {
                prop_assert_eq!(Hostname::from_canonical(name.as_str()), Some(name.clone()));
                prop_assert_eq!(name.as_str().parse::<Hostname>(), Ok(name));
            }
        }
    }
}
