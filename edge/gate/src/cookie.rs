//! The cookie of an admitted visitor: its content, an expiry, and a MAC over both, the project and its access version.
//!
//! The server stores nothing. A change of access is a new version, which no old cookie carries. The cookie of a visitor
//! who entered the password has no further content ([`PasswordCookies`]); that of a member identifies them ([`super::member`]).

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Timestamp, site::Site};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, header::COOKIE};
use limits::GATE_COOKIE_LIFE;
use sha2::Sha256;

/// The prefix makes it host-only: browsers refuse such a cookie with a domain, without `Secure`, or from plain HTTP.
pub(super) const NAME: &str = "__Host-svc-gate";
const EXPIRY_LEN: usize = 8;

pub(super) struct PasswordCookies {
    mac: Hmac<Sha256>,
}

/// Creates a MAC with the gate's key for one purpose.
pub(super) fn keyed_mac(key: &[u8; 32], purpose: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key");
    mac.update(purpose);
    mac
}

/// Binds the MAC to a site with its current protection, and to the visited host.
///
/// The owner of a custom domain can point it elsewhere and collect its visitors' cookies: those open none of the site's
/// other addresses, and nothing at all once the domain is detached.
pub(super) fn bind_to_site(mac: &Hmac<Sha256>, site: &Site, host: &str) -> Hmac<Sha256> {
    let mut mac = mac.clone();
    // IDs have a fixed length, and a host has no zero byte, so inputs cannot run together.
    mac.update(site.project.as_str().as_bytes());
    mac.update(&site.access_version.to_be_bytes());
    mac.update(host.as_bytes());
    mac.update(b"\0");
    mac
}

/// Returns a `Set-Cookie` for this host only, as the name's prefix requires.
pub(super) fn set_cookie(name: &str, value: &str, life: Duration) -> HeaderValue {
    let life = life.as_secs();
    let cookie = format!("{name}={value}; Path=/; Max-Age={life}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::try_from(cookie).unwrap_or(HeaderValue::from_static(""))
}

/// Returns the value of a cookie. Browsers send one per name; of several, only the first is tried.
pub(super) fn cookie_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
}

impl PasswordCookies {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { mac: keyed_mac(key, b"cookie\0") }
    }

    pub(super) fn issue(&self, site: &Site, host: &str, now: Timestamp) -> HeaderValue {
        let expiry = (now + GATE_COOKIE_LIFE).unix_seconds().to_be_bytes();
        let mut mac = bind_to_site(&self.mac, site, host);
        mac.update(&expiry);
        let value = URL_SAFE_NO_PAD.encode([expiry.as_slice(), &mac.finalize().into_bytes()].concat());
        set_cookie(NAME, &value, GATE_COOKIE_LIFE)
    }

    /// Returns whether the request carries a valid cookie for `site` at `host`.
    pub(super) fn admit(&self, headers: &HeaderMap, site: &Site, host: &str, now: Timestamp) -> bool {
        cookie_value(headers, NAME).is_some_and(|value| self.is_good(value, site, host, now))
    }

    fn is_good(&self, value: &str, site: &Site, host: &str, now: Timestamp) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(value) else { return false };
        let Some((expiry, tag)) = bytes.split_first_chunk::<EXPIRY_LEN>() else { return false };
        let mut mac = bind_to_site(&self.mac, site, host);
        mac.update(expiry);
        mac.verify_slice(tag).is_ok() && i64::from_be_bytes(*expiry) > now.unix_seconds()
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        ProjectId,
        site::{SiteGate, SiteKind},
    };

    use super::*;

    fn site(project: &ProjectId, access_version: i64) -> Site {
        Site {
            project: project.clone(),
            deployment: None,
            live: None,
            kind: SiteKind::Live,
            gate: SiteGate::Password("".into()),
            access_version,
            expires_at: None,
            suspended: None,
            owner: "usr_00000000000000000ada".parse::<domain::UserId>().unwrap().into(),
            bandwidth_used_up: None,
        }
    }

    fn request_with(set_cookie: &HeaderValue) -> HeaderMap {
        let pair = set_cookie.to_str().unwrap().split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, format!("theme=dark; {pair}; x=y").parse().unwrap());
        headers
    }

    #[test]
    fn a_cookie_is_good_for_its_site_its_host_its_version_and_its_time() {
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let cookies = PasswordCookies::new(&[7; 32]);
        let (one, other) = (ProjectId::new(now), ProjectId::new(now));
        let set_cookie = cookies.issue(&site(&one, 3), "a.test", now);
        let text = set_cookie.to_str().unwrap();
        assert!(text.starts_with("__Host-svc-gate=") && text.ends_with("; Secure; HttpOnly; SameSite=Lax"), "{text}");
        assert!(text.contains("; Path=/;") && !text.contains("Domain"), "{text}");
        let headers = request_with(&set_cookie);
        assert!(cookies.admit(&headers, &site(&one, 3), "a.test", now));
        assert!(cookies.admit(&headers, &site(&one, 3), "a.test", now + GATE_COOKIE_LIFE - Duration::from_secs(1)));
        assert!(!cookies.admit(&headers, &site(&one, 3), "a.test", now + GATE_COOKIE_LIFE));
        assert!(!cookies.admit(&headers, &site(&one, 4), "a.test", now));
        assert!(!cookies.admit(&headers, &site(&other, 3), "a.test", now));
        assert!(!cookies.admit(&headers, &site(&one, 3), "b.test", now));
        assert!(!PasswordCookies::new(&[8; 32]).admit(&headers, &site(&one, 3), "a.test", now));
        assert!(!cookies.admit(&HeaderMap::new(), &site(&one, 3), "a.test", now));
        for forged in ["", "AAAA", "%%%", "AAAAAAAAAAAAAAA", &"f".repeat(5000)] {
            let forged = HeaderValue::try_from(format!("__Host-svc-gate={forged}")).unwrap();
            assert!(!cookies.admit(&request_with(&forged), &site(&one, 3), "a.test", now));
        }
    }
}
