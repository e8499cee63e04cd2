//! `[gateway]`: the models of the AI gateway, who serves them, and how far they are trusted.

use std::{collections::BTreeMap, path::PathBuf};

use domain::usage::Prices;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{quirks, url};
pub use super::{
    quirks::{CallIds, Ceiling, KeyHeader, Lack, MessageRules, PathQuirks, Quirks, Thoughts},
    usage_fields::{Pointer, PointerError, UsageFields},
};
use crate::models::{ModelRoute, most_output};

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
    /// When set, every provider is reached there, with [`Self::provider_api_key`] and without its `quirks` and
    /// `usage`: for trying the gateway out against any server that speaks `OpenAI`'s wire format. With `/v1` at its end or without.
    pub provider_url: Option<Url>,
    /// The key for [`Self::provider_url`]. Without one no `Authorization` is sent there; a provider's own key never is.
    pub provider_api_key: Option<String>,
    /// Seconds a provider may take to begin its answer: to its first words, whatever it sends before them. One that is not streamed
    /// begins when all of it is there, mostly.
    pub first_byte_seconds: u32,
    /// Seconds without a byte after which an answer that has begun is given up.
    pub idle_seconds: u32,
    /// Seconds for which a completion may wait for its turn while its provider says that a rate limit is reached (429). The accounts
    /// that wait take turns. With 0, none waits, and the provider's limit is passed on as 503.
    pub queue_seconds: u32,
    /// Origins whose pages may call the gateway from a browser (`https://app.example.com`, or `*`); none by default,
    /// because a key in a web page is everybody's.
    pub cors_origins: Vec<String>,
    /// Whether a request that asks for more tokens than it may (`max_tokens`) is cut to what it may, rather than refused with 400.
    /// For clients that ask for 8,000 to 64,000 and cannot be told otherwise.
    pub clamp_max_tokens: bool,
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
            queue_seconds: 30,
            cors_origins: Vec::new(),
            clamp_max_tokens: false,
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
    /// Where its `usage` object says which tokens a completion had. By default as `OpenAI` does.
    #[serde(default)]
    pub usage: UsageFields,
}

/// One of `gateway.models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// One of `gateway.providers`.
    pub provider: String,
    /// The provider's own name of it.
    pub upstream: String,
    /// The endpoints that the provider has for it: `chat`, `responses`, `messages`, `embeddings`, `completions`; `chat` alone where none
    /// is named. A request for a response or a message passes as the client has written it where its endpoint is named; otherwise it is
    /// translated to a chat completion, which a provider with either of them has as well, and its answer back. An embeddings model has
    /// `["embeddings"]`, and `output_cents = 0`.
    #[serde(default = "ModelRoute::default_routes")]
    pub routes: Vec<ModelRoute>,
    /// A second provider of the same weights, at the same price: `{ provider = "…", upstream = "…" }`, with `routes` of its own. It is
    /// asked where the first cannot have begun: it cannot be reached, or refuses with 429, 503 or 529.
    #[serde(default)]
    pub fallback: Option<Fallback>,
    /// Cents for a million tokens read.
    pub input_cents: u32,
    /// Cents for a million tokens written.
    pub output_cents: u32,
    /// Cents for a million tokens read that the provider had in its cache. Without it, `input_cents`.
    #[serde(default)]
    pub cached_input_cents: Option<u32>,
    /// Cents for a million tokens read that the provider has put into its cache. Without it, `input_cents`.
    #[serde(default)]
    pub cache_write_cents: Option<u32>,
    /// Cents for a million tokens that the model has thought with. Without it, `output_cents`.
    #[serde(default)]
    pub reasoning_cents: Option<u32>,
    /// Cents for a thousand images read, beside the tokens that they have. Without it, nothing.
    #[serde(default)]
    pub image_cents: Option<u32>,
    /// The most tokens that a prompt can have: a longer one is refused by the provider. What a request reserves is cut to
    /// it; without it, to nothing.
    #[serde(default)]
    pub context: Option<u32>,
    /// The most tokens that it can write. A request may not ask for more, whatever its plan says; without it, for no more than
    /// `context`.
    #[serde(default)]
    pub output: Option<u32>,
    /// Whether it sees images. `GET /v1/models` says so, and a request with images to a model that sees none is refused.
    #[serde(default)]
    pub vision: bool,
    /// Whether it can think before it answers. For clients to know.
    #[serde(default)]
    pub reasoning: bool,
    /// Whether it can call functions. For clients to know.
    #[serde(default = "can_call_functions")]
    pub tools: bool,
}

