//! `gateway.providers.*.quirks`: the dialect of a provider, as data.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::models::ModelRoute;

/// How a provider's format differs from `OpenAI`'s. By default it does not: a request passes unchanged, except for
/// fields that the gateway knows to have effects beyond tokens, or to be useless everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderQuirks {
    /// Fields that are dropped whatever their value: hints without effect at the provider.
    pub drop: Vec<String>,
    /// Fields that the provider calls by another name. A field that already has the provider's name takes precedence.
    pub rename: BTreeMap<String, String>,
    /// The only fields that pass, by their names in the client's request, besides `messages`, `tools` and those that
    /// the gateway sets itself. Any other field is refused with 400, unless its value has no effect (null, or `false`
    /// for `logprobs`). A listed field passes even if it has effects beyond tokens. When absent, every field passes
    /// unless the gateway knows that it has such effects.
    pub allow: Option<Vec<String>>,
    /// The name of the field that limits the tokens of a choice at the provider, whichever name the client has used:
    /// `max_tokens`, `max_completion_tokens` or `both`.
    pub ceiling: TokenLimitField,
    /// Replacements for string values, by field: maps each value to the one that the provider expects, such as the
    /// levels of `reasoning_effort`.
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// Constructs that this provider refuses although others accept them: `nulls`, `empty_tools`, `empty_turns`,
    /// `allowed_tools`, `refusal_parts`. The gateway drops them, or rewrites them to an equivalent.
    pub lacks: Vec<UnsupportedConstruct>,
    /// Fields that the provider ignores although they change the answer: refused with 400, unless their value has no
    /// effect.
    pub refuse: Vec<String>,
    /// Whether the provider accepts tools of the type `custom`. The client runs them, like functions.
    pub custom_tools: bool,
    /// The header that carries the key in requests to the provider's `messages` endpoint: `x_api_key`, as Anthropic has
    /// it, or `bearer`, the only one accepted by servers that offer the endpoint besides those of `OpenAI`, such as
    /// vLLM.
    pub messages_key: KeyHeader,
    /// The rules for `messages`.
    pub messages: MessageRules,
    /// The rules for `POST /v1/completions`, the only ones that apply there besides `lacks.nulls`.
    pub completions: PathQuirks,
    /// The rules for `POST /v1/embeddings`, the only ones that apply there besides `lacks.nulls`.
    pub embeddings: PathQuirks,
}

/// The rules of a provider for an endpoint other than chat completions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathQuirks {
    /// The endpoint's path under `base_url`, without a leading slash, if it differs from the usual one.
    pub path: Option<String>,
    /// Fields that are dropped whatever their value. With `encoding_format`, the gateway itself encodes embeddings in
    /// base64.
    pub drop: Vec<String>,
    /// Fields that the provider calls by another name.
    pub rename: BTreeMap<String, String>,
    /// The only fields that pass, besides those that the gateway sets itself. Any other field is refused with 400,
    /// unless its value has no effect.
    pub allow: Option<Vec<String>>,
    /// Fields that the provider ignores although they change the answer: refused with 400, unless their value has no
    /// effect.
    pub refuse: Vec<String>,
}

/// A construct that some providers refuse and others accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsupportedConstruct {
    /// Fields that are null. They are dropped from the request, messages, their parts and calls, and tools.
    Nulls,
    /// An empty `tools`, or an empty `tool_calls` of a message. It is dropped, together with `tool_choice`.
    EmptyTools,
    /// An assistant message that has neither text nor calls. It is dropped.
    EmptyTurns,
    /// A `tool_choice` of type `allowed_tools`. The provider receives only those tools, and the mode as `tool_choice`.
    AllowedTools,
    /// Parts of the type `refusal`, and the field of that name. The provider receives their content as text.
    RefusalParts,
}

