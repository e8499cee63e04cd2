//! Rewrites the tools of a request, and the tool choice, for a provider.

use std::{borrow::Cow, collections::BTreeSet};

use config::gateway::{ProviderQuirks, UnsupportedConstruct};

use super::{
    LEFT_OUT_OF_TOOLS, characters, is_one_of, json,
    object::{ObjectWriter, TextSink, separate_element},
};

/// The `tool_choice` of a request, parsed as far as its rewriting for a provider needs.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedToolChoice<'t> {
    /// A word, or one tool by name.
    AsSent,
    /// The word for an object: some clients write `{"type": "auto"}`.
    Word(&'static str),
    /// Some of the tools.
    Allowed {
        /// Whether one must be called, as a word.
        mode: Cow<'t, str>,
        /// The names of the tools that may be called.
        names: BTreeSet<Cow<'t, str>>,
    },
}

impl<'t> ParsedToolChoice<'t> {
    /// Reads the JSON of a `tool_choice`, which is [`AsSent`](Self::AsSent) unless another form is recognized.
    pub fn read(choice: &'t [u8]) -> Self {
        let (mut kind, mut allowed) = (Cow::Borrowed(""), None);
        for field in json::fields(choice).filter_map(Result::ok) {
            let value = choice.get(field.value.clone()).unwrap_or_default();
            match &*field.name() {
                b"type" => kind = characters(value),
                b"allowed_tools" => allowed = Some(value),
                _ => {}
            }
        }
        match &*kind {
            "auto" => Self::Word("\"auto\""),
            "none" => Self::Word("\"none\""),
            "any" | "required" => Self::Word("\"required\""),
            "allowed_tools" => Self::read_allowed(allowed.unwrap_or_default()),
            _ => Self::AsSent,
        }
    }

    fn read_allowed(allowed: &'t [u8]) -> Self {
        let (mut mode, mut names) = (Cow::Borrowed("auto"), BTreeSet::new());
        for field in json::fields(allowed).filter_map(Result::ok) {
            let value = allowed.get(field.value.clone()).unwrap_or_default();
            match &*field.name() {
                b"mode" => mode = characters(value),
                b"tools" => names.extend(json::array_elements(value).into_iter().flatten().map(tool_name)),
                _ => {}
            }
        }
        Self::Allowed { mode, names }
    }

    /// Returns whether `tool`, given as its JSON, is sent. Only [`Allowed`](Self::Allowed) leaves tools out, by name.
    pub fn is_allowed(&self, tool: &[u8]) -> bool {
        match self {
            Self::Allowed { names, .. } => names.contains(&tool_name(tool)),
            Self::AsSent | Self::Word(_) => true,
        }
    }
}

fn tool_name(tool: &[u8]) -> Cow<'_, str> {
    let mut found = Cow::Borrowed("");
    for field in json::fields(tool).filter_map(Result::ok) {
        let value = tool.get(field.value.clone()).unwrap_or_default();
        if !is_one_of(&field.name(), &["function", "custom"]) {
            continue;
        }
        let mut fields = json::fields(value).filter_map(Result::ok);
        if let Some(field) = fields.find(|field| *field.name() == *b"name") {
            found = characters(value.get(field.value).unwrap_or_default());
        }
    }
    found
}

/// Writes the tools that `choice` allows, without the fields that no provider gets.
pub fn write_tools(tools: &[u8], choice: &ParsedToolChoice<'_>, quirks: &ProviderQuirks, out: &mut impl TextSink) {
    out.push(b'[');
    let start = out.len();
    for tool in json::array_elements(tools).into_iter().flatten().filter(|tool| choice.is_allowed(tool)) {
        separate_element(out, start);
        let mut object = ObjectWriter::open(out);
        for field in json::fields(tool).filter_map(Result::ok) {
            let is_refused =
                tool.get(field.value.clone()) == Some(b"null") && quirks.is_unsupported(UnsupportedConstruct::Nulls);
            if !is_refused && !is_one_of(&field.name(), &LEFT_OUT_OF_TOOLS) {
                object.copy(tool.get(field.whole).unwrap_or_default());
            }
        }
        object.close();
    }
    out.push(b']');
}
