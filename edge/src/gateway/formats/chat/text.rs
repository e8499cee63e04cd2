//! Strings of a JSON text that pass as they stand there.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

/// A JSON string as it stands in a text, with its quotes and escapes.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct JsonString<'t>(&'t RawValue);

impl<'t> JsonString<'t> {
    /// The string that `value` is, or `None` if it is none.
    pub(in super::super) fn of(value: &'t RawValue) -> Option<Self> {
        value.get().starts_with('"').then_some(Self(value))
    }

    /// The string as it stands in the text.
    pub(in super::super) fn as_json(self) -> &'t RawValue {
        self.0
    }

    /// The text between the quotes, with its escapes.
    pub(in super::super) fn escaped(self) -> &'t str {
        let text = self.0.get();
        text.get(1..text.len() - 1).unwrap_or_default()
    }

    /// The text. Empty if its escapes are no text, such as half of a pair of surrogates.
    pub(in super::super) fn text(self) -> Cow<'t, str> {
        match self.escaped() {
            text if !text.contains('\\') => text.into(),
            _ => serde_json::from_str::<String>(self.0.get()).unwrap_or_default().into(),
        }
    }
}

impl<'de: 't, 't> Deserialize<'de> for JsonString<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = <&RawValue>::deserialize(deserializer)?;
        Self::of(value).ok_or_else(|| D::Error::custom("expected a string"))
    }
}

impl Serialize for JsonString<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A string of a request, or one that is written for it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(in super::super) enum Text<'t> {
    AsSent(JsonString<'t>),
    Written(Cow<'t, str>),
}

impl Text<'_> {
    pub(in super::super) fn is_empty(&self) -> bool {
        match self {
            Self::AsSent(text) => text.escaped().is_empty(),
            Self::Written(text) => text.is_empty(),
        }
    }

    pub(in super::super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::AsSent(text) => text.text(),
            Self::Written(text) => Cow::Borrowed(text),
        }
    }
}

/// A text that is put together from pieces of JSON strings. They are not decoded: halves of a pair of surrogates may come in two
/// pieces.
#[derive(Debug)]
pub(in super::super) struct Pieces(String);

impl Default for Pieces {
    fn default() -> Self {
        Self("\"".to_owned())
    }
}

impl Pieces {
    pub(in super::super) fn push(&mut self, piece: JsonString<'_>) {
        self.0.push_str(piece.escaped());
    }

    /// Whether nothing but white space has come.
    pub(in super::super) fn is_blank(&self) -> bool {
        is_blank(self.0.get(1..).unwrap_or_default())
    }

    /// What has come so far as a JSON string.
    pub(in super::super) fn to_json(&self) -> Box<RawValue> {
        Self(self.0.clone()).into_json()
    }

    /// The whole as a JSON string.
    pub(in super::super) fn into_json(mut self) -> Box<RawValue> {
        self.0.push('"');
        RawValue::from_string(self.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// Whether characters that are escaped as in JSON are nothing but white space.
pub(in super::super) fn is_blank(escaped: &str) -> bool {
    let mut rest = escaped.trim_start();
    while let Some(after) = ["\\n", "\\r", "\\t"].iter().find_map(|white| rest.strip_prefix(white)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}
