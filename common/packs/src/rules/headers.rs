//! `_headers`: paths, each followed by the headers to set (`Name: value`) and to remove (`! Name`).

use http::{HeaderName, HeaderValue};

use super::{
    HEADERS_FILE, NOT_UTF8, RULES_BYTES, RuleWarnings, VALUE_BYTES,
    accounts::{BASIC_AUTH, GuardCollector},
    is_mangled, is_space, lines, pattern_bytes, read_text, within_bytes,
};
use crate::{
    encoded,
    manifest::{AccessRules, Encoding, HeaderRule, PathPattern},
};

const RULES: usize = 100;
/// Maximum headers that one rule sets or removes.
const FIELDS: usize = 20;

/// Headers beyond a site's control: they frame the response, derive from the file, or speak for the platform.
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
/// Name prefixes with the same purpose as [`OF_THE_SERVICE`].
const OF_THE_SERVICE_BEGINNINGS: [&str; 2] = ["proxy-", "x-svc-"];

/// Headers that affect more than the site's own responses: the cookies of all sites of the domain (`Clear-Site-Data`),
/// a later owner of the name (`Alt-Svc`, `NEL` and the pins are remembered by browsers), or a cache in front of the
/// edge, which would keep replaced, deleted or gated content.
///
/// Not included, because they end with the site's own host: `Strict-Transport-Security`, `Service-Worker-Allowed`,
/// `Report-To` and `Reporting-Endpoints`, `Expires` and `Pragma`. The edge removes the last two behind a gate.
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
/// Name prefixes with the same purpose as [`BEYOND_THE_SITE`]: instructions that nginx, lighttpd, `LiteSpeed`, h2o and
/// Envoy in front of the edge would obey (another file, another server, unhealthy edge), and those to caches.
const BEYOND_THE_SITE_BEGINNINGS: [&str; 9] =
    ["cdn-", "cf-", "surrogate-", "x-accel-", "x-envoy-", "x-lighttpd-", "x-litespeed-", "x-reproxy-", "x-sendfile"];
/// `CDN-Cache-Control` and its network-specific variants.
const CACHE_CONTROL_END: &str = "-cache-control";

/// The compiled `_headers`.
#[derive(Debug, Default)]
pub struct CompiledHeaders {
    /// The header rules, in file order.
    pub rules: Vec<HeaderRule>,
    /// The paths behind `Basic-Auth`.
    pub access: AccessRules,
    /// Warnings about skipped lines.
    pub warnings: Vec<String>,
}

struct HeaderBlock {
    number: usize,
    rule: HeaderRule,
    /// Whether a header follows, including one that was skipped with its own warning.
    says_something: bool,
}

/// Compiles `_headers`. Hashes the passwords in it, which takes tens of milliseconds each.
pub fn compile(file: &[u8]) -> CompiledHeaders {
    let mut warnings = RuleWarnings::new(HEADERS_FILE);
    let mut blocks: Vec<HeaderBlock> = Vec::new();
    let mut accounts = GuardCollector::default();
    // Headers below a skipped path are skipped without a warning of their own.
    let mut orphans_said = false;
    let mut current = false;
    let mut bound_said = false;
    let text = read_text(file, RULES_BYTES, &mut warnings);
    for (number, line) in lines(&text, &mut warnings) {
        if is_mangled(line) {
            warnings.add(number, NOT_UTF8);
            if line.starts_with('/') || is_url(line) {
                orphans_said = true;
                current = false;
                continue;
            }
            // An unreadable guard closes its path.
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
            match PathPattern::parse(line) {
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
                    blocks.push(HeaderBlock { number, rule, says_something: false });
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

fn basic_auth(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':')?;
    name.trim().eq_ignore_ascii_case(BASIC_AUTH).then(|| value.trim())
}

/// The warning for passwords in a misspelt `Basic-Auth` header, which would reach every visitor if it were sent.
const MISSPELT_AUTH: &str = "the header is called `Basic-Auth`; this line counts for nothing and is not sent, so the files are open to everybody";

/// The letters of misspellings of `Basic-Auth`.
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

/// Returns whether a line has passwords under a misspelling of `Basic-Auth`.
fn is_misspelt_auth(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':').filter(|_| !line.starts_with('!')) else { return false };
    let name = name.trim().to_ascii_lowercase();
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    name != BASIC_AUTH && MEANT_FOR_AUTH.contains(&&*letters)
}

/// Returns whether a line contains passwords, even if it is commented out or misspelt.
pub(super) fn has_passwords(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| is_space(c) || c == '#' || c == '!');
    basic_auth(line).is_some() || is_misspelt_auth(line)
}

/// Returns whether the line is a URL rather than a header: `https://…`, not `Link: <…>`.
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
    // Every response has it.
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
    if name == encoded::FIELD && Encoding::from_token(value).is_none() {
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
    match rejection_reason(name.as_str()) {
        Some(why) => Err(format!("`{text}` {why}")),
        None => Ok(name.as_str().to_owned()),
    }
}

/// Returns the reason a site may not set the header `name` (in lower case), as the end of a sentence.
pub fn rejection_reason(name: &str) -> Option<&'static str> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    if OF_THE_SERVICE.contains(&name) || begins(&OF_THE_SERVICE_BEGINNINGS) {
        return Some("is set by the service");
    }
    let reaches = BEYOND_THE_SITE.contains(&name) || begins(&BEYOND_THE_SITE_BEGINNINGS);
    (reaches || name.ends_with(CACHE_CONTROL_END)).then_some("reaches beyond this site")
}

/// Returns the rules of a stored pack, limited as in [`compile`].
pub fn within_bounds(rules: Vec<HeaderRule>) -> Vec<HeaderRule> {
    let counted = rules.into_iter().take(RULES).map(|mut rule| {
        rule.set.retain(|(name, value)| {
            value.len() <= VALUE_BYTES && rejection_reason(&name.to_ascii_lowercase()).is_none()
        });
        rule.unset.retain(|name| rejection_reason(&name.to_ascii_lowercase()).is_none());
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
mod tests;
