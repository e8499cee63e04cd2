//! A request for a completion: its validation, and the body that the provider gets for it.
//!
//! The gateway *governs* a few fields, listed in [`GOVERNED`]: it validates and may replace them. Other fields pass
//! through byte by byte, or are refused ([`passing`]). Where a governed field is there more than once the last one
//! counts, as it does for the providers; it is validated, and it alone is sent. A name that differs from a governed one
//! only in its case is refused: some parsers take it for the governed one. What the messages and tools may hold is judged
//! in [`content`], and how many tokens they can be in [`prompt`].

mod content;
pub(super) mod passing;
mod prompt;

use std::{borrow::Cow, ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use config::models::{Access, MAX_TOKENS};

use super::{
    error::ApiError,
    json,
    meter::MaxUsage,
    models::{ServedModel, ServedModels},
    usage_report::estimate_tokens,
};
use crate::limits;

/// A valid request for a completion.
pub(super) struct CompletionRequest {
    pub(super) model: Arc<ServedModel>,
    /// Whether the answer is to be streamed.
    pub(super) is_stream: bool,
    /// The most tokens that the completion can use.
    pub(super) max_usage: MaxUsage,
    /// An estimate of the prompt's tokens, for a provider that reports no usage.
    pub(super) estimated_prompt: u64,
    /// The body that the provider gets.
    pub(super) body: Bytes,
}

/// The fields that the gateway validates and may replace.
pub(super) const GOVERNED: [&[u8]; 7] =
    [b"model", b"max_tokens", b"max_completion_tokens", b"n", b"stream", b"stream_options", b"store"];

/// The fields that are judged and passed on as they are.
pub(super) const JUDGED: [&[u8]; 2] = [b"messages", b"tools"];

/// Validates the body of a request, and writes the provider's.
pub(super) fn validate(body: &Bytes, models: &ServedModels) -> Result<CompletionRequest, ApiError> {
    let fields = Fields::parse(body)?;
    let model = fields.last(b"model").ok_or_else(|| ApiError::missing_parameter("model"))?;
    let model: String = serde_json::from_slice(model).map_err(|_| ApiError::invalid_type("model", "a string"))?;
    let model = models.find(&model).ok_or_else(|| ApiError::model_not_found(&model))?;
    let images = content::validate_messages(fields.only("messages")?)?;
    let tools = fields.only("tools")?;
    content::validate_tools(tools)?;
    passing::check(&fields.0, &model.model.provider.quirks)?;
    let max_tokens = fields.integer("max_tokens", 1..=MAX_TOKENS)?;
    let max_completion_tokens = fields.integer("max_completion_tokens", 1..=MAX_TOKENS)?;
    let choices = fields.integer("n", 1..=limits::CHOICES)?.unwrap_or(1);
    let is_stream = match fields.last(b"stream") {
        Some(b"true") => true,
        None | Some(b"false" | b"null") => false,
        Some(_) => return Err(ApiError::invalid_type("stream", "a boolean")),
    };
    if fields.last(b"stream_options").is_some_and(|value| !value.starts_with(b"{") && value != b"null") {
        return Err(ApiError::invalid_type("stream_options", "an object"));
    }
    if matches!(model.model.provider.access, Access::Missing(_)) {
        return Err(ApiError::model_unavailable(&model.model.id));
    }

    let ceiling = max_tokens.max(max_completion_tokens);
    let max_usage = MaxUsage {
        prompt: prompt::max_tokens(body, tools, images).min(model.model.context.map_or(u64::MAX, u64::from)),
        completion: ceiling.unwrap_or(MAX_TOKENS).saturating_mul(choices),
    };
    let writer = ProviderBody { fields: &fields, model, out: Vec::with_capacity(body.len() + limits::ADDED_BYTES) };
    Ok(CompletionRequest {
        model: model.clone(),
        is_stream,
        max_usage,
        estimated_prompt: estimate_tokens(body.len()),
        body: writer.write(is_stream, ceiling.is_none()),
    })
}

/// The top-level fields of a request, as they stand in its text.
struct Fields<'t>(Vec<Field<'t>>);

struct Field<'t> {
    name: Cow<'t, [u8]>,
    /// Whether the name's escapes are text.
    is_text: bool,
    /// Name, colon and value.
    whole: &'t [u8],
    value: &'t [u8],
}