/// A provider's rules for `messages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessageRules {
    /// The fields that a message may have besides `role`, by its role (the provider's name for it). Others are dropped.
    /// Messages of an unlisted role pass with all their fields.
    pub fields: BTreeMap<String, Vec<String>>,
    /// The fields that a call in `tool_calls` may have; all when empty. With a list, the call's `function` is reduced
    /// to `name` and `arguments`.
    pub call_fields: Vec<String>,
    /// Roles that the provider does not accept, and the role that replaces each.
    pub roles: BTreeMap<String, String>,
    /// The roles that may follow each role; any if the role is not listed. If the next message has another role, an
    /// assistant message (`filler`) is inserted if that helps, and a system message in a forbidden position becomes a
    /// user message.
    pub follow: BTreeMap<String, Vec<String>>,
    /// The text of the message that is inserted between two roles which may not follow each other; none when empty.
    pub filler: String,
    /// The field that marks the last message, one of the assistant's, as to be continued. It is set unless the client
    /// has set it.
    pub prefix: Option<String>,
    /// The required form of tool call ids: `any` or `nine_alphanumerics`. An id of another form is replaced by one
    /// derived from its hash, in the call and in its result.
    pub call_ids: CallIdForm,
    /// How reasoning that a client sends back, as `reasoning_content` or in parts, is passed on: `as_sent`, `drop`,
    /// `field` (`reasoning_content`) or `parts`.
    pub thoughts: ReasoningForm,
}

/// The required form of tool call ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdForm {
    /// Any string.
    #[default]
    Any,
    /// Nine letters or digits.
    NineAlphanumerics,
}

/// The form in which reasoning that a client sends back is passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningForm {
    /// As the client sent it.
    #[default]
    AsSent,
    /// Not at all: it is dropped.
    Drop,
    /// In the field `reasoning_content`.
    Field,
    /// In a part of the type `thinking`, before the other parts of `content`.
    Parts,
}

/// The name of the field that limits the tokens of a choice at a provider.
///
/// A provider ignores a name that it does not know, and then has no limit. So the provider determines the name, not the
/// client. Sending both names is not the default because some servers, `OpenAI`'s own among them, refuse a request that
/// has both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimitField {
    /// `max_tokens`: every server of this format knows it, except for models that refuse a request with it.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, for models that refuse the older name.
    MaxCompletionTokens,
    /// Both names, for servers that accept both in every version.
    Both,
}

/// The header that carries the key of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHeader {
    /// `x-api-key`, the header of Anthropic's format.
    #[default]
    XApiKey,
    /// `Authorization: Bearer`.
    Bearer,
}

impl TokenLimitField {
    /// Returns the names of the fields.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::MaxTokens => &["max_tokens"],
            Self::MaxCompletionTokens => &["max_completion_tokens"],
            Self::Both => &["max_tokens", "max_completion_tokens"],
        }
    }
}

impl ProviderQuirks {
    /// Returns whether the provider refuses this construct.
    pub fn is_unsupported(&self, what: UnsupportedConstruct) -> bool {
        self.lacks.contains(&what)
    }

    /// Returns the rules for the endpoint of `route`: those of chat completions, unless it has its own.
    pub fn for_route(&self, route: ModelRoute) -> Cow<'_, Self> {
        let path = match route {
            ModelRoute::Chat | ModelRoute::Responses | ModelRoute::Messages => return Cow::Borrowed(self),
            ModelRoute::Embeddings => &self.embeddings,
            ModelRoute::Completions => &self.completions,
        };
        Cow::Owned(Self {
            drop: path.drop.clone(),
            rename: path.rename.clone(),
            allow: path.allow.clone(),
            refuse: path.refuse.clone(),
            lacks: self.lacks.iter().copied().filter(|lack| *lack == UnsupportedConstruct::Nulls).collect(),
            ..Self::default()
        })
    }

    /// Returns whether these rules can change messages.
    pub fn has_message_rules(&self) -> bool {
        let of_messages = |lack: &UnsupportedConstruct| !matches!(lack, UnsupportedConstruct::AllowedTools);
        self.lacks.iter().any(of_messages) || self.messages != MessageRules::default()
    }
}

