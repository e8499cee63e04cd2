//! Cookies of the console's host. The `__Host-` prefix makes browsers send them only to this host, over HTTPS.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use domain::opaque::OpaqueSecret;

/// The cookie that holds a session's secret.
pub const SESSION: &str = "__Host-svc-session";
/// The cookie that ties a pending sign-in to its browser.
pub const SIGN_IN: &str = "__Host-svc-sign-in";

/// Reads the secret in a cookie. If several cookies have the name, which browsers do not send, the first counts.
pub fn secret(headers: &HeaderMap, name: &str) -> Option<OpaqueSecret> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).and_then(|(_, value)| OpaqueSecret::parse(value))
}

/// Returns the `Set-Cookie` header that stores a secret.
pub fn set(name: &str, secret: &OpaqueSecret, life: Duration) -> HeaderValue {
    cookie(name, secret.expose(), life)
}

/// Returns the `Set-Cookie` header that removes a cookie.
pub fn clear(name: &str) -> HeaderValue {
    cookie(name, "", Duration::ZERO)
}

fn cookie(name: &str, value: &str, life: Duration) -> HeaderValue {
    let life = life.as_secs();
    let text = format!("{name}={value}; Path=/; Max-Age={life}; Secure; HttpOnly; SameSite=Lax");
    let mut cookie = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    cookie.set_sensitive(true);
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back_and_nothing_else() {
        let secret_set = OpaqueSecret::generate();
        let line = set(SESSION, &secret_set, Duration::from_mins(1));
        let text = line.to_str().unwrap();
        assert!(text.ends_with("; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax") && !text.contains("Domain"));
        let sent = |text: &str| HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(text).unwrap())]);
        let pair = text.split(';').next().unwrap();
        let found = secret(&sent(&format!("a=b; {pair}; x")), SESSION).unwrap();
        assert_eq!(found.hash(), secret_set.hash());
        assert!(secret(&sent(pair), SIGN_IN).is_none());
        assert!(secret(&sent(&format!("{SESSION}=short")), SESSION).is_none());
        assert!(secret(&HeaderMap::new(), SESSION).is_none());
        assert!(clear(SESSION).to_str().unwrap().starts_with("__Host-svc-session=; Path=/; Max-Age=0; "));
    }
}
