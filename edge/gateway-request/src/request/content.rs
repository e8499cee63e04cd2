//! Validates the message parts and tools of a completion request.
//!
//! Both may cost more than tokens: the address of a document that the provider reads, or a tool that runs at the
//! provider and is billed per call. Only what costs tokens alone passes: text, images, a model's thoughts and refusals,
//! and tools that the client runs. Some servers act on a part's or tool's fields whatever its type says, so each kind
//! has a list of allowed fields; null fields count as absent. Fields that parsers could read differently (duplicates,
//! or names in other case) are refused. Fields that agents set for other providers, where they cost more
//! (`cache_control`), are accepted, and left out by [`dialect`].

use std::{borrow::Cow, fmt::Arguments};

use openai::{
    dialect::{self, LEFT_OUT_OF_IMAGES, LEFT_OUT_OF_MESSAGES, LEFT_OUT_OF_PARTS, LEFT_OUT_OF_TOOLS},
    json,
};

use super::{super::error::ApiError, prompt, truncate_name};

/// The kinds of content parts that pass, each with its allowed fields; the second field holds the part's content.
const PARTS: [(&str, &[&str]); 4] = [
    ("text", &["type", "text"]),
    (IMAGE, &["type", IMAGE]),
    (REFUSAL, &["type", REFUSAL]),
    (THINKING, &["type", THINKING, "closed", "signature"]),
];
/// The kind of image parts, and their field with the image.
const IMAGE: &str = "image_url";
const REFUSAL: &str = "refusal";
const THINKING: &str = "thinking";
/// The fields that define a part's content, for all kinds.
const PART_FIELDS: [&str; 5] = ["type", "text", IMAGE, REFUSAL, THINKING];
const IMAGE_FIELDS: [&str; 2] = ["url", "detail"];
/// The tool choices that some clients write as `{"type": …}`.
const CHOICES: [&str; 4] = ["auto", "none", "required", "any"];

/// The content found in a request's messages and tools.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RequestContent {
    /// The number of parts of each kind, in the order of [`PARTS`].
    parts: [u64; PARTS.len()],
    pub(super) tools: u64,
    /// The tokens that a prompt can have beyond the bytes of the messages' content other than their words.
    pub(super) surplus: u64,
    /// Whether a message has a field that is not sent to providers.
    pub(super) has_left_out: bool,
    /// Whether a tool has a field that is not sent to providers.
    pub(super) has_left_out_of_tools: bool,
    /// The indices of the request's fields that are left out, in order.
    pub(super) left_out: Vec<usize>,
    /// The indices of the first image's message and part.
    first_image: Option<(usize, usize)>,
}

