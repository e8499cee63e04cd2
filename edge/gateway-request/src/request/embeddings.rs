//! Embedding requests, `POST /v1/embeddings`.

use config::models::ModelRoute;
use openai::{
    usage::MaxUsage,
    usage_report::{self, ExpectedUsage},
};

use super::{
    super::{asks::RequestLimits, error::ApiError},
    CompletionRequest, FieldPassage, GOVERNED, ProviderBody, ReadBody, RequestContent, RequestFields, ServedModels,
    TokenCeilings, check_access,
    inputs::TextInputs,
    passing, prompt, replace_lone_surrogates,
};

/// The fields of an embedding request that this module validates.
const OWN: [&str; 3] = ["dimensions", "encoding_format", "input"];

/// The format of embeddings in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingsFormat {
    /// Whether to encode them in base64, if the provider has not done so.
    pub as_base64: bool,
}

/// Validates the body of an embedding request within a key's limits, and writes the provider's body.
pub fn validate_embeddings(
    body: ReadBody,
    models: &ServedModels,
    asks: &RequestLimits,
) -> Result<CompletionRequest<EmbeddingsFormat>, ApiError> {
    let body = &replace_lone_surrogates(body).bytes;
    let fields = RequestFields::parse(body)?;
    let model = fields.model(models, asks, ModelRoute::Embeddings)?;
    fields.check_names(&OWN)?;
    let quirks = &model.model.provider.quirks.for_route(ModelRoute::Embeddings);
    let inputs = TextInputs::read("input", fields.unique("input")?, limits::EMBEDDING_INPUTS)?;
    let as_base64 = match fields.unique("encoding_format")? {
        None | Some(b"null" | b"\"float\"") => false,
        Some(b"\"base64\"") => true,
        Some(_) => return Err(ApiError::invalid_value("encoding_format", "expected \"float\" or \"base64\"")),
    };
    fields.integer("dimensions", 1..=limits::EMBEDDING_DIMENSIONS)?;
    if fields.parse_stream()? {
        return Err(ApiError::invalid_value("stream", "embeddings are not streamed"));
    }
    let mut found = RequestContent::default();
    for (index, field) in fields.0.iter().enumerate() {
        match &*field.name {
            b"model" | b"input" => {}
            name if GOVERNED.contains(&name) => found.left_out.push(index),
            _ => match passing::check(field, quirks)? {
                FieldPassage::Passes => found.surplus += passing::surplus(field),
                FieldPassage::LeftOut => found.left_out.push(index),
            },
        }
    }
    check_access(model)?;
    let ceilings = TokenCeilings::none();
    let written = ProviderBody::new(&fields, &found, model, quirks, &ceilings, body).write(false);
    // Each text may be as long as the model's context.
    let readable = model.model.context.map_or(u64::MAX, |context| u64::from(context).saturating_mul(inputs.count));
    let added = limits::INPUT_TOKENS.saturating_mul(inputs.count);
    let prompt = prompt::max_tokens(body, &found).saturating_add(added).min(readable.saturating_add(added));
    Ok(CompletionRequest {
        model: model.clone(),
        is_stream: false,
        max_usage: MaxUsage { prompt, completion: 0, images: 0 },
        expected: ExpectedUsage {
            prompt: usage_report::estimate_tokens(body.len()).min(prompt),
            completion: 0,
            choices: 0,
            images: 0,
        },
        sent: fields.sent_fields(),
        body: written.body,
        fallback: None,
        format: EmbeddingsFormat { as_base64 },
    })
}
