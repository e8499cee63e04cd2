//! Finds the rules of a site's `_redirects` or `_headers` that match a request, and follows its redirects.
//!
//! [`packs::rules::pattern`] defines what a pattern matches; this module makes the lookup fast for thousands of rules.

use std::collections::HashMap;

use http::{Response, StatusCode, Uri};
use http_types::{SiteBody, pages};
use limits::{CIRCLE_STEPS, QUERY_PARAMETERS};
use packs::{
    manifest::{PathPattern, RedirectConditions, RedirectRule},
    rules::{PathCaptures, QueryParameters, VALUE_BYTES, path::RequestPath},
};

use super::{
    answer::FileRequest,
    header_rules,
    pack::{LoadedPack, REVALIDATE},
    path::{decode_name, encode, with_query},
    preferences::{LanguagePreferences, VaryingBy},
    resolve::{Resolution, resolve, resolve_request},
};

/// The status of a rule that serves another file instead of redirecting.
const REWRITE: u16 = 200;

/// Rules in file order. Those without wildcards are found by hash.
pub(crate) struct RuleSet<T> {
    in_order: Vec<(PathPattern, T)>,
    exact: HashMap<String, Vec<usize>>,
    wild: Vec<usize>,
}

impl<T> RuleSet<T> {
    pub(crate) fn new(in_order: Vec<(PathPattern, T)>) -> Self {
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut wild = Vec::new();
        for (at, (pattern, _)) in in_order.iter().enumerate() {
            match pattern.literal() {
                Some(path) => exact.entry(path).or_default().push(at),
                None => wild.push(at),
            }
        }
        Self { in_order, exact, wild }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Returns the rules that match `path`, in file order, each with its index and its captures.
    pub(crate) fn matching<'m>(
        &'m self,
        host: &'m str,
        path: &'m RequestPath<'_>,
    ) -> impl Iterator<Item = (usize, &'m T, PathCaptures)> {
        let mut exact = self.exact.get(path.canonical()).map_or(&[][..], Vec::as_slice).iter().copied().peekable();
        let mut wild = self.wild.iter().copied().peekable();
        let order = std::iter::from_fn(move || match (exact.peek(), wild.peek()) {
            (Some(e), Some(w)) if e < w => exact.next(),
            (_, Some(_)) => wild.next(),
            (_, None) => exact.next(),
        });
        order.filter_map(move |at| {
            let (pattern, rule) = self.in_order.get(at)?;
            Some((at, rule, pattern.matches(host, path)?))
        })
    }
}

/// A redirect or rewrite, without its pattern.
pub(crate) struct RedirectAction {
    to: String,
    status: u16,
    /// Whether a file at the requested path takes precedence.
    stands_back: bool,
    conditions: RedirectConditions,
}

impl RedirectAction {
    pub(crate) fn new(rule: RedirectRule) -> (PathPattern, Self) {
        let answers = !rule.is_redirect();
        // Single-page sites use `/app/* /app/index.html 200`, which must not hide the site's own files.
        let stands_back = answers && rule.pattern.is_dynamic() && !rule.is_forced;
        (rule.pattern, Self { to: rule.to, status: rule.status, stands_back, conditions: rule.conditions })
    }

    fn redirects(&self) -> bool {
        !matches!(self.status, REWRITE | 404 | 410)
    }
}

#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made, and kept nowhere")]
pub(crate) enum RedirectOutcome {
    Nothing,
    Redirect(Response<SiteBody>),
    /// A rule applies, but the visitor's request makes its target longer than a URL may be.
    TooLong,
    Rewrite {
        to: String,
        status: StatusCode,
        /// Whether the rule applies because the requested path has no file.
        is_fallback: bool,
    },
}

