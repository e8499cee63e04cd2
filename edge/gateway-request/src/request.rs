//! Validates completion requests and writes the provider's body.
//!
//! The gateway *governs* a few fields, listed in [`GOVERNED`]: it validates and may replace them. Other fields are
//! passed on byte for byte or refused ([`passing`]). If a governed field occurs more than once, the last one counts, as
//! it does for the providers: it alone is validated and sent. A name that differs from a governed one only in case is
//! refused, because some parsers treat it as the governed one. [`content`] validates messages and tools, and [`prompt`]
//! bounds their tokens. They are rewritten afterwards if the provider's dialect has rules
//! ([`dialect`](openai::dialect)).

mod content;
mod embeddings;
mod fallback;
mod inputs;
mod overflow;
pub mod passing;
mod pieces;
mod prompt;
mod provider_body;
mod sent;
mod text;

use std::{borrow::Cow, ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use config::{
    gateway::ProviderQuirks,
    models::{ModelRoute, ProviderAccess},
};
use openai::{
    json,
    usage::MaxUsage,
    usage_report::{self, ExpectedUsage},
};
use upstream::BodyPieces;

use self::{
    content::RequestContent,
    passing::FieldPassage,
    provider_body::{ProviderBody, TokenCeilings},
};
pub use self::{
    embeddings::validate_embeddings,
    fallback::{FallbackRequest, WriteRequest},
    pieces::PieceWriter,
    sent::{KNOWN_FIELDS, KnownField, SentFields},
    text::validate_text,
};
use super::{
    asks::{RequestLimits, RequestedTokens, TokenCeiling},
    endpoints,
    error::ApiError,
    models::{ServedModel, ServedModels},
    request_body::ReadBody,
};

/// A validated request for a completion, with the format `F` of its answer.
pub struct CompletionRequest<F = ()> {
    /// The requested model at the provider for which `body` is written.
    pub model: Arc<ServedModel>,
    /// Whether the client asks for a stream of events instead of a whole answer.
    pub is_stream: bool,
    /// The most tokens and images that the completion can use, also at the second provider.
    pub max_usage: MaxUsage,
    /// The bounds from which the usage is estimated if the provider reports none.
    pub expected: ExpectedUsage,
    /// The known fields of the body as it was validated, for errors that name one.
    pub sent: SentFields,
    /// The provider's body. It holds the memory of the client's body if that is large.
    pub body: BodyPieces,
    /// The request for the model's second provider, if it has one.
    pub fallback: Option<Box<FallbackRequest>>,
    /// The format of the client's answer, which [`with_format`](CompletionRequest::with_format) replaces.
    pub format: F,
}

impl<F> CompletionRequest<F> {
    /// Replaces the format of the answer.
    pub fn with_format<G>(self, format: G) -> CompletionRequest<G> {
        let Self { model, is_stream, max_usage, expected, sent, body, fallback, format: _ } = self;
        CompletionRequest { model, is_stream, max_usage, expected, sent, body, fallback, format }
    }

    /// Returns the time limit for the whole answer: how long a slow model takes for the most tokens of a choice.
    pub fn time_limit(&self) -> Duration {
        let tokens = self.max_usage.completion / self.expected.choices.max(1);
        Duration::from_secs(tokens / limits::SLOW_TOKENS_PER_SECOND).clamp(limits::EXCHANGE, limits::LONGEST_EXCHANGE)
    }
}

/// The fields that the gateway validates and may replace.
pub const GOVERNED: [&[u8]; 7] =
    [b"model", b"max_tokens", b"max_completion_tokens", b"n", b"stream", b"stream_options", b"store"];

/// The fields that are validated and passed on unchanged.
pub const JUDGED: [&[u8]; 3] = [b"messages", b"tools", b"tool_choice"];

/// Validates the body of a request within a key's limits, and writes the provider's body.
pub fn validate(body: &Bytes, models: &ServedModels, asks: &RequestLimits) -> Result<CompletionRequest, ApiError> {
    validate_chat(body.clone().into(), models, asks, &[])
}

/// Validates a chat completion, or one that another request was translated to, within a key's limits. The fields in
/// `hints` are dropped for a provider that does not support them, since the client's format allows them without effect.
pub fn validate_chat(
    body: ReadBody,
    models: &ServedModels,
    asks: &RequestLimits,
    hints: &'static [&'static str],
) -> Result<CompletionRequest, ApiError> {
    let body = &replace_lone_surrogates(body).bytes;
    let fields = RequestFields::parse(body)?;
    let model = fields.model(models, asks, ModelRoute::Chat)?;
    let request = validate_for(model, body, fields, asks, hints)?;
    Ok(match &model.fallback {
        Some(second) if second.model.has_route(ModelRoute::Chat) => {
            request.with_fallback(FallbackRequest::new(second, body, asks, hints))
        }
        _ => request,
    })
}

