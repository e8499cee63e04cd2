//! Decides which of a request's top-level fields reach the provider.
//!
//! Known and unknown fields pass unchanged if they cost no more than the tokens that the meter counts. Some fields of
//! the many servers with this wire format reach further: another model or host, the server's own stores and tools, work
//! that no token count shows, or more tokens than the governed fields allow. Those are refused, unless the provider's
//! configuration entry allows or drops them. An entry with a list of allowed fields admits no others. A field whose
//! value has no effect (`null`, `best_of: 1`) is left out instead of refused.

use config::gateway::{ProviderQuirks, UnsupportedConstruct};
use openai::{dialect, json};

use super::{super::error::ApiError, GOVERNED, RequestField, content, prompt, truncate_name};

/// Fields that reach beyond tokens, in folded case. `null` counts as absent and passes.
pub const BEYOND_TOKENS: [&str; 100] = [
    // Another model, host, key or account: OpenRouter, LiteLLM, and similar proxies.
    "adapter_id",
    "api_base",
    "api_key",
    "api_version",
    "azure_ad_token",
    "base_model",
    "base_url",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "context_window_fallback_dict",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "custom_llm_provider",
    "deployment_id",
    "extra_body",
    "extra_headers",
    "extra_query",
    "fallback_models",
    "fallbacks",
    "headers",
    "lora_path",
    "lora_request",
    "model_list",
    "models",
    "num_retries",
    "organization",
    "preset",
    "project",
    "provider",
    "route",
    "transforms",
    // Things that the server stores, looks up, calls or runs.
    "agent_id",
    "background",
    "caching",
    "callbacks",
    "connectors",
    "container",
    "conversation",
    "custom_logit_processor",
    "data_sources",
    "ec_transfer_params",
    "enable_search",
    "failure_callback",
    "file_ids",
    "files",
    "guardrails",
    "kv_transfer_params",
    "library_ids",
    "litellm_metadata",
    "logits_processors",
    "mcp_servers",
    "media_io_kwargs",
    "metadata",
    "mm_processor_kwargs",
    "mock_response",
    "plugins",
    "previous_response_id",
    "prompt_cache_retention",
    "request_id",
    "rid",
    "search_options",
    "search_parameters",
    "server_tools",
    "session_params",
    "success_callback",
    "thread_id",
    "vllm_xargs",
    "web_search",
    "web_search_options",
    "webhook",
    "webhook_url",
    // Work or words that the token count does not show, or a higher price for them.
    "audio",
    "beam_width",
    "best_of",
    "echo",
    "ignore_eos",
    "input_audio",
    "logprob_token_ids",
    "modalities",
    "num_beams",
    "prediction",
    "priority",
    "prompt_logprobs",
    "prompt_mode",
    "return_hidden_states",
    "service_tier",
    "use_beam_search",
    // Other names for the token ceiling and `n`, and prompts that grow on the server.
    "candidate_count",
    "chat_template",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "min_length",
    "min_new_tokens",
    "min_tokens",
    "n_predict",
    "num_predict",
    "num_return_sequences",
    "options",
];

/// The field with arguments for the model's own chat template.
const TEMPLATE_ARGUMENTS: &str = "chat_template_kwargs";

/// The judged fields that pass regardless of a provider's entry.
pub const ALWAYS: [&[u8]; 2] = [b"messages", b"tools"];