impl RequestContent {
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PARTS.iter().map(|(kind, _)| *kind).zip(self.parts)
    }

    pub(super) fn images(&self) -> u64 {
        self.parts().find(|(kind, _)| *kind == IMAGE).map_or(0, |(_, count)| count)
    }

    pub(super) fn first_image(&self) -> Option<String> {
        self.first_image.map(|(message, part)| format!("messages[{message}].content[{part}]"))
    }

    pub(super) fn add_messages(&mut self, messages: Option<&[u8]>) -> Result<(), ApiError> {
        let messages = messages.ok_or_else(|| ApiError::missing_parameter("messages"))?;
        let messages =
            json::array_elements(messages).ok_or_else(|| ApiError::invalid_type("messages", "an array of messages"))?;
        let mut is_empty = true;
        for (index, message) in messages.enumerate() {
            is_empty = false;
            let had_image = self.first_image.is_some();
            self.add_message(message, format_args!("messages[{index}]"))?;
            if let Some((first, _)) = self.first_image.as_mut().filter(|_| !had_image) {
                *first = index;
            }
        }
        if is_empty {
            return Err(ApiError::invalid_value("messages", "it is empty, at least one message is needed"));
        }
        Ok(())
    }

    fn add_message(&mut self, message: &[u8], place: Arguments<'_>) -> Result<(), ApiError> {
        let [role, content, audio, left_out] =
            named_fields(message, ["role", "content", "audio", LEFT_OUT_OF_MESSAGES[0]], place)?;
        if audio.is_some_and(|audio| audio != b"null") {
            return Err(ApiError::invalid_value(format!("{place}.audio"), "what the provider has stored is not taken"));
        }
        self.has_left_out |= left_out.is_some();
        if role.is_none_or(|role| !role.starts_with(b"\"") || role == b"\"\"") {
            return Err(ApiError::invalid_type(format!("{place}.role"), "a string such as \"user\""));
        }
        self.add_content(content, role, place)?;
        // Tool definitions, tool calls and some tool results inside a message are reserialized like other JSON.
        for field in json::fields(message).filter_map(Result::ok) {
            let value = message.get(field.value.clone()).unwrap_or_default();
            let name = fold_case(field.name());
            if *name == *b"content"
                && role.is_none_or(|role| !matches!(&*json::decode_string_or_empty(role), b"tool" | b"function"))
            {
                continue;
            }
            if *name == *b"tools" && value != b"null" {
                ToolRules::STRICT.validate(value, format_args!("{place}.tools"))?;
                self.surplus += limits::TOOLS_TOKENS;
            }
            self.surplus += prompt::surplus(value);
        }
        Ok(())
    }

    /// Validates the content of a message: a string, null, or parts.
    fn add_content(
        &mut self,
        content: Option<&[u8]>,
        role: Option<&[u8]>,
        place: Arguments<'_>,
    ) -> Result<(), ApiError> {
        let Some(content) = content.filter(|content| *content != b"null" && !content.starts_with(b"\"")) else {
            return Ok(());
        };
        let parts = json::array_elements(content)
            .ok_or_else(|| ApiError::invalid_type(format!("{place}.content"), "a string or an array of parts"))?;
        // Only a model's own words can come back as its parts.
        let is_models = role.is_some_and(|role| &*json::decode_string_or_empty(role) == b"assistant");
        for (index, part) in parts.enumerate() {
            let place = format_args!("{place}.content[{index}]");
            // Includes the fields of the other kinds, even if null.
            let values = named_fields(part, PART_FIELDS, place)?;
            let kind = values[0].map(json::decode_string_or_empty).unwrap_or_default();
            let known = PARTS.iter().zip(&mut self.parts).find(|((known, _), _)| known.as_bytes() == &*kind);
            let Some(((kind, fields), count)) = known.filter(|((kind, _), _)| is_models || is_client_kind(kind)) else {
                return Err(ApiError::invalid_value(
                    format!("{place}.type"),
                    "only \"text\" and \"image_url\" are taken",
                ));
            };
            *count += 1;
            if *kind == IMAGE && self.first_image.is_none() {
                // The caller sets the message's index.
                self.first_image = Some((0, index));
            }
            self.has_left_out |= check_allowed_fields(part, fields, &LEFT_OUT_OF_PARTS, place)?;
            let value = values.iter().zip(PART_FIELDS).find(|(_, name)| fields.get(1) == Some(name));
            let place = format_args!("{place}.{kind}");
            match value.and_then(|(value, _)| *value).filter(|value| *value != b"null" && !value.starts_with(b"\"")) {
                None => {}
                Some(image) if *kind == IMAGE && image.starts_with(b"{") => {
                    self.has_left_out |= validate_image(image, place)?;
                }
                Some(thoughts) if *kind == THINKING && thoughts.starts_with(b"[") => {
                    validate_thoughts(thoughts, place)?;
                }
                Some(_) => return Err(ApiError::invalid_type(place.to_string(), "a string")),
            }
        }
        Ok(())
    }

    /// Validates the tools, which must be run by the client.
    pub(super) fn add_tools(&mut self, tools: Option<&[u8]>, takes_custom: bool) -> Result<(), ApiError> {
        let Some(tools) = tools.filter(|tools| *tools != b"null") else { return Ok(()) };
        self.surplus += prompt::surplus(tools);
        let rules = ToolRules { takes_custom, left_out: &LEFT_OUT_OF_TOOLS };
        let (count, has_left_out) = rules.validate(tools, format_args!("tools"))?;
        self.tools += count;
        self.has_left_out_of_tools = has_left_out;
        Ok(())
    }
}

/// Returns whether roles other than the model may have parts of this kind.
fn is_client_kind(kind: &str) -> bool {
    !matches!(kind, REFUSAL | THINKING)
}

/// Validates an image's address and detail. Returns whether it has fields that are left out.
fn validate_image(image: &[u8], place: Arguments<'_>) -> Result<bool, ApiError> {
    let values = named_fields(image, IMAGE_FIELDS, place)?;
    let has_left_out = check_allowed_fields(image, &IMAGE_FIELDS, &LEFT_OUT_OF_IMAGES, place)?;
    for (name, value) in IMAGE_FIELDS.iter().zip(values) {
        if value.is_some_and(|value| value != b"null" && !value.starts_with(b"\"")) {
            return Err(ApiError::invalid_type(format!("{place}.{name}"), "a string"));
        }
    }
    Ok(has_left_out)
}

/// Validates a model's thoughts, which may only have text parts.
fn validate_thoughts(thoughts: &[u8], place: Arguments<'_>) -> Result<(), ApiError> {
    for (index, part) in json::array_elements(thoughts).into_iter().flatten().enumerate() {
        let place = format_args!("{place}[{index}]");
        let [kind, text] = named_fields(part, ["type", "text"], place)?;
        if kind.is_none_or(|kind| &*json::decode_string_or_empty(kind) != b"text") {
            return Err(ApiError::invalid_value(format!("{place}.type"), "only \"text\" is taken"));
        }
        check_allowed_fields(part, &["type", "text"], &[], place)?;
        if text.is_some_and(|text| text != b"null" && !text.starts_with(b"\"")) {
            return Err(ApiError::invalid_type(format!("{place}.text"), "a string"));
        }
    }
    Ok(())
}

