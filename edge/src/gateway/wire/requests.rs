//! The judge of requests: what it lets pass is within the limits, and every parser reads it as it was judged.

use bytes::Bytes;
use config::{gateway::Quirks, models::MAX_TOKENS};

use super::{
    super::{
        json,
        request::{
            self, CompletionRequest, GOVERNED, JUDGED,
            passing::{ALWAYS, BEYOND_TOKENS},
        },
    },
    Violation, Wire,
    fields::{Object, is_spelling},
    require,
};
use crate::limits;

impl Wire {
    /// Checks the judge of requests.
    ///
    /// What it accepts has, as it would be sent, no field but those that may reach the provider, and asks for no more than
    /// was reserved. Judged again, it is the same. A name that the gateway governs is known however it is escaped, and in
    /// no other spelling does it pass.
    pub fn check_request(&self, body: &[u8]) -> Result<(), Violation> {
        let Some(request) = self.judge(body) else { return Ok(()) };
        let asked = check_sent(&request)?;
        let text = as_of_a_client(&request);
        let again =
            self.judge(&text).ok_or_else(|| format!("what is sent is not accepted: {}", text.escape_ascii()))?;
        require(
            body,
            [
                ("judged again it is sent as it was", again.body == request.body),
                ("judged again it is for the same model", again.model.model.id == request.model.model.id),
                ("judged again it is answered alike", again.is_stream == request.is_stream),
                ("what it asks for is reserved", again.max_usage.completion == asked),
            ],
        )?;
        self.check_spellings(&text, &again)
    }

    fn judge(&self, body: &[u8]) -> Option<CompletionRequest> {
        request::validate(&Bytes::copy_from_slice(body), &self.models).ok()
    }

