//! The parts of messages, and the tools, of a request for a completion.
//!
//! Both may hold more than tokens: an address of a document that the provider reads, a tool that runs at the provider and is
//! paid for by the call. Only what costs tokens alone passes: text, images, and functions that the client itself runs. What
//! parsers could read differently (a field that is there twice, or in other case) is refused.

use super::{super::error::ApiError, json, quoted};

/// The kinds of content parts that pass.
const PARTS: [&[u8]; 2] = [b"text", b"image_url"];

/// Validates the messages. Returns the number of images in them.
pub(super) fn validate_messages(messages: Option<&[u8]>) -> Result<u64, ApiError> {
    let messages = messages.ok_or_else(|| ApiError::missing_parameter("messages"))?;
    let messages =
        json::elements(messages).ok_or_else(|| ApiError::invalid_type("messages", "an array of messages"))?;
    let (mut count, mut images) = (0, 0);
    for (index, message) in messages.enumerate() {
        count += 1;
        let place = format!("messages[{index}]");
        let [role, content, audio] = known(message, ["role", "content", "audio"], &place)?;
        if audio.is_some_and(|audio| audio != b"null") {
            return Err(ApiError::invalid_value(format!("{place}.audio"), "what the provider has stored is not taken"));
        }
        if role.is_none_or(|role| !role.starts_with(b"\"") || role == b"\"\"") {
            return Err(ApiError::invalid_type(format!("{place}.role"), "a string such as \"user\""));
        }
        images += validate_content(content, &place)?;
    }
    if count == 0 {
        return Err(ApiError::invalid_value("messages", "it is empty, at least one message is needed"));
    }
    Ok(images)
}

/// Validates the content of a message: a string, null, or parts.
fn validate_content(content: Option<&[u8]>, place: &str) -> Result<u64, ApiError> {
    let Some(content) = content.filter(|content| *content != b"null" && !content.starts_with(b"\"")) else {
        return Ok(0);
    };
    let parts = json::elements(content)
        .ok_or_else(|| ApiError::invalid_type(format!("{place}.content"), "a string or an array of parts"))?;
    let mut images = 0;
    for (index, part) in parts.enumerate() {
        let place = format!("{place}.content[{index}]");
        let [kind, image] = known(part, ["type", "image_url"], &place)?;
        let kind = kind.map(json::string).unwrap_or_default();
        if !PARTS.contains(&&*kind) {
            return Err(ApiError::invalid_value(format!("{place}.type"), "only \"text\" and \"image_url\" are taken"));
        }
        // Some servers go by the field and not by the type.
        images += u64::from(&*kind == b"image_url" || image.is_some());
    }
    Ok(images)
}

/// Validates the tools: functions of the client's own.
pub(super) fn validate_tools(tools: Option<&[u8]>) -> Result<(), ApiError> {
    let Some(tools) = tools.filter(|tools| *tools != b"null") else { return Ok(()) };
    let tools = json::elements(tools).ok_or_else(|| ApiError::invalid_type("tools", "an array of tools"))?;
    for (index, tool) in tools.enumerate() {
        let place = format!("tools[{index}]");
        let [kind] = known(tool, ["type"], &place)?;
        if kind.is_some_and(|kind| &*json::string(kind) != b"function") {
            return Err(ApiError::invalid_value(
                format!("{place}.type"),
                "only \"function\" is taken; a tool that runs at the provider is not",
            ));
        }
    }
    Ok(())
}

/// The values of the fields of `object` with these names. A field that is there twice, or in other case, is an error.
fn known<'t, const N: usize>(
    object: &'t [u8],
    names: [&'static str; N],
    place: &str,
) -> Result<[Option<&'t [u8]>; N], ApiError> {
    let mut values = [None; N];
    for field in json::fields(object) {
        let field = field.map_err(|_| ApiError::invalid_type(place.to_owned(), "an object"))?;
        let Some(name) = field.decoded_name() else {
            return Err(ApiError::invalid_value(place.to_owned(), "the name of a field is no plain text"));
        };
        let folded = folded(&name);
        let Some(at) = names.iter().position(|known| known.as_bytes() == folded) else { continue };
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
pub(super) fn folded(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() && !name.contains(&0) {
        return name.to_ascii_lowercase();
    }
    let name = String::from_utf8_lossy(name).replace('\0', "");
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>().into_bytes()
}
