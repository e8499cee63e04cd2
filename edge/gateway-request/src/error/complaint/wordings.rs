//! The wordings of providers' errors, by complaint.
//!
//! A wording is a list of lower-case fragments that an error contains in order; numbers and quotes, which differ
//! between versions, fall between fragments. Comments name the servers that use each wording; `complaint/tests.rs` has
//! reported errors of each, and others that must not match.

use super::RequestComplaint;

type ErrorWordings = &'static [&'static [&'static str]];

/// Errors about tokens and limits that a shorter prompt does not solve for good.
pub(super) const UNRELATED: ErrorWordings =
    &[&["rate limit"], &["rate_limit"], &["too many requests"], &["tokens per minute"], &["tokens per day"]];

/// The prompt does not fit, alone or together with the completion.
pub(super) const OVERFLOWS: ErrorWordings = &[
    // Codes: OpenAI, Azure and what copies them; llama.cpp; GLM; GitHub's models.
    &["context_length_exceeded"],
    &["context_window_exceeded"],
    &["exceed_context_size_error"],
    &["model_max_prompt_tokens_exceeded"],
    // OpenAI, Azure, vLLM, DeepSeek, OpenRouter, SGLang ("Requested token count exceeds …"), Mistral ("… too large for
    // model with 131072 maximum context length"), Ollama.
    &["maximum context length"],
    // OpenAI: newer models.
    &["input tokens exceed", "limit"],
    &["exceeds the context window"],
    &["messages[", "].content", "string too long"],
    // vLLM: the engine's own words, before and after the count, and a limit that became negative.
    &["longer than the maximum model length"],
    &["prompt", "tokens) is too long and exceeds limit of"],
    &["max_tokens must be at least 1, got -"],
    // SGLang, Together.
    &["longer than the model's context length"],
    &["input length", "exceeds the maximum allowed"],
    // TGI.
    &["`inputs` tokens + `max_new_tokens` must be <="],
    &["`inputs` must have less than", "tokens"],
    // llama.cpp, LM Studio, Ollama.
    &["exceeds the available context size"],
    &["greater than the context length"],
    &["exceeds the context length"],
    &["exceeded", "context length by"],
    // Groq, Cerebras.
    &["reduce the length of the messages"],
    &["current length is", "while limit is"],
    // Kimi, MiniMax, GLM, Qwen, xAI, Gemini, Anthropic and Bedrock behind a relay.
    &["exceeded model token limit"],
    &["context window exceeds limit"],
    &["prompt exceeds max length"],
    &["range of input length should be"],
    &["maximum prompt length is"],
    &["input token count", "exceeds the maximum number of tokens"],
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
];

/// Marks that follow the number of the prompt's tokens, where an error has it.
pub(super) const PROMPT_COUNTS: &[&str] = &[
    // OpenAI and older vLLM, newer vLLM, SGLang, TGI.
    " in the messages",
    " in your prompt",
    " input tokens",
    " tokens from the input messages",
    " `inputs` tokens and",
];

/// Marks that follow the number of the completion's tokens, where an error has it.
pub(super) const COMPLETION_COUNTS: &[&str] = &[
    // OpenAI and older vLLM, vLLM's newer ones, SGLang, TGI.
    " in the completion",
    " for the completion",
    " output tokens",
    " 'max_tokens'",
    ". this model's maximum context length",
    " tokens for the completion",
    " `max_new_tokens`",
];

/// The other complaints. The first match applies.
pub(super) const WORDINGS: &[(RequestComplaint, ErrorWordings)] = &[
    (
        RequestComplaint::ContentFilter,
        &[
            // Azure.
            &["content management policy"],
            &["responsibleaipolicyviolation"],
            &["\"content_filter\""],
            // OpenAI.
            &["content_policy_violation"],
            &["rejected as a result of our safety system"],
            &["flagged as potentially violating our usage policy"],
            // DeepSeek, Qwen, GLM, OpenRouter.
            &["content exists risk"],
            &["data_inspection_failed"],
            &["datainspectionfailed"],
            &["可能包含不安全或敏感内容"],
            &["requires moderation", "flagged"],
        ],
    ),
    (
        RequestComplaint::Images,
        &[
            // vLLM, SGLang.
            &["is not a multimodal model"],
            &["at most 0 image"],
            // OpenAI, Azure.
            &["image_url is only supported by certain models"],
            // Mistral.
            &["image input is not enabled"],
            // DeepSeek.
            &["unknown variant `image_url`"],
            // Ollama, LM Studio, OpenRouter, Groq, llama.cpp.
            &["does not support image"],
            &["model does not support images"],
            &["endpoints found that support image input"],
            &["image input is not supported"],
            &["images are not supported"],
            &["not support vision"],
        ],
    ),
    (
        RequestComplaint::CompletionLength,
        &[
            // OpenAI, vLLM.
            &["max_tokens", "is too large"],
            &["max_completion_tokens", "is too large"],
            &["max_tokens", "cannot be greater than", "max_model_len"],
            // DeepSeek.
            &["valid range of max_tokens is"],
            // Groq, Mistral.
            &["max_tokens", "must be less than or equal to"],
            &["max_completion_tokens", "must be less than or equal to"],
            // Scaleway.
            &["max_completion_tokens is limited"],
            // TGI, Qwen.
            &["`max_new_tokens` must be <="],
            &["range of max_tokens should be"],
        ],
    ),
    (
        RequestComplaint::Field(None),
        &[
            // OpenAI, Azure.
            &["unsupported_parameter"],
            &["unsupported parameter"],
            &["unsupported_value"],
            &["unsupported value"],
            &["unknown_parameter"],
            &["unknown parameter"],
            &["unrecognized request argument"],
            &["is not supported with this model"],
            // Mistral, and other servers that validate requests with pydantic.
            &["extra_forbidden"],
            &["extra inputs are not permitted"],
            // Groq, Cerebras, Fireworks, relays in Go.
            &["property", "is unsupported"],
            &["does not support", "parameter"],
            &["parameter", "is not supported"],
            &["unknown field"],
        ],
    ),
];
