//! Which of a request's top-level fields reach the provider.
//!
//! A field passes untouched, known or not, as long as it costs no more than the tokens that the meter counts. Some
//! fields of this wire format's many servers reach further: another model or host, the server's own stores and tools,
//! work that no token count shows, or more tokens than the governed fields allow. Those are refused, unless the
//! provider's entry in the configuration allows or drops them. An entry with a list of allowed fields admits no others.

use config::gateway::Quirks;

use super::{super::error::ApiError, Field, GOVERNED, content, json, prompt, quoted};
use crate::limits;

/// Fields that reach beyond tokens, folded. `null` stands for their absence, and passes.
pub(in crate::gateway) const BEYOND_TOKENS: [&str; 100] = [
    // Another model, host, key or account: OpenRouter, LiteLLM, and proxies like them.
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
    // What the server stores, looks up, calls or runs.
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
    // Work or words that the count of tokens does not show, or a higher price for them.
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
    // Other names of the ceiling and of `n`, and a prompt that grows on the server.
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

/// The judged fields that pass whatever a provider's entry allows.
pub(in crate::gateway) const ALWAYS: [&[u8]; 2] = [b"messages", b"tools"];

/// Checks that a field may reach a provider with these quirks.
pub(super) fn check(field: &Field<'_>, quirks: &Quirks) -> Result<(), ApiError> {
    let name = &*field.name;
    let is_in = |list: &[String]| list.iter().any(|listed| listed.as_bytes() == name);
    if GOVERNED.contains(&name) || ALWAYS.contains(&name) || is_in(&quirks.drop) {
        return Ok(());
    }
    if let Some(allowed) = &quirks.allow {
        let refuse = || ApiError::invalid_value(quoted(name), "the model's provider does not get this field here");
        return if is_in(allowed) { Ok(()) } else { Err(refuse()) };
    }
    let passes = match std::str::from_utf8(&field.folded).unwrap_or_default() {
        _ if field.value == b"null" => true,
        "modalities" => json::elements(field.value).is_some_and(|mut all| all.all(|one| one == b"\"text\"")),
        "service_tier" => matches!(field.value, b"\"auto\"" | b"\"default\""),
        TEMPLATE_ARGUMENTS => return check_template_arguments(field),
        name => !BEYOND_TOKENS.contains(&name),
    };
    if passes {
        return Ok(());
    }
    Err(ApiError::invalid_value(quoted(name), "it can cost or reach more than tokens, and is not passed on"))
}

/// Checks the arguments for the chat template: no other template, and single values. A template prints a list that it is
/// given in place of its own, of tools above all, at a length that the list does not show.
fn check_template_arguments(field: &Field<'_>) -> Result<(), ApiError> {
    let passes = json::fields(field.value).all(|argument| {
        argument.is_ok_and(|argument| {
            let value = field.value.get(argument.value.clone()).unwrap_or_default();
            let is_single =
                !matches!(value.first(), Some(b'{' | b'[')) && value.len() <= limits::TEMPLATE_ARGUMENT_BYTES;
            let name = argument.decoded_name().map(|name| content::folded(name));
            is_single && name.is_some_and(|name| !matches!(&*name, b"chat_template" | b"tokenize"))
        })
    });
    if passes {
        return Ok(());
    }
    let rule = "only numbers, booleans and short strings are taken, and no template";
    Err(ApiError::invalid_value(quoted(&field.name), rule))
}

/// The tokens that a prompt can have beyond the bytes of a field that is not [judged](super::JUDGED).
pub(super) fn surplus(field: &Field<'_>) -> u64 {
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
