//! Other names for the models of the AI gateway.

use std::{cmp::Reverse, collections::BTreeMap};

use domain::BRAND;

use crate::{gateway::Gateway, models::CatalogError};

/// The aliases that the operator has defined, each with the id of its model.
#[derive(Debug, Clone, Default)]
pub struct Aliases {
    exact: BTreeMap<String, String>,
    /// Prefixes of names, longest first.
    beginnings: Vec<(String, String)>,
}

impl Aliases {
    /// Creates the aliases from a configuration that was [checked](Self::check).
    pub fn from_config(config: &Gateway) -> Self {
        let mut aliases = Self::default();
        for (alias, id) in &config.aliases {
            match alias.strip_suffix('*') {
                Some(beginning) => aliases.beginnings.push((beginning.to_owned(), id.clone())),
                None => drop(aliases.exact.insert(alias.clone(), id.clone())),
            }
        }
        aliases.beginnings.sort_by_key(|(beginning, _)| Reverse(beginning.len()));
        aliases
    }

    /// Checks that each alias can be matched and names a model. An alias cannot be the id of a model.
    pub(crate) fn check(config: &Gateway) -> Result<(), CatalogError> {
        for (alias, id) in &config.aliases {
            let beginning = alias.strip_suffix('*').unwrap_or(alias);
            let reason = if alias.is_empty() {
                "the name is empty".to_owned()
            } else if beginning.contains('*') {
                "only one `*` is taken, at the end".to_owned()
            } else if is_id(beginning) {
                format!("names that begin with {BRAND}/ are ids of models, and mean those")
            } else if !config.models.contains_key(id) {
                format!("{id} is not one of gateway.models")
            } else {
                continue;
            };
            return Err(CatalogError::Alias { alias: alias.clone(), reason });
        }
        Ok(())
    }

    /// Returns the id of the model that `name` is an alias for.
    pub fn find(&self, name: &str) -> Option<&str> {
        if is_id(name) {
            return None;
        }
        let beginning = || self.beginnings.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, id)| id);
        self.exact.get(name).or_else(beginning).map(String::as_str)
    }
}

fn is_id(name: &str) -> bool {
    name.strip_prefix(BRAND).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_name_comes_before_the_longest_beginning() {
        let names = [("claude-*", "a"), ("claude-opus-*", "b"), ("claude-opus-5", "c"), ("gpt-5-codex", "d")];
        let aliases = names.map(|(alias, id)| (alias.to_owned(), id.to_owned())).into();
        let aliases = Aliases::from_config(&Gateway { aliases, ..Gateway::default() });
        for (name, id) in [
            ("claude-sonnet-5", Some("a")),
            ("claude-", Some("a")),
            ("claude-opus-5-1", Some("b")),
            ("claude-opus-5", Some("c")),
            ("gpt-5-codex", Some("d")),
            ("gpt-5-codex-mini", None),
            ("Claude-sonnet-5", None),
            ("claude", None),
            ("", None),
        ] {
            assert_eq!(aliases.find(name), id, "{name}");
        }
        let all = Aliases::from_config(&Gateway { aliases: [("*".into(), "a".into())].into(), ..Gateway::default() });
        assert_eq!((all.find("anything"), all.find("svc/typo")), (Some("a"), None));
    }
}
