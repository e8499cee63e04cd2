//! Determines the host of a request. Refuses ambiguous ones, which others could interpret as another site's.

use std::borrow::Cow;

use http::{HeaderMap, Uri, Version, header, uri::Authority};

/// The request does not name a host, names it twice, or in an invalid form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request does not name one host")]
pub(crate) struct HostError;

/// Returns the host of a request: lower case, without port and trailing dot.
pub(crate) fn request_host<'r>(
    version: Version,
    uri: &'r Uri,
    headers: &'r HeaderMap,
) -> Result<Cow<'r, str>, HostError> {
    let mut named = headers.get_all(header::HOST).iter();
    let header = named.next().map(|value| value.to_str().map_err(|_| HostError)).transpose()?;
    if named.next().is_some() {
        return Err(HostError);
    }
    match (uri.authority().map(Authority::as_str), header) {
        (None, Some(header)) => Ok(parse(header)?.0),
        // HTTP/2 names the host in the target; HTTP/1.1 requires the header as well.
        (Some(target), None) if version == Version::HTTP_2 => Ok(parse(target)?.0),
        (Some(target), Some(header)) => {
            let host = parse(target)?;
            if host == parse(header)? { Ok(host.0) } else { Err(HostError) }
        }
        (_, None) => Err(HostError),
    }
}

fn parse(text: &str) -> Result<(Cow<'_, str>, Option<u16>), HostError> {
    let (host, port) = match text.bytes().rposition(|b| b == b':') {
        // The last colon of an IPv6 address is inside its brackets.
        Some(at) if !text.ends_with(']') => (&text[..at], &text[at + 1..]),
        _ => (text, ""),
    };
    let port = match port {
        "" => None,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => Some(digits.parse().map_err(|_| HostError)?),
        _ => return Err(HostError),
    };
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        address.parse::<std::net::Ipv6Addr>().map_err(|_| HostError)?;
        return Ok((Cow::Borrowed(host), port));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    // A single pass, because every request needs it. Labels must not be empty, so the start counts as a dot.
    let (mut before, mut is_lower) = (b'.', true);
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => {}
            b'A'..=b'Z' => is_lower = false,
            b'.' if before != b'.' => {}
            _ => return Err(HostError),
        }
        before = byte;
    }
    if before == b'.' || host.len() > limits::HOST_BYTES {
        return Err(HostError);
    }
    let lower = if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) };
    Ok((lower, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(version: Version, target: &str, hosts: &[&str]) -> Result<String, HostError> {
        let headers = hosts.iter().map(|host| (header::HOST, host.parse().unwrap())).collect();
        request_host(version, &target.parse().unwrap(), &headers).map(Cow::into_owned)
    }

    #[test]
    fn hosts_are_brought_to_one_form() {
        for (given, expected) in [
            ("blog.svc.localhost", "blog.svc.localhost"),
            ("Blog.SVC.localhost:8443", "blog.svc.localhost"),
            ("blog.svc.localhost.", "blog.svc.localhost"),
            ("blog.svc.localhost.:443", "blog.svc.localhost"),
            ("blog:", "blog"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:8443", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(host(Version::HTTP_11, "/", &[given]).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = format!("{}.com", "a".repeat(250));
        for bad in [
            "", ".", ":80", "a..b", ".a", "a b", "a/b", "a@b", "user@a", "a,b", "a%2eb", "a:80:80", "a:x", "a:99999",
            "a:+80", "[::1", "[x]", "::1", "a\\b", "a..", &long,
        ] {
            assert_eq!(host(Version::HTTP_11, "/", &[bad]), Err(HostError), "{bad}");
        }
        let headers = HeaderMap::from_iter([(header::HOST, http::HeaderValue::from_bytes(b"\xc3\xa4.de").unwrap())]);
        assert_eq!(request_host(Version::HTTP_11, &Uri::from_static("/"), &headers), Err(HostError));
    }

    #[test]
    fn a_host_is_named_once() {
        let v1 = Version::HTTP_11;
        let v2 = Version::HTTP_2;
        assert_eq!(host(v1, "/", &[]), Err(HostError));
        assert_eq!(host(v1, "/", &["a.de", "a.de"]), Err(HostError));
        assert_eq!(host(v1, "http://a.de/", &["b.de"]), Err(HostError));
        assert_eq!(host(v1, "http://a.de:81/", &["a.de:82"]), Err(HostError));
        assert_eq!(host(v1, "http://a.de/", &[]), Err(HostError));
        assert_eq!(host(v1, "http://A.de/", &["a.de"]).as_deref(), Ok("a.de"));
        assert_eq!(host(v2, "https://a.de/", &[]).as_deref(), Ok("a.de"));
        assert_eq!(host(v2, "https://a.de/", &["b.de"]), Err(HostError));
        assert_eq!(host(v2, "https://u@a.de/", &[]), Err(HostError));
    }
}
