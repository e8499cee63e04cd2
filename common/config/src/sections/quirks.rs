//! `gateway.providers.*.quirks`: the dialect of a provider, as data.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::models::ModelRoute;

/// The ways in which a provider's format differs from `OpenAI`'s. Nothing by default: a request passes as it is, except for what
/// the gateway knows to reach beyond tokens, or to have no use anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Fields that are left out, whatever they say: hints without effect there.
    pub drop: Vec<String>,
    /// Fields that have another name there. When a request has both, the one that has that name already is kept.
    pub rename: BTreeMap<String, String>,
    /// The only fields that pass, by their names in the client's request, beside `messages`, `tools` and those that the
    /// gateway sets itself; any other is 400, unless its value means nothing (null, or `false` for `logprobs`). A field in
    /// this list passes whatever it reaches. Without a list, every field passes that the gateway does not know to reach
    /// beyond tokens.
    pub allow: Option<Vec<String>>,
    /// The names of the field in which the provider gets the most tokens that a choice may have, whichever of them the
    /// client has used: `max_tokens`, `max_completion_tokens` or `both`.
    pub ceiling: Ceiling,
    /// Strings that a field may have and what the provider gets for each, by the field: the levels of `reasoning_effort`.
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// What the provider refuses although others take it: `nulls`, `empty_tools`, `empty_turns`, `allowed_tools`,
    /// `refusal_parts`. The gateway leaves it out, or writes the same in another way.
    pub lacks: Vec<Lack>,
    /// Fields that the provider ignores although they change the answer: 400, unless their value means nothing.
    pub refuse: Vec<String>,
    /// Whether the provider takes tools of the type `custom`. The client runs them, as it runs functions.
    pub custom_tools: bool,
    /// The header in which requests to its `messages` endpoint show the key: `x_api_key`, as Anthropic has it, or `bearer`, which is all
    /// that servers know which add the endpoint to those of `OpenAI` (vLLM among them).
    pub messages_key: KeyHeader,
    /// The rules for `messages`.
    pub messages: MessageRules,
    /// The rules for `POST /v1/completions`, where none of the others but `lacks.nulls` hold.
    pub completions: PathQuirks,
    /// The rules for `POST /v1/embeddings`, where none of the others but `lacks.nulls` hold.
    pub embeddings: PathQuirks,
}

/// The dialect of a provider at a path of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathQuirks {
    /// Its path under `base_url`, without a slash before it, where it is not the endpoint's.
    pub path: Option<String>,
    /// Fields that are left out, whatever they say. Where `encoding_format` is one, the gateway itself encodes embeddings in base64.
    pub drop: Vec<String>,
    /// Fields that have another name there.
    pub rename: BTreeMap<String, String>,
    /// The only fields that pass, beside those that the gateway sets itself; any other is 400, unless its value means nothing.
    pub allow: Option<Vec<String>>,
    /// Fields that the provider ignores although they change the answer: 400, unless their value means nothing.
    pub refuse: Vec<String>,
}

/// What some providers refuse, and others take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Fields that are null. They are left out: of the request, of messages, their parts and calls, and of tools.
    Nulls,
    /// An empty `tools`, also of a message (`tool_calls`). It is left out, and `tool_choice` with it.
    EmptyTools,
    /// A message of the assistant's that has neither words nor calls. It is left out.
    EmptyTurns,
    /// A `tool_choice` of the type `allowed_tools`. The provider gets those tools alone, and the mode as `tool_choice`.
    AllowedTools,
    /// Parts of the type `refusal`, and the field of that name. The provider gets their words as text.
    RefusalParts,
}

/// The rules of a provider for `messages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessageRules {
    /// The fields that a message may have beside `role`, by its role (the provider's name of it). Others are left out. Messages of
    /// a role without a list pass with all their fields.
    pub fields: BTreeMap<String, Vec<String>>,
    /// The fields that a call in `tool_calls` may have; without any, all. With a list, its `function` has a `name` and `arguments`
    /// alone.
    pub call_fields: Vec<String>,
    /// Roles that the provider does not take, and what each becomes.
    pub roles: BTreeMap<String, String>,
    /// The roles that may follow a role; any, where there is no list. Where the next message has another, a turn of the assistant's
    /// (`filler`) goes between if that helps, and a system message that cannot stand there becomes the user's.
    pub follow: BTreeMap<String, Vec<String>>,
    /// The words of the turn that goes between two roles which may not follow each other. Without words there is none.
    pub filler: String,
    /// The field that says that the last message, one of the assistant's, is to be continued. It is set where the client has none.
    pub prefix: Option<String>,
    /// The form that ids of tool calls must have: `any` or `nine_alphanumerics`. An id of another form becomes one that is made of
    /// its hash, in the call and in its result.
    pub call_ids: CallIds,
    /// What becomes of a model's thoughts that a client sends back, as `reasoning_content` or in parts: `as_sent`, `drop`, `field`
    /// (`reasoning_content`) or `parts`.
    pub thoughts: Thoughts,
}

