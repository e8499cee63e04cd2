//! Conditions of `_redirects` in Netlify's dialect: query parameters before the target, languages and countries at the
//! end.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;

use super::{pattern::name_at, redirects::FORM, template::PathCaptures};
use crate::manifest::{ParameterValue, PathPattern, RedirectConditions};

/// Maximum number of languages, and of countries, in a rule.
const CONDITIONS: usize = 50;
/// Maximum number of query parameters in a rule.
const PARAMETERS: usize = 10;

/// The parameters of a request's query, with decoded names and raw values.
#[derive(Debug, Default)]
pub struct QueryParameters<'q>(Vec<(String, &'q str)>);

impl<'q> QueryParameters<'q> {
    /// Parses the first `most` parameters of a query.
    pub fn new(query: &'q str, most: usize) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(most);
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), value))
                .collect(),
        )
    }
}

impl RedirectConditions {
    /// Adds the query placeholders to `captures`. Returns `false` if `query` lacks a parameter or has a different
    /// value.
    pub fn meets_query(&self, query: &QueryParameters<'_>, captures: &mut PathCaptures) -> bool {
        self.query.iter().all(|(name, wanted)| {
            let Some((_, value)) = query.0.iter().find(|(sent, _)| sent == name) else { return false };
            match wanted {
                ParameterValue::Value(wanted) => decoded(value) == *wanted,
                ParameterValue::Placeholder(name) => captures.add_query_value(name, value),
            }
        })
    }

    /// Returns the rest of `query` for the target: the parameters that no condition names.
    pub fn remaining_query(&self, query: &str) -> String {
        let is_named = |pair: &&str| {
            let sent = decoded(pair.split_once('=').map_or(pair, |(name, _)| name));
            self.query.iter().any(|(name, _)| *name == sent)
        };
        query.split('&').filter(|pair| !is_named(pair)).collect::<Vec<_>>().join("&")
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Returns whether a word between the path and the target is a query condition.
pub(super) fn is_parameter(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains(['/', ':', '?', '#']))
}

pub(super) fn parse_parameter(word: &str) -> Result<(String, ParameterValue), String> {
    let (name, value) = word.split_once('=').ok_or(FORM)?;
    let parameter = match value.strip_prefix(':') {
        Some(name) if !name.is_empty() && name_at(name) == name => ParameterValue::Placeholder(name.to_owned()),
        _ => ParameterValue::Value(decoded(value)),
    };
    Ok((decoded(name), parameter))
}

pub(super) fn parse_condition(name: &str, values: &str, conditions: &mut RedirectConditions) -> Result<(), String> {
    let values = values.split(',');
    match name.to_ascii_lowercase().as_str() {
        "country" => {
            for value in values {
                if value.len() != 2 || !value.bytes().all(|b| b.is_ascii_alphabetic()) {
                    return Err(format!("`{value}` is not a country: two letters, as in `Country=us,de`"));
                }
                conditions.countries.push(value.to_ascii_uppercase());
            }
        }
        "language" => {
            for value in values {
                let is_tag = value.len() <= 35
                    && value
                        .split('-')
                        .all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()));
                if !is_tag {
                    return Err(format!("`{value}` is not a language's tag, as in `Language=en,pt-BR`"));
                }
                conditions.languages.push(value.to_ascii_lowercase());
            }
        }
        "cookie" | "role" => {
            return Err(format!("conditions on {name}s are not known here, so the rule would be for everybody"));
        }
        _ => return Err(format!("`{name}=` is not one of the conditions Country, Language")),
    }
    Ok(())
}

pub(super) fn check_conditions(conditions: &RedirectConditions, pattern: &PathPattern) -> Result<(), String> {
    let RedirectConditions { query, languages, countries } = conditions;
    if languages.len() > CONDITIONS || countries.len() > CONDITIONS || query.len() > PARAMETERS {
        return Err(format!("a rule names {CONDITIONS} languages and countries and {PARAMETERS} parameters at most"));
    }
    let mut names: HashSet<String> = pattern.names().collect();
    for (_, parameter) in query {
        if let ParameterValue::Placeholder(name) = parameter
            && !names.insert(format!(":{name}"))
        {
            return Err("a placeholder is named twice".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::redirects::compile, *};

    #[test]
    fn conditions_and_statuses_of_netlify_are_read() {
        let (rules, warnings) = compile(
            b"/a id=:id tag=new+%26 /posts/:id 301!\n/a id=:id /p/:id\n/ /de/ 302 Country=de,at Language=de\n/ /fr/ Language=fr\n\
              /old/* /gone.html 410\n/s/* /404.html 404!\n/app/* /app.html 200!\n/* /index.html 200\n",
            |_| false,
        );
        assert_eq!(warnings, Vec::<String>::new());
        let seen: Vec<(u16, bool)> = rules.iter().map(|rule| (rule.status, rule.is_forced)).collect();
        assert_eq!(
            seen,
            [
                (301, true),
                (302, false),
                (302, false),
                (302, false),
                (410, false),
                (404, true),
                (200, true),
                (200, false)
            ]
        );
        assert_eq!(rules[2].conditions.countries, ["DE", "AT"]);
        let met = |query: &str| {
            let query = &QueryParameters::new(query, 100);
            let mut captures = PathCaptures::default();
            rules[0]
                .conditions
                .meets_query(query, &mut captures)
                .then(|| captures.substitute(&rules[0].to, 100).unwrap())
        };
        assert_eq!(met("x=y&tag=new+%26&id=a%2Fb&id=c").as_deref(), Some("/posts/a%2Fb"));
        for unmet in ["id=7", "id=7&tag=old", "tag=new%20%26&id=", "tag=new%20%26&id=..", ""] {
            assert_eq!(met(unmet), None, "{unmet}");
        }
        assert_eq!(rules[0].conditions.remaining_query("x=y&id=1&tag&z"), "x=y&z");
        let (plain, extended) = crate::Manifest::split_redirects(rules.clone());
        assert_eq!((plain.len(), extended.len()), (1, 7));
        let mut manifest = crate::Manifest {
            version: 1,
            created_at: 0,
            files: std::collections::BTreeMap::new(),
            fingerprints: 0,
            headers: Vec::new(),
            redirects: plain,
            extended_redirects: extended,
            access: crate::manifest::AccessRules::default(),
            robots: super::super::robots::RobotsRules::default(),
            unserved: std::collections::BTreeMap::new(),
        };
        let json = serde_json::to_string(&manifest).unwrap();
        manifest = serde_json::from_str(&json).unwrap();
        assert_eq!(manifest.take_redirects(), rules, "in the order of the file");
    }
}
