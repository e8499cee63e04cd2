//! Feeds the compilers of `_headers` and `_redirects`, and asks what they made of it about one request.
//!
//! The first line of the input is the request's host, the second its path, the rest the file. Whatever they are: no
//! panic, every compiled header can be sent, and a redirect leads to where its author wrote, never to where its visitor
//! chose.

#![no_main]

use http::{HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use packs::rules::{VALUE_BYTES, headers, path::RequestPath, redirects};
use url::Url;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |&byte| byte == b'\n');
    let mut line = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    // What an edge lets through to a site: a host name, and a path as hyper parses it.
    let (host, path) = (line(), line());
    let file = parts.next().unwrap_or_default();
    let Ok(uri) = format!("/{path}").parse::<http::Uri>() else { return };
    if host.is_empty() || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
        return;
    }

    let path = RequestPath::new(uri.path());
    let compiled = headers::compile(file);
    assert!(compiled.rules.len() <= 100 && compiled.warnings.len() <= 51);
    for rule in compiled.rules {
        for (name, value) in &rule.set {
            assert!(HeaderName::try_from(name).is_ok(), "{name}");
            assert!(HeaderValue::try_from(value).is_ok(), "{value}");
        }
        if let Some(captures) = rule.pattern.matches(&host, &path) {
            for (_, value) in &rule.set {
                let Some(filled) = captures.substitute_in_header(value, VALUE_BYTES) else { continue };
                assert!(filled.len() <= VALUE_BYTES && HeaderValue::try_from(filled).is_ok(), "{value}");
            }
        }
    }

    let (rules, warnings) = redirects::compile(file, |path| path.len() % 2 == 0);
    assert!(rules.len() <= 2_100 && warnings.len() <= 51);
    let here = Url::parse("https://here.example/page").expect("a URL");
    for rule in rules {
        let Some(captures) = rule.pattern.matches(&host, &path) else { continue };
        let Some(to) = captures.substitute(&rule.to, VALUE_BYTES) else { continue };
        assert!(HeaderValue::try_from(&to).is_ok(), "{to}");
        let (Ok(written), Ok(leads)) = (here.join(&rule.to), here.join(&to)) else { continue };
        assert_eq!(written.origin(), leads.origin(), "{} became {to}", rule.to);
    }
});