/// The form of the ids of tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any string.
    #[default]
    Any,
    /// Nine letters or digits.
    NineAlphanumerics,
}

/// The form of thoughts that a client sends back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thoughts {
    /// The one in which the client has sent them.
    #[default]
    AsSent,
    /// None: they are left out.
    Drop,
    /// The field `reasoning_content`.
    Field,
    /// A part of the type `thinking`, before the others of `content`.
    Parts,
}

/// The names of the field in which a provider gets the most tokens that a choice may have.
///
/// A provider that does not know the name ignores the limit, and there is none: so the name is the provider's, and not the
/// client's choice. Both are not sent to everybody, because some servers, `OpenAI`'s own among them, refuse a request that
/// has both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ceiling {
    /// `max_tokens`: every server of this format knows it, except for models that refuse a request which has it.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, for models that refuse the older name.
    MaxCompletionTokens,
    /// Both, for servers that take both, in whatever version they run.
    Both,
}

/// The header in which a request shows the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHeader {
    /// `x-api-key`, the header of Anthropic's format.
    #[default]
    XApiKey,
    /// `Authorization: Bearer`.
    Bearer,
}

impl Ceiling {
    /// The names.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::MaxTokens => &["max_tokens"],
            Self::MaxCompletionTokens => &["max_completion_tokens"],
            Self::Both => &["max_tokens", "max_completion_tokens"],
        }
    }
}

impl Quirks {
    /// Whether the provider refuses this.
    pub fn lacks(&self, what: Lack) -> bool {
        self.lacks.contains(&what)
    }

    /// The rules at the path of `route`: those of chat completions, unless it has its own.
    pub fn at(&self, route: ModelRoute) -> Cow<'_, Self> {
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
            lacks: self.lacks.iter().copied().filter(|lack| *lack == Lack::Nulls).collect(),
            ..Self::default()
        })
    }

    /// Whether a message can be other for this provider than its client has sent it.
    pub fn has_message_rules(&self) -> bool {
        let of_messages = |lack: &Lack| !matches!(lack, Lack::AllowedTools);
        self.lacks.iter().any(of_messages) || self.messages != MessageRules::default()
    }
}

/// Mistral's API. Its schema is closed: 422 for a field that it does not know, of the request and of messages. What it knows beside
/// `allow` runs or bills more than tokens. It reports usage without being asked.
pub(super) fn mistral() -> Quirks {
    Quirks {
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
        ceiling: Ceiling::MaxTokens,
        values: efforts(&[
            ("minimal", "none"),
            ("low", "none"),
            ("medium", "high"),
            ("xhigh", "high"),
            ("max", "high"),
        ]),
        lacks: vec![Lack::Nulls, Lack::EmptyTools, Lack::EmptyTurns, Lack::AllowedTools, Lack::RefusalParts],
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
            call_ids: CallIds::NineAlphanumerics,
            // Those of another model are of no use to it, and its models without thoughts refuse the part.
            thoughts: Thoughts::Drop,
        },
        completions: PathQuirks {
            path: Some("fim/completions".to_owned()),
            drop: names(&["metadata", "store", "stream_options", "user"]),
            rename: pairs(&[("seed", "random_seed")]),
            allow: Some(names(&["random_seed", "seed", "stop", "suffix", "temperature", "top_p"])),
            ..PathQuirks::default()
        },
        // Asked for base64 it answers with numbers, which `OpenAI`'s clients then take for base64.
        embeddings: PathQuirks {
            drop: names(&["encoding_format", "metadata", "user"]),
            rename: pairs(&[("dimensions", "output_dimension")]),
            allow: Some(names(&["dimensions", "output_dimension"])),
            ..PathQuirks::default()
        },
    }
}

/// vLLM, which Scaleway and `OVHcloud` run. It ignores fields that it does not know. It takes both names of the ceiling, and calls
/// one outdated. The models' templates decide on roles, and that of Qwen refuses `developer`. A result of the older kind (`function`)
/// has no id by which it could become one of the newer.
pub(super) fn vllm() -> Quirks {
    Quirks {
        drop: names(&["metadata", "prompt_cache_retention", "service_tier", "store"]),
        ceiling: Ceiling::Both,
        values: efforts(&[("none", "low"), ("minimal", "low"), ("xhigh", "high"), ("max", "high")]),
        lacks: vec![Lack::EmptyTools, Lack::AllowedTools],
        messages_key: KeyHeader::Bearer,
        messages: MessageRules {
            roles: pairs(&[("developer", "system"), ("function", "user")]),
            thoughts: Thoughts::Field,
            ..MessageRules::default()
        },
        completions: PathQuirks {
            drop: names(&["metadata", "store"]),
            refuse: names(&["best_of"]),
            ..PathQuirks::default()
        },
        ..Quirks::default()
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
