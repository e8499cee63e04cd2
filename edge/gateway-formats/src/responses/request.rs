//! Translates the body of a request to a chat completion.
//!
//! Fields that refer to something stored are refused by name, because nothing is stored. Fields that are only advice or
//! accounting, or configure what runs at `OpenAI`, are left out, with a warning if that changes the answer.

use gateway_request::error::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::{
        ChatBody, ChatText, ChatWriter, ElementsError, JsonSchema, JsonString, ResponseFormat, for_each_element,
    },
    ResponsesContext,
    context::EchoedFields,
    input::InputConversation,
    tools::FunctionTools,
    warnings::LeftOutWarnings,
};
#[derive(Debug, Deserialize)]
struct ResponsesRequest<'b> {
    #[serde(borrow)]
    model: Option<&'b RawValue>,
    #[serde(borrow)]
    input: Option<&'b RawValue>,
    #[serde(borrow)]
    instructions: Option<&'b RawValue>,
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'b RawValue>,
    #[serde(borrow)]
    parallel_tool_calls: Option<&'b RawValue>,
    #[serde(borrow)]
    text: Option<&'b RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'b RawValue>,
    #[serde(borrow)]
    max_output_tokens: Option<&'b RawValue>,
    #[serde(borrow)]
    temperature: Option<&'b RawValue>,
    #[serde(borrow)]
    top_p: Option<&'b RawValue>,
    #[serde(borrow)]
    top_logprobs: Option<&'b RawValue>,
    #[serde(borrow)]
    user: Option<&'b RawValue>,
    #[serde(borrow)]
    safety_identifier: Option<&'b RawValue>,
    #[serde(borrow)]
    prompt_cache_key: Option<&'b RawValue>,
    #[serde(borrow)]
    metadata: Option<&'b RawValue>,
    #[serde(borrow)]
    stream: Option<&'b RawValue>,
    #[serde(borrow)]
    store: Option<&'b RawValue>,
    #[serde(borrow)]
    previous_response_id: Option<&'b RawValue>,
    #[serde(borrow)]
    conversation: Option<&'b RawValue>,
    #[serde(borrow)]
    prompt: Option<&'b RawValue>,
    #[serde(borrow)]
    background: Option<&'b RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct TextOptions<'b> {
    #[serde(borrow)]
    format: Option<TextFormat<'b>>,
    #[serde(borrow)]
    verbosity: Option<JsonString<'b>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct TextFormat<'b> {
    #[serde(borrow, rename = "type")]
    kind: JsonString<'b>,
    #[serde(borrow)]
    name: Option<JsonString<'b>>,
    #[serde(borrow)]
    description: Option<JsonString<'b>>,
    #[serde(borrow)]
    schema: Option<&'b RawValue>,
    strict: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
struct ReasoningOptions<'b> {
    #[serde(borrow)]
    effort: Option<JsonString<'b>>,
    #[serde(borrow)]
    summary: Option<JsonString<'b>>,
    #[serde(borrow)]
    generate_summary: Option<JsonString<'b>>,
}

pub(crate) fn to_chat(body: &[u8]) -> Result<(Vec<u8>, ResponsesContext), ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_json("it is not UTF-8"))?;
    let request: ResponsesRequest<'_> =
        serde_json::from_str(text).map_err(|error| ApiError::invalid_json(&error.to_string()))?;
    refuse_stored(&request)?;
    let mut warnings = LeftOutWarnings::default();
    if request.store.is_some_and(|store| store.get() == "true") {
        warnings.add("store (nothing is stored)");
    }
    if request.top_logprobs.is_some_and(|top| top.get() != "0") {
        warnings.add("top_logprobs");
    }

    let mut tools = FunctionTools::default();
    tools.add(request.tools, "tools", &mut warnings)?;
    let chat = ChatWriter::new(request.model, body.len());
    let mut conversation = InputConversation::new(chat, &mut tools, &mut warnings);
    if let Some(instructions) = request.instructions {
        conversation.add_instruction(require_string(instructions, "instructions")?);
    }
    let input = request.input.ok_or_else(|| ApiError::missing_parameter("input"))?;
    conversation.add_input(input)?;
    let (chat, places) = conversation.finish();

    let options: TextOptions<'_> = options(request.text, "text")?;
    let reasoning: ReasoningOptions<'_> = reasoning_options(request.reasoning)?;
    let tool_choice = tools.choose(request.tool_choice, &mut warnings)?;
    let parallel_tool_calls =
        request.parallel_tool_calls.map(|value| require_bool(value, "parallel_tool_calls")).transpose()?;
    let echo = EchoedFields {
        model: request.model.map(ToOwned::to_owned),
        instructions: EchoedFields::if_short(request.instructions),
        tools: EchoedFields::if_short(request.tools),
        tool_choice: EchoedFields::if_short(request.tool_choice),
        text: EchoedFields::if_short(request.text),
        reasoning: EchoedFields::if_short(request.reasoning),
        metadata: EchoedFields::metadata(request.metadata)?,
        max_output_tokens: EchoedFields::if_short(request.max_output_tokens),
        temperature: EchoedFields::if_short(request.temperature),
        top_p: EchoedFields::if_short(request.top_p),
        user: EchoedFields::if_short(request.user),
        safety_identifier: EchoedFields::if_short(request.safety_identifier),
        prompt_cache_key: EchoedFields::if_short(request.prompt_cache_key),
        parallel_tool_calls: parallel_tool_calls.unwrap_or(true),
    };
    let (tools, flattened, tool_places) = tools.finish();
    let fields = ChatBody {
        // Some servers refuse these two without tools.
        tool_choice: tool_choice.filter(|_| !tools.is_empty()),
        parallel_tool_calls: parallel_tool_calls.filter(|_| !tools.is_empty()),
        tools,
        response_format: options.format.map(response_format).transpose()?.flatten(),
        verbosity: options.verbosity,
        reasoning_effort: reasoning.effort.map(ChatText::AsSent),
        max_tokens: request.max_output_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        user: request.user.map(|value| require_string(value, "user")).transpose()?,
        safety_identifier: request
            .safety_identifier
            .map(|value| require_string(value, "safety_identifier"))
            .transpose()?,
        prompt_cache_key: request
            .prompt_cache_key
            .map(|value| require_string(value, "prompt_cache_key"))
            .transpose()?,
        stream: request.stream,
        ..ChatBody::default()
    };
    let out = chat.finish(&fields)?;
    let context = ResponsesContext {
        id: String::new(),
        created_at: 0,
        echo,
        flattened,
        wants_summary: reasoning.summary.or(reasoning.generate_summary).is_some(),
        places,
        tool_places,
        warning: warnings.into_header(),
    };
    Ok((out, context))
}