impl<'t> Fields<'t> {
    fn parse(body: &'t [u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_json("it is not UTF-8"))?;
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| ApiError::invalid_json(&error.to_string()))?;
        let fields = json::fields(body).map(|field| {
            let field = field.map_err(|_| ApiError::invalid_json("it is not an object, or nested too deeply"))?;
            let part = |range| body.get(range).unwrap_or_default();
            Ok::<_, ApiError>(Field {
                is_text: field.decoded_name().is_some(),
                name: field.name(),
                whole: part(field.whole),
                value: part(field.value),
            })
        });
        let fields: Vec<Field<'_>> = fields.collect::<Result<_, _>>()?;
        for field in &fields {
            // Parsers disagree about half of a pair of surrogates, and those in C end a name at a NUL.
            if !field.is_text || field.name.iter().any(u8::is_ascii_control) {
                return Err(ApiError::invalid_value(quoted(&field.name), "its name is no plain text"));
            }
            if let Some(governed) = governed_but_for_case(&field.name) {
                let rule = format!("its name is written `{governed}`");
                return Err(ApiError::invalid_value(quoted(&field.name), &rule));
            }
        }
        Ok(Self(fields))
    }

    /// The value of the last field with this name.
    fn last(&self, name: &[u8]) -> Option<&'t [u8]> {
        self.0.iter().rfind(|field| *field.name == *name).map(|field| field.value)
    }

    /// The value of the field with this name. Of two, parsers choose differently: that is refused.
    fn only(&self, name: &'static str) -> Result<Option<&'t [u8]>, ApiError> {
        let mut found = self.0.iter().filter(|field| *field.name == *name.as_bytes()).map(|field| field.value);
        match (found.next(), found.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(ApiError::invalid_value(name, "it is there twice")),
        }
    }

    /// The integer in a field, or `None` if the field is absent or null.
    fn integer(&self, name: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.last(name.as_bytes()).filter(|value| *value != b"null") else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let number = number.filter(|number| range.contains(number)).ok_or_else(|| {
            let rule = format!("expected an integer from {} to {}", range.start(), range.end());
            ApiError::invalid_value(name, &rule)
        })?;
        Ok(Some(number))
    }
}

/// The governed or judged field that `name` is for a parser which folds case as Unicode does; `None` for the very name.
fn governed_but_for_case(name: &[u8]) -> Option<&'static str> {
    let is = |known: &&&[u8]| content::folded(name) == **known;
    let known = *GOVERNED.iter().chain(&JUDGED).find(is)?;
    (name != known).then(|| std::str::from_utf8(known).unwrap_or_default())
}

/// A client's name of a field, cut to what a message repeats.
fn quoted(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(limits::QUOTED_CHARS).collect()
}

/// The body for the provider, being written.
struct ProviderBody<'a> {
    fields: &'a Fields<'a>,
    model: &'a ServedModel,
    out: Vec<u8>,
}

impl ProviderBody<'_> {
    fn write(mut self, is_stream: bool, needs_ceiling: bool) -> Bytes {
        self.out.push(b'{');
        for (index, field) in self.fields.0.iter().enumerate() {
            let name = &*field.name;
            if !GOVERNED.contains(&name) {
                self.copy(name, field.whole, field.value);
                continue;
            }
            let later = self.fields.0.get(index + 1..).unwrap_or_default();
            if later.iter().any(|later| later.name == field.name) {
                continue;
            }
            match name {
                b"model" => self.write_value(name, self.model.upstream_id_json.as_bytes()),
                b"store" => self.write_value(name, b"false"),
                b"stream_options" if is_stream => self.write_value(name, &with_usage(field.value)),
                // A null means the default, which is the ceiling.
                b"max_tokens" | b"max_completion_tokens" if field.value == b"null" => {}
                _ => self.copy(name, field.whole, field.value),
            }
        }
        if needs_ceiling {
            self.write_value(b"max_tokens", MAX_TOKENS.to_string().as_bytes());
        }
        if is_stream && self.fields.last(b"stream_options").is_none() {
            self.write_value(b"stream_options", &with_usage(b"null"));
        }
        self.out.push(b'}');
        self.out.into()
    }

    /// Writes a field byte by byte, unless the provider has another name for it, or none.
    fn copy(&mut self, name: &[u8], whole: &[u8], value: &[u8]) {
        let quirks = &self.model.model.provider.quirks;
        let has_quirks = !quirks.drop.is_empty() || !quirks.rename.is_empty();
        if !has_quirks || !self.has_quirk(name) {
            self.separate();
            self.out.extend_from_slice(whole);
        } else {
            self.write_value(name, value);
        }
    }

    fn has_quirk(&self, name: &[u8]) -> bool {
        let quirks = &self.model.model.provider.quirks;
        quirks.drop.iter().any(|quirk| quirk.as_bytes() == name)
            || quirks.rename.keys().any(|quirk| quirk.as_bytes() == name)
    }

    /// Writes a field with this value, under the provider's name for it. Omits one that the provider does not take, and
    /// one whose other name the client has used too.
    fn write_value(&mut self, name: &[u8], value: &[u8]) {
        let quirks = &self.model.model.provider.quirks;
        if quirks.drop.iter().any(|dropped| dropped.as_bytes() == name) {
            return;
        }
        let renamed =
            quirks.rename.iter().find(|(ours, _)| ours.as_bytes() == name).map(|(_, renamed)| renamed.as_bytes());
        if renamed.is_some_and(|renamed| self.fields.last(renamed).is_some_and(|value| value != b"null")) {
            return;
        }
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(renamed.unwrap_or(name));
        self.out.extend_from_slice(b"\":");
        self.out.extend_from_slice(value);
    }

    fn separate(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
    }
}

/// The stream's options with `include_usage` set, whatever the client had set it to.
fn with_usage(options: &[u8]) -> Vec<u8> {
    let mut out = br#"{"include_usage":true"#.to_vec();
    let is_other =
        |field: &json::Field<'_>| field.decoded_name().is_some_and(|name| content::folded(&name) != b"include_usage");
    for field in json::fields(options).filter_map(Result::ok).filter(is_other) {
        out.push(b',');
        out.extend_from_slice(options.get(field.whole).unwrap_or_default());
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
