//! Detection of redirect loops: within a rule, between rules, or through the clean addresses of the site's files.
//!
//! Each rule is followed from its path (a rule with wildcards from sample paths) as an edge would answer a browser.
//! Anything that depends on a query, or on a visitor's country or language, ends the walk, so that no rule is rejected
//! that may lead to an end.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;

use super::{VALUE_BYTES, path::RequestPath};
use crate::manifest::{PatternSegment, RedirectConditions, RedirectRule};

/// Maximum uses of one wildcard rule on a walk before it counts as endless: browsers give up earlier.
const USES: usize = 20;
/// Sample text for wildcards, which no site uses.
const SAMPLE: &str = "svc-sample";
/// Maximum number of passes after wildcard rules were rejected.
const ROUNDS: usize = 10;

struct RedirectGraph<'s, F> {
    rules: &'s [RedirectRule],
    has_file: &'s F,
    /// Rules by literal path, and all other rules, both in file order.
    exact: HashMap<String, Vec<usize>>,
    wild: Vec<usize>,
    refused: HashMap<usize, String>,
}

enum PathOutcome {
    /// Continue at this path, by a rule or because it is the file's clean address.
    Leads(String, Option<usize>),
    /// Anything but a redirect within the site.
    Ends,
}

/// Returns the rules to reject, with the reasons.
pub(super) fn find_loops(rules: &[RedirectRule], has_file: &impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let (mut exact, mut wild) = (HashMap::<String, Vec<usize>>::new(), Vec::new());
    for (at, rule) in rules.iter().enumerate() {
        match rule.pattern.literal() {
            Some(path) => exact.entry(path).or_default().push(at),
            None => wild.push(at),
        }
    }
    let mut site = RedirectGraph { rules, has_file, exact, wild, refused: HashMap::new() };
    for _ in 0..ROUNDS {
        let refused = site.refused.len();
        site.walk_all();
        if site.refused.len() == refused {
            break;
        }
    }
    let mut refused: Vec<_> = site.refused.into_iter().collect();
    refused.sort_unstable();
    refused
}