/// Refuses fields that refer to something stored.
fn refuse_stored(request: &ResponsesRequest<'_>) -> Result<(), ApiError> {
    let refused = [
        (
            "previous_response_id",
            request.previous_response_id,
            "nothing is stored here: send the earlier items in `input`",
        ),
        ("conversation", request.conversation, "nothing is stored here: send the earlier items in `input`"),
        ("prompt", request.prompt, "prompts are not stored here: send the text in `instructions`"),
        (
            "background",
            request.background.filter(|value| value.get() != "false"),
            "nothing is stored here, so nobody could fetch the answer later: ask for a stream",
        ),
    ];
    match refused.into_iter().find(|(_, value, _)| value.is_some()) {
        Some((name, _, rule)) => Err(ApiError::invalid_value(name, rule)),
        None => Ok(()),
    }
}

fn response_format(format: TextFormat<'_>) -> Result<Option<ResponseFormat<'_>>, ApiError> {
    match &*format.kind.text() {
        "text" => Ok(None),
        "json_object" => Ok(Some(ResponseFormat::JsonObject)),
        "json_schema" => {
            let name = format.name.ok_or_else(|| ApiError::missing_parameter("text.format.name"))?;
            let TextFormat { description, schema, strict, .. } = format;
            let name = ChatText::AsSent(name);
            Ok(Some(ResponseFormat::JsonSchema { json_schema: JsonSchema { name, description, schema, strict } }))
        }
        _ => Err(ApiError::invalid_value(
            "text.format.type",
            "only \"text\", \"json_object\" and \"json_schema\" are taken",
        )),
    }
}

fn options<'b, T: Default + Deserialize<'b>>(value: Option<&'b RawValue>, name: &'static str) -> Result<T, ApiError> {
    value.map_or_else(|| Ok(T::default()), |value| parse_part_at(value, || name.to_owned()))
}

fn reasoning_options(value: Option<&RawValue>) -> Result<ReasoningOptions<'_>, ApiError> {
    options(value, "reasoning")
}

fn require_string<'b>(value: &'b RawValue, name: &'static str) -> Result<JsonString<'b>, ApiError> {
    JsonString::from_raw(value).ok_or_else(|| ApiError::invalid_type(name, "a string"))
}

fn require_bool(value: &RawValue, name: &'static str) -> Result<bool, ApiError> {
    serde_json::from_str(value.get()).map_err(|_| ApiError::invalid_type(name, "a boolean"))
}

pub(super) fn parse_part_at<'b, T: Deserialize<'b>>(
    value: &'b RawValue,
    place: impl Fn() -> String,
) -> Result<T, ApiError> {
    serde_json::from_str(value.get()).map_err(|error| part_error(&error, place()))
}

/// Calls `each` with the elements of the array at `place`, until it refuses one.
pub(super) fn for_each_at<'b, T: Deserialize<'b>>(
    array: &'b RawValue,
    place: impl Fn() -> String,
    each: impl FnMut(usize, T) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for_each_element(array.get(), each).map_err(|error| match error {
        ElementsError::Json(error) => part_error(&error, place()),
        ElementsError::Refused(error) => error,
    })
}

fn part_error(error: &serde_json::Error, place: String) -> ApiError {
    let error = error.to_string();
    // Dropped because the position is relative to the part.
    let rule = error.split(" at line ").next().unwrap_or_default();
    ApiError::invalid_value(place, rule)
}