/// Validates the tool choice: a word, one of the client's tools, or some of them.
pub(super) fn validate_tool_choice(choice: Option<&[u8]>, takes_custom: bool) -> Result<(), ApiError> {
    let Some(choice) = choice.filter(|choice| *choice != b"null" && !choice.starts_with(b"\"")) else { return Ok(()) };
    let place = format_args!("tool_choice");
    if !choice.starts_with(b"{") {
        return Err(ApiError::invalid_type("tool_choice", "a string or an object"));
    }
    let rules = ToolRules { takes_custom, left_out: &[] };
    let [kind, allowed] = named_fields(choice, ["type", "allowed_tools"], place)?;
    let kind = kind.map(json::decode_string_or_empty).unwrap_or_default();
    if dialect::is_one_of(&kind, &CHOICES) {
        return check_allowed_fields(choice, &["type"], &[], place).map(drop);
    }
    let Some(allowed) = allowed.filter(|_| &*kind == b"allowed_tools") else {
        return rules.validate_one(choice, place).map(drop);
    };
    check_allowed_fields(choice, &["type", "allowed_tools"], &[], place)?;
    let place = format_args!("tool_choice.allowed_tools");
    let [mode, tools] = named_fields(allowed, ["mode", "tools"], place)?;
    check_allowed_fields(allowed, &["mode", "tools"], &[], place)?;
    if mode.is_some_and(|mode| !dialect::is_one_of(&json::decode_string_or_empty(mode), &["auto", "required"])) {
        return Err(ApiError::invalid_value(format!("{place}.mode"), "expected \"auto\" or \"required\""));
    }
    rules.validate(tools.unwrap_or(b"[]"), format_args!("{place}.tools")).map(drop)
}

struct ToolRules {
    takes_custom: bool,
    left_out: &'static [&'static str],
}

impl ToolRules {
    const STRICT: Self = Self { takes_custom: false, left_out: &[] };

    /// Validates tools. Returns their number, and whether one has a field that is left out.
    fn validate(&self, tools: &[u8], place: Arguments<'_>) -> Result<(u64, bool), ApiError> {
        let tools = json::array_elements(tools)
            .ok_or_else(|| ApiError::invalid_type(place.to_string(), "an array of tools"))?;
        let (mut count, mut has_left_out) = (0, false);
        for tool in tools {
            has_left_out |= self.validate_one(tool, format_args!("{place}[{count}]"))?;
            count += 1;
        }
        Ok((count, has_left_out))
    }

    fn validate_one(&self, tool: &[u8], place: Arguments<'_>) -> Result<bool, ApiError> {
        let [kind, ..] = named_fields(tool, ["type", "function", "custom"], place)?;
        let fields = match kind.map(json::decode_string_or_empty).as_deref() {
            None | Some(b"function") => &["type", "function"],
            Some(b"custom") if self.takes_custom => &["type", "custom"],
            Some(kind) => {
                let rule = match kind {
                    b"custom" => "only \"function\" is taken: the model's provider has no tools of other types",
                    _ => "only \"function\" is taken; a tool that runs at the provider is not",
                };
                return Err(ApiError::invalid_value(format!("{place}.type"), rule));
            }
        };
        check_allowed_fields(tool, fields, self.left_out, place)
    }
}

/// Checks that the non-null fields of `object` are all in `names` or `left_out`. Returns whether any is in `left_out`.
fn check_allowed_fields(
    object: &[u8],
    names: &[&str],
    left_out: &[&str],
    place: Arguments<'_>,
) -> Result<bool, ApiError> {
    let mut has_left_out = false;
    for field in json::fields(object).filter_map(Result::ok) {
        let name = field.name();
        if dialect::is_one_of(&name, names) {
            continue;
        }
        if dialect::is_one_of(&name, left_out) {
            has_left_out = true;
        } else if object.get(field.value.clone()) != Some(b"null") {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let rule = format!("only {} are taken here", names.join(" and "));
            return Err(ApiError::invalid_value(format!("{place}.{}", truncate_name(&name)), &rule));
        }
    }
    Ok(has_left_out)
}

/// Returns the values of the fields of `object` with these names. Duplicates and names in other case are errors.
fn named_fields<'t, const N: usize>(
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
        let folded = fold_case(name.clone());
        let Some(at) = names.iter().position(|known| known.as_bytes() == &*folded) else { continue };
        if *name != *names[at].as_bytes() {
            let rule = format!("its name is written `{}`", names[at]);
            return Err(ApiError::invalid_value(format!("{place}.{}", truncate_name(&name)), &rule));
        }
        if values[at].is_some() {
            return Err(ApiError::invalid_value(format!("{place}.{}", names[at]), "it is there twice"));
        }
        values[at] = object.get(field.value);
    }
    Ok(values)
}

/// Folds a name like parsers that fold Unicode case or skip NULs: `K` (the Kelvin sign) becomes k, and `ſ` s.
pub(super) fn fold_case(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| matches!(byte, 1..0x80) && !byte.is_ascii_uppercase()) {
        return name;
    }
    let name = String::from_utf8_lossy(&name).replace('\0', "");
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>().into_bytes().into()
}