pub(crate) fn follow(pack: &LoadedPack, uri: &Uri, asked: FileRequest<'_>) -> RedirectOutcome {
    let path = RequestPath::new(asked.sent);
    let query = if pack.has_conditions { parse_query(uri) } else { QueryParameters::default() };
    let languages = offered_languages(pack, asked, &path, &query);
    let mut has_file = None;
    for (at, rule, mut captures) in pack.redirects.matching(asked.host, &path) {
        if rule.stands_back
            && *has_file.get_or_insert_with(|| !matches!(resolve_request(pack, asked), Resolution::Nothing))
        {
            continue;
        }
        if !meets_conditions(&rule.conditions, asked, &query, &mut captures)
            || !languages.prefers(&rule.conditions.languages)
        {
            continue;
        }
        let Some(to) = captures.substitute(&rule.to, VALUE_BYTES) else { return RedirectOutcome::TooLong };
        if !rule.redirects() {
            let file = to.split(['?', '#']).next().unwrap_or_default();
            let Some(file) = decode_name(file) else { continue };
            if file == asked.path && rule.status == REWRITE {
                return RedirectOutcome::Nothing;
            }
            let status = StatusCode::from_u16(rule.status).unwrap_or(StatusCode::OK);
            return RedirectOutcome::Rewrite { to: file, status, is_fallback: rule.stands_back };
        }
        // A rule whose target is the requested path would loop forever.
        if to == path.canonical() || leads_back(pack, at, asked, &to) {
            continue;
        }
        // An absolute target can lead in a circle only at the host that it names.
        if rule.conditions.query.is_empty()
            && let Some(own) = own_path(&to, asked)
            && leads_in_circle(pack, asked, own, path.canonical())
        {
            continue;
        }
        let status = StatusCode::from_u16(rule.status).unwrap_or(StatusCode::FOUND);
        let query = match uri.query() {
            Some(query) if !rule.conditions.query.is_empty() => {
                Some(rule.conditions.remaining_query(query)).filter(|rest| !rest.is_empty())
            }
            query => query.map(str::to_owned),
        };
        if let Some(response) = redirect(pack, asked, status, &to, query.as_deref()) {
            return RedirectOutcome::Redirect(response);
        }
    }
    RedirectOutcome::Nothing
}

/// Returns what the response depends on besides its path, whichever rule applies.
pub(crate) fn varying(pack: &LoadedPack, uri: &Uri, asked: FileRequest<'_>) -> VaryingBy {
    let mut varying = VaryingBy::default();
    if !pack.has_conditions {
        return varying;
    }
    let query = parse_query(uri);
    for (_, rule, mut captures) in pack.redirects.matching(asked.host, &RequestPath::new(asked.sent)) {
        if rule.conditions.meets_query(&query, &mut captures) {
            varying.by_language |= !rule.conditions.languages.is_empty();
            varying.by_country |= !rule.conditions.countries.is_empty();
        }
    }
    varying
}

/// Builds a redirect to `location` that keeps the request's `query`, with the site's headers.
pub(crate) fn redirect(
    pack: &LoadedPack,
    asked: FileRequest<'_>,
    status: StatusCode,
    location: &str,
    query: Option<&str>,
) -> Option<Response<SiteBody>> {
    let location = with_query(location, query)?;
    let mut response = pages::with_header(pages::redirect(status, location), http::header::CACHE_CONTROL, REVALIDATE);
    if !pack.headers.is_empty() {
        header_rules::apply_to_redirect(&pack.headers, asked.host, asked.sent, response.headers_mut());
    }
    Some(response)
}

fn parse_query(uri: &Uri) -> QueryParameters<'_> {
    QueryParameters::new(uri.query().unwrap_or_default(), QUERY_PARAMETERS)
}

/// Returns whether a request meets all conditions except languages, which are compared across rules.
fn meets_conditions(
    conditions: &RedirectConditions,
    asked: FileRequest<'_>,
    query: &QueryParameters<'_>,
    captures: &mut PathCaptures,
) -> bool {
    let countries = &conditions.countries;
    let is_there = |country: [u8; 2]| countries.iter().any(|wanted| wanted.as_bytes() == country);
    (countries.is_empty() || asked.country.is_some_and(is_there)) && conditions.meets_query(query, captures)
}

/// Returns the visitor's languages, with every matching rule's languages offered to them.
fn offered_languages(
    pack: &LoadedPack,
    asked: FileRequest<'_>,
    path: &RequestPath<'_>,
    query: &QueryParameters<'_>,
) -> LanguagePreferences {
    if !pack.has_conditions {
        return LanguagePreferences::default();
    }
    let mut languages = LanguagePreferences::from_headers(asked.headers);
    for (_, rule, mut captures) in pack.redirects.matching(asked.host, path) {
        if meets_conditions(&rule.conditions, asked, query, &mut captures) {
            languages.offer(&rule.conditions.languages);
        }
    }
    languages
}

