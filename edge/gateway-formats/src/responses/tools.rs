//! The tools of a request, and the tool choice.
//!
//! Chat completions only have functions. A `custom` tool becomes a function with one string, and the tools of a
//! `namespace` become functions whose names it prefixes; a call is translated back by the function's name. Tools that
//! run at `OpenAI` are left out rather than refused, because agents send them by default.

use std::collections::{HashMap, HashSet};

use gateway_request::error::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::{ChatText, ChatTool, FunctionDefinition, JsonString, ToolChoice},
    request::{for_each_at, parse_part_at},
    warnings::LeftOutWarnings,
};

/// The parameters of the function for a custom tool.
const CUSTOM_PARAMETERS: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;
const SEPARATOR: &str = "__";
/// Tools and their items that run at `OpenAI` or that chat completions cannot express.
const HOSTED: [&str; 17] = [
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_call",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];

/// The client's tool behind a function of the chat completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientTool {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether its input is a text instead of arguments.
    pub(super) is_custom: bool,
}

/// The client's tools by function name, where they are more than the function.
pub(super) type ToolsByFunction = HashMap<String, ClientTool>;

#[derive(Debug, Deserialize)]
struct SentTool<'b> {
    #[serde(borrow, rename = "type")]
    kind: JsonString<'b>,
    #[serde(borrow)]
    name: Option<JsonString<'b>>,
    #[serde(borrow)]
    description: Option<JsonString<'b>>,
    #[serde(borrow)]
    parameters: Option<&'b RawValue>,
    strict: Option<bool>,
    #[serde(borrow)]
    format: Option<CustomFormat<'b>>,
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
}

#[derive(Debug, Deserialize)]
struct CustomFormat<'b> {
    #[serde(borrow)]
    syntax: Option<JsonString<'b>>,
    #[serde(borrow)]
    definition: Option<JsonString<'b>>,
}

#[derive(Debug, Deserialize)]
struct SentChoice<'b> {
    #[serde(borrow, rename = "type")]
    kind: JsonString<'b>,
    #[serde(borrow)]
    name: Option<JsonString<'b>>,
    #[serde(borrow)]
    namespace: Option<JsonString<'b>>,
    #[serde(borrow)]
    mode: Option<JsonString<'b>>,
    /// An array of choices.
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
}

#[derive(Debug, Default)]
pub(super) struct FunctionTools<'b> {
    functions: Vec<ChatTool<'b>>,
    /// The path of each tool in the request.
    places: Vec<String>,
    flattened: ToolsByFunction,
}

impl<'b> FunctionTools<'b> {
    pub(super) fn add(
        &mut self,
        value: Option<&'b RawValue>,
        place: &str,
        warnings: &mut LeftOutWarnings,
    ) -> Result<(), ApiError> {
        self.add_in_namespace(None, value, place, warnings)
    }