/// Validates the fields of a body for a model at its provider, and writes the provider's body.
fn validate_for(
    model: &Arc<ServedModel>,
    body: &Bytes,
    mut fields: RequestFields<'_>,
    asks: &RequestLimits,
    hints: &[&str],
) -> Result<CompletionRequest, ApiError> {
    let quirks = &model.model.provider.quirks;
    fields.drop_unsupported(hints, quirks);
    let found = fields.validate_judged(quirks)?;
    if let Some(place) = found.first_image().filter(|_| !model.model.vision) {
        return Err(ApiError::no_images(&model.model.id, place));
    }
    let ceiling = asks.token_ceiling(&model.model);
    let ceilings = TokenCeilings::new(
        quirks,
        ceiling.default_tokens(),
        fields.tokens("max_tokens", &ceiling)?,
        fields.tokens("max_completion_tokens", &ceiling)?,
    );
    let choices = fields.integer("n", 1..=limits::CHOICES)?.unwrap_or(1);
    let is_stream = fields.parse_stream()?;
    check_access(model)?;

    if let (Some(context), Some(messages)) = (model.model.context, fields.last(b"messages"))
        && overflow::certainly_exceeds(messages, context.into())
    {
        return Err(ApiError::context_length_exceeded(Some(context)));
    }
    let written = ProviderBody::new(&fields, &found, model, quirks, &ceilings, body).write(is_stream);
    let readable = model.model.context.map_or(u64::MAX, u64::from);
    // A prompt has at most one token per byte, also of what is rewritten in the provider's dialect. A body longer than
    // the model's context needs no counting.
    let is_longer = body.len() as u64 >= readable;
    let prompt = if is_longer { readable } else { prompt::max_tokens(body, &found) + written.growth };
    let max_usage = MaxUsage {
        prompt: prompt.min(readable),
        completion: ceilings.largest().saturating_mul(choices),
        images: found.images(),
    };
    Ok(CompletionRequest {
        model: model.clone(),
        is_stream,
        max_usage,
        expected: ExpectedUsage {
            // Images are many bytes but few tokens.
            prompt: usage_report::estimate_tokens(body.len()).min(prompt),
            completion: max_usage.completion,
            choices,
            images: max_usage.images,
        },
        sent: fields.sent_fields(),
        body: written.body,
        fallback: None,
        format: (),
    })
}

/// Returns the tokens that a JSON text can have beyond its bytes when a server reserializes it.
pub fn surplus_tokens(text: &[u8]) -> u64 {
    prompt::surplus(text)
}

/// Replaces unpaired surrogates. Agents cut texts inside a character and resend them in every turn, so a refusal would
/// end the conversation. Parsers disagree about an unpaired surrogate, and some providers fail on it.
fn replace_lone_surrogates(body: ReadBody) -> ReadBody {
    match json::replace_lone_surrogates(&body.bytes) {
        Some(mended) => body.replaced_by(mended),
        None => body,
    }
}

/// Refuses a model if we have no key for its provider.
fn check_access(model: &ServedModel) -> Result<(), ApiError> {
    match model.model.provider.access {
        ProviderAccess::Missing(_) => Err(ApiError::model_unavailable(&model.model.id)),
        ProviderAccess::Key(_) | ProviderAccess::Open => Ok(()),
    }
}

/// The top-level fields of a request, as written in its text.
struct RequestFields<'t>(Vec<RequestField<'t>>);

struct RequestField<'t> {
    name: Cow<'t, [u8]>,
    /// The name as seen by parsers that fold case.
    folded: Cow<'t, [u8]>,
    /// Whether the decoded name is valid text.
    is_text: bool,
    /// Name, colon and value.
    whole: &'t [u8],
    value: &'t [u8],
}

