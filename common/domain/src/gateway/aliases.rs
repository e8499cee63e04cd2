//! Model aliases that an account defines for clients which can only request their own model names.

use serde::{Deserialize, Serialize};

use crate::BRAND;

/// An alias and the id of its model. A trailing `*` matches any rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAlias {
    /// The alias.
    pub name: String,
    /// The id of the model.
    pub model: String,
}

/// The model aliases of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ModelAlias>", into = "Vec<ModelAlias>")]
pub struct ModelAliases(Vec<ModelAlias>);

/// The reason a list of aliases is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModelAliasesError {
    /// There are too many aliases.
    #[error("`aliases` has more than {} names", ModelAliases::MOST)]
    TooMany,
    /// An alias or an id is empty, too long, or contains other characters.
    #[error(
        "a name in `aliases`, and the id of its model, has 1 to {} printable characters of ASCII",
        ModelAliases::BYTES
    )]
    Characters,
    /// An alias has a `*` that is not its last character.
    #[error("a name in `aliases` may have one `*`, at its end")]
    Wildcard,
    /// An alias begins like the ids of the platform's models.
    #[error("a name in `aliases` begins with {BRAND}/; such names are ids of models, and mean those")]
    Id,
    /// An alias is listed twice.
    #[error("a name in `aliases` is there twice")]
    Repeated,
}

impl ModelAliases {
    /// The maximum number of aliases of an account.
    pub const MOST: usize = 16;
    /// The maximum number of bytes of an alias, and of a model id.
    pub const BYTES: usize = 100;

    /// Returns the aliases.
    pub fn iter(&self) -> impl Iterator<Item = &ModelAlias> {
        self.0.iter()
    }

    /// Returns whether there are no aliases.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes that the aliases take in memory.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|alias| (size_of::<ModelAlias>() + alias.name.len() + alias.model.len()) as u64).sum()
    }

    /// Returns the id of the model for `name`. An exact alias wins over the longest matching prefix.
    pub fn find(&self, name: &str) -> Option<&str> {
        if is_id(name) {
            return None;
        }
        let exact = self.0.iter().find(|alias| alias.name == name);
        let beginning = || {
            let beginnings = self.0.iter().filter_map(|alias| Some((alias.name.strip_suffix('*')?, alias)));
            let found = beginnings.filter(|(beginning, _)| name.starts_with(beginning));
            found.max_by_key(|(beginning, _)| beginning.len()).map(|(_, alias)| alias)
        };
        exact.or_else(beginning).map(|alias| alias.model.as_str())
    }
}

impl TryFrom<Vec<ModelAlias>> for ModelAliases {
    type Error = ModelAliasesError;

    fn try_from(aliases: Vec<ModelAlias>) -> Result<Self, ModelAliasesError> {
        if aliases.len() > Self::MOST {
            return Err(ModelAliasesError::TooMany);
        }
        for (at, ModelAlias { name, model }) in aliases.iter().enumerate() {
            let is_plain = |text: &str| {
                (1..=Self::BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
            };
            if !is_plain(name) || !is_plain(model) {
                return Err(ModelAliasesError::Characters);
            }
            let beginning = name.strip_suffix('*').unwrap_or(name);
            if beginning.contains('*') {
                return Err(ModelAliasesError::Wildcard);
            }
            if is_id(beginning) {
                return Err(ModelAliasesError::Id);
            }
            if aliases.iter().take(at).any(|other| other.name == *name) {
                return Err(ModelAliasesError::Repeated);
            }
        }
        Ok(Self(aliases))
    }
}

impl From<ModelAliases> for Vec<ModelAlias> {
    fn from(aliases: ModelAliases) -> Self {
        aliases.0
    }
}

fn is_id(name: &str) -> bool {
    name.strip_prefix(BRAND).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aliases(names: &[(&str, &str)]) -> Result<ModelAliases, ModelAliasesError> {
        let alias = |(name, model): &(&str, &str)| ModelAlias { name: (*name).into(), model: (*model).into() };
        names.iter().map(alias).collect::<Vec<_>>().try_into()
    }

    #[test]
    fn an_exact_name_comes_before_the_longest_beginning() {
        let names = [("claude-*", "svc/a"), ("claude-opus-*", "svc/b"), ("claude-opus-5", "svc/c"), ("gpt-5", "svc/d")];
        let aliases = aliases(&names).unwrap();
        for (name, model) in [
            ("claude-sonnet-5", Some("svc/a")),
            ("claude-opus-5-1", Some("svc/b")),
            ("claude-opus-5", Some("svc/c")),
            ("gpt-5", Some("svc/d")),
            ("gpt-5-mini", None),
            ("svc/a", None),
            ("", None),
        ] {
            assert_eq!(aliases.find(name), model, "{name}");
        }
        assert!(aliases.bytes() > 0 && !aliases.is_empty());
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        use ModelAliasesError::{Characters, Id, Repeated, TooMany, Wildcard};
        let long = "x".repeat(ModelAliases::BYTES + 1);
        for (names, error) in [
            (&[("", "svc/a")][..], Characters),
            (&[("a b", "svc/a")], Characters),
            (&[("é", "svc/a")], Characters),
            (&[(&long, "svc/a")], Characters),
            (&[("a", "")], Characters),
            (&[("a*b", "svc/a")], Wildcard),
            (&[("a**", "svc/a")], Wildcard),
            (&[("svc/*", "svc/a")], Id),
            (&[("a", "svc/a"), ("a", "svc/b")], Repeated),
            (&[("a", "svc/a"); ModelAliases::MOST + 1], TooMany),
        ] {
            assert_eq!(aliases(names), Err(error), "{names:?}");
        }
        assert!(serde_json::from_str::<ModelAliases>(r#"[{"name":"*","model":"svc/a"}]"#).is_ok());
    }
}