    /// Checks other spellings of one of the governed names in `text`, which was judged so.
    fn check_spellings(&self, text: &[u8], judged: &CompletionRequest) -> Result<(), Violation> {
        let fields: Vec<_> =
            json::fields(text).filter_map(Result::ok).filter(|field| is_known(&field.name())).collect();
        // One is enough: who searches brings many texts.
        let Some(field) = fields.get(text.len() % fields.len().max(1)) else { return Ok(()) };
        let name = String::from_utf8_lossy(&field.name()).into_owned();
        let respelled = |name: &str| {
            let (before, value) = (&text[..field.whole.start], &text[field.value.start..]);
            self.judge(&[before, b"\"", name.as_bytes(), b"\":", value].concat())
        };
        let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
        let escaped = respelled(&escaped).ok_or_else(|| format!("{name} is refused when it is escaped"))?;
        let is_same = Object::read(&escaped.body)? == Object::read(&judged.body)?;
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

/// The body for the provider as a client could have sent it: with the gateway's name of the model.
fn as_of_a_client(request: &CompletionRequest) -> Vec<u8> {
    let body = &request.body[..];
    let model = json::fields(body).filter_map(Result::ok).find(|field| *field.name() == *b"model");
    let value = model.map(|field| field.value).unwrap_or_default();
    [&body[..value.start], request.model.id_json.as_bytes(), &body[value.end..]].concat()
}

/// Checks the body for the provider. Returns the most tokens that it asks for.
fn check_sent(request: &CompletionRequest) -> Result<u64, Violation> {
    let (body, model) = (&request.body[..], &request.model.model);
    let quirks = &model.provider.quirks;
    let sent = Object::read(body)?;
    for (name, value) in &sent.0 {
        require(body, [("fields may reach the provider", may_pass(name, value, quirks))])?;
    }
    let maxima = [sent.number("max_tokens")?, sent.number("max_completion_tokens")?];
    let ceiling = maxima.into_iter().flatten().max().unwrap_or_default();
    let choices = sent.number("n")?.unwrap_or(1);
    let asked = ceiling.saturating_mul(choices);
    let is_stream = sent.only("stream")?.is_some_and(|value| value == b"true");
    let options = sent.only("stream_options")?.filter(|_| is_stream).map(Object::read).transpose()?;
    let asks_for_usage = match options {
        Some(options) => options.only("include_usage")?.is_some_and(|value| value == b"true"),
        None => !is_stream || quirks.drop.iter().any(|dropped| dropped == "stream_options"),
    };
    let (messages, tools) = (sent.only("messages")?.unwrap_or_default(), sent.only("tools")?.unwrap_or_default());
    let images = check_messages(messages)?;
    check_tools(tools)?;
    if let Some(choice) = sent.only("tool_choice")?.filter(|choice| choice.starts_with(b"{")) {
        check_tool(choice)?;
    }
    let prompt = (messages.len() + tools.len()) as u64 + images * limits::IMAGE_TOKENS;
    let readable = model.context.map_or(u64::MAX, u64::from);
    let upstream = request.model.upstream_id_json.as_bytes();
    require(
        body,
        [
            ("the model is the provider's", sent.only("model")?.is_some_and(|value| value == upstream)),
            ("there is a ceiling", (1..=MAX_TOKENS).contains(&ceiling)),
            ("the choices are few", (1..=limits::CHOICES).contains(&choices)),
            ("the completion is reserved", asked <= request.max_usage.completion),
            ("the prompt is reserved", prompt.min(readable) <= request.max_usage.prompt),
            ("a stream is one", is_stream == request.is_stream),
            ("a stream reports its usage", asks_for_usage),
            ("nothing is stored", sent.only("store")?.is_none_or(|value| value == b"false")),
        ],
    )?;
    Ok(asked)
}

/// Whether a field may reach a provider with these quirks.
fn may_pass(name: &str, value: &[u8], quirks: &Quirks) -> bool {
    if GOVERNED.contains(&name.as_bytes()) || ALWAYS.contains(&name.as_bytes()) {
        return true;
    }
    if let Some(allowed) = &quirks.allow {
        return allowed.iter().any(|allowed| allowed == name);
    }
    let beyond = BEYOND_TOKENS.iter().find(|beyond| is_spelling(name, beyond));
    // Two of them pass with harmless values.
    beyond.is_none_or(|beyond| value == b"null" || matches!(*beyond, "modalities" | "service_tier"))
}

/// Checks the messages for the provider. Returns the number of images in them.
fn check_messages(messages: &[u8]) -> Result<u64, Violation> {
    let (mut count, mut images) = (0, 0);
    for message in json::elements(messages).into_iter().flatten() {
        count += 1;
        let message = Object::read(message)?;
        let content = message.only("content")?.unwrap_or(b"null");
        let is_content = content == b"null" || matches!(content.first(), Some(b'"' | b'['));
        require(
            messages,
            [
                ("a message has a role", message.only("role")?.is_some_and(|role| role.starts_with(b"\""))),
                ("a message takes nothing stored", message.only("audio")?.is_none_or(|audio| audio == b"null")),
                ("a message is words or parts", is_content),
            ],
        )?;
        for part in json::elements(content).into_iter().flatten() {
            let part = Object::read(part)?;
            let kind = part.only("type")?.and_then(|kind| serde_json::from_slice::<String>(kind).ok());
            let is_image = kind.as_deref() == Some("image_url");
            let is_taken = is_image || kind.as_deref() == Some("text");
            let is_alone = part.has_only(&["type", if is_image { "image_url" } else { "text" }]);
            require(messages, [("a part is text or an image", is_taken), ("a part is nothing else", is_alone)])?;
            if let Some(image) = part.only("image_url")?.filter(|image| image.starts_with(b"{")) {
                let image = Object::read(image)?;
                require(messages, [("an image is an address", image.has_only(&["url", "detail"]))])?;
            }
            images += u64::from(is_image);
        }
    }
    require(messages, [("there is a message", count > 0)])?;
    Ok(images)
}

/// Checks the tools for the provider.
fn check_tools(tools: &[u8]) -> Result<(), Violation> {
    for tool in json::elements(tools).into_iter().flatten() {
        check_tool(tool)?;
    }
    Ok(())
}

/// Checks a tool for the provider, or the choice of one.
fn check_tool(text: &[u8]) -> Result<(), Violation> {
    let tool = Object::read(text)?;
    let kind = tool.only("type")?.map(serde_json::from_slice::<String>);
    let is_own = kind.is_none_or(|kind| kind.is_ok_and(|kind| kind == "function"));
    let is_alone = tool.has_only(&["type", "function"]);
    require(text, [("a tool is the client's own", is_own), ("a tool is nothing else", is_alone)])
}