impl<F: Fn(&str) -> bool> RedirectGraph<'_, F> {
    fn walk_all(&mut self) {
        let mut settled = HashSet::new();
        let rules = self.rules;
        for rule in rules {
            if !rule.is_redirect() || !rule.conditions.query.is_empty() {
                continue;
            }
            let is_conditional = !rule.conditions.is_empty();
            for start in samples(rule) {
                // A path that ends for a visitor in one country may continue for one in another.
                let mut own = HashSet::new();
                let settled = if is_conditional { &mut own } else { &mut settled };
                while let Some((last, why)) = self.walk(&start, &rule.conditions, settled) {
                    self.refused.insert(last, why);
                    if rules[last].pattern.literal().is_none() {
                        settled.clear();
                    }
                }
            }
        }
    }

    /// Follows the redirects from `start` for a visitor who meets `conditions`. Returns the last rule of a loop, with
    /// the reason, if there is one. Otherwise adds the visited paths to `settled`.
    fn walk(
        &self,
        start: &str,
        conditions: &RedirectConditions,
        settled: &mut HashSet<String>,
    ) -> Option<(usize, String)> {
        let mut trail: Vec<(String, Option<usize>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut uses: HashMap<usize, usize> = HashMap::new();
        let mut path = start.to_owned();
        loop {
            if settled.contains(&path) {
                break;
            }
            if let Some(&begin) = places.get(&path) {
                return loop_rejection(&trail[begin..], &path);
            }
            let PathOutcome::Leads(next, by) = self.answer(&path, conditions) else { break };
            if let Some(rule) = by.filter(|&rule| self.rules[rule].pattern.literal().is_none()) {
                let uses = uses.entry(rule).or_default();
                *uses += 1;
                if *uses > USES {
                    return Some((rule, "this leads on and on, by itself".to_owned()));
                }
            }
            places.insert(path.clone(), trail.len());
            trail.push((std::mem::replace(&mut path, next), by));
        }
        settled.insert(path);
        settled.extend(trail.into_iter().map(|(path, _)| path));
        None
    }

    fn answer(&self, path: &str, conditions: &RedirectConditions) -> PathOutcome {
        let request = RequestPath::new(path);
        let exact = self.exact.get(path).map_or(&[][..], Vec::as_slice);
        let mut candidates: Vec<usize> = exact.iter().chain(&self.wild).copied().collect();
        candidates.sort_unstable();
        for at in candidates {
            let rule = &self.rules[at];
            if self.refused.contains_key(&at) {
                continue;
            }
            let Some(captures) = rule.pattern.matches("", &request) else { continue };
            if !rule.conditions.is_empty() && rule.conditions != *conditions {
                return PathOutcome::Ends;
            }
            if !rule.is_redirect() {
                let stands_back = rule.pattern.is_dynamic() && !rule.is_forced;
                if stands_back && !matches!(self.file(path), PathOutcome::Ends) {
                    continue;
                }
                if stands_back && self.is_file(path) {
                    continue;
                }
                return PathOutcome::Ends;
            }
            let Some(to) = captures.substitute(&rule.to, VALUE_BYTES) else { return PathOutcome::Ends };
            // An edge skips a rule that leads to the current path.
            if to == path {
                continue;
            }
            let Some(to) = to.starts_with('/').then(|| to.split(['?', '#']).next().unwrap_or_default()) else {
                return PathOutcome::Ends;
            };
            let next = RequestPath::new(to).canonical().to_owned();
            return PathOutcome::Leads(next, Some(at));
        }
        self.file(path)
    }

    /// Returns whether a path is a file's own address.
    fn is_file(&self, path: &str) -> bool {
        let path = decoded(path);
        let named = |end: &str| (self.has_file)(&format!("{path}{end}"));
        if path.is_empty() || path.ends_with('/') { named("index.html") } else { named("") || named(".html") }
    }

    /// Returns the response of the site's files alone. Paths other than a file's clean address redirect to it.
    fn file(&self, path: &str) -> PathOutcome {
        let path = decoded(path);
        let has = |path: &str| (self.has_file)(path);
        let leads = |path: &str| PathOutcome::Leads(RequestPath::new(&escaped(path)).canonical().to_owned(), None);
        if path.is_empty() || path.ends_with('/') {
            let name = path.trim_end_matches('/');
            let is_page = !name.is_empty()
                && name.len() + 1 == path.len()
                && !has(&format!("{path}index.html"))
                && !has(name)
                && has(&format!("{name}.html"));
            return if is_page { leads(&format!("/{name}")) } else { PathOutcome::Ends };
        }
        let folder = |path: &str, name: &str| {
            let folder = path.strip_suffix(name)?;
            (folder.is_empty() || folder.ends_with('/')).then(|| leads(&format!("/{folder}")))
        };
        if has(&path) {
            if let Some(folder) = folder(&path, "index.html") {
                return folder;
            }
            return match path.strip_suffix(".html") {
                Some(stem) if !stem.is_empty() && !stem.ends_with('/') && !has(stem) => leads(&format!("/{stem}")),
                _ => PathOutcome::Ends,
            };
        }
        if has(&format!("{path}.html")) {
            return folder(&path, "index").unwrap_or(PathOutcome::Ends);
        }
        if has(&format!("{path}/index.html")) { leads(&format!("/{path}/")) } else { PathOutcome::Ends }
    }
}

/// Returns the rule of a loop to reject, which is the last one in the file, and the reason.
fn loop_rejection(trail: &[(String, Option<usize>)], end: &str) -> Option<(usize, String)> {
    let last = trail.iter().filter_map(|(_, by)| *by).max()?;
    let steps: Vec<&str> = trail.iter().map(|(path, _)| path.as_str()).chain([end]).take(5).collect();
    let more = if trail.len() >= 5 { " → …" } else { "" };
    Some((last, format!("this leads in a circle: {}{more}", steps.join(" → ").replace(SAMPLE, "…"))))
}

fn samples(rule: &RedirectRule) -> Vec<String> {
    if let Some(path) = rule.pattern.literal() {
        return vec![path];
    }
    let filled = |splat: &str| {
        let parts = rule.pattern.segments.iter().enumerate().map(|(at, segment)| match segment {
            PatternSegment::Literal(text) => text.clone(),
            PatternSegment::Placeholder(_) => format!("{SAMPLE}{at}"),
            PatternSegment::Splat => splat.to_owned(),
        });
        parts.collect::<String>()
    };
    let has_splat = rule.pattern.segments.contains(&PatternSegment::Splat);
    let mut samples = vec![filled(SAMPLE)];
    if has_splat {
        samples.push(filled(""));
    }
    samples
}

/// Decodes an address to a file path.
fn decoded(path: &str) -> String {
    percent_decode_str(path.strip_prefix('/').unwrap_or(path)).decode_utf8_lossy().into_owned()
}

