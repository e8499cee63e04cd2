//! A field of a change: left as it is, set, or removed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What becomes of a value that may be absent. In JSON a field that is left out, a value, or null; the field needs
/// `#[serde(default, skip_serializing_if = "Patch::is_keep")]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is removed.
    Remove,
    /// It becomes this.
    Set(T),
}

impl<T> Patch<T> {
    /// Whether it stays as it is.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The new value; `None` where it is removed, or stays.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Remove => None,
        }
    }
}

/// Of what it may become, `None` stands for nothing.
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
