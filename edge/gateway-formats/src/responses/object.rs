//! The serialized response, its items and its events.

use domain::usage::AssumedKinds;
use openai::usage::TokenUsage;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{context::ResponsesContext, usage::UsageDetails};

#[derive(Debug, Serialize)]
pub(super) struct ResponseObject<'a> {
    id: String,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    background: bool,
    error: Option<&'a ErrorObject>,
    incomplete_details: Option<IncompleteDetails>,
    instructions: Option<&'a RawValue>,
    max_output_tokens: Option<&'a RawValue>,
    max_tool_calls: Option<u64>,
    metadata: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    output: &'a [OutputItem],
    parallel_tool_calls: bool,
    previous_response_id: Option<&'a str>,
    prompt_cache_key: Option<&'a RawValue>,
    reasoning: Option<&'a RawValue>,
    safety_identifier: Option<&'a RawValue>,
    service_tier: &'static str,
    store: bool,
    temperature: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    tool_choice: Option<&'a RawValue>,
    tools: Option<&'a RawValue>,
    top_logprobs: u64,
    top_p: Option<&'a RawValue>,
    truncation: &'static str,
    usage: Option<UsageObject>,
    user: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ResponseStatus<'a> {
    InProgress,
    Completed,
    /// Ended early for this reason.
    Incomplete(&'static str),
    Failed(&'a ErrorObject),
}

impl ResponseStatus<'_> {
    fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed(_) => "failed",
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct IncompleteDetails {
    reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct ErrorObject {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl<'a> ResponseObject<'a> {
    pub(super) fn new(
        context: &'a ResponsesContext,
        status: ResponseStatus<'a>,
        output: &'a [OutputItem],
        usage: Option<UsageObject>,
    ) -> Self {
        let echo = &context.echo;
        let or = |value: &'a Option<Box<RawValue>>, default: &'static str| {
            value.as_deref().or_else(|| serde_json::from_str(default).ok())
        };
        Self {
            id: format!("resp_{}", context.id),
            object: "response",
            created_at: context.created_at,
            status: status.as_str(),
            background: false,
            error: if let ResponseStatus::Failed(error) = status { Some(error) } else { None },
            incomplete_details: match status {
                ResponseStatus::Incomplete(reason) => Some(IncompleteDetails { reason }),
                _ => None,
            },
            instructions: echo.instructions.as_deref(),
            max_output_tokens: echo.max_output_tokens.as_deref(),
            max_tool_calls: None,
            metadata: or(&echo.metadata, "{}"),
            model: echo.model.as_deref(),
            output,
            parallel_tool_calls: echo.parallel_tool_calls,
            previous_response_id: None,
            prompt_cache_key: echo.prompt_cache_key.as_deref(),
            reasoning: or(&echo.reasoning, r#"{"effort":null,"summary":null}"#),
            safety_identifier: echo.safety_identifier.as_deref(),
            service_tier: "default",
            store: false,
            temperature: echo.temperature.as_deref(),
            text: or(&echo.text, r#"{"format":{"type":"text"}}"#),
            tool_choice: or(&echo.tool_choice, "\"auto\""),
            tools: or(&echo.tools, "[]"),
            top_logprobs: 0,
            top_p: echo.top_p.as_deref(),
            truncation: "disabled",
            usage,
            user: echo.user.as_deref(),
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct UsageObject {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
    /// The cost of the response in millionths of a euro.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_microeuros: Option<u64>,
    /// The kinds of tokens that were charged at the higher price because the provider did not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_assumed: Option<AssumedKinds>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl UsageObject {
    pub(super) fn new(usage: &TokenUsage, details: &UsageDetails) -> Self {
        let cached = details.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let reasoning = details.completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0);
        Self {
            input_tokens: usage.prompt,
            input_tokens_details: InputDetails { cached_tokens: cached },
            output_tokens: usage.completion,
            output_tokens_details: OutputDetails { reasoning_tokens: reasoning },
            total_tokens: usage.prompt.saturating_add(usage.completion),
            estimated: details.estimated,
            cost_microeuros: details.cost_microeuros,
            cost_assumed: details.cost_assumed,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputItem {
    Reasoning {
        id: String,
        status: &'static str,
        summary: Vec<ContentPart>,
        content: Vec<ContentPart>,
    },
    Message {
        id: String,
        status: &'static str,
        role: &'static str,
        content: Vec<ContentPart>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        arguments: Box<RawValue>,
    },
    CustomToolCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        input: Box<RawValue>,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart {
    OutputText { annotations: [(); 0], logprobs: [(); 0], text: Box<RawValue> },
    Refusal { refusal: Box<RawValue> },
    ReasoningText { text: Box<RawValue> },
    SummaryText { text: Box<RawValue> },
}

/// An event of a stream. Fields that are `None` are omitted.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct ResponseEvent<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) sequence_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<&'a ContentPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<&'a OutputItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<&'a ResponseObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a RawValue>,
}
