//! `_headers`: a path, and below it the headers to set (`Name: value`) and to take away (`! Name`).

use http::{HeaderName, HeaderValue};

use super::{
    HEADERS_FILE, NOT_UTF8, RULES_BYTES, VALUE_BYTES, Warnings,
    accounts::{Accounts, BASIC_AUTH},
    is_mangled, lines, pattern_bytes, text_of, within_bytes,
};
use crate::{
    encoded,
    manifest::{Access, Encoding, HeaderRule, Pattern},
};

/// Rules of a file, at most.
const RULES: usize = 100;
/// Headers that one rule sets or takes away, at most.
const FIELDS: usize = 20;

/// Headers that a site does not decide about, because they frame the answer, are computed from the file, or speak for
/// the platform.
const OF_THE_SERVICE: [&str; 24] = [
    "accept-ranges",
    "age",
    BASIC_AUTH,
    "connection",
    "content-length",
    "content-range",
    "date",
    "etag",
    "host",
    "http2-settings",
    "keep-alive",
    "last-modified",
    "location",
    "server",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
    "x-content-type-options",
    "x-request-id",
];
/// What [`OF_THE_SERVICE`] is for, by how the name begins.
const OF_THE_SERVICE_BEGINNINGS: [&str; 2] = ["proxy-", "x-svc-"];

/// Headers that act on more than the site's own answers: on the cookies of all sites of the domain (`Clear-Site-Data`),
/// on whoever has the name after this site (`Alt-Svc`, `NEL` and the pins are remembered by browsers), or on a cache in
/// front of the edge, which would keep what was replaced, deleted or put behind a gate.
///
/// Not among them, because they end with the site's own host: `Strict-Transport-Security`, `Service-Worker-Allowed`,
/// `Report-To` and `Reporting-Endpoints`, `Expires` and `Pragma`. The last two the edge takes away behind a gate.
const BEYOND_THE_SITE: [&str; 8] = [
    "alt-svc",
    "cache-tag",
    "clear-site-data",
    "edge-cache-tag",
    "edge-control",
    "nel",
    "public-key-pins",
    "public-key-pins-report-only",
];
/// What [`BEYOND_THE_SITE`] is for, by how the name begins: orders that nginx, lighttpd, `LiteSpeed`, h2o and Envoy in
/// front of the edge would obey (another file, another server, this edge is ill), and those to caches.
const BEYOND_THE_SITE_BEGINNINGS: [&str; 9] =
    ["cdn-", "cf-", "surrogate-", "x-accel-", "x-envoy-", "x-lighttpd-", "x-litespeed-", "x-reproxy-", "x-sendfile"];
/// `CDN-Cache-Control`, and what each network calls its own.
const CACHE_CONTROL_END: &str = "-cache-control";

/// What `_headers` says.
#[derive(Debug, Default)]
pub struct CompiledHeaders {
    /// The headers of paths, in file order.
    pub rules: Vec<HeaderRule>,
    /// The paths behind `Basic-Auth`.
    pub access: Access,
    /// Warnings about lines that were left out.
    pub warnings: Vec<String>,
}

/// A block under way.
struct Block {
    /// The number of its first line.
    number: usize,
    rule: HeaderRule,
    /// Whether a header follows, be it one that was left out with a word of its own.
    says_something: bool,
}

