//! `[gateway]`: the AI gateway's models, their providers, and the limits of waiting for them.

use std::{collections::BTreeMap, path::PathBuf};

use domain::usage::ModelPrices;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{quirks, url};
pub use super::{
    quirks::{
        CallIdForm, KeyHeader, MessageRules, PathQuirks, ProviderQuirks, ReasoningForm, TokenLimitField,
        UnsupportedConstruct,
    },
    usage_fields::{JsonPointer, JsonPointerError, UsageFields},
};
use crate::models::{ModelRoute, most_output};

/// `[gateway]`.
///
/// `providers`, `models` and `aliases` are tables. A table in the configuration replaces the built-in one entirely, so
/// a model that is not listed there does not exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// The providers of models, by name.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// The models, by id: `svc/…`.
    pub models: BTreeMap<String, ModelEntry>,
    /// Other names for models, for clients that can only request their own: `"claude-sonnet-*" =
    /// "svc/qwen3-coder-30b"`. A `*` at the end matches any rest; an exact name takes precedence over the longest
    /// matching prefix. Empty by default, so that each name means the model it names. Usage and charges are those of
    /// the model itself.
    pub aliases: BTreeMap<String, String>,
    /// When set, every provider is reached at this URL, with [`Self::provider_api_key`] and without its `quirks` and
    /// `usage`: for trying the gateway out against any server that implements `OpenAI`'s wire format. With or without
    /// `/v1` at its end.
    pub provider_url: Option<Url>,
    /// The key for [`Self::provider_url`]; no `Authorization` when absent. A provider's own key is never sent there.
    pub provider_api_key: Option<String>,
    /// Seconds a provider may take until its response contains the first content, regardless of what it sends before. A
    /// response that is not streamed usually begins only when it is complete.
    pub first_byte_seconds: u32,
    /// Seconds without a byte after which a response that has begun is aborted.
    pub idle_seconds: u32,
    /// Seconds that a completion may wait for its turn while its provider reports that a rate limit is reached (429).
    /// Waiting accounts take turns. With 0, completions do not wait, and the provider's limit is passed on as 503.
    pub queue_seconds: u32,
    /// Origins whose pages may call the gateway from a browser (`https://app.example.com`, or `*`). Empty by default,
    /// because a key in a web page is public.
    pub cors_origins: Vec<String>,
    /// Whether a request whose `max_tokens` is above its limit is reduced to that limit instead of refused with 400.
    /// For clients that always request 8,000 to 64,000 tokens and cannot be configured.
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

/// An entry of `gateway.providers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderEntry {
    /// The owner, as `GET /v1/models` shows it.
    pub owned_by: String,
    /// The provider's URL. Without a path, `/v1` is added; with a path, it is used unchanged.
    pub base_url: Url,
    /// The environment variable that holds our key. While it is empty, the provider's models return 503.
    pub api_key_env: String,
    /// A file that holds the key instead. Unlike a variable, it is read again when the configuration is reloaded.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// The provider's deviations from `OpenAI`'s format.
    #[serde(default)]
    pub quirks: ProviderQuirks,
    /// Where the provider's `usage` object holds the token counts of a completion. By default as in `OpenAI`'s format.
    #[serde(default)]
    pub usage: UsageFields,
}