/// Fields left out for all providers without an allow list: notes for a store that the gateway disables, and how long a
/// provider keeps a prompt.
const LEFT_OUT: [&str; 2] = ["metadata", "prompt_cache_retention"];
/// Fields that have no effect when they are empty objects, unlike `web_search_options`.
const EMPTY: [&str; 9] = [
    "extra_body",
    "extra_headers",
    "extra_query",
    "headers",
    "litellm_metadata",
    "logit_bias",
    "metadata",
    "mm_processor_kwargs",
    "vllm_xargs",
];
/// Fields that have no effect when they are `false` or `[]`, in addition to [`BEYOND_TOKENS`].
const OFF: [&str; 2] = ["functions", "logprobs"];
/// Fields that have no effect when they are 0.
const ZERO: [&str; 4] = ["min_length", "min_tokens", "priority", "top_logprobs"];
/// Fields that have no effect when they are 1.
const ONE: [&str; 4] = ["best_of", "candidate_count", "num_beams", "num_return_sequences"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldPassage {
    Passes,
    /// Not validated further, and not sent.
    LeftOut,
}

/// Decides whether a field passes to a provider with these quirks.
pub(super) fn check(field: &RequestField<'_>, quirks: &ProviderQuirks) -> Result<FieldPassage, ApiError> {
    let name = &*field.name;
    let is_in = |list: &[String]| list.iter().any(|listed| listed.as_bytes() == name);
    let is_null = field.value == b"null" && quirks.is_unsupported(UnsupportedConstruct::Nulls);
    if GOVERNED.contains(&name) {
        let is_only_copied = matches!(name, b"n" | b"stream");
        return Ok(if is_null && is_only_copied { FieldPassage::LeftOut } else { FieldPassage::Passes });
    }
    if ALWAYS.contains(&name) || is_in(&quirks.drop) {
        return Ok(FieldPassage::Passes);
    }
    if is_in(&quirks.refuse) {
        if is_no_op(field) {
            return Ok(FieldPassage::LeftOut);
        }
        return Err(ApiError::invalid_value(truncate_name(name), "the model's provider does not go by this field"));
    }
    if let Some(allowed) = &quirks.allow {
        return match is_in(allowed) {
            true if is_null => Ok(FieldPassage::LeftOut),
            true => Ok(FieldPassage::Passes),
            false if is_no_op(field) => Ok(FieldPassage::LeftOut),
            false => Err(ApiError::invalid_value(truncate_name(name), "the model's provider does not take this field")),
        };
    }
    let passes = match std::str::from_utf8(&field.folded).unwrap_or_default() {
        _ if field.value == b"null" => return Ok(if is_null { FieldPassage::LeftOut } else { FieldPassage::Passes }),
        "modalities" | "service_tier" => is_no_op(field),
        TEMPLATE_ARGUMENTS => {
            check_template_arguments(field)?;
            true
        }
        name => !BEYOND_TOKENS.contains(&name),
    };
    if passes {
        return Ok(FieldPassage::Passes);
    }
    if dialect::is_one_of(name, &LEFT_OUT) || is_no_op(field) {
        return Ok(FieldPassage::LeftOut);
    }
    Err(ApiError::invalid_value(truncate_name(name), "it can cost or reach more than tokens, and is not passed on"))
}

/// Returns whether a field's value has the same effect as leaving it out.
fn is_no_op(field: &RequestField<'_>) -> bool {
    let name = std::str::from_utf8(&field.folded).unwrap_or_default();
    let is_known_off = || OFF.contains(&name) || BEYOND_TOKENS.contains(&name);
    match (name, field.value) {
        (_, b"null") => true,
        ("service_tier", value) => matches!(value, b"\"auto\"" | b"\"default\""),
        (_, b"false") => is_known_off(),
        (name, b"0") => ZERO.contains(&name),
        (name, b"1") => ONE.contains(&name),
        (name, value) if value.starts_with(b"{") => EMPTY.contains(&name) && json::fields(value).next().is_none(),
        (name, value) => json::array_elements(value).is_some_and(|mut all| match name {
            "modalities" => all.all(|one| one == b"\"text\""),
            _ => all.next().is_none() && is_known_off(),
        }),
    }
}

/// Checks the chat template's arguments: only single values, and no other template. A list that replaces one of the
/// template's own, such as its tools, can print longer than it is.
fn check_template_arguments(field: &RequestField<'_>) -> Result<(), ApiError> {
    let passes = json::fields(field.value).all(|argument| {
        argument.is_ok_and(|argument| {
            let value = field.value.get(argument.value.clone()).unwrap_or_default();
            let is_single =
                !matches!(value.first(), Some(b'{' | b'[')) && value.len() <= limits::TEMPLATE_ARGUMENT_BYTES;
            let name = argument.decoded_name().map(|name| content::fold_case(name));
            is_single && name.is_some_and(|name| !matches!(&*name, b"chat_template" | b"tokenize"))
        })
    });
    if passes {
        return Ok(());
    }
    let rule = "only numbers, booleans and short strings are taken, and no template";
    Err(ApiError::invalid_value(truncate_name(&field.name), rule))
}

/// Returns the tokens that a prompt can have beyond the bytes of a field that is not [judged](super::JUDGED).
pub(super) fn surplus(field: &RequestField<'_>) -> u64 {
    let name = &*field.name;
    if GOVERNED.contains(&name) || ALWAYS.contains(&name) {
        return 0;
    }
    let mut surplus = prompt::surplus(field.value);
    if *field.folded == *TEMPLATE_ARGUMENTS.as_bytes() {
        for argument in json::fields(field.value).filter_map(Result::ok) {
            let value = field.value.get(argument.value.clone()).unwrap_or_default();
            if matches!(value.first(), Some(b'{' | b'[' | b'"')) {
                surplus += limits::TOOLS_TOKENS + limits::TEMPLATE_ARGUMENT_TOKENS * value.len() as u64;
            }
        }
    }
    surplus
}
