//! A field of an update: kept, set, or removed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An update to an optional value. In JSON: an absent field, a value, or null.
///
/// The field needs `#[serde(default, skip_serializing_if = "Patch::is_keep")]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Keeps the value.
    #[default]
    Keep,
    /// Removes the value.
    Remove,
    /// Sets the value.
    Set(T),
}

impl<T> Patch<T> {
    /// Returns whether the value is kept.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Returns the new value, or `None` if it is removed or kept.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Remove => None,
        }
    }
}

/// `None` becomes `Remove`.
impl<T> From<Option<T>> for Patch<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Remove, Self::Set)
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Set(value) => serializer.serialize_some(value),
            Self::Keep | Self::Remove => serializer.serialize_none(),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Change {
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        size: Patch<u32>,
    }

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        for (json, size) in [("{}", Patch::Keep), (r#"{"size":null}"#, Patch::Remove), (r#"{"size":7}"#, Patch::Set(7))]
        {
            assert_eq!(serde_json::from_str::<Change>(json).unwrap(), Change { size }, "{json}");
            assert_eq!(serde_json::to_string(&Change { size }).unwrap(), json);
        }
        assert_eq!((Patch::Set(7).value(), Patch::<u32>::Keep.value()), (Some(7), None));
    }
}
