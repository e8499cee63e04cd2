//! The parts of messages, and the tools, of a request for a completion.
//!
//! Both may hold more than tokens: an address of a document that the provider reads, a tool that runs at the provider and is
//! paid for by the call. Only what costs tokens alone passes: text, images, and functions that the client itself runs. Some
//! servers go by the fields of a part or tool, whatever its type says; so each kind has a list of the fields that it may
//! have. A field that is null stands for none. What parsers could read differently (a field that is there twice, or in other
//! case) is refused.

use std::{borrow::Cow, fmt::Arguments};

use super::{super::error::ApiError, json, prompt, quoted};
use crate::limits;

/// The kinds of content parts that pass, each with the fields that it may have.
const PARTS: [(&str, [&str; 2]); 2] = [("text", ["type", "text"]), (IMAGE, ["type", IMAGE])];
/// The kind of the parts that are images, and the field with the image.
const IMAGE: &str = "image_url";
/// The fields of an image.
const IMAGE_FIELDS: [&str; 2] = ["url", "detail"];
/// The fields of a tool, and of the choice of one.
const TOOL_FIELDS: [&str; 2] = ["type", "function"];

/// What the messages and tools of a request were found to hold.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of parts of each kind, in the order of [`PARTS`].
    parts: [u64; PARTS.len()],
    /// The number of tools.
    pub(super) tools: u64,
    /// The tokens that a prompt can have beyond the bytes of what the messages hold beside their words.
    pub(super) surplus: u64,
}

impl Found {
    /// The number of parts of each kind.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PARTS.iter().map(|(kind, _)| *kind).zip(self.parts)
    }

    /// The number of images.
    pub(super) fn images(&self) -> u64 {
        self.parts().find(|(kind, _)| *kind == IMAGE).map_or(0, |(_, count)| count)
    }

    /// Validates the messages.
    pub(super) fn add_messages(&mut self, messages: Option<&[u8]>) -> Result<(), ApiError> {
        let messages = messages.ok_or_else(|| ApiError::missing_parameter("messages"))?;
        let messages =
            json::elements(messages).ok_or_else(|| ApiError::invalid_type("messages", "an array of messages"))?;
        let mut is_empty = true;
        for (index, message) in messages.enumerate() {
            is_empty = false;
            self.add_message(message, format_args!("messages[{index}]"))?;
        }
        if is_empty {
            return Err(ApiError::invalid_value("messages", "it is empty, at least one message is needed"));
        }
        Ok(())
    }

    fn add_message(&mut self, message: &[u8], place: Arguments<'_>) -> Result<(), ApiError> {
        let [role, content, audio, cache] = known(message, ["role", "content", "audio", "cache_control"], place)?;
        if audio.is_some_and(|audio| audio != b"null") {
            return Err(ApiError::invalid_value(format!("{place}.audio"), "what the provider has stored is not taken"));
        }
        if cache.is_some_and(|cache| cache != b"null") {
            return Err(ApiError::invalid_value(
                format!("{place}.cache_control"),
                "what is stored has a price of its own",
            ));
        }
        if role.is_none_or(|role| !role.starts_with(b"\"") || role == b"\"\"") {
            return Err(ApiError::invalid_type(format!("{place}.role"), "a string such as \"user\""));
        }
        self.add_content(content, place)?;
        // Tools that a message brings along, and calls of tools: printed as other JSON is, and some results of tools, too.
        for field in json::fields(message).filter_map(Result::ok) {
            let value = message.get(field.value.clone()).unwrap_or_default();
            let name = folded(field.name());
            if *name == *b"content" && role.is_none_or(|role| !matches!(&*json::string(role), b"tool" | b"function")) {
                continue;
            }
            if *name == *b"tools" && value != b"null" {
                validate_tools(value, format_args!("{place}.tools"))?;
                self.surplus += limits::TOOLS_TOKENS;
            }
            self.surplus += prompt::surplus(value);
        }
        Ok(())
    }

    /// Validates the content of a message: a string, null, or parts.
    fn add_content(&mut self, content: Option<&[u8]>, place: Arguments<'_>) -> Result<(), ApiError> {
        let Some(content) = content.filter(|content| *content != b"null" && !content.starts_with(b"\"")) else {
            return Ok(());
        };
        let parts = json::elements(content)
            .ok_or_else(|| ApiError::invalid_type(format!("{place}.content"), "a string or an array of parts"))?;
        for (index, part) in parts.enumerate() {
            let place = format_args!("{place}.content[{index}]");
            // Those of the other kind too, even where they are null.
            let [kind, ..] = known(part, ["type", "text", IMAGE], place)?;
            let kind = kind.map(json::string).unwrap_or_default();
            let known = PARTS.iter().zip(&mut self.parts).find(|((known, _), _)| known.as_bytes() == &*kind);
            let Some(((_, fields), count)) = known else {
                return Err(ApiError::invalid_value(
                    format!("{place}.type"),
                    "only \"text\" and \"image_url\" are taken",
                ));
            };
            *count += 1;
            let [_, value] = only(part, *fields, place)?;
            let place = format_args!("{place}.{}", fields[1]);
            match value.filter(|value| *value != b"null" && !value.starts_with(b"\"")) {
                None => {}
                Some(image) if fields[1] == IMAGE && image.starts_with(b"{") => validate_image(image, place)?,
                Some(_) => return Err(ApiError::invalid_type(place.to_string(), "a string")),
            }
        }
        Ok(())
    }

    /// Validates the tools: functions of the client's own.
    pub(super) fn add_tools(&mut self, tools: Option<&[u8]>) -> Result<(), ApiError> {
        let Some(tools) = tools.filter(|tools| *tools != b"null") else { return Ok(()) };
        self.surplus += prompt::surplus(tools);
        self.tools += validate_tools(tools, format_args!("tools"))?;
        Ok(())
    }
}