/// Compiles `_headers`. Hashes the passwords in it, which takes tens of milliseconds each.
pub fn compile(file: &[u8]) -> CompiledHeaders {
    let mut warnings = Warnings::new(HEADERS_FILE);
    let mut blocks: Vec<Block> = Vec::new();
    let mut accounts = Accounts::default();
    // Headers below a path that was left out are left out with it, without a word of their own.
    let mut orphans_said = false;
    let mut current = false;
    let mut bound_said = false;
    let text = text_of(file, RULES_BYTES, &mut warnings);
    for (number, line) in lines(&text, &mut warnings) {
        if is_mangled(line) {
            warnings.add(number, NOT_UTF8);
            if line.starts_with('/') || is_url(line) {
                orphans_said = true;
                current = false;
                continue;
            }
            // A guard of which nothing can be read shuts its path.
            if basic_auth(line).is_none() {
                if let Some(block) = blocks.last_mut().filter(|_| current) {
                    block.says_something = true;
                }
                continue;
            }
        }
        if line.starts_with('/') || is_url(line) {
            orphans_said = true;
            current = false;
            match Pattern::parse(line) {
                Ok(_) if blocks.len() >= RULES => {
                    if !bound_said {
                        let why =
                            format_args!("only the first {RULES} rules count; this one and all below are left out");
                        warnings.add(number, why);
                    }
                    bound_said = true;
                }
                Ok(pattern) => {
                    let rule = HeaderRule { pattern, set: Vec::new(), unset: Vec::new() };
                    blocks.push(Block { number, rule, says_something: false });
                    current = true;
                }
                Err(why) => warnings.add(number, why),
            }
            continue;
        }
        match blocks.last_mut().filter(|_| current) {
            Some(block) => {
                block.says_something = true;
                match basic_auth(line) {
                    Some(value) => {
                        for why in accounts.add(block.number, &block.rule.pattern, value) {
                            warnings.add(number, why);
                        }
                    }
                    None if is_misspelt_auth(line) => warnings.add(number, MISSPELT_AUTH),
                    None => {
                        if let Err(why) = add_header(&mut block.rule, line) {
                            warnings.add(number, why);
                        }
                    }
                }
            }
            None if is_misspelt_auth(line) => {
                warnings.add(number, MISSPELT_AUTH);
                orphans_said = true;
            }
            None if basic_auth(line).is_some() => {
                warnings
                    .add(number, "`Basic-Auth` counts for nothing without its path: the files are open to everybody");
                orphans_said = true;
            }
            None if orphans_said => {}
            None => {
                warnings.add(number, "a header needs a path above it");
                orphans_said = true;
            }
        }
    }
    for block in blocks.iter().filter(|block| !block.says_something) {
        warnings.add(block.number, "no header follows this path");
    }
    let rules = blocks.into_iter().map(|block| block.rule);
    let says_something = |rule: &HeaderRule| !rule.set.is_empty() || !rule.unset.is_empty();
    CompiledHeaders {
        rules: rules.filter(says_something).collect(),
        access: accounts.into_access(),
        warnings: warnings.into_vec(),
    }
}

/// The value of a line of `Basic-Auth`.
fn basic_auth(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':')?;
    name.trim().eq_ignore_ascii_case(BASIC_AUTH).then(|| value.trim())
}

/// What is said of passwords that are not in a `Basic-Auth`. As another header they would be sent to every visitor.
const MISSPELT_AUTH: &str = "the header is called `Basic-Auth`; this line counts for nothing and is not sent, so the files are open to everybody";

/// The letters of names that were meant to be `Basic-Auth`.
const MEANT_FOR_AUTH: [&str; 9] = [
    "authorization",
    "baiscauth",
    "basciauth",
    "basicath",
    "basicaut",
    "basicauth",
    "basicauthentication",
    "basicauthorization",
    "httpbasicauth",
];

/// Whether a line has passwords under a name that was meant to be `Basic-Auth`.
fn is_misspelt_auth(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':').filter(|_| !line.starts_with('!')) else { return false };
    let name = name.trim().to_ascii_lowercase();
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    name != BASIC_AUTH && MEANT_FOR_AUTH.contains(&&*letters)
}

