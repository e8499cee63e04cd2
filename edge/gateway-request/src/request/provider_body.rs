//! The provider's body: the client's fields in order, with the governed ones replaced, under the provider's names.

use bytes::Bytes;
use config::gateway::{ProviderQuirks, UnsupportedConstruct};
use openai::{
    dialect::{self, ParsedToolChoice, TextSink as _},
    json,
};
use upstream::BodyPieces;

use super::{
    super::asks::RequestedTokens,
    GOVERNED, RequestField, RequestFields, ServedModel,
    content::{self, RequestContent},
    pieces::PieceWriter,
};

/// The client's field names for the most tokens per choice.
const CEILINGS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The most tokens per choice, under each of the names in the provider's entry.
pub(super) struct TokenCeilings<'q> {
    all: Vec<NamedCeiling<'q>>,
    /// Applies if there is no ceiling field.
    default: u64,
}

struct NamedCeiling<'q> {
    name: &'static str,
    sent_as: &'q str,
    value: u64,
    /// The client's field that gave `value`.
    source: Option<&'static str>,
    /// Whether the field asks for more than `value`.
    is_cut: bool,
}

impl<'q> TokenCeilings<'q> {
    /// Creates the ceilings for a provider with these quirks. Each name takes the client's value for it, else for the
    /// other name, else `default`.
    pub(super) fn new(
        quirks: &'q ProviderQuirks,
        default: u64,
        max_tokens: Option<RequestedTokens>,
        max_completion_tokens: Option<RequestedTokens>,
    ) -> Self {
        let clients = CEILINGS.into_iter().zip([max_tokens, max_completion_tokens]);
        let given = clients.filter_map(|(name, value)| Some((name, value?)));
        let mut ceilings: Vec<NamedCeiling<'q>> = Vec::with_capacity(CEILINGS.len());
        for &name in quirks.ceiling.names() {
            let sent_as = quirks.rename.get(name).map_or(name, String::as_str);
            let is_dropped = quirks.drop.iter().any(|dropped| dropped == name);
            if is_dropped || ceilings.iter().any(|other| other.sent_as == sent_as) {
                continue;
            }
            let own = given.clone().find(|(given, _)| *given == name).or_else(|| given.clone().next());
            let (source, RequestedTokens { tokens: value, is_cut }) = own
                .map_or((None, RequestedTokens { tokens: default, is_cut: false }), |(source, asked)| {
                    (Some(source), asked)
                });
            ceilings.push(NamedCeiling { name, sent_as, value, source, is_cut });
        }
        Self { all: ceilings, default }
    }

    /// Creates no ceilings, for a request whose answer has no text.
    pub(super) fn none() -> Self {
        Self { all: Vec::new(), default: 0 }
    }

    pub(super) fn largest(&self) -> u64 {
        self.all.iter().map(|ceiling| ceiling.value).max().unwrap_or(self.default)
    }
}

/// Writes the body for the provider.
pub(super) struct ProviderBody<'a> {
    fields: &'a RequestFields<'a>,
    found: &'a RequestContent,
    model: &'a ServedModel,
    /// The provider's rules for this route.
    quirks: &'a ProviderQuirks,
    ceilings: &'a TokenCeilings<'a>,
    out: PieceWriter<'a>,
    /// A field and the value that replaces the client's.
    replaced: Option<(&'static [u8], &'a [u8])>,
    /// The length of the rewritten values as the client sent them, in bytes.
    read: usize,
    /// Their length as written, in bytes.
    written: usize,
}

pub(super) struct WrittenBody {
    pub(super) body: BodyPieces,
    /// How many bytes its messages and tools are longer than the client's.
    pub(super) growth: u64,
}

/// The tools sent to a provider.
#[derive(PartialEq, Eq)]
enum ProviderTools<'a> {
    /// The client's tools, byte for byte.
    AsSent,
    /// The tools that the client's choice leaves, without the fields that no provider gets.
    Rewritten(ParsedToolChoice<'a>),
    None,
}

