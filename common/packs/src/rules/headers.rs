//! `_headers`: a path, and below it the headers to set (`Name: value`) and to take away (`! Name`).

use http::{HeaderName, HeaderValue};

use super::{HEADERS_FILE, Warnings, lines, text_of};
use crate::manifest::{HeaderRule, Pattern};

/// Rules of a file, at most.
const RULES: usize = 100;

/// Headers that a site does not decide about: those that frame the answer, those the edge computes from the file, and
/// those that would speak for the platform.
const NOT_THE_SITES: [&str; 22] = [
    "accept-ranges",
    "age",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "host",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-authenticate",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
    "x-content-type-options",
];

/// Compiles `_headers`.
pub fn compile(file: &[u8]) -> (Vec<HeaderRule>, Vec<String>) {
    let mut warnings = Warnings::new(HEADERS_FILE);
    let mut rules: Vec<(usize, HeaderRule)> = Vec::new();
    // Headers below a path that was left out are left out with it, without a word of their own.
    let mut orphans_said = false;
    let mut current = false;
    let text = text_of(file);
    for (number, line) in lines(&text, &mut warnings) {
        if line.starts_with('/') || is_url(line) {
            orphans_said = true;
            current = false;
            match Pattern::parse(line) {
                Ok(_) if rules.len() >= RULES => {
                    warnings.add(number, format_args!("only the first {RULES} rules count"));
                }
                Ok(pattern) => {
                    rules.push((number, HeaderRule { pattern, set: Vec::new(), unset: Vec::new() }));
                    current = true;
                }
                Err(why) => warnings.add(number, why),
            }
            continue;
        }
        match rules.last_mut().filter(|_| current) {
            Some((_, rule)) => {
                if let Err(why) = add_header(rule, line) {
                    warnings.add(number, why);
                }
            }
            None if orphans_said => {}
            None => {
                warnings.add(number, "a header needs a path above it");
                orphans_said = true;
            }
        }
    }
    rules.retain(|(number, rule)| {
        let says_something = !rule.set.is_empty() || !rule.unset.is_empty();
        if !says_something {
            warnings.add(*number, "no header follows this path");
        }
        says_something
    });
    (rules.into_iter().map(|(_, rule)| rule).collect(), warnings.into_vec())
}

/// Whether the line is a URL rather than a header: `https://…`, not `Link: <…>`.
fn is_url(line: &str) -> bool {
    line.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn add_header(rule: &mut HeaderRule, line: &str) -> Result<(), String> {
    if let Some(name) = line.strip_prefix('!') {
        let name = header_name(name.trim())?;
        rule.unset.push(name);
        return Ok(());
    }
    let (name, value) = line.split_once(':').ok_or("a header has the form `Name: value`")?;
    let name = header_name(name.trim())?;
    let value = value.trim();
    if value.is_empty() {
        return Err(format!("`{name}` has no value; `! {name}` takes a header away"));
    }
    if HeaderValue::from_str(value).is_err() || !value.is_ascii() {
        return Err(format!("the value of `{name}` holds characters that headers may not hold"));
    }
    match rule.set.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = format!("{known}, {value}"),
        None => rule.set.push((name, value.to_owned())),
    }
    Ok(())
}

fn header_name(text: &str) -> Result<String, String> {
    let name = HeaderName::try_from(text).map_err(|_| format!("`{text}` is not a header's name"))?;
    if NOT_THE_SITES.contains(&name.as_str()) || name.as_str().starts_with("x-svc-") {
        return Err(format!("`{text}` is set by the service"));
    }
    Ok(name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_compiled() {
        let (rules, warnings) = compile(
            b"# all\n/*\n  X-Frame-Options: DENY\n  ! X-Powered\n\n/static/:file\n  Access-Control-Allow-Origin: *\n  \
              Link: </a.css>; rel=preload\n  Link: </b.css>; rel=preload\nhttps://a.test/*\n X-Robots-Tag: noindex\n",
        );
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(rules.len(), 3);
        assert_eq!(rules[0].set, [("x-frame-options".to_owned(), "DENY".to_owned())]);
        assert_eq!(rules[0].unset, ["x-powered"]);
        assert_eq!(rules[1].set[1].1, "</a.css>; rel=preload, </b.css>; rel=preload");
        assert_eq!(rules[2].pattern.host.as_deref(), Some("a.test"));
    }

    #[test]
    fn wrong_lines_become_warnings_and_the_rest_stays() {
        for (file, wanted) in [
            ("X-A: b\n/*\n X-B: c", "_headers line 1: a header needs a path above it"),
            ("/*\n X-B: c\n nonsense", "_headers line 3: a header has the form `Name: value`"),
            ("/*\n X-B: c\n Content-Length: 3", "_headers line 3: `Content-Length` is set by the service"),
            ("/*\n X-B: c\n transfer-encoding: x", "_headers line 3: `transfer-encoding` is set by the service"),
            ("/*\n X-B: c\n ! Set-Cookie", "_headers line 3: `Set-Cookie` is set by the service"),
            ("/*\n X-B: c\n X A: b", "_headers line 3: `X A` is not a header's name"),
            ("/*\n X-B: c\n X-A:", "_headers line 3: `x-a` has no value; `! x-a` takes a header away"),
            ("/*\n X-B: c\n/empty", "_headers line 3: no header follows this path"),
            ("/*\n X-B: c\n/a/*/*\n X-A: b", "_headers line 3: only one * is allowed"),
            (
                "/*\n X-B: c\n X-A: a\x01b",
                "_headers line 3: the value of `x-a` holds characters that headers may not hold",
            ),
        ] {
            let (rules, warnings) = compile(file.as_bytes());
            assert_eq!(warnings, [wanted], "{file}");
            assert_eq!(rules.len(), 1, "{file}");
            assert_eq!(rules[0].set, [("x-b".to_owned(), "c".to_owned())], "{file}");
        }
    }

    #[test]
    fn the_bounds_hold() {
        let many = "/a\n X-A: b\n".repeat(RULES + 3);
        let (rules, warnings) = compile(many.as_bytes());
        assert_eq!((rules.len(), warnings.len()), (RULES, 3));
        let (_, warnings) = compile(format!("/a\n X-A: {}", "b".repeat(2_000)).as_bytes());
        assert_eq!(
            warnings,
            ["_headers line 2: longer than 2000 characters", "_headers line 1: no header follows this path"]
        );
        let (_, warnings) = compile("nonsense:\n".repeat(10_000).as_bytes());
        assert_eq!(warnings.len(), 1);
        let (_, warnings) = compile("/*/*\n".repeat(10_000).as_bytes());
        assert_eq!(warnings.last().map(String::as_str), Some("_headers: 9950 more lines were left out"));
        assert_eq!(compile(b"\xff\xfe\x00").0, []);
    }
}