/// Returns the quirks of Mistral's API. Its schema is closed: it returns 422 for an unknown field of the request or of
/// a message. The fields that it knows besides those in `allow` run something or bill more than tokens. It reports
/// usage without being asked to.
pub(super) fn mistral() -> ProviderQuirks {
    ProviderQuirks {
        drop: names(&[
            "metadata",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "stream_options",
            "user",
            "verbosity",
        ]),
        allow: Some(names(&[
            "frequency_penalty",
            "parallel_tool_calls",
            "presence_penalty",
            "random_seed",
            "reasoning_effort",
            "response_format",
            "safe_prompt",
            "seed",
            "stop",
            "temperature",
            "tool_choice",
            "top_p",
        ])),
        rename: pairs(&[("seed", "random_seed")]),
        ceiling: TokenLimitField::MaxTokens,
        values: efforts(&[
            ("minimal", "none"),
            ("low", "none"),
            ("medium", "high"),
            ("xhigh", "high"),
            ("max", "high"),
        ]),
        lacks: vec![
            UnsupportedConstruct::Nulls,
            UnsupportedConstruct::EmptyTools,
            UnsupportedConstruct::EmptyTurns,
            UnsupportedConstruct::AllowedTools,
            UnsupportedConstruct::RefusalParts,
        ],
        refuse: Vec::new(),
        custom_tools: false,
        messages_key: KeyHeader::Bearer,
        messages: MessageRules {
            fields: lists(&[
                ("system", &["content"]),
                ("user", &["content"]),
                ("assistant", &["content", "tool_calls", "prefix"]),
                ("tool", &["content", "tool_call_id", "name"]),
            ]),
            call_fields: names(&["id", "type", "function"]),
            roles: pairs(&[("developer", "system"), ("function", "user")]),
            follow: lists(&[("assistant", &["assistant", "user", "tool"]), ("tool", &["assistant", "tool"])]),
            filler: "Done.".to_owned(),
            prefix: Some("prefix".to_owned()),
            call_ids: CallIdForm::NineAlphanumerics,
            // It has no use for another model's reasoning, and its models without reasoning refuse the part.
            thoughts: ReasoningForm::Drop,
        },
        completions: PathQuirks {
            path: Some("fim/completions".to_owned()),
            drop: names(&["metadata", "store", "stream_options", "user"]),
            rename: pairs(&[("seed", "random_seed")]),
            allow: Some(names(&["random_seed", "seed", "stop", "suffix", "temperature", "top_p"])),
            ..PathQuirks::default()
        },
        // It ignores a request for base64 and returns numbers, which `OpenAI`'s clients then mistake for base64.
        embeddings: PathQuirks {
            drop: names(&["encoding_format", "metadata", "user"]),
            rename: pairs(&[("dimensions", "output_dimension")]),
            allow: Some(names(&["dimensions", "output_dimension"])),
            ..PathQuirks::default()
        },
    }
}

/// Returns the quirks of vLLM, which Scaleway and `OVHcloud` run. It ignores unknown fields. It accepts both names of
/// the token limit, and calls one deprecated. The models' templates decide which roles are valid, and Qwen's refuses
/// `developer`. A result of the older kind (`function`) has no id, so it cannot be converted to the newer kind.
pub(super) fn vllm() -> ProviderQuirks {
    ProviderQuirks {
        drop: names(&["metadata", "prompt_cache_retention", "service_tier", "store"]),
        ceiling: TokenLimitField::Both,
        values: efforts(&[("none", "low"), ("minimal", "low"), ("xhigh", "high"), ("max", "high")]),
        lacks: vec![UnsupportedConstruct::EmptyTools, UnsupportedConstruct::AllowedTools],
        messages_key: KeyHeader::Bearer,
        messages: MessageRules {
            roles: pairs(&[("developer", "system"), ("function", "user")]),
            thoughts: ReasoningForm::Field,
            ..MessageRules::default()
        },
        completions: PathQuirks {
            drop: names(&["metadata", "store"]),
            refuse: names(&["best_of"]),
            ..PathQuirks::default()
        },
        ..ProviderQuirks::default()
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect()
}

fn lists(lists: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    lists.iter().map(|&(key, list)| (key.to_owned(), names(list))).collect()
}

fn efforts(levels: &[(&str, &str)]) -> BTreeMap<String, BTreeMap<String, String>> {
    [("reasoning_effort".to_owned(), pairs(levels))].into()
}
