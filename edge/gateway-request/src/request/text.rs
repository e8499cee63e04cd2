//! Legacy completion requests, `POST /v1/completions`: a model continues a prompt, or fills the gap before a suffix.

use config::models::ModelRoute;
use openai::{
    usage::MaxUsage,
    usage_report::{self, ExpectedUsage},
};

use super::{
    super::{asks::RequestLimits, error::ApiError},
    CompletionRequest, FieldPassage, ProviderBody, ReadBody, RequestContent, RequestFields, ServedModels,
    TokenCeilings, check_access,
    inputs::TextInputs,
    passing, prompt, replace_lone_surrogates,
};

/// The fields of a legacy completion that this module validates.
const OWN: [&str; 3] = ["best_of", "prompt", "suffix"];

/// Validates the body of a legacy completion request, and writes the provider's body.
pub fn validate_text(
    body: ReadBody,
    models: &ServedModels,
    asks: &RequestLimits,
) -> Result<CompletionRequest, ApiError> {
    let body = &replace_lone_surrogates(body).bytes;
    let fields = RequestFields::parse(body)?;
    let model = fields.model(models, asks, ModelRoute::Completions)?;
    fields.check_names(&OWN)?;
    let quirks = &model.model.provider.quirks.for_route(ModelRoute::Completions);
    let prompts = TextInputs::read("prompt", fields.unique("prompt")?, limits::TEXT_CHOICES)?;
    if fields.unique("suffix")?.is_some_and(|suffix| !suffix.starts_with(b"\"") && suffix != b"null") {
        return Err(ApiError::invalid_type("suffix", "a string"));
    }
    let choices = fields.integer("n", 1..=limits::CHOICES)?.unwrap_or(1);
    // The number of completions written per prompt; those that are not chosen cost as much.
    fields.unique("best_of")?;
    let best_of = fields.integer("best_of", 1..=limits::CHOICES)?;
    let candidates = best_of.unwrap_or(choices);
    let is_stream = fields.parse_stream()?;
    if candidates < choices {
        return Err(ApiError::invalid_value("best_of", "it is less than `n`"));
    }
    if candidates > choices && is_stream {
        return Err(ApiError::invalid_value("best_of", "a stream cannot be chosen among others"));
    }
    let all = prompts.count.saturating_mul(candidates);
    if all > limits::TEXT_CHOICES {
        let rule = format!("all prompts have {all} completions together, and may have {}", limits::TEXT_CHOICES);
        return Err(ApiError::invalid_value(if best_of.is_some() { "best_of" } else { "n" }, &rule));
    }
    let mut found = RequestContent::default();
    for (index, field) in fields.0.iter().enumerate() {
        let passage = match &*field.name {
            b"prompt" => FieldPassage::Passes,
            b"suffix" if field.value == b"null" || field.value == b"\"\"" => FieldPassage::LeftOut,
            b"n" if choices == 1 => FieldPassage::LeftOut,
            // It multiplies tokens and is covered by the reservation. The provider's own list may still not have it.
            b"best_of"
                if candidates > 1 && quirks.allow.is_none() && !quirks.refuse.iter().any(|it| it == "best_of") =>
            {
                FieldPassage::Passes
            }
            _ => {
                let passage = passing::check(field, quirks)?;
                if passage == FieldPassage::Passes {
                    found.surplus += passing::surplus(field);
                }
                passage
            }
        };
        if passage == FieldPassage::LeftOut {
            found.left_out.push(index);
        }
    }
    let ceiling = asks.token_ceiling(&model.model);
    let ceilings = TokenCeilings::new(
        quirks,
        ceiling.default_tokens().min(limits::TEXT_TOKENS),
        fields.tokens("max_tokens", &ceiling)?,
        fields.tokens("max_completion_tokens", &ceiling)?,
    );
    check_access(model)?;
    let written = ProviderBody::new(&fields, &found, model, quirks, &ceilings, body);
    let written = match prompts.single {
        // Equivalent, and some providers only accept a string.
        Some(single) => written.with_replaced(b"prompt", single),
        None => written,
    };
    let written = written.write(is_stream);
    let readable = model.model.context.map_or(u64::MAX, |context| u64::from(context).saturating_mul(prompts.count));
    let added = limits::INPUT_TOKENS.saturating_mul(prompts.count);
    let prompt = prompt::max_tokens(body, &found).saturating_add(added).min(readable);
    let max_usage = MaxUsage { prompt, completion: ceilings.largest().saturating_mul(all), images: 0 };
    Ok(CompletionRequest {
        model: model.clone(),
        is_stream,
        max_usage,
        expected: ExpectedUsage {
            prompt: usage_report::estimate_tokens(body.len()).min(prompt),
            completion: max_usage.completion,
            choices: choices.saturating_mul(prompts.count),
            images: 0,
        },
        sent: fields.sent_fields(),
        body: written.body,
        fallback: None,
        format: (),
    })
}
