//! `_redirects`: a line is `from [name=value …] to [status] [Country=…] [Language=…]`; the first matching rule wins.
//!
//! Cloudflare's dialect is read as Cloudflare reads it; conditions, `!` after a status, 404 and 410 are Netlify's.

use std::collections::{HashMap, HashSet};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{
    NOT_UTF8, REDIRECTS_BYTES, REDIRECTS_FILE, RuleWarnings, VALUE_BYTES, circles,
    conditions::{check_conditions, is_parameter, parse_condition, parse_parameter},
    is_mangled, is_space, lines,
    pattern::{name_at, without_dot_segments},
    pattern_bytes, read_text, within_bytes,
};
use crate::manifest::{ParameterValue, PathPattern, RedirectConditions, RedirectRule};

/// Maximum rules without wildcards and conditions.
const STATIC_RULES: usize = 2_000;
/// Maximum rules with wildcards or conditions.
const DYNAMIC_RULES: usize = 100;
/// Maximum bytes, with escapes, of a rule's path or target: a longer one could never be matched or sent.
const PATH_BYTES: usize = VALUE_BYTES;
/// Maximum bytes of all rules: enough for the maximum number of rules, each of maximum length.
const ALL_BYTES: usize = (STATIC_RULES + DYNAMIC_RULES) * 2 * PATH_BYTES;
const DEFAULT_STATUS: u16 = 302;
/// The status for serving the target file at the requested address.
const REWRITE: u16 = 200;
/// The error statuses that a file of the site can explain.
const ERRORS: [u16; 2] = [404, 410];
pub(super) const FORM: &str = "a rule has the form `from [name=value] to [status] [Country=…] [Language=…]`";

/// Bytes of a target that are encoded as `%XX`; a valid URL stays unchanged.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

impl RedirectRule {
    /// Returns whether the rule redirects, rather than serving a file.
    pub fn is_redirect(&self) -> bool {
        self.status != REWRITE && !ERRORS.contains(&self.status)
    }

    /// Returns whether the rule matches more than one path, or not every request.
    fn is_dynamic(&self) -> bool {
        self.pattern.is_dynamic() || !self.conditions.is_empty()
    }
}

/// Compiles `_redirects` of a site. `has_file` says whether the site has a file, by its path without a leading slash.
pub fn compile(file: &[u8], has_file: impl Fn(&str) -> bool) -> (Vec<RedirectRule>, Vec<String>) {
    let mut warnings = RuleWarnings::new(REDIRECTS_FILE);
    let mut rules = Vec::new();
    let mut numbers = Vec::new();
    let mut seen = HashSet::new();
    let (mut fixed, mut dynamic) = (0, 0);
    let text = read_text(file, REDIRECTS_BYTES, &mut warnings);
    for (number, line) in lines(&text, &mut warnings) {
        if is_mangled(line) {
            warnings.add(number, NOT_UTF8);
            continue;
        }
        let rule = match parse(line) {
            Ok(rule) => rule,
            Err(why) => {
                warnings.add(number, why);
                continue;
            }
        };
        let (count, most, kind) = if rule.is_dynamic() {
            (&mut dynamic, DYNAMIC_RULES, "with wildcards or conditions")
        } else {
            (&mut fixed, STATIC_RULES, "without wildcards")
        };
        if *count >= most {
            // Further rules are skipped without a warning of their own.
            if *count == most {
                let why = format_args!(
                    "only the first {most} rules {kind} count; this one and all like it below are left out"
                );
                warnings.add(number, why);
            }
            *count += 1;
        } else if !seen.insert((format!("{:?}", rule.pattern.segments), rule.conditions.clone())) {
            warnings.add(number, "a rule above is for the same path");
        } else {
            *count += 1;
            numbers.push(number);
            rules.push(rule);
        }
    }
    let circles: HashMap<usize, String> = circles::find_loops(&rules, &has_file).into_iter().collect();
    for (rule, why) in &circles {
        warnings.add(numbers.get(*rule).copied().unwrap_or_default(), why);
    }
    let kept = rules.into_iter().enumerate().filter(|(at, _)| !circles.contains_key(at)).map(|(_, rule)| rule);
    (kept.collect(), warnings.into_vec())
}

/// Returns the rules of a stored pack, limited as in [`compile`].
pub fn within_bounds(rules: Vec<RedirectRule>) -> Vec<RedirectRule> {
    let (mut fixed, mut dynamic) = (0, 0);
    let counted = rules.into_iter().filter(|rule| {
        let (count, most) = if rule.is_dynamic() { (&mut dynamic, DYNAMIC_RULES) } else { (&mut fixed, STATIC_RULES) };
        *count += 1;
        *count <= most
    });
    within_bytes(counted, ALL_BYTES, rule_bytes).collect()
}

