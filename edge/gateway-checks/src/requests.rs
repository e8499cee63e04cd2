//! Checks the validation of requests: accepted requests are within the limits, and all parsers read them as validated.

use bytes::Bytes;
use config::{
    gateway::{ProviderQuirks, ReasoningForm, UnsupportedConstruct},
    models::MAX_TOKENS,
};
use gateway_request::{
    asks::RequestLimits,
    request::{
        self, CompletionRequest, GOVERNED, JUDGED,
        passing::{ALWAYS, BEYOND_TOKENS},
    },
};
use openai::json;

use super::{
    PropertyViolation, WireChecks,
    fields::{CheckedObject, is_spelling},
    require,
};

impl WireChecks {
    /// Checks the validation of requests.
    ///
    /// An accepted request, as sent in the provider's dialect, has only fields that may reach the provider, and asks
    /// for no more than was reserved. Validated again, it is unchanged and needs no larger reservation. The name of a
    /// governed field is recognized however it is escaped, and passes in no other spelling.
    pub fn check_request(&self, body: &[u8]) -> Result<(), PropertyViolation> {
        let Some(request) = self.validate(body) else { return Ok(()) };
        let asked = check_sent(&request)?;
        let text = as_client_body(&request);
        // The names of the model and the ceilings that are added are no part of a prompt.
        let added = (text.len() as u64).saturating_sub(body.len() as u64);
        let reserved = request.max_usage.prompt + added;
        let again =
            self.validate(&text).ok_or_else(|| format!("what is sent is not accepted: {}", text.escape_ascii()))?;
        require(
            body,
            [
                ("judged again it is sent as it was", again.body.joined() == request.body.joined()),
                ("judged again it is for the same model", again.model.model.id == request.model.model.id),
                ("judged again it is answered alike", again.is_stream == request.is_stream),
                ("what it asks for is reserved", again.max_usage.completion == asked),
                ("what it is read as is reserved", again.max_usage.prompt <= reserved),
            ],
        )?;
        self.check_spellings(&text, &again)
    }

    fn validate(&self, body: &[u8]) -> Option<CompletionRequest> {
        request::validate(&Bytes::copy_from_slice(body), &self.models, &RequestLimits::default()).ok()
    }

    /// Checks other spellings of one governed name in `text`, which was validated as `judged`.
    fn check_spellings(&self, text: &[u8], judged: &CompletionRequest) -> Result<(), PropertyViolation> {
        let fields: Vec<_> =
            json::fields(text).filter_map(Result::ok).filter(|field| is_known(&field.name())).collect();
        // One suffices, since a fuzzer tries many texts.
        let Some(field) = fields.get(text.len() % fields.len().max(1)) else { return Ok(()) };
        let name = String::from_utf8_lossy(&field.name()).into_owned();
        let respelled = |name: &str| {
            let (before, value) = (&text[..field.whole.start], &text[field.value.start..]);
            self.validate(&[before, b"\"", name.as_bytes(), b"\":", value].concat())
        };
        let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
        let escaped = respelled(&escaped).ok_or_else(|| format!("{name} is refused when it is escaped"))?;
        let is_same = CheckedObject::read(&escaped.body.joined())? == CheckedObject::read(&judged.body.joined())?;
        let (reserved, expected) = (escaped.max_usage.completion, judged.max_usage.completion);
        require(text, [("an escaped name is the name", is_same && reserved == expected)])?;
        let folded = name.replace('s', "\u{17f}").replace('k', "\u{212a}");
        for other in [name.to_uppercase(), folded, format!("{name}\\u0000"), format!("{name}\\ud800")] {
            let is_refused = other == name || respelled(&other).is_none();
            require(text, [("no other spelling passes", is_refused)])?;
        }
        Ok(())
    }
}

fn is_known(name: &[u8]) -> bool {
    GOVERNED.contains(&name) || JUDGED.contains(&name)
}

/// Returns the provider's body as a client could have sent it, with the gateway's name of the model.
fn as_client_body(request: &CompletionRequest) -> Vec<u8> {
    let body = &request.body.joined()[..];
    let model = json::fields(body).filter_map(Result::ok).find(|field| *field.name() == *b"model");
    let value = model.map(|field| field.value).unwrap_or_default();
    [&body[..value.start], request.model.id_json.as_bytes(), &body[value.end..]].concat()
}

