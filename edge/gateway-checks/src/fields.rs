//! Checks that the parser of JSON objects agrees with serde.

use std::{fmt, slice};

use openai::json;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{PropertyViolation, WireChecks, require};

impl WireChecks {
    /// Checks the parser of JSON objects: it finds the fields that serde finds, and each of them, copied from the text,
    /// is the same field for serde.
    pub fn check_fields(text: &[u8]) -> Result<(), PropertyViolation> {
        let expected = serde_json::from_slice::<SerdeFields>(text).ok();
        let Ok(found) = json::fields(text).collect::<Result<Vec<_>, _>>() else {
            return require(text, [("an object's fields are found", expected.is_none())]);
        };
        let part = |range| text.get(range).unwrap_or_default();
        let mut end = 0;
        for json::JsonField { whole, value, .. } in &found {
            let follows = end < whole.start && whole.start < value.start;
            let ends = value.start < value.end && value.end == whole.end && whole.end < text.len();
            let elements = json::array_elements(part(value.clone())).map_or(0, Iterator::count);
            require(
                text,
                [
                    ("fields stand one after the other", follows && ends),
                    ("elements take up space", elements < value.len()),
                ],
            )?;
            end = whole.end;
        }
        let Some(SerdeFields(expected)) = expected else {
            // Strings and numbers that serde refuses are not inspected.
            return require(text, [("only objects have fields", serde_json::from_slice::<Value>(text).is_err())]);
        };
        require(text, [("there are as many fields as for serde", found.len() == expected.len())])?;
        for (field, pair) in found.iter().zip(&expected) {
            let (name, value) = pair;
            let found = part(field.value.clone());
            let copied = [&b"{"[..], part(field.whole.clone()), b"}"].concat();
            let copied = serde_json::from_slice::<SerdeFields>(&copied);
            require(
                text,
                [
                    ("the names are serde's", *field.name() == *name.as_bytes()),
                    (
                        "the values are serde's",
                        serde_json::from_slice::<Value>(found).is_ok_and(|found| found == *value),
                    ),
                    (
                        "a copied field is the same",
                        copied.is_ok_and(|SerdeFields(copied)| copied == slice::from_ref(pair)),
                    ),
                    ("the elements are serde's", has_elements(found, value)),
                ],
            )?;
        }
        Ok(())
    }
}

/// Returns whether `text` has the elements of `value`, or neither is an array.
fn has_elements(text: &[u8], value: &Value) -> bool {
    match (json::array_elements(text), value) {
        (Some(found), Value::Array(elements)) => {
            found.map(|element| serde_json::from_slice::<Value>(element).ok()).eq(elements.iter().cloned().map(Some))
        }
        (found, value) => found.is_none() && !value.is_array(),
    }
}

/// The fields of an object as serde reads them: in order, including duplicates.
struct SerdeFields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for SerdeFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = SerdeFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SerdeFields, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(SerdeFields(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

/// An object in which the gateway's parser and serde find the same fields.
#[derive(PartialEq, Eq)]
pub(super) struct CheckedObject<'t>(pub(super) Vec<(String, &'t [u8])>);

impl<'t> CheckedObject<'t> {
    pub(super) fn read(text: &'t [u8]) -> Result<Self, PropertyViolation> {
        WireChecks::check_fields(text)?;
        let fields = json::fields(text).map(|field| {
            let field = field.map_err(|error| format!("{error}: {}", text.escape_ascii()))?;
            let name = String::from_utf8_lossy(&field.name()).into_owned();
            Ok((name, text.get(field.value).unwrap_or_default()))
        });
        fields.collect::<Result<_, PropertyViolation>>().map(Self)
    }

    /// Returns the value of the field that every parser would use for this name. Another spelling of the name, or a
    /// duplicate, is a violation.
    pub(super) fn unique(&self, name: &str) -> Result<Option<&'t [u8]>, PropertyViolation> {
        let mut found = self.0.iter().filter(|(other, _)| is_spelling(other, name));
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some((found, value)), None) if found == name => Ok(Some(*value)),
            (Some((found, _)), _) => Err(format!("{found:?} stands for {name}, or beside it")),
        }
    }

    /// Returns whether each non-null field has one of these names.
    pub(super) fn has_only(&self, names: &[&str]) -> bool {
        self.0.iter().all(|(name, value)| *value == b"null" || names.contains(&name.as_str()))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, PropertyViolation> {
        let value = self.unique(name)?.filter(|value| *value != b"null");
        value.map(|value| serde_json::from_slice(value).map_err(|error| format!("{name}: {error}"))).transpose()
    }
}

/// Returns whether a parser that ignores case or skips NULs would read `name` as `plain`, which is in lower case.
pub(super) fn is_spelling(name: &str, plain: &str) -> bool {
    let name = name.replace('\0', "");
    name.to_lowercase() == plain || name.to_uppercase() == plain.to_uppercase()
}
