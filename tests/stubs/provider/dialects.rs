//! Providers that accept only their own dialect, as defined in `dialects.json`, which cites a public report for each
//! rule. They refuse what the real provider refuses, and respond in its format.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Script, choice, event};

static DIALECTS: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("dialects.json")).unwrap());

/// The dialect of a provider.
#[derive(Debug, Clone, Copy)]
pub struct Dialect(&'static Value);

impl Dialect {
    pub fn named(name: &str) -> Self {
        Self(DIALECTS.get(name).unwrap_or_else(|| panic!("there is no dialect {name}")))
    }

    /// Returns the rule with this name; `None` if the provider has none.
    pub(super) fn rule(self, name: &str) -> Option<&'static Value> {
        self.0.get(name).map(|rule| {
            assert!(rule["why"].is_string(), "{name} says where it is from");
            &rule["are"]
        })
    }

    fn allows(self, name: &str) -> bool {
        self.rule(name).is_none_or(|rule| rule != false)
    }

    /// Checks the body of a request. Returns what is wrong with it.
    pub fn judge(self, body: &Value) -> Result<(), String> {
        let fields = body.as_object().ok_or("no object")?;
        let known = self.rule("fields");
        if let Some(name) = fields.keys().find(|name| known.is_some_and(|known| !is_in(known, name))) {
            return Err(format!("extra_forbidden: {name}"));
        }
        if !self.allows("nulls") {
            judge_nulls(body)?;
        }
        let empty_tools = fields.get("tools").is_some_and(|tools| tools.as_array().is_some_and(Vec::is_empty));
        if !self.allows("empty_tools") && (empty_tools || (has(fields, "tool_choice") && !has(fields, "tools"))) {
            return Err("`tools` must not be an empty array, and `tool_choice` needs them".to_owned());
        }
        for (name, rule) in [("reasoning_effort", "efforts"), ("tool_choice", "choices")] {
            let (value, known) = (fields.get(name), self.rule(rule));
            let is_function = |value: &Value| name == "tool_choice" && value["type"] == "function";
            if let (Some(value), Some(known)) = (value.filter(|value| !value.is_null()), known)
                && !is_function(value)
                && !value.as_str().is_some_and(|value| is_in(known, value))
            {
                return Err(format!("{name}: {value} is none of {known}"));
            }
        }
        let messages = fields.get("messages").and_then(Value::as_array).ok_or("no messages")?;
        let mut previous: Option<&str> = None;
        for (at, message) in messages.iter().enumerate() {
            self.judge_message(message).map_err(|error| format!("messages[{at}]: {error}"))?;
            let role = message["role"].as_str().unwrap_or_default();
            if let (Some(previous), Some(follow)) = (previous, self.rule("follow"))
                && !is_in(&follow[previous], role)
            {
                return Err(format!("Unexpected role '{role}' after role '{previous}'"));
            }
            previous = Some(role);
        }
        let last = messages.last().ok_or("no message")?;
        let is_last = |last_roles: &Value| is_in(last_roles, previous.unwrap_or_default()) || last["prefix"] == true;
        if self.rule("last").is_some_and(|roles| !is_last(roles)) {
            return Err(format!("Expected last role User or Tool but got {}", last["role"]));
        }
        self.judge_calls(messages)
    }

    fn judge_message(self, message: &Value) -> Result<(), String> {
        let fields = message.as_object().ok_or("no object")?;
        let role = message["role"].as_str().ok_or("no role")?;
        let roles = self.rule("roles").and_then(Value::as_object);
        if let Some(known) = roles {
            let listed = known.get(role).ok_or_else(|| format!("no role {role}"))?;
            let is_unknown = |name: &&String| *name != "role" && !listed.is_null() && !is_in(listed, name);
            if let Some(name) = fields.keys().find(is_unknown) {
                return Err(format!("extra_forbidden: {name}"));
            }
        }
        if role != "assistant" && message["content"].is_null() {
            return Err("no content".to_owned());
        }
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            _ => false,
        };
        if !self.allows("empty_turns")
            && is_empty(&message["content"])
            && is_empty(&message["tool_calls"])
            && role == "assistant"
        {
            return Err("Assistant message must have either content or tool_calls, but not none".to_owned());
        }
        for part in message["content"].as_array().into_iter().flatten() {
            let kind = part["type"].as_str().unwrap_or_default();
            let Some(known) = self.rule("parts").and_then(Value::as_object) else { continue };
            let listed = known.get(kind).ok_or_else(|| format!("Unknown part type: {kind}"))?;
            let mut names = part.as_object().into_iter().flat_map(Map::keys);
            if let Some(name) = names.find(|name| *name != "type" && !listed.is_null() && !is_in(listed, name)) {
                return Err(format!("extra_forbidden: {name} of a part"));
            }
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        for call in calls.clone() {
            let known = self.rule("call_fields");
            let mut names = call.as_object().into_iter().flat_map(Map::keys);
            if let Some(name) = names.find(|name| known.is_some_and(|known| !is_in(known, name))) {
                return Err(format!("extra_forbidden: {name} of a call"));
            }
        }
        let ids = calls.map(|call| &call["id"]).chain(fields.get("tool_call_id"));
        for id in ids.filter(|_| self.rule("call_id").is_some()) {
            let id = id.as_str().unwrap_or_default();
            if id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."));
            }
        }
        Ok(())
    }

    /// Results must belong to calls, as every provider's template or validator requires.
    fn judge_calls(self, messages: &[Value]) -> Result<(), String> {
        let calls: Vec<_> =
            messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten()).collect();
        let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
        if self.rule("call_id").is_some() && calls.len() != results.len() {
            return Err("Not the same number of function calls and responses".to_owned());
        }
        match results.iter().find(|result| !calls.iter().any(|call| call["id"] == result["tool_call_id"])) {
            Some(result) => Err(format!("no call has the id {}", result["tool_call_id"])),
            None => Ok(()),
        }
    }

    /// Returns the response to a request: a refusal in the provider's words, or a completion in its format. If a user's
    /// request has tools, the model reasons and calls the first; otherwise it reasons if requested, and says a word.
    pub fn answer(self, body: &Value) -> Script {
        if let Err(error) = self.judge(body) {
            return self.refusal(&error);
        }
        let messages = body["messages"].as_array().unwrap();
        let is_asked = messages.last().is_some_and(|last| last["role"] == "user");
        let tool = body["tools"][0]["function"]["name"].as_str().filter(|_| is_asked && body["tool_choice"] != "none");
        let thinks = self.thinks(body);
        let usage = json!({ "prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21 });
        if body["stream"] == true {
            let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
            for thought in ["Let me ", "think."].into_iter().filter(|_| thinks) {
                deltas.push(self.said(thought, ""));
            }
            deltas.push(match tool {
                Some(tool) => json!({ "tool_calls": [call(tool, true)] }),
                None => self.said("", "Well."),
            });
            let reason = if tool.is_some() { "tool_calls" } else { "stop" };
            let mut events: Vec<_> =
                deltas.iter().map(|delta| event(&json!([choice(delta, None)]), &Value::Null)).collect();
            events.push(event(&json!([choice(&json!({}), Some(reason))]), &Value::Null));
            events.push(event(&json!([]), &usage));
            events.push("data: [DONE]".to_owned());
            return Script::events(&events);
        }
        let words = if tool.is_some() { "" } else { "Well." };
        let mut message = self.said(if thinks { "Let me think." } else { "" }, words);
        message["role"] = "assistant".into();
        if let Some(tool) = tool {
            message["tool_calls"] = json!([call(tool, false)]);
        }
        let reason = if tool.is_some() { "tool_calls" } else { "stop" };
        Script::json(&json!({
            "id": "cmpl-0001", "object": "chat.completion", "created": 1_700_000_000, "model": "upstream-name",
            "choices": [{ "index": 0, "message": message, "finish_reason": reason }], "usage": usage,
        }))
    }

    /// Returns a refusal for this error.
    pub(super) fn refusal(self, error: &str) -> Script {
        let status = u16::try_from(self.0["status"].as_u64().unwrap()).unwrap();
        let refusal = json!({ "object": "error", "message": error, "type": "invalid_request_error" }).to_string();
        Script::answer(status, &[("content-type", "application/json")], refusal.as_bytes())
    }

    /// Returns the provider's refusal of a prompt that exceeds the model's context.
    pub(super) fn overflow(self) -> Script {
        let error =
            json!({ "object": "error", "message": self.0["overflow"], "type": "invalid_request_error" }).to_string();
        Script::answer(400, &[("content-type", "application/json")], error.as_bytes())
    }

    /// Returns whether the model reasons for this request.
    pub(super) fn thinks(self, body: &Value) -> bool {
        self.0["answer"] == "reasoning_content" || body["reasoning_effort"] == "high"
    }

    /// Returns whether a stream's usage and call arguments are in the same frame as its end.
    pub(super) fn ends_in_one_frame(self) -> bool {
        self.0["answer"] == "parts"
    }

    /// Returns a message, or a delta, with this reasoning and text.
    pub(super) fn said(self, thoughts: &str, words: &str) -> Value {
        if self.0["answer"] == "reasoning_content" {
            let or_null = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
            return json!({ "content": or_null(words), "reasoning_content": or_null(thoughts) });
        }
        if thoughts.is_empty() {
            return json!({ "content": words });
        }
        let mut parts = vec![json!({ "type": "thinking", "thinking": [{ "type": "text", "text": thoughts }] })];
        if !words.is_empty() {
            parts.push(json!({ "type": "text", "text": words }));
        }
        json!({ "content": parts })
    }
}

/// Checks that no field of the request or its messages is null.
fn judge_nulls(body: &Value) -> Result<(), String> {
    let has_null = |value: &Value| value.as_object().is_some_and(|fields| fields.values().any(Value::is_null));
    let messages = body["messages"].as_array().into_iter().flatten();
    match [body].into_iter().chain(messages).find(|value| has_null(value)) {
        Some(value) => Err(format!("a field is null: {value}")),
        None => Ok(()),
    }
}

fn call(tool: &str, is_streamed: bool) -> Value {
    let mut call = json!({ "id": "aB3dE6gH9", "type": "function", "function": { "name": tool, "arguments": "{}" } });
    if is_streamed {
        call["index"] = 0.into();
    }
    call
}

fn is_in(list: &Value, name: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|known| known == name))
}

fn has(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(|value| !value.is_null())
}