    fn add_in_namespace(
        &mut self,
        namespace: Option<&str>,
        value: Option<&'b RawValue>,
        place: &str,
        warnings: &mut LeftOutWarnings,
    ) -> Result<(), ApiError> {
        let Some(value) = value else { return Ok(()) };
        for_each_at(
            value,
            || place.to_owned(),
            |index, tool: &'b RawValue| {
                let place = format!("{place}[{index}]");
                let tool: SentTool<'_> = parse_part_at(tool, || place.clone())?;
                match (&*tool.kind.text(), namespace) {
                    ("function" | "custom", _) => self.add_function(&tool, namespace, place)?,
                    ("namespace", None) => {
                        let name = require_name(tool.name, &place)?;
                        self.add_in_namespace(Some(&name), tool.tools, &format!("{place}.tools"), warnings)?;
                    }
                    (kind, _) => warnings.add(hosted_tool_name(kind)),
                }
                Ok(())
            },
        )
    }

    fn add_function(&mut self, tool: &SentTool<'b>, namespace: Option<&str>, place: String) -> Result<(), ApiError> {
        let name = require_name(tool.name, &place)?;
        if self.functions.len() >= limits::TRANSLATED_TOOLS {
            let rule = format!("there are more than {}", limits::TRANSLATED_TOOLS);
            return Err(ApiError::invalid_value("tools", &rule));
        }
        let is_custom = &*tool.kind.text() == "custom";
        let function_name = function_name(namespace, &name);
        if is_custom || namespace.is_some() {
            let known = ClientTool { namespace: namespace.map(str::to_owned), name, is_custom };
            self.flattened.insert(function_name.clone(), known);
        }
        let function = if is_custom {
            FunctionDefinition {
                name: function_name.into(),
                description: Some(custom_description(tool)),
                parameters: serde_json::from_str(CUSTOM_PARAMETERS).ok(),
                strict: None,
            }
        } else {
            FunctionDefinition {
                name: function_name.into(),
                description: tool.description.map(ChatText::AsSent),
                parameters: tool.parameters,
                strict: tool.strict.filter(|strict| *strict),
            }
        };
        self.functions.push(function.into());
        self.places.push(place);
        Ok(())
    }

    /// Translates the tool choice, and drops functions that it does not allow.
    pub(super) fn choose(
        &mut self,
        choice: Option<&RawValue>,
        warnings: &mut LeftOutWarnings,
    ) -> Result<Option<ToolChoice<'b>>, ApiError> {
        let Some(choice) = choice else { return Ok(None) };
        if let Some(mode) = JsonString::from_raw(choice) {
            return Ok(Some(ToolChoice::Mode(parse_mode(&mode.text(), "tool_choice")?)));
        }
        let choice: SentChoice<'_> = parse_part_at(choice, || "tool_choice".to_owned())?;
        if &*choice.kind.text() == "allowed_tools" {
            let mode = choice.mode.map_or(Ok("auto"), |mode| parse_mode(&mode.text(), "tool_choice.mode"))?;
            let known: HashSet<&str> = self.functions.iter().map(|tool| &*tool.function.name).collect();
            let mut allowed = HashSet::new();
            if let Some(tools) = choice.tools {
                let place = || "tool_choice.tools".to_owned();
                for_each_at(tools, place, |_, choice: SentChoice<'_>| {
                    allowed.extend(chosen_function(&choice).filter(|name| known.contains(&**name)));
                    Ok(())
                })?;
            }
            let (functions, places) = std::mem::take(&mut self.functions)
                .into_iter()
                .zip(std::mem::take(&mut self.places))
                .filter(|(tool, _)| allowed.contains(&*tool.function.name))
                .unzip();
            (self.functions, self.places) = (functions, places);
            return Ok(Some(ToolChoice::Mode(mode)));
        }
        let Some(name) = chosen_function(&choice) else {
            warnings.add(hosted_tool_name(&choice.kind.text()));
            return Ok(None);
        };
        Ok(Some(ToolChoice::function(name.into())))
    }

    pub(super) fn finish(self) -> (Vec<ChatTool<'b>>, ToolsByFunction, Vec<String>) {
        (self.functions, self.flattened, self.places)
    }
}

pub(super) fn function_name(namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace else { return name.to_owned() };
    // Truncates the namespace if the name is too long: it usually has only one tool of that name.
    let room = limits::FUNCTION_NAME_BYTES.saturating_sub(name.len() + SEPARATOR.len());
    let namespace: String = namespace.chars().filter(char::is_ascii).take(room).collect();
    if namespace.is_empty() { name.to_owned() } else { [&namespace, SEPARATOR, name].concat() }
}

fn chosen_function(choice: &SentChoice<'_>) -> Option<String> {
    let namespace = choice.namespace.map(JsonString::text);
    match &*choice.kind.text() {
        "function" | "custom" => Some(function_name(namespace.as_deref(), &choice.name?.text())),
        _ => None,
    }
}

fn parse_mode(mode: &str, place: &'static str) -> Result<&'static str, ApiError> {
    let modes = ["auto", "none", "required"];
    let mode = modes.into_iter().find(|known| *known == mode);
    mode.ok_or_else(|| ApiError::invalid_value(place, "only \"auto\", \"none\" and \"required\" are taken"))
}

fn require_name(name: Option<JsonString<'_>>, place: &str) -> Result<String, ApiError> {
    let name = name.map(|name| name.text().into_owned()).filter(|name| !name.is_empty());
    name.ok_or_else(|| ApiError::invalid_type(format!("{place}.name"), "a name"))
}

/// Returns the description of a custom tool, with the grammar of its input.
fn custom_description<'b>(tool: &SentTool<'b>) -> ChatText<'b> {
    let description = tool.description.map(JsonString::text).unwrap_or_default();
    let format = tool.format.as_ref().and_then(|format| Some((format.definition?, format.syntax)));
    let Some((definition, syntax)) = format else {
        return tool.description.map_or_else(|| ChatText::Written("".into()), ChatText::AsSent);
    };
    let syntax = syntax.map(JsonString::text).unwrap_or_default();
    ChatText::Written(format!("{description}\n\n`input` follows this {syntax} grammar:\n{}", definition.text()).into())
}

/// Returns our own static name for something that is left out.
pub(super) fn hosted_tool_name(kind: &str) -> &'static str {
    HOSTED.into_iter().find(|known| *known == kind).unwrap_or("a tool of a kind that is unknown here")
}