/// The second provider of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Another one of `gateway.providers`.
    pub provider: String,
    /// That provider's own name of the model.
    pub upstream: String,
    /// The endpoints that it has for the model. It is asked for chat completions, responses and messages alone.
    #[serde(default = "ModelRoute::default_routes")]
    pub routes: Vec<ModelRoute>,
}

impl Gateway {
    /// The owners that `GET /v1/models` names for a model: those of its provider, and of its second one.
    pub fn owned_by(&self, model: &Model) -> String {
        let second = model.fallback.as_ref().filter(|_| self.provider_url.is_none());
        let names = [Some(&model.provider), second.map(|fallback| &fallback.provider)];
        let owners = names.into_iter().flatten().filter_map(|name| self.providers.get(name));
        owners.map(|provider| provider.owned_by.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl Model {
    /// Returns the most tokens that a choice of the model's can have.
    pub fn most_output(&self) -> u64 {
        most_output(self.output, self.context)
    }

    /// Returns what a completion is charged by.
    pub fn prices(&self) -> Prices {
        let (input, output) = (self.input_cents, self.output_cents);
        Prices {
            input,
            cached_input: self.cached_input_cents.unwrap_or(input),
            cache_write: self.cache_write_cents.unwrap_or(input),
            output,
            reasoning: self.reasoning_cents.unwrap_or(output),
            image: self.image_cents.unwrap_or(0),
        }
    }
}

/// What most models can.
const fn can_call_functions() -> bool {
    true
}

fn shipped_providers() -> BTreeMap<String, Provider> {
    [
        ("mistral", "Mistral AI", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", quirks::mistral()),
        ("scaleway", "Scaleway", "https://api.scaleway.ai/v1", "SCW_SECRET_KEY", quirks::vllm()),
        (
            "ovhcloud",
            "OVHcloud",
            "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
            "OVH_AI_ENDPOINTS_ACCESS_TOKEN",
            quirks::vllm(),
        ),
    ]
    .map(|(name, owned_by, base_url, api_key_env, quirks)| {
        let provider = Provider {
            owned_by: owned_by.into(),
            base_url: url(base_url),
            api_key_env: api_key_env.into(),
            api_key_file: None,
            quirks,
            usage: UsageFields::default(),
        };
        (name.to_owned(), provider)
    })
    .into()
}

fn shipped_models() -> BTreeMap<String, Model> {
    [
        ("svc/mistral-small", "mistral", "mistral-small-latest", 15, 45, 256, None, [true, true]),
        ("svc/mistral-medium", "mistral", "mistral-medium-latest", 60, 300, 256, None, [true, false]),
        ("svc/mistral-large", "mistral", "mistral-large-latest", 300, 900, 256, None, [true, false]),
        ("svc/llama-3.3-70b-instruct", "scaleway", "llama-3.3-70b-instruct", 135, 135, 128, Some(16), [false, false]),
        ("svc/qwen3-coder-30b", "scaleway", "qwen3-coder-30b-a3b-instruct", 30, 120, 256, Some(32), [false, false]),
        ("svc/gpt-oss-120b", "scaleway", "gpt-oss-120b", 25, 100, 128, Some(32), [false, true]),
        ("svc/gpt-oss-20b", "ovhcloud", "gpt-oss-20b", 10, 40, 128, None, [false, true]),
        ("svc/qwen3-32b", "ovhcloud", "Qwen3-32B", 15, 45, 40, Some(32), [false, true]),
    ]
    .map(|(id, provider, upstream, input_cents, output_cents, kilotokens, output_kilotokens, [vision, reasoning])| {
        let model = Model {
            provider: provider.into(),
            upstream: upstream.into(),
            routes: ModelRoute::default_routes(),
            fallback: None,
            input_cents,
            output_cents,
            cached_input_cents: None,
            cache_write_cents: None,
            reasoning_cents: None,
            image_cents: None,
            // What the models themselves can read; a provider may allow less. Those called `latest` get room to grow.
            context: Some(kilotokens * 1024),
            // What Scaleway's table of supported models and OVHcloud's catalog say. Mistral names no bound but the context.
            output: output_kilotokens.map(|kilotokens: u32| kilotokens * 1024),
            vision,
            reasoning,
            tools: true,
        };
        (id.to_owned(), model)
    })
    .into()
}
