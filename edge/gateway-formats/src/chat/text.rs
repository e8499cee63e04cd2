//! JSON strings that are copied as they are written.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

/// A JSON string as written, with its quotes and escapes.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct JsonString<'t>(&'t RawValue);

impl<'t> JsonString<'t> {
    pub(in super::super) fn from_raw(value: &'t RawValue) -> Option<Self> {
        value.get().starts_with('"').then_some(Self(value))
    }

    pub(in super::super) fn as_json(self) -> &'t RawValue {
        self.0
    }

    /// Returns the text between the quotes, with its escapes.
    pub(in super::super) fn escaped(self) -> &'t str {
        let text = self.0.get();
        text.get(1..text.len() - 1).unwrap_or_default()
    }

    /// Returns the decoded text, or an empty one if its escapes are invalid, such as an unpaired surrogate.
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
        Self::from_raw(value).ok_or_else(|| D::Error::custom("expected a string"))
    }
}

impl Serialize for JsonString<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A string from a request, or one written for it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(in super::super) enum ChatText<'t> {
    AsSent(JsonString<'t>),
    Written(Cow<'t, str>),
}

impl ChatText<'_> {
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

/// A text assembled from pieces of JSON strings, without decoding: a surrogate pair may be split across two.
#[derive(Debug)]
pub(in super::super) struct TextAssembly(String);

impl Default for TextAssembly {
    fn default() -> Self {
        Self("\"".to_owned())
    }
}

impl TextAssembly {
    pub(in super::super) fn push(&mut self, piece: JsonString<'_>) {
        self.0.push_str(piece.escaped());
    }

    pub(in super::super) fn is_blank(&self) -> bool {
        is_blank(self.0.get(1..).unwrap_or_default())
    }

    /// Returns the text so far as a JSON string.
    pub(in super::super) fn to_json(&self) -> Box<RawValue> {
        Self(self.0.clone()).into_json()
    }

    pub(in super::super) fn into_json(mut self) -> Box<RawValue> {
        self.0.push('"');
        RawValue::from_string(self.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// Returns whether JSON-escaped characters are only white space.
pub(in super::super) fn is_blank(escaped: &str) -> bool {
    let mut rest = escaped.trim_start();
    while let Some(after) = ["\\n", "\\r", "\\t"].iter().find_map(|white| rest.strip_prefix(white)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}