/// Returns the total bytes of a rule's texts.
pub fn rule_bytes(rule: &RedirectRule) -> usize {
    let RedirectConditions { query, languages, countries } = &rule.conditions;
    let query = query.iter().map(|(name, parameter)| match parameter {
        ParameterValue::Value(text) | ParameterValue::Placeholder(text) => name.len() + text.len(),
    });
    let lists = languages.iter().chain(countries).map(String::len);
    pattern_bytes(&rule.pattern) + rule.to.len() + query.chain(lists).sum::<usize>()
}

fn parse(line: &str) -> Result<RedirectRule, String> {
    let mut words =
        line.split(is_space).filter(|word| !word.is_empty()).take_while(|word| !word.starts_with('#')).peekable();
    let from = words.next().ok_or(FORM)?;
    let mut conditions = RedirectConditions::default();
    while let Some(word) = words.next_if(|word| is_parameter(word)) {
        conditions.query.push(parse_parameter(word)?);
    }
    let to = words.next().ok_or(FORM)?;
    let status = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let (status, is_forced) = status.map_or(Ok((DEFAULT_STATUS, false)), parse_status)?;
    for word in words {
        let (name, values) = word.split_once('=').ok_or(FORM)?;
        parse_condition(name, values, &mut conditions)?;
    }
    if from.contains("://") {
        return Err("the path a rule is for starts with /".into());
    }
    let from = if from.starts_with('/') { from.to_owned() } else { format!("/{from}") };
    if from.contains('?') {
        return Err("a path has no query here; `/a id=1 /b` is for requests of `/a?id=1`".into());
    }
    let pattern = PathPattern::parse(&from)?;
    check_target(to)?;
    let is_path = to.starts_with('/');
    if !is_path && (status == REWRITE || ERRORS.contains(&status)) {
        return Err(format!("a {status} rule answers with a file of this site: its target starts with /"));
    }
    check_conditions(&conditions, &pattern)?;
    let end = to.find(['?', '#']).unwrap_or(to.len());
    let to = if is_path { format!("{}{}", without_dot_segments(&to[..end]), &to[end..]) } else { with_path(to) };
    let to = utf8_percent_encode(&to, ENCODED).to_string();
    if to.len() > PATH_BYTES || pattern_bytes(&pattern) > PATH_BYTES {
        return Err(format!("its path or its target has more than {}", domain::size(PATH_BYTES as u64)));
    }
    Ok(RedirectRule { pattern, to, status, is_forced, conditions })
}

fn parse_status(text: &str) -> Result<(u16, bool), String> {
    let (number, is_forced) = text.strip_suffix('!').map_or((text, false), |number| (number, true));
    match number.parse() {
        Ok(status @ (REWRITE | 301 | 302 | 303 | 307 | 308 | 404 | 410)) => Ok((status, is_forced)),
        _ => Err(format!("`{text}` is not one of the statuses 200, 301, 302, 303, 307, 308, 404, 410")),
    }
}

/// Returns a URL with the path that a request for it has.
fn with_path(url: &str) -> String {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |end| host + end);
    let slash = if url[end..].starts_with('/') { "" } else { "/" };
    format!("{}{slash}{}", &url[..end], &url[end..])
}

