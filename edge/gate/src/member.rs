//! The cookie of an organization's member for a site: who they are, and until when it is valid.
//!
//! It has no value elsewhere, and by itself opens nothing: membership is checked at every request.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Timestamp, UserId, ids::BODY_LEN, site::Site};
use hmac::{Hmac, Mac as _};
use http::{HeaderMap, HeaderValue};
use limits::MEMBER_COOKIE_LIFE;
use sha2::Sha256;

use super::cookie::{NAME, bind_to_site, cookie_value, keyed_mac, set_cookie};

const NUMBER_LEN: usize = 8;
const SAID_LEN: usize = 2 * NUMBER_LEN + BODY_LEN;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberBadge {
    pub(super) user: UserId,
    /// The number of times that the member had signed out everywhere when the cookie was issued.
    pub(super) gate_version: i64,
}

pub(super) struct MemberCookies {
    mac: Hmac<Sha256>,
}

impl MemberCookies {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { mac: keyed_mac(key, b"member\0") }
    }

    pub(super) fn issue(&self, badge: &MemberBadge, site: &Site, host: &str, now: Timestamp) -> HeaderValue {
        let expiry = (now + MEMBER_COOKIE_LIFE).unix_seconds().to_be_bytes();
        let said = [&expiry[..], &badge.gate_version.to_be_bytes(), badge.user.body().as_bytes()].concat();
        let mut mac = bind_to_site(&self.mac, site, host);
        mac.update(&said);
        let value = URL_SAFE_NO_PAD.encode([said, mac.finalize().into_bytes().to_vec()].concat());
        set_cookie(NAME, &value, MEMBER_COOKIE_LIFE)
    }

    /// Returns the content of the request's cookie if it is valid for `site` at `host`.
    pub(super) fn read(&self, headers: &HeaderMap, site: &Site, host: &str, now: Timestamp) -> Option<MemberBadge> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie_value(headers, NAME)?).ok()?;
        let (said, tag) = bytes.split_first_chunk::<SAID_LEN>()?;
        let mut mac = bind_to_site(&self.mac, site, host);
        mac.update(said);
        mac.verify_slice(tag).ok()?;
        let (expiry, rest) = said.split_first_chunk::<NUMBER_LEN>()?;
        let (gate_version, body) = rest.split_first_chunk::<NUMBER_LEN>()?;
        if i64::from_be_bytes(*expiry) <= now.unix_seconds() {
            return None;
        }
        let user = UserId::from_body(std::str::from_utf8(body).ok()?).ok()?;
        Some(MemberBadge { user, gate_version: i64::from_be_bytes(*gate_version) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{
        OrgId, ProjectId,
        site::{SiteGate, SiteKind},
    };
    use http::header::COOKIE;

    use super::{super::cookie::PasswordCookies, *};

    const HOST: &str = "a.test";

    fn site(project: &ProjectId, access_version: i64) -> Site {
        Site {
            project: project.clone(),
            deployment: None,
            live: None,
            kind: SiteKind::Live,
            gate: SiteGate::Org(OrgId::new(Timestamp::from_unix_millis(0))),
            access_version,
            expires_at: None,
            suspended: None,
            owner: "usr_00000000000000000ada".parse::<domain::UserId>().unwrap().into(),
            bandwidth_used_up: None,
        }
    }

    fn carrying(set_cookie: &HeaderValue) -> HeaderMap {
        let pair = set_cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, pair.parse().unwrap())])
    }

    #[test]
    fn a_badge_is_good_for_its_site_its_host_its_version_and_its_time() {
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let badges = MemberCookies::new(&[7; 32]);
        let (one, other) = (ProjectId::new(now), ProjectId::new(now));
        let badge = MemberBadge { user: UserId::new(now), gate_version: 3 };
        let set_cookie = badges.issue(&badge, &site(&one, 1), HOST, now);
        assert!(set_cookie.to_str().unwrap().ends_with("; Secure; HttpOnly; SameSite=Lax"));
        let headers = carrying(&set_cookie);
        assert_eq!(badges.read(&headers, &site(&one, 1), HOST, now).as_ref(), Some(&badge));
        let last = now + MEMBER_COOKIE_LIFE - Duration::from_secs(1);
        assert_eq!(badges.read(&headers, &site(&one, 1), HOST, last).as_ref(), Some(&badge));
        assert_eq!(badges.read(&headers, &site(&one, 1), HOST, now + MEMBER_COOKIE_LIFE), None);
        assert_eq!(badges.read(&headers, &site(&one, 2), HOST, now), None);
        assert_eq!(badges.read(&headers, &site(&other, 1), HOST, now), None);
        assert_eq!(badges.read(&headers, &site(&one, 1), "b.test", now), None);
        assert_eq!(MemberCookies::new(&[8; 32]).read(&headers, &site(&one, 1), HOST, now), None);
        // A password cookie is different, under the same name.
        let password = carrying(&PasswordCookies::new(&[7; 32]).issue(&site(&one, 1), HOST, now));
        assert_eq!(badges.read(&password, &site(&one, 1), HOST, now), None);
        assert!(!PasswordCookies::new(&[7; 32]).admit(&headers, &site(&one, 1), HOST, now));
    }

    #[test]
    fn no_bit_of_a_badge_can_be_changed() {
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let badges = MemberCookies::new(&[7; 32]);
        let site = site(&ProjectId::new(now), 1);
        let badge = MemberBadge { user: UserId::new(now), gate_version: 3 };
        let set_cookie = badges.issue(&badge, &site, HOST, now);
        let value = set_cookie.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap().1.to_owned();
        let bytes = URL_SAFE_NO_PAD.decode(&value).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let line = HeaderValue::try_from(format!("{NAME}={}", URL_SAFE_NO_PAD.encode(forged))).unwrap();
            assert_eq!(badges.read(&carrying(&line), &site, HOST, now), None, "bit {bit}");
        }
    }
}
