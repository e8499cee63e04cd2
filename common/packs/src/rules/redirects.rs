//! `_redirects`: `from to [status]` a line; the first that matches wins.

use std::collections::HashSet;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{REDIRECTS_FILE, Warnings, lines, pattern::name_at, pattern_bytes, text_of, within_bytes};
use crate::manifest::{Pattern, RedirectRule};

/// Rules without wildcards, at most.
const STATIC_RULES: usize = 2_000;
/// Rules with wildcards, at most.
const DYNAMIC_RULES: usize = 100;
/// The status of a line that names none.
const DEFAULT_STATUS: u16 = 302;
/// The status that means: answer with that file, at this address.
const REWRITE: u16 = 200;

/// Bytes of a target that are written as `%XX`; what is a URL already stays as it is.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// Compiles `_redirects`.
pub fn compile(file: &[u8]) -> (Vec<RedirectRule>, Vec<String>) {
    let mut warnings = Warnings::new(REDIRECTS_FILE);
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    let (mut fixed, mut dynamic) = (0, 0);
    let text = text_of(file, &mut warnings);
    for (number, line) in lines(&text, &mut warnings) {
        let rule = match parse(line) {
            Ok(rule) => rule,
            Err(why) => {
                warnings.add(number, why);
                continue;
            }
        };
        let (count, most, kind) = if rule.pattern.is_dynamic() {
            (&mut dynamic, DYNAMIC_RULES, "with wildcards")
        } else {
            (&mut fixed, STATIC_RULES, "without wildcards")
        };
        if *count >= most {
            // The rest is left out without a word of its own.
            if *count == most {
                let why = format_args!(
                    "only the first {most} rules {kind} count; this one and all like it below are left out"
                );
                warnings.add(number, why);
            }
            *count += 1;
        } else if !seen.insert(line.split_whitespace().next()) {
            warnings.add(number, "a rule above is for the same path");
        } else {
            *count += 1;
            rules.push(rule);
        }
    }
    (rules, warnings.into_vec())
}

/// The rules of a stored pack, as far as [`compile`] would have let them through.
pub fn within_bounds(rules: Vec<RedirectRule>) -> Vec<RedirectRule> {
    let (mut fixed, mut dynamic) = (0, 0);
    let counted = rules.into_iter().filter(|rule| {
        let (count, most) =
            if rule.pattern.is_dynamic() { (&mut dynamic, DYNAMIC_RULES) } else { (&mut fixed, STATIC_RULES) };
        *count += 1;
        *count <= most
    });
    within_bytes(counted, |rule| pattern_bytes(&rule.pattern) + rule.to.len()).collect()
}

fn parse(line: &str) -> Result<RedirectRule, String> {
    let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let (from, to, status) = match words[..] {
        [from, to] => (from, to, DEFAULT_STATUS),
        [from, to, status] => (from, to, parse_status(status)?),
        _ => return Err("a rule has the form `from to [status]`".into()),
    };
    if !from.starts_with('/') {
        return Err("the path a rule is for starts with /".into());
    }
    let pattern = Pattern::parse(from)?;
    check_target(to)?;
    let is_path = to.starts_with('/');
    if status == REWRITE && !is_path {
        return Err("a 200 rule answers with a file of this site: its target starts with /".into());
    }
    if status == REWRITE && from == "/*" && !to.contains(":splat") {
        return Err("this would answer every path with one file, the site's own files too; unknown pages are \
                    answered with its 200.html anyway, or with its index.html where it has no 404.html"
            .into());
    }
    if is_path && to.split(['?', '#']).next() == Some(from) && !pattern.is_dynamic() {
        return Err("this leads to itself".into());
    }
    Ok(RedirectRule { pattern, to: utf8_percent_encode(to, ENCODED).to_string(), status })
}

fn parse_status(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(status @ (REWRITE | 301 | 302 | 303 | 307 | 308)) => Ok(status),
        _ => Err(format!("`{text}` is not one of the statuses 200, 301, 302, 303, 307, 308")),
    }
}

/// A target is a path of this site or an `http(s)://` URL whose host is written out: were it captured from the
/// request, a stranger could choose where the site sends its visitors.
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

    #[test]
    fn rules_are_compiled() {
        let (rules, warnings) = compile(
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
            ("/x", "a rule has the form `from to [status]`"),
            ("/x /y 301 US", "a rule has the form `from to [status]`"),
            ("/x /y 404", "`404` is not one of the statuses 200, 301, 302, 303, 307, 308"),
            ("/x /y 200!", "`200!` is not one of the statuses 200, 301, 302, 303, 307, 308"),
            ("x /y", "the path a rule is for starts with /"),
            ("https://h.test/x /y", "the path a rule is for starts with /"),
            ("/x y", "the target starts with /, https:// or http://"),
            ("/x javascript:alert(1)", "the target starts with /, https:// or http://"),
            ("/x //evil.test", "write the target's https:// out"),
            ("/x/* https://:splat", "the target's host cannot be a placeholder"),
            ("/x/* https://a.test:splat/y", "the target's host cannot be a placeholder"),
            ("/x https:///y", "the target has no host"),
            ("/x https://h.test/y 200", "a 200 rule answers with a file of this site: its target starts with /"),
            ("/x /x?y 301", "this leads to itself"),
            ("/ok /other", "a rule above is for the same path"),
            ("/*/* /x", "only one * is allowed"),
        ] {
            let (rules, warnings) = compile(format!("/ok /fine\n{line}\n").as_bytes());
            assert_eq!(warnings, [format!("_redirects line 2: {wanted}")], "{line}");
            assert_eq!(rules.len(), 1, "{line}");
        }
    }

    #[test]
    fn the_rule_that_would_hide_the_whole_site_is_left_out() {
        let (rules, warnings) = compile(b"/* /index.html 200");
        assert_eq!((rules.len(), warnings.len()), (0, 1));
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
        let (rules, warnings) = compile(file.as_bytes());
        assert_eq!((rules.len(), warnings.len()), (STATIC_RULES + DYNAMIC_RULES, 2));
        assert!(compile(b"\xff\xfe / \n\0 \0 \0").0.is_empty());
        assert_eq!(within_bounds(rules.clone()), rules);
        let twice = within_bounds(rules.iter().chain(&rules).cloned().collect());
        assert_eq!(twice, rules, "the bounds hold for stored packs too");
        let long = RedirectRule { to: format!("/{}", "t".repeat(1_023)), ..rules[0].clone() };
        assert_eq!(within_bounds(vec![long; STATIC_RULES]).len(), super::super::RULES_BYTES / 1_027);
    }
}