/// Returns whether the redirect at index `at` leads to an address that redirects back, as the requested path is its
/// clean form. Rules that always lead in a circle are refused at upload; this finds those that do so for some.
fn leads_back(pack: &LoadedPack, at: usize, asked: FileRequest<'_>, to: &str) -> bool {
    let to = to.split(['?', '#']).next().unwrap_or_default();
    if !to.starts_with('/') {
        return false;
    }
    let Some(file) = decode_name(to) else { return false };
    let is_back = matches!(resolve(pack, &file), Resolution::Cleaner(clean) if clean == asked.path);
    // Unless another rule redirects elsewhere from there.
    is_back
        && pack
            .redirects
            .matching(asked.host, &RequestPath::new(to))
            .all(|(other, rule, _)| other == at || rule.stands_back)
}

/// Returns the path of an absolute target that names the visited host.
fn own_path<'t>(to: &'t str, asked: FileRequest<'_>) -> Option<&'t str> {
    let (scheme, rest) = to.split_once("://")?;
    let is_secure = scheme.eq_ignore_ascii_case("https");
    if !is_secure && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (authority, if is_secure { 443 } else { 80 }),
    };
    // Plain HTTP is redirected to the site.
    let is_port = port == asked.public_port.unwrap_or(443) || (!is_secure && port == 80);
    (is_port && host.eq_ignore_ascii_case(asked.host)).then_some(path)
}

/// Returns whether the site's own redirects lead from `path` to `from`, or never end. Circles without absolute targets
/// are refused at upload, where the site's hostnames are unknown.
fn leads_in_circle(pack: &LoadedPack, asked: FileRequest<'_>, path: &str, from: &str) -> bool {
    let mut path = RequestPath::new(path).canonical().to_owned();
    for _ in 0..CIRCLE_STEPS {
        if path == from {
            return true;
        }
        let request = RequestPath::new(&path);
        let mut next = None;
        for (_, rule, captures) in pack.redirects.matching(asked.host, &request) {
            if rule.stands_back {
                continue;
            }
            // Another visitor or another query may leave the circle.
            if !rule.redirects() || !rule.conditions.is_empty() {
                return false;
            }
            let Some(to) = captures.substitute(&rule.to, VALUE_BYTES) else { return false };
            let own = match own_path(&to, asked) {
                Some(own) => own,
                None if to.starts_with('/') => to.split(['?', '#']).next().unwrap_or_default(),
                None => return false,
            };
            let own = RequestPath::new(own).canonical().to_owned();
            if own != path {
                next = Some(own);
                break;
            }
        }
        let cleaner = || match resolve(pack, &decode_name(&path)?) {
            Resolution::Cleaner(clean) => Some(RequestPath::new(&encode(&clean)).canonical().to_owned()),
            Resolution::File(_) | Resolution::Nothing => None,
        };
        let Some(next) = next.or_else(cleaner) else { return false };
        path = next;
    }
    true
}

#[cfg(test)]
mod tests {
    use packs::rules::redirects;

    use super::*;

    fn met(rules: &str, path: &str) -> Vec<String> {
        let (rules, warnings) = redirects::compile(rules.as_bytes(), |_| false);
        assert_eq!(warnings, Vec::<String>::new());
        let rules = RuleSet::new(rules.into_iter().map(|rule| (rule.pattern, rule.to)).collect());
        let path = RequestPath::new(path);
        rules
            .matching("a.example", &path)
            .map(|(_, to, captures)| captures.substitute(to, VALUE_BYTES).unwrap())
            .collect()
    }

    #[test]
    fn rules_are_met_in_the_order_of_their_file() {
        assert_eq!(met("/a /1\n/:x /2/:x\n/b /3\n/* https://h/4/:splat", "/a"), ["/1", "/2/a", "https://h/4/a"]);
        assert_eq!(met("/* https://h/4/:splat\n/a /1", "/a"), ["https://h/4/a", "/1"]);
        assert_eq!(met("/é/x /1\n/b /2", "/%C3%A9/x"), ["/1"]);
        assert!(met("/a /1\n/a/* /2", "/b").is_empty());
    }
}