/// Whether the line is a URL rather than a header: `https://…`, not `Link: <…>`.
fn is_url(line: &str) -> bool {
    line.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn add_header(rule: &mut HeaderRule, line: &str) -> Result<(), String> {
    let is_full = rule.set.len() + rule.unset.len() >= FIELDS;
    let too_many = || Err(format!("only the first {FIELDS} headers of a rule count"));
    if let Some(name) = line.strip_prefix('!') {
        let name = header_name(name.trim())?;
        if name == encoded::FIELD {
            return Err("`Content-Encoding` belongs to the file".to_owned());
        }
        if is_full {
            return too_many();
        }
        rule.unset.push(name);
        return Ok(());
    }
    let (name, value) = line.split_once(':').ok_or("a header has the form `Name: value`")?;
    let (name, value) = (name.trim(), value.trim());
    // Every answer has it.
    if name.eq_ignore_ascii_case("x-content-type-options") && value.eq_ignore_ascii_case("nosniff") {
        return Ok(());
    }
    let name = header_name(name)?;
    if value.is_empty() {
        return Err(format!("`{name}` has no value; `! {name}` takes a header away"));
    }
    if HeaderValue::from_str(value).is_err() || !value.is_ascii() {
        return Err(format!("the value of `{name}` holds characters that headers may not hold"));
    }
    if name == encoded::FIELD && Encoding::of_token(value).is_none() {
        return Err("`Content-Encoding` is br, gzip or zstd".to_owned());
    }
    match rule.set.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) if known.len() + ", ".len() + value.len() > VALUE_BYTES => {
            let most = domain::size(VALUE_BYTES as u64);
            return Err(format!("the values of `{name}` have more than {most} together"));
        }
        Some((_, known)) => *known = format!("{known}, {value}"),
        None if is_full => return too_many(),
        None => rule.set.push((name, value.to_owned())),
    }
    Ok(())
}

fn header_name(text: &str) -> Result<String, String> {
    let name = HeaderName::try_from(text).map_err(|_| format!("`{text}` is not a header's name"))?;
    match refusal(name.as_str()) {
        Some(why) => Err(format!("`{text}` {why}")),
        None => Ok(name.as_str().to_owned()),
    }
}

/// Why a site may not say the header called `name` (in lower case), as the end of a sentence; none when it may.
pub fn refusal(name: &str) -> Option<&'static str> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    if OF_THE_SERVICE.contains(&name) || begins(&OF_THE_SERVICE_BEGINNINGS) {
        return Some("is set by the service");
    }
    let reaches = BEYOND_THE_SITE.contains(&name) || begins(&BEYOND_THE_SITE_BEGINNINGS);
    (reaches || name.ends_with(CACHE_CONTROL_END)).then_some("reaches beyond this site")
}