/// Checks that a target is a path of this site or an `http(s)://` URL with a literal host: if the host were captured
/// from the request, a stranger could choose where the site sends its visitors.
fn check_target(to: &str) -> Result<(), &'static str> {
    let rest = match (to.strip_prefix("https://"), to.strip_prefix("http://")) {
        (Some(rest), _) | (_, Some(rest)) => rest,
        _ if to.starts_with("//") || to.starts_with("/\\") => return Err("write the target's https:// out"),
        _ if to.starts_with('/') => return Ok(()),
        _ => return Err("the target starts with /, https:// or http://"),
    };
    let host = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if host.is_empty() || host.contains(['@', '\\']) {
        return Err("the target has no host");
    }
    if host.match_indices(':').any(|(at, _)| !name_at(&host[at + 1..]).is_empty()) {
        return Err("the target's host cannot be a placeholder");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles `_redirects` of a site without files.
    fn compiled(file: &[u8]) -> (Vec<RedirectRule>, Vec<String>) {
        compile(file, |_| false)
    }

    #[test]
    fn rules_are_compiled() {
        let (rules, warnings) = compiled(
            b"# moved\n/a /b\n/old/* https://new.test:8443/:splat 301 # gone\n/app/* /app/index.html 200\n/x\t/y?z=1#f  308\n",
        );
        assert_eq!(warnings, Vec::<String>::new());
        let seen: Vec<(&str, u16)> = rules.iter().map(|rule| (rule.to.as_str(), rule.status)).collect();
        assert_eq!(
            seen,
            [("/b", 302), ("https://new.test:8443/:splat", 301), ("/app/index.html", 200), ("/y?z=1#f", 308)]
        );
    }

    #[test]
    fn wrong_lines_become_warnings_and_the_rest_stays() {
        for (line, wanted) in [
            ("/x", FORM),
            ("/x /y 301 US", FORM),
            ("/x /y 500", "`500` is not one of the statuses 200, 301, 302, 303, 307, 308, 404, 410"),
            ("/x /y 301!!", "`301!!` is not one of the statuses 200, 301, 302, 303, 307, 308, 404, 410"),
            ("https://h.test/x /y", "the path a rule is for starts with /"),
            ("/x y", "the target starts with /, https:// or http://"),
            ("/x javascript:alert(1)", "the target starts with /, https:// or http://"),
            ("/x //evil.test", "write the target's https:// out"),
            ("/x/* https://:splat", "the target's host cannot be a placeholder"),
            ("/x/* https://a.test:splat/y", "the target's host cannot be a placeholder"),
            ("/x https:///y", "the target has no host"),
            ("/x https://h.test/y 200", "a 200 rule answers with a file of this site: its target starts with /"),
            ("/x https://h.test/y 404", "a 404 rule answers with a file of this site: its target starts with /"),
            ("/x /x?y 301", "this leads in a circle: /x → /x"),
            ("/ok /other", "a rule above is for the same path"),
            ("ok /other", "a rule above is for the same path"),
            ("/./no/../ok /other", "a rule above is for the same path"),
            ("/*/* /x", "only one * is allowed"),
            ("/a id=:a x=:a /y", "a placeholder is named twice"),
            ("/a/:id id=:id /y", "a placeholder is named twice"),
            ("/a /y 301 Country=usa", "`usa` is not a country: two letters, as in `Country=us,de`"),
            ("/a /y 301 Language=en_US", "`en_US` is not a language's tag, as in `Language=en,pt-BR`"),
            ("/a /y Role=admin", "conditions on Roles are not known here, so the rule would be for everybody"),
            ("/a /y 200! Cookie=is_in", "conditions on Cookies are not known here, so the rule would be for everybody"),
            ("/a /y 301 Country=", "`` is not a country: two letters, as in `Country=us,de`"),
            ("/a /y 302 Day=monday", "`Day=` is not one of the conditions Country, Language"),
        ] {
            let (rules, warnings) = compiled(format!("/ok /fine\n{line}\n").as_bytes());
            assert_eq!(warnings, [format!("_redirects line 2: {wanted}")], "{line}");
            assert_eq!(rules.len(), 1, "{line}");
        }
    }

    #[test]
    fn a_file_that_is_not_utf_8_is_one_warning() {
        let utf16: Vec<u8> = "\u{feff}/a /b\r\n".repeat(99).encode_utf16().flat_map(u16::to_le_bytes).collect();
        for file in [&utf16[..], &utf16[2..], b"/a /b\n\0"] {
            let (rules, warnings) = compiled(file);
            assert_eq!((rules.len(), warnings.len()), (0, 1), "{warnings:?}");
            assert!(warnings[0].starts_with("_redirects: the file is not UTF-8"), "{warnings:?}");
        }
        assert_eq!(compiled(b"\xef\xbb\xbf/a /b\r/c /d\r").0.len(), 2, "old Macs' line ends");
        assert_eq!(compiled("/a\u{a0}/b\u{2003}301".as_bytes()).0[0].status, 301);
    }

    #[test]
    fn the_bounds_hold() {
        use std::fmt::Write as _;
        let mut file = String::new();
        for n in 0..STATIC_RULES + 2 {
            let _ = writeln!(file, "/s{n} /t");
        }
        for n in 0..DYNAMIC_RULES + 3 {
            let _ = writeln!(file, "/d{n}/* /t");
        }
        let (rules, warnings) = compiled(file.as_bytes());
        assert_eq!((rules.len(), warnings.len()), (STATIC_RULES + DYNAMIC_RULES, 2));
        assert_eq!(within_bounds(rules.clone()), rules);
        let twice = within_bounds(rules.iter().chain(&rules).cloned().collect());
        assert_eq!(twice, rules, "the bounds hold for stored packs too");
        let long = |n: usize| format!("/{}{n:04} https://h.test/{}\n", "s".repeat(900), "t".repeat(1_000));
        let (rules, warnings) = compiled((0..STATIC_RULES).map(long).collect::<String>().as_bytes());
        assert_eq!((rules.len(), warnings), (STATIC_RULES, Vec::new()), "whatever their bytes");
        assert_eq!(within_bounds(rules.clone()).len(), STATIC_RULES);
        let (rules, warnings) = compiled(format!("/{} /b\n/c /{}\n", "é".repeat(400), "é".repeat(400)).as_bytes());
        assert_eq!((rules.len(), warnings.len()), (0, 2), "{warnings:?}");
    }
}