/// Encodes a file path as an address.
fn escaped(path: &str) -> String {
    path.replace('%', "%25")
}

#[cfg(test)]
mod tests {
    use super::super::redirects::compile;

    fn refused(rules: &str, files: &[&str]) -> Vec<String> {
        compile(rules.as_bytes(), |path| files.contains(&path)).1
    }

    #[test]
    fn rules_that_lead_in_circles_are_named() {
        for (rules, files, wanted) in [
            ("/ /index.html 301", &["index.html"][..], "1: this leads in a circle: / → /index.html → /"),
            ("/ /index 301", &["index.html"], "1: this leads in a circle: / → /index → /"),
            ("/about /about.html 301", &["about.html"], "1: this leads in a circle: /about → /about.html → /about"),
            ("/x /x/ 301", &["x.html"], "1: this leads in a circle: /x → /x/ → /x"),
            ("/docs/ /docs", &["docs/index.html"], "1: this leads in a circle: /docs/ → /docs → /docs/"),
            (
                "/docs/ /docs/index.html",
                &["docs/index.html"],
                "1: this leads in a circle: /docs/ → /docs/index.html → /docs/",
            ),
            ("/a%20b /a%20b.html", &["a b.html"], "1: this leads in a circle: /a%20b → /a%20b.html → /a%20b"),
            ("/a /b\n/b /c\n/c /a", &[], "3: this leads in a circle: /a → /b → /c → /a"),
            ("/a /b\n/b https://h.test\n/c /c?x", &[], "3: this leads in a circle: /c → /c"),
            ("/en/* /:splat\n/* /en/:splat", &[], "2: this leads in a circle: /en/… → /… → /en/…"),
            ("/a/* /a/x/:splat", &[], "1: this leads on and on, by itself"),
            ("/:page /:page.html", &[], "1: this leads on and on, by itself"),
            ("/* /index.html 301", &["index.html"], "1: this leads in a circle: /index.html → / → /index.html"),
            ("/en/* /:splat\n/ /en/ 302", &[], "2: this leads in a circle: /en/ → / → /en/"),
            ("/ /index.html Language=en", &["index.html"], "1: this leads in a circle: / → /index.html → /"),
            ("/a /b 301!\n/b /a 301!", &[], "2: this leads in a circle: /a → /b → /a"),
        ] {
            assert_eq!(refused(rules, files), [format!("_redirects line {wanted}")], "{rules}");
        }
        let two = refused("/a /b\n/b /a\n/c /d\n/d /c\n/e /a", &[]);
        assert_eq!(two.len(), 2, "each circle is broken once: {two:?}");
    }

    #[test]
    fn whatever_comes_to_an_end_is_kept() {
        for (rules, files) in [
            ("/ /index.html 200", &["index.html"][..]),
            ("/about /about.html 200", &["about.html"]),
            ("/about /about.html 301", &["about.html", "about"]),
            ("/about /about.html 301", &[]),
            ("/ /home", &["index.html", "home.html"]),
            ("/x /x/ 301", &["x.html", "x/index.html"]),
            ("/x /x/ 301\n/x/ /y 301", &["x.html"]),
            ("/docs/ /docs", &["docs.html"]),
            ("/docs /docs/ 301", &["docs/index.html"]),
            ("/* / 302", &["index.html"]),
            ("/* /index.html 200", &["index.html"]),
            ("/*.html /:splat 301", &["about.html", "index.html"]),
            ("/:lang/* /en/:splat", &[]),
            ("/blog/:slug /blog/:slug/ 301", &["blog/a.html"]),
            ("/:page/ /:page 301", &["docs/index.html"]),
            ("/a id=1 /b\n/b /a", &[]),
            ("/a /b Country=de\n/b /a Country=at", &[]),
            ("/a /b\n/b https://h.test/a", &[]),
            ("/x/:a/* /x/:splat", &[]),
            ("/same/* /same/:splat", &[]),
            ("/a /b\n/* /a 404", &[]),
        ] {
            assert_eq!(refused(rules, files), Vec::<String>::new(), "{rules}");
        }
        let chain = (0..2_000).map(|n| format!("/{n} /{}\n", n + 1)).collect::<Vec<_>>().concat();
        assert_eq!(refused(&chain, &[]), Vec::<String>::new());
        let pairs = (0..1_000).map(|n| format!("/a{n} /b{n}\n/b{n} /a{n}\n")).collect::<Vec<_>>().concat();
        assert_eq!(refused(&pairs, &[]).len(), 51);
    }
}
