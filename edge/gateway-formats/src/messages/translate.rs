//! Translates a request to a chat completion.

use super::{
    super::chat::{
        ChatBody, ChatText, ChatTool, ChatWriter, FunctionDefinition, JsonSchema, JsonString, ResponseFormat,
        ToolChoice,
    },
    HINTS, MessagesContext,
    conversation::{ChatConversation, ToolChanges},
    for_each, parse,
    request::{DecodedStr, InputMessage, InputTool, MessagesRequest, OutputFormat, ThinkingConfig},
};
use gateway_request::error::ApiError;
use serde_json::value::RawValue;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestPurpose {
    Answer,
    Count,
}

/// Translates the body of a request. Also returns the context for translating its answer.
pub(super) fn translate(body: &[u8], purpose: RequestPurpose) -> Result<(Vec<u8>, MessagesContext), ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_json("it is not UTF-8"))?;
    let request: MessagesRequest<'_> = parse(text)?;
    let model = request.model.ok_or_else(|| ApiError::missing_parameter("model"))?;
    if !model.get().starts_with('"') {
        return Err(ApiError::invalid_type("model", "a string"));
    }
    if request.max_tokens.is_none() && purpose == RequestPurpose::Answer {
        return Err(ApiError::missing_parameter("max_tokens"));
    }
    refuse_provider_features(&request)?;
    let messages = request.messages.ok_or_else(|| ApiError::missing_parameter("messages"))?;

    let mut conversation = ChatConversation::new(ChatWriter::new(Some(model), body.len()), request.system)?;
    let mut is_empty = true;
    for_each(messages, |index, message: InputMessage<'_>| {
        is_empty = false;
        conversation.add(index, &message)
    })?;
    if is_empty {
        return Err(ApiError::invalid_value("messages", "it is empty, at least one message is needed"));
    }
    let first_image = conversation.first_image.take();
    let (chat, changes) = conversation.into_messages();
    let mut warnings = Vec::new();
    let tools = translate_tools(request.tools, changes, &mut warnings)?;
    let (tool_choice, parallel_tool_calls) = match request.tool_choice {
        Some(choice) if !tools.is_empty() => {
            let is_serial = choice.disable_parallel_tool_use == Some(true);
            let choice = match (&*choice.kind, choice.name) {
                ("auto", _) => ToolChoice::Mode("auto"),
                ("any", _) => ToolChoice::Mode("required"),
                ("none", _) => ToolChoice::Mode("none"),
                ("tool", Some(name)) if tools.iter().any(|tool| *tool.function.name == *name) => {
                    ToolChoice::function(name.0)
                }
                ("tool", _) => return Err(ApiError::invalid_value("tool_choice.name", "it names none of the tools")),
                _ => {
                    let rule = "expected \"auto\", \"any\", \"tool\" or \"none\"";
                    return Err(ApiError::invalid_value("tool_choice.type", rule));
                }
            };
            (Some(choice), is_serial.then_some(false))
        }
        Some(choice) if matches!(&*choice.kind, "any" | "tool") => {
            return Err(ApiError::invalid_value("tool_choice", "it asks for a tool, and there is none"));
        }
        _ => (None, None),
    };
    let effort = request.output_config.as_ref().and_then(|config| config.effort.as_deref());
    let reasoning_effort = reasoning_effort(request.thinking.as_ref(), effort);
    let format = request.output_config.and_then(|config| config.format).or(request.output_format);
    let stop_sequences = read_stop_sequences(request.stop_sequences)?;
    let fields = ChatBody {
        max_tokens: request.max_tokens,
        stream: request.stream.filter(|_| purpose == RequestPurpose::Answer),
        tools,
        tool_choice,
        parallel_tool_calls,
        stop: &stop_sequences,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        reasoning_effort: reasoning_effort.map(|effort| ChatText::Written(effort.into())),
        response_format: format.as_ref().map(response_format).transpose()?,
        ..ChatBody::default()
    };
    let out = chat.finish(&fields)?;
    let context = MessagesContext {
        request_id: String::new(),
        model: model.to_owned(),
        shows_thinking: request.thinking.is_some_and(|thinking| thinking.kind != "disabled"),
        stop_sequences,
        max_tokens: request.max_tokens.and_then(|value| value.get().parse().ok()),
        warnings,
        first_image,
    };
    Ok((out, context))
}

