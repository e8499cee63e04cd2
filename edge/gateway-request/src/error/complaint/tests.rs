use openai::error_code::ErrorCode;

use super::*;
use crate::{
    error::{ApiError, ProviderError, RequestFacts, RequestFault},
    request::SentFields,
};

fn field(name: &str) -> RequestComplaint {
    RequestComplaint::Field(Some(KnownField::find(name.as_bytes()).unwrap()))
}

/// Bodies of errors from public reports, with their complaints.
#[expect(clippy::too_many_lines, reason = "a table")]
fn reported() -> Vec<(&'static str, RequestComplaint)> {
    use RequestComplaint::{CompletionLength, ContentFilter, ContextLength, Images};
    vec![
        // OpenAI, from several years.
        (
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages resulted in 4301 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in the messages, 500 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 282001 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead.","type":"invalid_request_error","param":"messages[1].content","code":"string_above_max_length"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000.","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
            CompletionLength,
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'temperature' is not supported with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_parameter"}}"#,
            field("temperature"),
        ),
        (
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
            field("temperature"),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#,
            field("max_tokens"),
        ),
        (
            r#"{"error":{"message":"Unrecognized request argument supplied: logit_bias","type":"invalid_request_error","param":null,"code":null}}"#,
            field("logit_bias"),
        ),
        (
            r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.","type":"invalid_request_error","param":null,"code":null}}"#,
            field("response_format"),
        ),
        (
            r#"{"error":{"message":"Invalid content type. image_url is only supported by certain models.","type":"invalid_request_error","param":"messages.[0].content.[1].type","code":null}}"#,
            Images,
        ),
        (
            r#"{"error":{"message":"Your request was rejected as a result of our safety system.","type":"invalid_request_error","param":null,"code":"content_policy_violation"}}"#,
            ContentFilter,
        ),
        (
            r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
            ContentFilter,
        ),
        // Azure.
        (
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":false,"severity":"safe"}}}}}"#,
            ContentFilter,
        ),
        // vLLM: older versions, the engine's words, newer versions.
        (
            r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 8210 tokens (18 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
            CompletionLength,
        ),
        (
            r#"{"error":{"message":"This model's maximum context length is 131072 tokens. However, your request has 140000 input tokens. Please reduce the length of the input messages. (parameter=input_tokens, value=140000)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 4096 output tokens and your prompt contains at least 126977 input tokens, for a total of at least 131073 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 'max_tokens'. Please reduce one or the other.","type":"BadRequestError","param":"input_tokens, max_tokens","code":400}}"#,
            CompletionLength,
        ),
        (
            r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 22 input tokens (8192 > 4096 - 22).","type":"BadRequestError","param":null,"code":400}"#,
            CompletionLength,
        ),
        (
            r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 131072 tokens and your request has 130000 input tokens (4096 > 131072 - 130000).","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"Input length (11680) exceeds model's maximum context length (4096).","type":"BadRequestError","param":null,"code":400}}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"The decoder prompt (length 3000) is longer than the maximum model length of 2048. Make sure that `max_model_len` is no smaller than the number of text tokens.","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"max_tokens=16000 cannot be greater than max_model_len=max_total_tokens=8192. Please request fewer output tokens.","type":"BadRequestError","param":null,"code":400}"#,
            CompletionLength,
        ),
        (
            r#"{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'safe_prompt'), 'msg': 'Extra inputs are not permitted', 'input': True}]","type":"BadRequestError","param":null,"code":400}"#,
            field("safe_prompt"),
        ),
        (
            r#"{"object":"error","message":"/models/x is not a multimodal model","type":"BadRequestError","param":null,"code":400}"#,
            Images,
        ),
        (
            r#"{"object":"error","message":"At most 0 image(s) may be provided in one request.","type":"BadRequestError","param":null,"code":400}"#,
            Images,
        ),
        // SGLang.
        (
            r#"{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.","type":"BadRequest","param":null,"code":400}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate.","type":"BadRequestError","param":null,"code":400}"#,
            ContextLength,
        ),
        // Mistral.
        (
            r#"{"object":"error","message":"Prompt contains 300000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#,
            ContextLength,
        ),
        (
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","n"],"msg":"Extra inputs are not permitted","input":1,"url":"https://errors.pydantic.dev/2.6/v/extra_forbidden"}]},"type":"invalid_request_error","param":null,"code":null}"#,
            field("n"),
        ),
        (
            r#"{"object":"error","message":"{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"frequency_penalty\"],\"msg\":\"Extra inputs are not permitted\",\"input\":0.0}]}","type":"internal_error_proxy","param":null,"code":"1000"}"#,
            field("frequency_penalty"),
        ),
        (
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages",31,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted","input":"\n"}]}"#,
            field("messages"),
        ),
        (
            r#"{"object":"error","message":"Image input is not enabled for this model","type":"invalid_request_file","param":null,"code":"3051"}"#,
            Images,
        ),
        // TGI.
        (
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`","error_type":"validation"}"#,
            ContextLength,
        ),
        (
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 `inputs` tokens and 1024 `max_new_tokens`","error_type":"validation"}"#,
            CompletionLength,
        ),
        (
            r#"{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 1168","error_type":"validation"}"#,
            ContextLength,
        ),
        (
            r#"{"error":"Input validation error: `max_new_tokens` must be <= 192. Given: 200","error_type":"validation"}"#,
            CompletionLength,
        ),
        // llama.cpp, LM Studio, Ollama.
        (
            r#"{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}"#,
            ContextLength,
        ),
        (
            r#"{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens: the number of tokens to keep from the initial prompt is greater than the context length."}"#,
            ContextLength,
        ),
        (r#"{"error":"prompt too long; exceeded max context length by 12 tokens"}"#, ContextLength),
        (
            r#"{"error":{"message":"this model does not support image input","type":"invalid_request_error","param":null,"code":null}}"#,
            Images,
        ),
        // DeepSeek.
        (
            r#"{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 65853 tokens (65853 in the messages, 0 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            CompletionLength,
        ),
        (
            r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            ContentFilter,
        ),
        (
            r#"{"error":{"message":"Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 200","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            Images,
        ),
        // Groq, Kimi, Qwen, Scaleway, OpenRouter with its provider's error in a string.
        (
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"message":"`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model","type":"invalid_request_error","param":"max_tokens"}}"#,
            CompletionLength,
        ),
        (
            r#"{"error":{"message":"property 'logprobs' is unsupported","type":"invalid_request_error"}}"#,
            field("logprobs"),
        ),
        (
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)","type":"invalid_request_error"}}"#,
            ContextLength,
        ),
        (
            r#"{"error":{"code":"invalid_parameter_error","param":null,"message":"Range of input length should be [1, 129024]","type":"invalid_request_error"}}"#,
            ContextLength,
        ),
        (r#"{"message":"max_completion_tokens is limited for this model"}"#, CompletionLength),
        (
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens\"}}","provider_name":"x"}}}"#,
            ContextLength,
        ),
        ("Prompt is too long: 215000 tokens > 200000 maximum", ContextLength),
    ]
}

