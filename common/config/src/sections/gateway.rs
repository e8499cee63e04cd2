//! `[gateway]`: the models of the AI gateway, who serves them, and how far they are trusted.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[gateway]`.
///
/// `providers`, `models` and `aliases` are tables. Written in the configuration, a table replaces the shipped one whole, so that a
/// model that is not written there does not exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// The providers of models, by name.
    pub providers: BTreeMap<String, Provider>,
    /// The models, by id: `svc/…`.
    pub models: BTreeMap<String, Model>,
    /// Other names for models, for clients that can only ask for their own: `"claude-sonnet-*" = "svc/qwen3-coder-30b"`. A
    /// `*` at the end stands for any rest; an exact name comes before the longest such beginning. None by default, so that a
    /// name means the model that it names. What is counted, and charged, is the model itself.
    pub aliases: BTreeMap<String, String>,
    /// When set, every provider is reached there, with [`Self::provider_api_key`] and without its quirks: for trying the
    /// gateway out against any server that speaks `OpenAI`'s wire format. With `/v1` at its end or without.
    pub provider_url: Option<Url>,
    /// The key for [`Self::provider_url`]. Without one no `Authorization` is sent there; a provider's own key never is.
    pub provider_api_key: Option<String>,
    /// Seconds a provider may take to begin its answer: to its first words, whatever it sends before them. One that is not streamed
    /// begins when all of it is there, mostly.
    pub first_byte_seconds: u32,
    /// Seconds without a byte after which an answer that has begun is given up.
    pub idle_seconds: u32,
    /// Origins whose pages may call the gateway from a browser (`https://app.example.com`, or `*`); none by default,
    /// because a key in a web page is everybody's.
    pub cors_origins: Vec<String>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            providers: shipped_providers(),
            models: shipped_models(),
            aliases: BTreeMap::new(),
            provider_url: None,
            provider_api_key: None,
            first_byte_seconds: 300,
            idle_seconds: 60,
            cors_origins: Vec::new(),
        }
    }
}

/// One of `gateway.providers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Whom `GET /v1/models` names.
    pub owned_by: String,
    /// Its address. Without a path, `/v1` is added; with one, it is taken as it stands.
    pub base_url: Url,
    /// The environment variable that holds our key there. While it is empty, the provider's models answer 503.
    pub api_key_env: String,
    /// The file that holds the key instead. Unlike a variable it is read again when the program reads its configuration again.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// The ways in which it differs from `OpenAI`.
    #[serde(default)]
    pub quirks: Quirks,
}

/// Fields of a request that a provider refuses or calls otherwise, and those that may reach it. Nothing by default: fields
/// pass as they are, except for those that the gateway knows to reach beyond tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Fields that are left out.
    pub drop: Vec<String>,
    /// Fields that have another name there. When a request has both, the one that has that name already is kept.
    pub rename: BTreeMap<String, String>,
    /// The only fields that pass, by their names in the client's request, beside `messages`, `tools` and those that the
    /// gateway sets itself; any other is 400. A field in this list passes whatever it reaches. Without a list, every
    /// field passes that the gateway does not know to reach beyond tokens.
    pub allow: Option<Vec<String>>,
    /// The names of the field in which the provider gets the most tokens that a choice may have, whichever of them the
    /// client has used.
    pub ceiling: Ceiling,
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

/// One of `gateway.models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// One of `gateway.providers`.
    pub provider: String,
    /// The provider's own name of it.
    pub upstream: String,
    /// Cents for a million tokens read.
    pub input_cents: u32,
    /// Cents for a million tokens written.
    pub output_cents: u32,
    /// The most tokens that a prompt can have: a longer one is refused by the provider. What a request reserves is cut to
    /// it; without it, to nothing.
    #[serde(default)]
    pub context: Option<u32>,
}

fn shipped_providers() -> BTreeMap<String, Provider> {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    // Mistral refuses fields that it does not know with 422, so the list takes nothing from clients. What it knows beside
    // these runs or bills more than tokens. It reports usage without being asked.
    let mistral = Quirks {
        drop: names(&[
            "logit_bias",
            "logprobs",
            "metadata",
            "service_tier",
            "store",
            "stream_options",
            "top_logprobs",
            "user",
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
        rename: [("seed".to_owned(), "random_seed".to_owned())].into(),
        ceiling: Ceiling::MaxTokens,
    };
    // These two run vLLM, which has no use for these three. It takes both names of the ceiling, and calls one outdated.
    let vllm =
        Quirks { drop: names(&["metadata", "service_tier", "store"]), ceiling: Ceiling::Both, ..Quirks::default() };
    [
        ("mistral", "Mistral AI", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", mistral),
        ("scaleway", "Scaleway", "https://api.scaleway.ai/v1", "SCW_SECRET_KEY", vllm.clone()),
        (
            "ovhcloud",
            "OVHcloud",
            "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
            "OVH_AI_ENDPOINTS_ACCESS_TOKEN",
            vllm,
        ),
    ]
    .map(|(name, owned_by, base_url, api_key_env, quirks)| {
        let provider = Provider {
            owned_by: owned_by.into(),
            base_url: url(base_url),
            api_key_env: api_key_env.into(),
            api_key_file: None,
            quirks,
        };
        (name.to_owned(), provider)
    })
    .into()
}

fn shipped_models() -> BTreeMap<String, Model> {
    [
        ("svc/mistral-small", "mistral", "mistral-small-latest", 15, 45, 256),
        ("svc/mistral-medium", "mistral", "mistral-medium-latest", 60, 300, 256),
        ("svc/mistral-large", "mistral", "mistral-large-latest", 300, 900, 256),
        ("svc/llama-3.3-70b-instruct", "scaleway", "llama-3.3-70b-instruct", 135, 135, 128),
        ("svc/qwen3-coder-30b", "scaleway", "qwen3-coder-30b-a3b-instruct", 30, 120, 256),
        ("svc/gpt-oss-120b", "scaleway", "gpt-oss-120b", 25, 100, 128),
        ("svc/gpt-oss-20b", "ovhcloud", "gpt-oss-20b", 10, 40, 128),
        ("svc/qwen3-32b", "ovhcloud", "Qwen3-32B", 15, 45, 40),
    ]
    .map(|(id, provider, upstream, input_cents, output_cents, kilotokens)| {
        // What the models themselves can read; a provider may allow less. Those called `latest` get room to grow.
        let context = Some(kilotokens * 1024);
        let model = Model { provider: provider.into(), upstream: upstream.into(), input_cents, output_cents, context };
        (id.to_owned(), model)
    })
    .into()
}