/// Refuses features that Anthropic runs or stores.
fn refuse_provider_features(request: &MessagesRequest<'_>) -> Result<(), ApiError> {
    if request.container.is_some() {
        return Err(ApiError::invalid_value("container", "code does not run here, and there are no containers"));
    }
    if request.mcp_servers.as_ref().is_some_and(|servers| !servers.is_empty()) {
        return Err(ApiError::invalid_value("mcp_servers", "the gateway calls no servers; let the client do it"));
    }
    Ok(())
}

/// Returns the tools that the model sees: the client's own, unless withdrawn in the conversation.
fn translate_tools<'a>(
    tools: Option<&'a RawValue>,
    mut changes: ToolChanges<'a>,
    warnings: &mut Vec<String>,
) -> Result<Vec<ChatTool<'a>>, ApiError> {
    let defined = std::mem::take(&mut changes.defined);
    let (mut out, mut listed) = (Vec::new(), 0);
    let mut add = |index: usize, tool: InputTool<'a>| {
        if let Some(kind) = tool.kind.as_deref().filter(|kind| *kind != "custom") {
            // A header lists them, as far as it has room.
            if warnings.len() < limits::LEFT_OUT_CHARS {
                warnings.push(kind.chars().take(limits::QUOTED_CHARS).collect());
            }
            return Ok(());
        }
        let name = tool.name.ok_or_else(|| ApiError::invalid_value(format!("tools.{index}.name"), "it is missing"))?;
        let Some(parameters) = tool.input_schema else {
            return Err(ApiError::invalid_value(format!("tools.{index}.input_schema"), "it is missing"));
        };
        if changes.is_shown(&name, tool.defer_loading == Some(true)) {
            // Those that the model does not see are not translated.
            if out.len() >= limits::TRANSLATED_TOOLS {
                let rule = format!("there are more than {}", limits::TRANSLATED_TOOLS);
                return Err(ApiError::invalid_value("tools", &rule));
            }
            let description = match tool.description {
                Some(text) => Some(
                    JsonString::from_raw(text)
                        .map(ChatText::AsSent)
                        .ok_or_else(|| ApiError::invalid_type(format!("tools.{index}.description"), "a string"))?,
                ),
                None => None,
            };
            let parameters = Some(parameters);
            out.push(FunctionDefinition { name: name.0, description, parameters, strict: tool.strict }.into());
        }
        Ok(())
    };
    if let Some(tools) = tools {
        for_each(tools, |index, tool| {
            listed = index + 1;
            add(index, tool)
        })?;
    }
    for (index, tool) in defined.into_iter().enumerate() {
        add(listed + index, tool)?;
    }
    Ok(out)
}

fn read_stop_sequences(sequences: Option<&RawValue>) -> Result<Vec<String>, ApiError> {
    let mut read = Vec::new();
    let Some(sequences) = sequences else { return Ok(read) };
    for_each(sequences, |_, sequence: DecodedStr<'_>| {
        if read.len() >= limits::STOP_SEQUENCES {
            let rule = format!("there are more than {}", limits::STOP_SEQUENCES);
            return Err(ApiError::invalid_value("stop_sequences", &rule));
        }
        read.push(sequence.0.into_owned());
        Ok(())
    })?;
    Ok(read)
}

/// Returns the requested effort in the providers' terms. It is one of the [`HINTS`], as some providers do not support
/// it.
fn reasoning_effort(thinking: Option<&ThinkingConfig<'_>>, effort: Option<&str>) -> Option<&'static str> {
    debug_assert!(HINTS.contains(&"reasoning_effort"));
    match (thinking.map(|thinking| (&*thinking.kind, thinking.budget_tokens)), effort) {
        (Some(("disabled", _)), _) => None,
        (_, Some("low")) => Some("low"),
        (_, Some("medium")) => Some("medium"),
        (_, Some(_)) => Some("high"),
        (Some((_, Some(budget))), None) => Some(match budget {
            ..limits::LOW_EFFORT_TOKENS => "low",
            limits::LOW_EFFORT_TOKENS..limits::MEDIUM_EFFORT_TOKENS => "medium",
            _ => "high",
        }),
        _ => None,
    }
}

fn response_format<'a>(format: &OutputFormat<'a>) -> Result<ResponseFormat<'a>, ApiError> {
    match (&*format.kind, format.schema) {
        ("json_schema", Some(schema)) => {
            let name = ChatText::Written("output".into());
            let json_schema = JsonSchema { name, description: None, schema: Some(schema), strict: Some(true) };
            Ok(ResponseFormat::JsonSchema { json_schema })
        }
        ("json_schema", None) => Err(ApiError::invalid_value("output_config.format.schema", "it is missing")),
        _ => Err(ApiError::invalid_value("output_config.format.type", "only \"json_schema\" is taken")),
    }
}