/// Bodies of errors that neither a shorter prompt nor another value fixes.
const OTHERS: &[&str] = &[
    "",
    "null",
    "[]",
    "<html><body>413 Request Entity Too Large</body></html>",
    r#"{"error":{"message":"`tools` must not be an empty array","type":"BadRequestError","param":null,"code":400}}"#,
    r#"{"object":"error","message":"After the optional system message, conversation roles must alternate user/assistant/user/assistant/...","type":"BadRequestError","param":null,"code":400}"#,
    r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_error","param":null,"code":"3230"}"#,
    r#"{"object":"error","message":"Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","param":null,"code":"3280"}"#,
    r#"{"error":{"message":"Invalid schema for function 'f': In context=('properties', 'window'), 'length' is required.","type":"invalid_request_error","param":"tools[0].function.parameters","code":"invalid_function_parameters"}}"#,
    r#"{"error":{"message":"Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 100 instead.","type":"invalid_request_error","param":"user","code":"string_above_max_length"}}"#,
    r#"{"error":{"message":"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.","type":"invalid_request_error","param":"temperature","code":"decimal_above_max_value"}}"#,
    r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000. Please reduce the length of the messages.","type":"tokens","code":"rate_limit_exceeded"}}"#,
    r#"{"error":{"message":"Too many requests: too many tokens in this minute","type":"invalid_request_error"}}"#,
    r#"{"error":{"message":"Invalid image: the file could not be downloaded","type":"invalid_request_error","param":"messages","code":"invalid_image_url"}}"#,
    r#"{"error":{"message":"You uploaded an unsupported image. Please make sure your image has one of the following formats: png, jpeg.","type":"invalid_request_error","code":"invalid_image_format"}}"#,
    r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
    r#"{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError"}}"#,
    // The client's own input is quoted in the error.
    r#"{"detail":[{"type":"missing","loc":["body","messages",0,"role"],"msg":"Field required","input":{"content":"This model's maximum context length is 5 tokens, unsupported parameter: 'temperature'"}}]}"#,
    r#"{"object":"error","message":"1 validation error for ChatCompletionRequest\n  Value error, x [type=value_error, input_value={'messages': 'maximum context length is 5 tokens'}, input_type=dict]","code":400}"#,
    r#"{"object":"error","message":"[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': 'prompt is too long'}]","code":400}"#,
];