/// The rules of a stored pack, as far as [`compile`] would have let them through.
pub fn within_bounds(rules: Vec<HeaderRule>) -> Vec<HeaderRule> {
    let counted = rules.into_iter().take(RULES).map(|mut rule| {
        rule.set.retain(|(name, value)| value.len() <= VALUE_BYTES && refusal(&name.to_ascii_lowercase()).is_none());
        rule.unset.retain(|name| refusal(&name.to_ascii_lowercase()).is_none());
        rule.set.truncate(FIELDS);
        rule.unset.truncate(FIELDS - rule.set.len());
        rule
    });
    let bytes = |rule: &HeaderRule| {
        let set = rule.set.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        pattern_bytes(&rule.pattern) + set + rule.unset.iter().map(String::len).sum::<usize>()
    };
    within_bytes(counted, RULES_BYTES, bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules and the warnings.
    fn compile(file: &[u8]) -> (Vec<HeaderRule>, Vec<String>) {
        let compiled = super::compile(file);
        (compiled.rules, compiled.warnings)
    }

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
            ("/*\n X-B: c\n Server: x", "_headers line 3: `Server` is set by the service"),
            ("/*\n X-B: c\n ! Set-Cookie", "_headers line 3: `Set-Cookie` is set by the service"),
            (
                "/*\n X-B: c\n Clear-Site-Data: \"cookies\"",
                "_headers line 3: `Clear-Site-Data` reaches beyond this site",
            ),
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
    fn a_misspelt_guard_is_not_sent() {
        for name in ["BasicAuth", "Basic_Auth", "basic auth", "Basic.Auth", "BASIC-AUTHENTICATION", "Authorization"] {
            let compiled = super::compile(format!("/a/*\n X-B: c\n {name}: ann:open-sesame\n").as_bytes());
            assert_eq!(compiled.rules[0].set, [("x-b".to_owned(), "c".to_owned())], "{name}");
            assert_eq!(compiled.warnings, [format!("_headers line 3: {MISSPELT_AUTH}")], "{name}");
            assert!(compiled.access.guards.is_empty());
            let orphan = super::compile(format!("{name}: ann:open-sesame\n").as_bytes());
            assert_eq!(orphan.warnings, [format!("_headers line 1: {MISSPELT_AUTH}")], "{name}");
        }
        let (rules, warnings) = compile(b"/*\n X-Basic-Auth-Realm: a\n");
        assert_eq!((rules.len(), warnings.len()), (1, 0));
    }

    #[test]
    fn lines_in_latin_1_are_left_out_and_named() {
        let text = b"/a\n X-A: b\n X-B: caf\xe9\n/caf\xe9/*\n X-C: d\n Basic-Auth: a:open-sesame\n/b\n Basic-Auth: a:s\xe9same\n# \xe9\n";
        let compiled = super::compile(text);
        assert_eq!(compiled.rules.len(), 1);
        assert_eq!(
            compiled.rules[0].set,
            [("x-a".to_owned(), "b".to_owned())],
            "nothing of the path that was left out"
        );
        let lines: Vec<&str> =
            compiled.warnings.iter().filter(|said| said.ends_with(NOT_UTF8)).map(|said| &said[..15]).collect();
        assert_eq!(lines, ["_headers line 3", "_headers line 4", "_headers line 8"]);
        assert_eq!(compiled.access.guards.len(), 1, "what cannot be read shuts its path");
        let (rules, warnings) = super::super::redirects::compile(b"/caf\xe9 /b\n/c /d\n", |_| false);
        assert_eq!((rules.len(), warnings), (1, vec![format!("_redirects line 1: {NOT_UTF8}")]));
    }

    #[test]
    fn what_the_service_does_already_is_no_mistake() {
        let (rules, warnings) = compile(b"/*\n X-Content-Type-Options: NoSniff\n/b/*.br\n Content-Encoding: br\n");
        assert_eq!((rules.len(), &rules[0].set[..]), (1, &[("content-encoding".to_owned(), "br".to_owned())][..]));
        assert_eq!(warnings, Vec::<String>::new());
        let (rules, warnings) = compile(b"/*\n X-Content-Type-Options: none\n/b\n Content-Encoding: identity\n/c\n");
        let said = ["2: `X-Content-Type-Options` is set by the service", "4: `Content-Encoding` is br, gzip or zstd"]
            .map(|said| format!("_headers line {said}"));
        assert_eq!((rules.len(), &warnings[..2]), (0, &said[..]), "one word for each");
        assert_eq!(warnings[2..], ["_headers line 5: no header follows this path"]);
    }

    #[test]
    fn the_bounds_hold() {
        let many = "/a\n X-A: b\n".repeat(RULES + 3);
        let (rules, warnings) = compile(many.as_bytes());
        assert_eq!(rules.len(), RULES);
        assert_eq!(
            warnings,
            ["_headers line 201: only the first 100 rules count; this one and all below are left out"]
        );
        let (_, warnings) = compile(format!("/a\n X-A: {}", "b".repeat(2_000)).as_bytes());
        assert_eq!(
            warnings,
            ["_headers line 1: no header follows this path", "_headers line 2: longer than 2000 characters"],
            "in the order of the lines, whichever was noticed first"
        );
        let (_, warnings) = compile("nonsense:\n".repeat(10_000).as_bytes());
        assert_eq!(warnings.len(), 1);
        let (_, warnings) = compile("/*/*\n".repeat(10_000).as_bytes());
        assert_eq!(warnings.last().map(String::as_str), Some("_headers: 9950 more lines were left out"));
        assert_eq!(compile(b"\xff\xfe/\x00").1.len(), 1, "in UTF-16");
        let wide: Vec<String> = (0..FIELDS + 2).map(|n| format!(" X-{n}: b\n")).collect();
        let wide = wide.concat();
        let (rules, warnings) = compile(format!("/a\n{wide} ! X-Away\n X-0: again\n").as_bytes());
        assert_eq!((rules[0].set.len(), rules[0].unset.len()), (FIELDS, 0));
        assert_eq!(rules[0].set[0].1, "b, again", "a header that is there already takes no room");
        assert_eq!(warnings.len(), 3);
        assert_eq!(warnings[0], "_headers line 22: only the first 20 headers of a rule count");
        let (rules, warnings) = compile(format!("/a\n X-A: {0}\n X-A: {0}\n", "b".repeat(1_100)).as_bytes());
        assert_eq!(rules[0].set[0].1.len(), 1_100);
        assert_eq!(warnings, ["_headers line 3: the values of `x-a` have more than 2 KB together"]);
    }

    #[test]
    fn a_file_counts_up_to_its_bound_in_whole_lines() {
        let line = format!(" X-A: {}\n", "b".repeat(1_016));
        let file = format!("/a\n X-B: c\n/b\n{}", line.repeat(200));
        let (rules, warnings) = compile(file.as_bytes());
        assert_eq!(rules.len(), 2);
        assert_eq!(warnings[0], "_headers: only the first 100 KB count; the lines after them were left out");
        assert_eq!(warnings.len(), 51, "99 lines counted, one of them fitted: {warnings:?}");
        let file = format!("{}/b\n X-B: c", "# all is well\n".repeat(7_313));
        assert!(file.len() < RULES_BYTES && compile(file.as_bytes()).1.is_empty());
    }

    #[test]
    fn a_stored_pack_of_more_rules_is_cut_to_the_bounds() {
        let rule = |set: usize, bytes: usize| HeaderRule {
            pattern: Pattern::parse("/*").expect("valid"),
            set: (0..set).map(|n| (format!("x-{n}"), "b".repeat(bytes))).collect(),
            unset: vec!["x-away".into(); 30],
        };
        let cut = within_bounds(vec![rule(5, 10); 300]);
        assert_eq!((cut.len(), cut[0].set.len(), cut[0].unset.len()), (RULES, 5, FIELDS - 5));
        assert!(within_bounds(vec![rule(15, 2_000); 300]).len() < 4);
        assert!(within_bounds(vec![rule(3, 3_000)])[0].set.is_empty());
        let reaching = HeaderRule {
            pattern: Pattern::parse("/*").expect("valid"),
            set: vec![("Clear-Site-Data".into(), "\"cookies\"".into()), ("x-fine".into(), "1".into())],
            unset: vec!["ETag".into()],
        };
        let cut = within_bounds(vec![reaching]);
        assert_eq!(cut[0].set, [("x-fine".to_owned(), "1".to_owned())]);
        assert!(cut[0].unset.is_empty());
    }

    #[test]
    fn what_reaches_beyond_a_site_is_not_the_sites_to_say() {
        for name in [
            "set-cookie",
            "server",
            "x-svc-edge",
            "proxy-status",
            "clear-site-data",
            "alt-svc",
            "nel",
            "public-key-pins",
            "x-accel-redirect",
            "x-accel-expires",
            "x-sendfile",
            "x-sendfile2",
            "x-lighttpd-send-file",
            "x-litespeed-location",
            "x-reproxy-url",
            "x-envoy-immediate-health-check-fail",
            "cdn-cache-control",
            "cloudflare-cdn-cache-control",
            "netlify-cdn-cache-control",
            "surrogate-control",
            "surrogate-key",
            "edge-control",
        ] {
            assert!(refusal(name).is_some(), "{name}");
        }
        for name in [
            "cache-control",
            "expires",
            "pragma",
            "strict-transport-security",
            "service-worker-allowed",
            "report-to",
            "content-security-policy",
            "access-control-allow-origin",
            "link",
            "x-frame-options",
        ] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }
}