impl<'a> ProviderBody<'a> {
    pub(super) fn new(
        fields: &'a RequestFields<'a>,
        found: &'a RequestContent,
        model: &'a ServedModel,
        quirks: &'a ProviderQuirks,
        ceilings: &'a TokenCeilings<'a>,
        body: &'a Bytes,
    ) -> Self {
        Self {
            fields,
            found,
            model,
            quirks,
            ceilings,
            out: PieceWriter::new(body),
            replaced: None,
            read: 0,
            written: 0,
        }
    }

    pub(super) fn with_replaced(self, name: &'static [u8], value: &'a [u8]) -> Self {
        Self { replaced: Some((name, value)), ..self }
    }

    pub(super) fn write(mut self, is_stream: bool) -> WrittenBody {
        let tools = self.tools();
        self.out.push(b'{');
        for (index, field) in self.fields.0.iter().enumerate() {
            let name = &*field.name;
            if self.found.left_out.binary_search(&index).is_ok() || self.write_in_dialect(field, &tools) {
                continue;
            }
            if let Some((_, value)) = self.replaced.filter(|(replaced, _)| *replaced == name) {
                self.write_pair(name, value);
                continue;
            }
            if !GOVERNED.contains(&name) && !self.has_quirk(name) {
                self.copy(field);
                continue;
            }
            // The last field of a name counts. For each governed or renamed field, the rest are searched.
            let later = self.fields.0.get(index + 1..).unwrap_or_default();
            if later.iter().any(|later| later.name == field.name) {
                continue;
            }
            match name {
                b"model" => self.write_value(name, self.model.upstream_id_json.as_bytes()),
                b"store" => self.write_value(name, b"false"),
                b"stream_options" if is_stream => self.write_value(name, &with_include_usage(field.value)),
                b"max_tokens" | b"max_completion_tokens" => self.write_ceilings_from(field),
                _ => self.copy(field),
            }
        }
        for ceiling in self.ceilings.all.iter().filter(|ceiling| ceiling.source.is_none()) {
            self.write_pair(ceiling.sent_as.as_bytes(), ceiling.value.to_string().as_bytes());
        }
        if is_stream && self.fields.last(b"stream_options").is_none() {
            self.write_value(b"stream_options", &with_include_usage(b"null"));
        }
        self.out.push(b'}');
        WrittenBody { body: self.out.finish(), growth: self.written.saturating_sub(self.read) as u64 }
    }

    /// Writes a judged field if the provider gets it in another form. Returns whether it is done.
    fn write_in_dialect(&mut self, field: &RequestField<'_>, tools: &ProviderTools<'_>) -> bool {
        let quirks = self.quirks;
        let (name, value) = (&*field.name, field.value);
        match (name, tools) {
            (b"messages", _) if self.found.has_left_out || quirks.has_message_rules() => {
                self.rewrite(name, value, |out| dialect::write_messages(value, quirks, out));
            }
            (b"tools" | b"tool_choice", ProviderTools::None) => {}
            (b"tools", _) if value == b"null" && quirks.is_unsupported(UnsupportedConstruct::Nulls) => {}
            (b"tools", ProviderTools::Rewritten(choice)) if value != b"null" => {
                self.rewrite(name, value, |out| dialect::write_tools(value, choice, quirks, out));
            }
            (b"tool_choice", ProviderTools::Rewritten(ParsedToolChoice::Word(word))) => {
                self.write_value(name, word.as_bytes());
            }
            (b"tool_choice", ProviderTools::Rewritten(ParsedToolChoice::Allowed { mode, .. })) => {
                self.write_value(name, dialect::quoted(mode).as_bytes());
            }
            _ => return false,
        }
        true
    }