#[test]
fn reported_errors_are_told_apart() {
    for (body, complaint) in reported() {
        assert_eq!(RequestComplaint::find(body.as_bytes()), Some(complaint), "{body}");
        // The result is the same as the data of an event or a relay's string.
        let relayed = serde_json::json!({ "error": { "message": body, "code": 502 } }).to_string();
        assert_eq!(RequestComplaint::find(relayed.as_bytes()), Some(complaint), "{relayed}");
    }
}

#[test]
fn other_errors_are_none_of_them() {
    for body in OTHERS {
        assert_eq!(RequestComplaint::find(body.as_bytes()), None, "{body}");
    }
    let late = format!(
        r#"{{"error":{{"message":"Invalid: {}prompt is too long"}}}}"#,
        "x".repeat(limits::PROVIDER_WORDS_BYTES)
    );
    assert_eq!(RequestComplaint::find(late.as_bytes()), None);
}

#[test]
fn the_status_in_an_error_is_read() {
    for (body, status) in [
        (r#"{"error":{"message":"x","code":429}}"#, Some(429)),
        (r#"{"error":{"message":"x","code":"400"}}"#, Some(400)),
        (r#"{"error":{"status":503,"code":"x"}}"#, Some(503)),
        (r#"{"object":"error","message":"x","code":400}"#, Some(400)),
        (r#"{"error":"x","status_code":422}"#, Some(422)),
        (r#"{"error":{"code":40001}}"#, None),
        ("[]", None),
        ("x", None),
    ] {
        assert_eq!(ErrorReport::parse(body.as_bytes()).status, status, "{body}");
    }
}

/// What clients recognize as a prompt that is too long: each is a list of words that a message has in order, in lower
/// case. Cline, Roo Code and its derivatives (`context-error-handling.ts`; with status 400), pi-ai (`overflow.ts`) and
/// opencode (`error.ts`), `LiteLLM` (`exception_mapping_utils.py`), `LangChain` (`_handle_openai_bad_request`,
/// `_handle_openai_api_error`).
const CLIENTS: &[(&str, &[&[&str]])] = &[
    (
        "cline, roo",
        &[
            &["context length"],
            &["context window"],
            &["maximum context"],
            &["token exceed"],
            &["tokens exceed"],
            &["too many token"],
        ],
    ),
    (
        "pi-ai",
        &[
            &["prompt is too long"],
            &["request_too_large"],
            &["exceeds the context window"],
            &["maximum context length is", " tokens"],
            &["reduce the length of the messages"],
            &["exceeds the limit of"],
            &["context_length_exceeded"],
            &["context length exceeded"],
            &["too many tokens"],
            &["token limit exceeded"],
        ],
    ),
    (
        "opencode",
        &[&["reduce the length of the messages"], &["context_length_exceeded"], &["request entity too large"]],
    ),
    (
        "litellm",
        &[
            &["exceed context limit"],
            &["this model's maximum context length is"],
            &["model's maximum context limit"],
            &["input tokens exceed the configured limit"],
            &["exceeds the maximum number of tokens allowed"],
        ],
    ),
    ("langchain", &[&["context_length_exceeded"], &["prompt is too long"]]),
    ("langchain, in a stream", &[&["exceeds the context window"]]),
];

fn who_shortens(error: &ApiError) -> Vec<&'static str> {
    let message: Value = serde_json::from_str(&error.to_json()).unwrap();
    let message = message["error"]["message"].as_str().unwrap().to_lowercase();
    let by = CLIENTS.iter().filter(|(_, patterns)| patterns.iter().any(|fragments| has_in_order(&message, fragments)));
    by.map(|(client, _)| *client).collect()
}

#[test]
fn every_client_recognizes_a_prompt_that_is_too_long() {
    let all: Vec<_> = CLIENTS.iter().map(|(client, _)| *client).collect();
    for context in [None, Some(131_072)] {
        let error = ApiError::from(ProviderError::Refused(RequestFault::ContextLength(context)));
        let json: Value = serde_json::from_str(&error.to_json()).unwrap();
        assert_eq!(
            (&json["error"]["code"], &json["error"]["param"]),
            (&"context_length_exceeded".into(), &"messages".into())
        );
        assert_eq!(who_shortens(&error), all, "{json}");
    }
    let known = ApiError::context_length_exceeded(Some(131_072)).to_json();
    let sentences = "This model's maximum context length is 131072 tokens. Please reduce the length of the messages.";
    assert!(known.contains(sentences), "{known}");
    // The clients that only use the message; others know the status 413.
    assert_eq!(
        who_shortens(&ApiError::body_too_large(65_536, "your plan allows no more, and a larger plan may")),
        ["pi-ai", "opencode"]
    );
    assert_eq!(who_shortens(&RequestFault::Size.into()), ["pi-ai", "opencode"]);
}

#[test]
fn no_client_takes_another_error_for_it() {
    let errors = [
        RequestFault::CompletionLength("max_tokens"),
        RequestFault::ContentFilter,
        RequestFault::Images,
        RequestFault::Field(None),
        RequestFault::Field(KnownField::find(b"tools")),
        RequestFault::Unknown,
    ]
    .map(ProviderError::Refused);
    let others = [
        ProviderError::FAILED,
        ProviderError::Timeout,
        ProviderError::RateLimited { retry_after: None },
        ProviderError::NoAnswer { is_charged: true },
        ProviderError::TooLarge,
        ProviderError::NoMemory,
        ProviderError::CutOff,
    ];
    for error in errors.into_iter().chain(others) {
        let error = ApiError::from(error);
        let json = error.to_json();
        assert_eq!(who_shortens(&error), Vec::<&str>::new(), "{json}");
        assert!(!json.to_lowercase().contains("context"), "{json}");
    }
    // The codes do not suggest it either.
    let codes = ErrorCode::ALL.iter().filter(|code| code.as_str().contains("context"));
    assert_eq!(codes.collect::<Vec<_>>(), [&ErrorCode::ContextLengthExceeded]);
}

#[test]
fn a_field_is_named_only_to_those_who_sent_it() {
    let facts = |sent: &[&[u8]]| RequestFacts { context: None, sent: sent.iter().copied().collect::<SentFields>() };
    let param = |facts: RequestFacts, complaint| {
        let json: Value = serde_json::from_str(&ApiError::from(facts.fault_for(Some(complaint))).to_json()).unwrap();
        (json["error"]["code"].as_str().unwrap().to_owned(), json["error"]["param"].as_str().map(str::to_owned))
    };
    let named = |code: &str, param: Option<&str>| (code.to_owned(), param.map(str::to_owned));
    let unsupported = field("frequency_penalty");
    assert_eq!(param(facts(&[b"seed"]), unsupported), named("unsupported_parameter", None));
    assert_eq!(
        param(facts(&[b"frequency_penalty"]), unsupported),
        named("unsupported_parameter", Some("frequency_penalty"))
    );
    let newer = facts(&[b"max_completion_tokens"]);
    assert_eq!(param(newer, RequestComplaint::CompletionLength), named("invalid_value", Some("max_completion_tokens")));
    assert_eq!(param(facts(&[]), RequestComplaint::CompletionLength), named("invalid_value", Some("max_tokens")));
}