impl<'t> RequestFields<'t> {
    fn parse(body: &'t [u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_json("it is not UTF-8"))?;
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| ApiError::invalid_json(&error.to_string()))?;
        let fields = json::fields(body).map(|field| {
            let field = field.map_err(|_| ApiError::invalid_json("it is not an object, or nested too deeply"))?;
            let part = |range| body.get(range).unwrap_or_default();
            let name = field.name();
            Ok::<_, ApiError>(RequestField {
                is_text: field.decoded_name().is_some(),
                folded: content::fold_case(name.clone()),
                name,
                whole: part(field.whole),
                value: part(field.value),
            })
        });
        let fields: Vec<RequestField<'_>> = fields.take(limits::REQUEST_FIELDS + 1).collect::<Result<_, _>>()?;
        if fields.len() > limits::REQUEST_FIELDS {
            return Err(ApiError::invalid_json("it has too many fields"));
        }
        for field in &fields {
            // Parsers disagree about unpaired surrogates, and those in C end a name at a NUL.
            if !field.is_text || field.name.iter().any(u8::is_ascii_control) {
                return Err(ApiError::invalid_value(truncate_name(&field.name), "its name is no plain text"));
            }
            if let Some(governed) = misspelled_field(field) {
                let rule = format!("its name is written `{governed}`");
                return Err(ApiError::invalid_value(truncate_name(&field.name), &rule));
            }
        }
        Ok(Self(fields))
    }

    /// Returns the requested model, if it is served on this route.
    fn model<'m>(
        &self,
        models: &'m ServedModels,
        asks: &RequestLimits,
        route: ModelRoute,
    ) -> Result<&'m Arc<ServedModel>, ApiError> {
        let name = self.last(b"model").ok_or_else(|| ApiError::missing_parameter("model"))?;
        let name = json::decode_string(name).ok_or_else(|| ApiError::invalid_type("model", "a string"))?;
        let name = String::from_utf8_lossy(&name);
        let model = models.find_for(&name, asks).ok_or_else(|| ApiError::model_not_found(&name))?;
        let model = Some(model.with_access()).filter(|admitted| admitted.model.has_route(route)).unwrap_or(model);
        if !model.model.has_route(route) {
            return Err(ApiError::wrong_endpoint(&model.model.id, &endpoints::for_model(&model.model)));
        }
        Ok(model)
    }

    fn parse_stream(&self) -> Result<bool, ApiError> {
        let is_stream = match self.last(b"stream") {
            Some(b"true") => true,
            None | Some(b"false" | b"null") => false,
            Some(_) => return Err(ApiError::invalid_type("stream", "a boolean")),
        };
        if self.last(b"stream_options").is_some_and(|value| !value.starts_with(b"{") && value != b"null") {
            return Err(ApiError::invalid_type("stream_options", "an object"));
        }
        Ok(is_stream)
    }

    fn sent_fields(&self) -> SentFields {
        self.0.iter().map(|field| &*field.name).collect()
    }

    /// Checks a request that is not a chat completion: it has no chat fields, and spells the names in `own` exactly.
    fn check_names(&self, own: &[&'static str]) -> Result<(), ApiError> {
        for field in &self.0 {
            if JUDGED.contains(&&*field.name) {
                let rule = "this endpoint does not take it; chat completions do";
                return Err(ApiError::invalid_value(truncate_name(&field.name), rule));
            }
            let known = own.iter().find(|own| own.as_bytes() == &*field.folded);
            if let Some(known) = known.filter(|known| known.as_bytes() != &*field.name) {
                return Err(ApiError::invalid_value(
                    truncate_name(&field.name),
                    &format!("its name is written `{known}`"),
                ));
            }
        }
        Ok(())
    }

    fn drop_unsupported(&mut self, names: &[&str], quirks: &ProviderQuirks) {
        if !names.is_empty() {
            let is_hint = |field: &RequestField<'_>| names.iter().any(|name| name.as_bytes() == &*field.name);
            self.0.retain(|field| !is_hint(field) || passing::check(field, quirks).is_ok());
        }
    }

    /// Validates the fields that are passed on unchanged, and returns what they contain.
    fn validate_judged(&self, quirks: &ProviderQuirks) -> Result<RequestContent, ApiError> {
        let mut found = RequestContent::default();
        found.add_messages(self.unique("messages")?)?;
        found.add_tools(self.unique("tools")?, quirks.custom_tools)?;
        content::validate_tool_choice(self.unique("tool_choice")?, quirks.custom_tools)?;
        for (index, field) in self.0.iter().enumerate() {
            match passing::check(field, quirks)? {
                FieldPassage::Passes => found.surplus += passing::surplus(field),
                FieldPassage::LeftOut => found.left_out.push(index),
            }
        }
        Ok(found)
    }

    /// Returns the value of the last field with this name.
    fn last(&self, name: &[u8]) -> Option<&'t [u8]> {
        self.0.iter().rfind(|field| *field.name == *name).map(|field| field.value)
    }

    /// Returns the value of the field with this name. Duplicates are refused because parsers disagree on them.
    fn unique(&self, name: &'static str) -> Result<Option<&'t [u8]>, ApiError> {
        let mut found = self.0.iter().filter(|field| *field.name == *name.as_bytes()).map(|field| field.value);
        match (found.next(), found.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(ApiError::invalid_value(name, "it is there twice")),
        }
    }

    /// Returns the most tokens that a field asks for, or `None` if it is absent or null.
    fn tokens(&self, name: &'static str, ceiling: &TokenCeiling) -> Result<Option<RequestedTokens>, ApiError> {
        let Some(value) = self.last(name.as_bytes()).filter(|value| *value != b"null") else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let asked = number.and_then(|number| ceiling.admit(number));
        asked.map(Some).ok_or_else(|| ApiError::invalid_value(name, &ceiling.rule()).with_maximum(ceiling.most()))
    }

    /// Returns the integer in a field, or `None` if it is absent or null.
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

/// Returns the governed or judged field that a case-folding parser would take this field for, unless it is that field.
fn misspelled_field(field: &RequestField<'_>) -> Option<&'static str> {
    let known = *GOVERNED.iter().chain(&JUDGED).find(|known| *field.folded == ***known)?;
    (*field.name != *known).then(|| std::str::from_utf8(known).unwrap_or_default())
}

fn truncate_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(limits::QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests;
