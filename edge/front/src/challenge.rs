//! `/.well-known/acme-challenge/…`: the HTTP challenges of certificate authorities (RFC 8555, 8.3).
//!
//! They are answered before the redirect to HTTPS and before any gate, because an authority follows neither; and over
//! HTTPS too, where a proxy in front may redirect it. Under the platform's own domains only the platform answers: a
//! site could otherwise obtain a certificate that stays valid after its name was reassigned, also to the platform.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, Uri, header};
use http_types::{SiteBody, Visitor, pages};

use super::{HostRouter, ResolvedHost};

const PREFIX: &str = "/.well-known/acme-challenge/";

/// Returns the requested token; `None` if the request is not a challenge.
pub(super) fn token<'r>(method: &Method, uri: &'r Uri) -> Option<&'r str> {
    let token = uri.path().strip_prefix(PREFIX)?;
    let is_base64url = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let is_token = (1..=limits::CHALLENGE_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(is_base64url);
    (is_token && matches!(*method, Method::GET | Method::HEAD)).then_some(token)
}

impl HostRouter {
    /// Returns the response to a challenge at `place`, if there is one. If it cannot be read, the site there answers as
    /// usual; without a site, the authority receives a response to retry.
    pub(super) async fn challenge_response(
        &self,
        place: &ResolvedHost,
        method: &Method,
        token: &str,
        visitor: Visitor,
    ) -> Option<Response<SiteBody>> {
        if !place.is_provable() {
            return None;
        }
        let asker = visitor.address.into();
        let is_own_site = place.is_own && place.site().is_some();
        match self.challenges.over_http(&place.host, token, asker).await {
            Ok(Some(answer)) => Some(pages::seen_by(method, key_authorization(answer))),
            Ok(None) => is_own_site.then(|| pages::seen_by(method, pages::empty_response(http::StatusCode::NOT_FOUND))),
            Err(error) => {
                if !is_own_site
                    && let Some(key) = place.site()
                    && let Ok(Some(_)) = self.routes.site(&place.host, key, asker).await
                {
                    return None;
                }
                tracing::warn!(host = %place.host, %error, "the answer to a challenge could not be read");
                Some(pages::seen_by(method, pages::unavailable()))
            }
        }
    }
}

fn key_authorization(answer: String) -> Response<SiteBody> {
    let mut response = pages::empty_response(http::StatusCode::OK);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::CONTENT_LENGTH, answer.len().into());
    *response.body_mut() = Bytes::from(answer).into();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_below_the_path_is_a_challenge() {
        let asked = |method: Method, path: &str| token(&method, &path.parse().unwrap()).map(str::to_owned);
        let longest = "a".repeat(limits::CHALLENGE_TOKEN_BYTES);
        for good in ["a", "aB9-_", &longest] {
            let path = format!("{PREFIX}{good}");
            assert_eq!(asked(Method::GET, &path).as_deref(), Some(good));
            assert_eq!(asked(Method::HEAD, &format!("{path}?x=y")).as_deref(), Some(good));
            assert_eq!(asked(Method::GET, &format!("http://a.example{path}")).as_deref(), Some(good));
            assert_eq!(asked(Method::POST, &path), None);
        }
        for bad in ["", "a/b", "a.b", "a%41", "a=", &format!("{longest}a")] {
            assert_eq!(asked(Method::GET, &format!("{PREFIX}{bad}")), None, "{bad}");
        }
        for bad in ["/.well-known/acme-challenge", "/.Well-known/acme-challenge/a", "//.well-known/acme-challenge/a"] {
            assert_eq!(asked(Method::GET, bad), None, "{bad}");
        }
    }
}