/// An entry of `gateway.models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// The provider, by its name in `gateway.providers`.
    pub provider: String,
    /// The provider's own name for the model.
    pub upstream: String,
    /// The endpoints that the provider offers for the model: `chat`, `responses`, `messages`, `embeddings`,
    /// `completions`; `chat` only when none is named. A request for a response or a message is passed through as the
    /// client wrote it if its endpoint is listed. Otherwise it is translated to a chat completion, and the answer
    /// translated back; a provider with either endpoint has chat completions as well. An embeddings model has
    /// `["embeddings"]`, and `output_cents = 0`.
    #[serde(default = "ModelRoute::default_routes")]
    pub routes: Vec<ModelRoute>,
    /// A second provider of the same weights, at the same price: `{ provider = "…", upstream = "…" }`, with its own
    /// `routes`. It is used when the first provider cannot have begun: it cannot be reached, or refuses with 429, 503
    /// or 529.
    #[serde(default)]
    pub fallback: Option<FallbackEntry>,
    /// The price of a million input tokens, in cents.
    pub input_cents: u32,
    /// The price of a million output tokens, in cents.
    pub output_cents: u32,
    /// The price of a million input tokens that the provider had cached, in cents; `input_cents` when absent.
    #[serde(default)]
    pub cached_input_cents: Option<u32>,
    /// The price of a million input tokens that the provider wrote to its cache, in cents; `input_cents` when absent.
    #[serde(default)]
    pub cache_write_cents: Option<u32>,
    /// The price of a million reasoning tokens, in cents; `output_cents` when absent.
    #[serde(default)]
    pub reasoning_cents: Option<u32>,
    /// The price of a thousand input images, in cents, in addition to their tokens; no charge when absent.
    #[serde(default)]
    pub image_cents: Option<u32>,
    /// The maximum number of tokens in a prompt; the provider refuses a longer one. A request's reservation is capped
    /// at this number, or uncapped when absent.
    #[serde(default)]
    pub context: Option<u32>,
    /// The maximum number of tokens that the model can write. A request may not ask for more, whatever its plan allows;
    /// when absent, for no more than `context`.
    #[serde(default)]
    pub output: Option<u32>,
    /// Whether the model accepts images. `GET /v1/models` shows it, and requests with images are refused otherwise.
    #[serde(default)]
    pub vision: bool,
    /// Whether the model can reason before it answers. Informs clients only.
    #[serde(default)]
    pub reasoning: bool,
    /// Whether the model can call functions. Informs clients only.
    #[serde(default = "can_call_functions")]
    pub tools: bool,
}

/// The second provider of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackEntry {
    /// The provider, another entry of `gateway.providers`.
    pub provider: String,
    /// That provider's own name for the model.
    pub upstream: String,
    /// The endpoints that the provider offers for the model. Only chat completions, responses and messages use the
    /// fallback.
    #[serde(default = "ModelRoute::default_routes")]
    pub routes: Vec<ModelRoute>,
}

impl Gateway {
    /// Returns the owners that `GET /v1/models` shows for a model: those of its provider and its fallback provider.
    pub fn owned_by(&self, model: &ModelEntry) -> String {
        let second = model.fallback.as_ref().filter(|_| self.provider_url.is_none());
        let names = [Some(&model.provider), second.map(|fallback| &fallback.provider)];
        let owners = names.into_iter().flatten().filter_map(|name| self.providers.get(name));
        owners.map(|provider| provider.owned_by.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl ModelEntry {
    /// Returns the maximum number of tokens in one choice of this model.
    pub fn most_output(&self) -> u64 {
        most_output(self.output, self.context)
    }

    /// Returns the prices of a completion.
    pub fn prices(&self) -> ModelPrices {
        let (input, output) = (self.input_cents, self.output_cents);
        ModelPrices {
            input,
            cached_input: self.cached_input_cents.unwrap_or(input),
            cache_write: self.cache_write_cents.unwrap_or(input),
            output,
            reasoning: self.reasoning_cents.unwrap_or(output),
            image: self.image_cents.unwrap_or(0),
        }
    }
}

/// The default of `tools`, which is true of most models.
const fn can_call_functions() -> bool {
    true
}

fn shipped_providers() -> BTreeMap<String, ProviderEntry> {
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
        let provider = ProviderEntry {
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

fn shipped_models() -> BTreeMap<String, ModelEntry> {
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
        let model = ModelEntry {
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
            // The context of the model itself; a provider may allow less. Models called `latest` get room to grow.
            context: Some(kilotokens * 1024),
            // From Scaleway's table of supported models and OVHcloud's catalog. Mistral documents only the context.
            output: output_kilotokens.map(|kilotokens: u32| kilotokens * 1024),
            vision,
            reasoning,
            tools: true,
        };
        (id.to_owned(), model)
    })
    .into()
}
