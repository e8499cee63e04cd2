//! The content of messages and of tool outputs.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        super::error::ApiError,
        chat::{Content, Image, ImageUrl, JsonString, Part, Text},
    },
    request::part,
};

#[derive(Debug, Deserialize)]
struct SentPart<'b> {
    #[serde(borrow, rename = "type")]
    kind: JsonString<'b>,
    #[serde(borrow)]
    text: Option<JsonString<'b>>,
    #[serde(borrow)]
    refusal: Option<JsonString<'b>>,
    #[serde(borrow)]
    image_url: Option<&'b RawValue>,
    #[serde(borrow)]
    detail: Option<JsonString<'b>>,
}

pub(super) fn content_of(value: &RawValue, place: impl Fn() -> String) -> Result<Content<'_>, ApiError> {
    if let Some(text) = JsonString::of(value) {
        return Ok(Content::Text(Text::AsSent(text)));
    }
    if !value.get().starts_with('[') {
        return Err(ApiError::invalid_type(place(), "a string or an array of parts"));
    }
    let sent: Vec<&RawValue> = part(value, &place)?;
    let mut parts = Vec::with_capacity(sent.len());
    for (index, sent) in sent.into_iter().enumerate() {
        let place = || format!("{}[{index}]", place());
        let sent: SentPart<'_> = part(sent, place)?;
        parts.push(part_of(&sent, place)?);
    }
    match parts.pop() {
        Some(Part::Text { text }) if parts.is_empty() => Ok(Content::Text(text)),
        last => {
            parts.extend(last);
            Ok(Content::Parts(parts))
        }
    }
}

fn part_of<'b>(sent: &SentPart<'b>, place: impl Fn() -> String) -> Result<Part<'b>, ApiError> {
    match &*sent.kind.text() {
        "input_text" | "output_text" | "text" | "reasoning_text" | "summary_text" => {
            let text = sent.text.ok_or_else(|| ApiError::invalid_type(format!("{}.text", place()), "a string"))?;
            Ok(Part::Text { text: Text::AsSent(text) })
        }
        "refusal" => {
            let text =
                sent.refusal.ok_or_else(|| ApiError::invalid_type(format!("{}.refusal", place()), "a string"))?;
            Ok(Part::Text { text: Text::AsSent(text) })
        }
        "input_image" => {
            let url = sent.image_url.and_then(JsonString::of).ok_or_else(|| {
                let rule = "a string: files are not stored here, so `file_id` is not taken";
                ApiError::invalid_type(format!("{}.image_url", place()), rule)
            })?;
            let detail = sent.detail.filter(|detail| matches!(&*detail.text(), "low" | "high"));
            Ok(Part::ImageUrl { image_url: Image { url: ImageUrl::Given(url), detail } })
        }
        _ => Err(ApiError::invalid_value(
            format!("{}.type", place()),
            "only text, \"refusal\" and \"input_image\" are taken: put what a file says into \"input_text\"",
        )),
    }
}

pub(super) fn parts_of(content: Content<'_>) -> Vec<Part<'_>> {
    match content {
        Content::Text(text) => vec![Part::Text { text }],
        Content::Parts(parts) => parts,
    }
}

/// Returns the texts of a content that has nothing else.
pub(super) fn texts_of<'b>(content: &Content<'b>) -> Option<Vec<JsonString<'b>>> {
    match content {
        Content::Text(Text::AsSent(text)) => Some(vec![*text]),
        Content::Text(Text::Written(_)) => None,
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text { text: Text::AsSent(text) } => Some(*text),
                _ => None,
            })
            .collect(),
    }
}
