//! The content of messages and of tool outputs.

use gateway_request::error::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::{ChatPart, ChatText, ImageContent, ImageUrl, JsonString, MessageContent},
    request::{for_each_at, parse_part_at},
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

pub(super) fn parse_content(value: &RawValue, place: impl Fn() -> String) -> Result<MessageContent<'_>, ApiError> {
    if let Some(text) = JsonString::from_raw(value) {
        return Ok(MessageContent::Text(ChatText::AsSent(text)));
    }
    if !value.get().starts_with('[') {
        return Err(ApiError::invalid_type(place(), "a string or an array of parts"));
    }
    let mut parts = Vec::new();
    for_each_at(value, &place, |index, sent: &RawValue| {
        let place = || format!("{}[{index}]", place());
        let sent: SentPart<'_> = parse_part_at(sent, place)?;
        parts.push(parse_part(&sent, place)?);
        Ok(())
    })?;
    match parts.pop() {
        Some(ChatPart::Text { text }) if parts.is_empty() => Ok(MessageContent::Text(text)),
        last => {
            parts.extend(last);
            Ok(MessageContent::Parts(parts))
        }
    }
}

fn parse_part<'b>(sent: &SentPart<'b>, place: impl Fn() -> String) -> Result<ChatPart<'b>, ApiError> {
    match &*sent.kind.text() {
        "input_text" | "output_text" | "text" | "reasoning_text" | "summary_text" => {
            let text = sent.text.ok_or_else(|| ApiError::invalid_type(format!("{}.text", place()), "a string"))?;
            Ok(ChatPart::Text { text: ChatText::AsSent(text) })
        }
        "refusal" => {
            let text =
                sent.refusal.ok_or_else(|| ApiError::invalid_type(format!("{}.refusal", place()), "a string"))?;
            Ok(ChatPart::Text { text: ChatText::AsSent(text) })
        }
        "input_image" => {
            let url = sent.image_url.and_then(JsonString::from_raw).ok_or_else(|| {
                let rule = "a string: files are not stored here, so `file_id` is not taken";
                ApiError::invalid_type(format!("{}.image_url", place()), rule)
            })?;
            let detail = sent.detail.filter(|detail| matches!(&*detail.text(), "low" | "high"));
            Ok(ChatPart::ImageUrl { image_url: ImageContent { url: ImageUrl::Given(url), detail }.into() })
        }
        _ => Err(ApiError::invalid_value(
            format!("{}.type", place()),
            "only text, \"refusal\" and \"input_image\" are taken: put what a file says into \"input_text\"",
        )),
    }
}

pub(super) fn into_parts(content: MessageContent<'_>) -> Vec<ChatPart<'_>> {
    match content {
        MessageContent::Text(text) => vec![ChatPart::Text { text }],
        MessageContent::Parts(parts) => parts,
    }
}

/// Returns the texts of a content that has nothing else.
pub(super) fn plain_texts<'b>(content: &MessageContent<'b>) -> Option<Vec<JsonString<'b>>> {
    match content {
        MessageContent::Text(ChatText::AsSent(text)) => Some(vec![*text]),
        MessageContent::Text(ChatText::Written(_)) => None,
        MessageContent::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                ChatPart::Text { text: ChatText::AsSent(text) } => Some(*text),
                _ => None,
            })
            .collect(),
    }
}