/// Checks the body for the provider. Returns the most tokens that it asks for.
fn check_sent(request: &CompletionRequest) -> Result<u64, PropertyViolation> {
    let (body, model) = (&request.body.joined()[..], &request.model.model);
    let quirks = &model.provider.quirks;
    let sent = CheckedObject::read(body)?;
    for (name, value) in &sent.0 {
        require(body, [("fields may reach the provider", may_pass(name, value, quirks))])?;
    }
    let maxima = [sent.number("max_tokens")?, sent.number("max_completion_tokens")?];
    let ceiling = maxima.into_iter().flatten().max().unwrap_or_default();
    let choices = sent.number("n")?.unwrap_or(1);
    let asked = ceiling.saturating_mul(choices);
    let is_stream = sent.unique("stream")?.is_some_and(|value| value == b"true");
    let options = sent.unique("stream_options")?.filter(|_| is_stream).map(CheckedObject::read).transpose()?;
    let asks_for_usage = match options {
        Some(options) => options.unique("include_usage")?.is_some_and(|value| value == b"true"),
        None => !is_stream || quirks.drop.iter().any(|dropped| dropped == "stream_options"),
    };
    let (messages, tools) = (sent.unique("messages")?.unwrap_or_default(), sent.unique("tools")?.unwrap_or_default());
    let images = check_messages(messages, quirks)?;
    check_tools(tools)?;
    if let Some(choice) = sent.unique("tool_choice")?.filter(|choice| choice.starts_with(b"{")) {
        check_choice(choice, quirks)?;
    }
    let prompt = (messages.len() + tools.len()) as u64 + images * limits::IMAGE_TOKENS;
    let readable = model.context.map_or(u64::MAX, u64::from);
    let upstream = request.model.upstream_id_json.as_bytes();
    require(
        body,
        [
            ("the model is the provider's", sent.unique("model")?.is_some_and(|value| value == upstream)),
            ("there is a ceiling", (1..=MAX_TOKENS).contains(&ceiling)),
            ("the choices are few", (1..=limits::CHOICES).contains(&choices)),
            ("the completion is reserved", asked <= request.max_usage.completion),
            ("the prompt is reserved", prompt.min(readable) <= request.max_usage.prompt),
            ("a stream is one", is_stream == request.is_stream),
            ("a stream reports its usage", asks_for_usage),
            ("nothing is stored", sent.unique("store")?.is_none_or(|value| value == b"false")),
            ("nothing is sent that the provider lacks", !has_unsupported_empties(&sent, tools, quirks)),
        ],
    )?;
    Ok(asked)
}

/// Returns whether a field may reach a provider with these quirks.
fn may_pass(name: &str, value: &[u8], quirks: &ProviderQuirks) -> bool {
    if GOVERNED.contains(&name.as_bytes()) || ALWAYS.contains(&name.as_bytes()) {
        return true;
    }
    if let Some(allowed) = &quirks.allow {
        return allowed.iter().any(|allowed| allowed == name);
    }
    let beyond = BEYOND_TOKENS.iter().find(|beyond| is_spelling(name, beyond));
    // Two of them pass with harmless values; harmless values of the others are left out.
    beyond.is_none_or(|beyond| value == b"null" || matches!(*beyond, "modalities" | "service_tier"))
}

/// Returns whether a null or empty field is sent that the provider does not support.
fn has_unsupported_empties(sent: &CheckedObject<'_>, tools: &[u8], quirks: &ProviderQuirks) -> bool {
    let is_empty = json::array_elements(tools).is_some_and(|mut tools| tools.next().is_none());
    let has_nulls = sent.0.iter().any(|(name, value)| *value == b"null" && name != "stream_options");
    (quirks.is_unsupported(UnsupportedConstruct::EmptyTools) && is_empty)
        || (quirks.is_unsupported(UnsupportedConstruct::Nulls) && has_nulls)
}