/// Validates tools. Returns their number.
fn validate_tools(tools: &[u8], place: Arguments<'_>) -> Result<u64, ApiError> {
    let tools = json::elements(tools).ok_or_else(|| ApiError::invalid_type(place.to_string(), "an array of tools"))?;
    let mut count = 0;
    for tool in tools {
        validate_tool(tool, format_args!("{place}[{count}]"))?;
        count += 1;
    }
    Ok(count)
}

/// Validates an image: its address, and how closely to look at it.
fn validate_image(image: &[u8], place: Arguments<'_>) -> Result<(), ApiError> {
    let values = only(image, IMAGE_FIELDS, place)?;
    for (name, value) in IMAGE_FIELDS.iter().zip(values) {
        if value.is_some_and(|value| value != b"null" && !value.starts_with(b"\"")) {
            return Err(ApiError::invalid_type(format!("{place}.{name}"), "a string"));
        }
    }
    Ok(())
}

/// Validates the choice of a tool: a word, or one of the client's functions.
pub(super) fn validate_tool_choice(choice: Option<&[u8]>) -> Result<(), ApiError> {
    match choice.filter(|choice| *choice != b"null" && !choice.starts_with(b"\"")) {
        None => Ok(()),
        Some(choice) if choice.starts_with(b"{") => validate_tool(choice, format_args!("tool_choice")),
        Some(_) => Err(ApiError::invalid_type("tool_choice", "a string or an object")),
    }
}

fn validate_tool(tool: &[u8], place: Arguments<'_>) -> Result<(), ApiError> {
    let [kind] = known(tool, ["type"], place)?;
    if kind.is_some_and(|kind| &*json::string(kind) != b"function") {
        return Err(ApiError::invalid_value(
            format!("{place}.type"),
            "only \"function\" is taken; a tool that runs at the provider is not",
        ));
    }
    only(tool, TOOL_FIELDS, place).map(drop)
}

/// The values of the fields of `object` with these names. Any other field that is not null is an error.
fn only<'t, const N: usize>(
    object: &'t [u8],
    names: [&'static str; N],
    place: Arguments<'_>,
) -> Result<[Option<&'t [u8]>; N], ApiError> {
    let values = known(object, names, place)?;
    for field in json::fields(object).filter_map(Result::ok) {
        let name = field.name();
        let is_known = names.iter().any(|known| known.as_bytes() == &*name);
        if !is_known && object.get(field.value.clone()) != Some(b"null") {
            let rule = format!("only {} are taken here", names.map(|name| format!("`{name}`")).join(" and "));
            return Err(ApiError::invalid_value(format!("{place}.{}", quoted(&name)), &rule));
        }
    }
    Ok(values)
}

/// The values of the fields of `object` with these names. A field that is there twice, or in other case, is an error.
fn known<'t, const N: usize>(
    object: &'t [u8],
    names: [&'static str; N],
    place: Arguments<'_>,
) -> Result<[Option<&'t [u8]>; N], ApiError> {
    let mut values = [None; N];
    for field in json::fields(object) {
        let field = field.map_err(|_| ApiError::invalid_type(place.to_string(), "an object"))?;
        let Some(name) = field.decoded_name() else {
            return Err(ApiError::invalid_value(place.to_string(), "the name of a field is no plain text"));
        };
        let folded = folded(name.clone());
        let Some(at) = names.iter().position(|known| known.as_bytes() == &*folded) else { continue };
        if *name != *names[at].as_bytes() {
            let rule = format!("its name is written `{}`", names[at]);
            return Err(ApiError::invalid_value(format!("{place}.{}", quoted(&name)), &rule));
        }
        if values[at].is_some() {
            return Err(ApiError::invalid_value(format!("{place}.{}", names[at]), "it is there twice"));
        }
        values[at] = object.get(field.value);
    }
    Ok(values)
}

/// A name as parsers see it that fold case as Unicode does, or skip a NUL: `K` (the Kelvin sign) is a k, `ſ` an s.
pub(super) fn folded(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| matches!(byte, 1..0x80) && !byte.is_ascii_uppercase()) {
        return name;
    }
    let name = String::from_utf8_lossy(&name).replace('\0', "");
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>().into_bytes().into()
}
