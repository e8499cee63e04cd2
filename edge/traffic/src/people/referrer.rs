//! The origin of a visit: the host of the page that led here, and nothing else of other sites.

use std::borrow::Cow;

use domain::traffic::agents;
use http::HeaderValue;

use crate::truncate_path;

#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Referrer<'r> {
    /// The host, in lower case and without a port.
    pub(in super::super) host: Cow<'r, str>,
    path: &'r str,
}

impl<'r> Referrer<'r> {
    /// Parses a `Referer`. Returns `None` if it is not the address of a web page.
    pub(in super::super) fn parse(value: &'r HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?;
        let (scheme, rest) = text.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = path.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/");
        // Text before an `@` is user information, which may look like a host and a port.
        let authority = Some(authority).filter(|authority| !authority.contains('@'))?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Some(Self { host: parse_host(host)?, path })
    }

    pub(in super::super) fn counted_path(&self) -> Cow<'r, str> {
        truncate_path(self.path)
    }
}

/// Returns a hostname in lower case, or `None` for invalid ones, which could contain anything.
fn parse_host(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim_end_matches('.');
    let is_host = text.contains(|byte: char| byte.is_ascii_alphanumeric())
        && text.len() <= limits::COUNTED_REFERRER_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    is_host.then(|| {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) { text.to_ascii_lowercase().into() } else { text.into() }
    })
}

/// Returns the AI assistant or search that a query names as its source: many of them send no `Referer`.
pub(in super::super) fn assistant(query: &str) -> Option<Cow<'_, str>> {
    let source = query.split('&').find_map(|pair| pair.strip_prefix("utm_source="))?;
    let source = parse_host(source)?;
    if agents::operator_by_referrer(&source).is_some() {
        return Some(source);
    }
    // Some give the name without its domain.
    let with_domain = ["com", "ai"].into_iter().map(|domain| format!("{source}.{domain}"));
    let mut known = with_domain.filter(|host| agents::operator_by_referrer(host).is_some());
    known.next().map(Cow::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_referrer_is_a_host_and_a_path() {
        for (text, host, path) in [
            ("https://news.example/item?id=1#top", "news.example", "/item"),
            ("HTTP://News.Example.:8080", "news.example", "/"),
            ("https://news.example?secret", "news.example", "/"),
            ("https://a_b.example/", "a_b.example", "/"),
        ] {
            let value = HeaderValue::try_from(text).unwrap();
            let referrer = Referrer::parse(&value).unwrap();
            assert_eq!((&*referrer.host, referrer.path), (host, path), "{text}");
        }
        let long = format!("https://{}.example/", "x".repeat(limits::COUNTED_REFERRER_BYTES));
        for text in [
            "",
            "news.example",
            "about:blank",
            "android-app://com.example",
            "https://",
            "https:///path",
            "https://.../",
            "https://user:secret@news.example/",
            "https://[2001:db8::1]/",
            "https://ä.example/",
            "https://a b/",
            &long,
        ] {
            let value = HeaderValue::from_bytes(text.as_bytes()).unwrap();
            assert_eq!(Referrer::parse(&value), None, "{text}");
        }
    }

    #[test]
    fn only_assistants_are_believed_by_the_query() {
        for (query, host) in [
            ("utm_source=chatgpt.com", Some("chatgpt.com")),
            ("a=b&utm_source=ChatGPT.com&c", Some("chatgpt.com")),
            ("utm_source=perplexity", Some("perplexity.ai")),
            ("utm_source=newsletter", None),
            ("utm_source=news.example", None),
            ("utm_medium=chatgpt.com", None),
            ("", None),
        ] {
            assert_eq!(assistant(query).as_deref(), host, "{query}");
        }
    }
}