/// Checks the messages for the provider. Returns the number of images in them.
fn check_messages(messages: &[u8], quirks: &ProviderQuirks) -> Result<u64, PropertyViolation> {
    let (mut count, mut images) = (0, 0);
    for message in json::array_elements(messages).into_iter().flatten() {
        count += 1;
        let message = CheckedObject::read(message)?;
        let content = message.unique("content")?.unwrap_or(b"null");
        let is_content = content == b"null" || matches!(content.first(), Some(b'"' | b'['));
        let role = message.unique("role")?.unwrap_or_default();
        let role = serde_json::from_slice::<String>(role).unwrap_or_default();
        let listed = quirks.messages.fields.get(&role);
        let is_listed = |name: &str| name == "role" || listed.is_none_or(|listed| listed.iter().any(|one| one == name));
        require(
            messages,
            [
                ("a message has a role", !role.is_empty()),
                ("a message takes nothing stored", message.unique("audio")?.is_none_or(|audio| audio == b"null")),
                ("a message stores nothing", message.unique("cache_control")?.is_none()),
                ("a message is words or parts", is_content),
                ("a role is one of the provider's", !quirks.messages.roles.contains_key(&role)),
                ("a message has no field but its role's", message.0.iter().all(|(name, _)| is_listed(name))),
            ],
        )?;
        for part in json::array_elements(content).into_iter().flatten() {
            images += u64::from(check_part(part, role == "assistant", quirks)?);
        }
    }
    require(messages, [("there is a message", count > 0)])?;
    Ok(images)
}

/// Checks a part of a message for the provider. Returns whether it is an image.
fn check_part(text: &[u8], is_models: bool, quirks: &ProviderQuirks) -> Result<bool, PropertyViolation> {
    let part = CheckedObject::read(text)?;
    let kind = part.unique("type")?.and_then(|kind| serde_json::from_slice::<String>(kind).ok());
    let (fields, is_taken) = match kind.as_deref() {
        Some("text") => (&["type", "text"][..], true),
        Some("image_url") => (&["type", "image_url"][..], true),
        Some("refusal") => {
            (&["type", "refusal"][..], is_models && !quirks.is_unsupported(UnsupportedConstruct::RefusalParts))
        }
        Some("thinking") => (
            &["type", "thinking", "closed", "signature"][..],
            is_models && matches!(quirks.messages.thoughts, ReasoningForm::AsSent | ReasoningForm::Parts),
        ),
        _ => (&[][..], false),
    };
    let is_alone = part.has_only(fields);
    require(text, [("a part is one that passes", is_taken), ("a part is nothing else", is_alone)])?;
    if let Some(image) = part.unique("image_url")?.filter(|image| image.starts_with(b"{")) {
        let image = CheckedObject::read(image)?;
        require(text, [("an image is an address", image.has_only(&["url", "detail"]))])?;
    }
    for thought in part.unique("thinking")?.and_then(json::array_elements).into_iter().flatten() {
        let thought = CheckedObject::read(thought)?;
        let is_text = thought
            .unique("type")?
            .map(serde_json::from_slice::<String>)
            .is_some_and(|kind| kind.is_ok_and(|kind| kind == "text"));
        require(text, [("thoughts are text", is_text && thought.has_only(&["type", "text"]))])?;
    }
    Ok(kind.as_deref() == Some("image_url"))
}

fn check_tools(tools: &[u8]) -> Result<(), PropertyViolation> {
    for tool in json::array_elements(tools).into_iter().flatten() {
        check_tool(tool)?;
    }
    Ok(())
}

/// Checks the tool choice for the provider.
fn check_choice(text: &[u8], quirks: &ProviderQuirks) -> Result<(), PropertyViolation> {
    let choice = CheckedObject::read(text)?;
    let Some(allowed) = choice.unique("allowed_tools")?.filter(|allowed| allowed.starts_with(b"{")) else {
        return check_tool(text);
    };
    let allowed = CheckedObject::read(allowed)?;
    let is_alone = choice.has_only(&["type", "allowed_tools"]) && allowed.has_only(&["mode", "tools"]);
    let is_taken = !quirks.is_unsupported(UnsupportedConstruct::AllowedTools);
    require(text, [("a choice is nothing else", is_alone), ("a choice is one that the provider takes", is_taken)])?;
    check_tools(allowed.unique("tools")?.unwrap_or_default())
}

fn check_tool(text: &[u8]) -> Result<(), PropertyViolation> {
    let tool = CheckedObject::read(text)?;
    let kind = tool.unique("type")?.map(serde_json::from_slice::<String>);
    let is_own = kind.is_none_or(|kind| kind.is_ok_and(|kind| kind == "function"));
    let is_alone = tool.has_only(&["type", "function"]);
    require(text, [("a tool is the client's own", is_own), ("a tool is nothing else", is_alone)])
}