    fn rewrite(&mut self, name: &[u8], clients: &[u8], write: impl FnOnce(&mut PieceWriter<'a>)) {
        self.write_pair(name, b"");
        let before = self.out.len();
        write(&mut self.out);
        self.read += clients.len();
        self.written += self.out.len() - before;
    }

    fn tools(&self) -> ProviderTools<'a> {
        let quirks = self.quirks;
        let choice = self.fields.last(b"tool_choice").filter(|choice| choice.starts_with(b"{"));
        let choice = match choice.map(ParsedToolChoice::read) {
            Some(ParsedToolChoice::Allowed { .. }) if !quirks.is_unsupported(UnsupportedConstruct::AllowedTools) => {
                ParsedToolChoice::AsSent
            }
            choice => choice.unwrap_or(ParsedToolChoice::AsSent),
        };
        if quirks.is_unsupported(UnsupportedConstruct::EmptyTools) {
            let mut tools = self.fields.last(b"tools").and_then(json::array_elements).into_iter().flatten();
            if !tools.any(|tool| choice.is_allowed(tool)) {
                return ProviderTools::None;
            }
        }
        let is_changed = self.found.has_left_out_of_tools
            || choice != ParsedToolChoice::AsSent
            || quirks.is_unsupported(UnsupportedConstruct::Nulls);
        if is_changed { ProviderTools::Rewritten(choice) } else { ProviderTools::AsSent }
    }

    /// Writes the ceilings whose value comes from the client's `field`.
    fn write_ceilings_from(&mut self, field: &RequestField<'_>) {
        // A null means the default, which is the ceiling.
        let is_source = |source: &str| source.as_bytes() == &*field.name && field.value != b"null";
        for ceiling in self.ceilings.all.iter().filter(|ceiling| ceiling.source.is_some_and(is_source)) {
            if ceiling.sent_as.as_bytes() == &*field.name && !ceiling.is_cut {
                self.separate();
                self.out.extend_from_slice(field.whole);
            } else {
                self.write_pair(ceiling.sent_as.as_bytes(), ceiling.value.to_string().as_bytes());
            }
        }
    }

    /// Copies a field byte for byte, unless the provider has another name for it or none.
    fn copy(&mut self, field: &RequestField<'_>) {
        let name = &*field.name;
        // A field that the client sent under the provider's own name of the ceiling.
        if self.ceilings.all.iter().any(|ceiling| ceiling.sent_as.as_bytes() == name && ceiling.sent_as != ceiling.name)
        {
            return;
        }
        if self.has_quirk(name) {
            self.write_value(name, field.value);
        } else {
            self.separate();
            self.out.extend_from_slice(field.whole);
        }
    }

    fn has_quirk(&self, name: &[u8]) -> bool {
        let quirks = self.quirks;
        quirks.drop.iter().any(|quirk| quirk.as_bytes() == name)
            || quirks.rename.keys().chain(quirks.values.keys()).any(|quirk| quirk.as_bytes() == name)
    }

    /// Writes a field with this value under the provider's name. Omits a field that the provider does not support, and
    /// one whose other name the client also used.
    fn write_value(&mut self, name: &[u8], value: &[u8]) {
        let quirks = self.quirks;
        if quirks.drop.iter().any(|dropped| dropped.as_bytes() == name) {
            return;
        }
        let renamed =
            quirks.rename.iter().find(|(ours, _)| ours.as_bytes() == name).map(|(_, renamed)| renamed.as_bytes());
        if renamed.is_some_and(|renamed| self.fields.last(renamed).is_some_and(|value| value != b"null")) {
            return;
        }
        let mut values = quirks.values.iter().filter(|(field, _)| field.as_bytes() == name);
        let known = values.next().and_then(|(_, values)| values.get(&*dialect::characters(value)));
        match known {
            Some(known) => self.write_pair(renamed.unwrap_or(name), dialect::quoted(known).as_bytes()),
            None => self.write_pair(renamed.unwrap_or(name), value),
        }
    }

    fn write_pair(&mut self, name: &[u8], value: &[u8]) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b"\":");
        self.out.extend_from_slice(value);
    }

    fn separate(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
    }
}

/// Returns the stream options with `include_usage` set.
fn with_include_usage(options: &[u8]) -> Vec<u8> {
    let mut out = br#"{"include_usage":true"#.to_vec();
    let is_other = |field: &json::JsonField<'_>| {
        field.decoded_name().is_some_and(|name| *content::fold_case(name) != *b"include_usage")
    };
    for field in json::fields(options).filter_map(Result::ok).filter(is_other) {
        out.push(b',');
        out.extend_from_slice(options.get(field.whole).unwrap_or_default());
    }
    out.push(b'}');
    out
}
