//! The models that the gateway serves, with their providers and descriptions for `GET /v1/models`.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use config::{
    Gateway as Config,
    models::{Aliases, Model, ModelCatalog, ModelRoute, ProviderAccess},
};
use edge_metrics::{self as metrics, Counter};
use http::StatusCode;
use serde::Serialize;
use upstream::{ProviderPace, ProviderPool, ProviderSetupError, connector};

use super::{asks::RequestLimits, endpoints};

/// The `created` time of every model in Unix seconds. `OpenAI`'s format requires one.
const CREATED: u64 = 1_767_225_600;

/// The configured models, found by their ids and the operator's aliases.
pub struct ServedModels {
    by_id: BTreeMap<Arc<str>, Arc<ServedModel>>,
    aliases: Aliases,
}

/// A model at one provider, with the connections and the pace that its requests share.
pub struct ServedModel {
    /// The model's configuration, which includes its provider's.
    pub model: Arc<Model>,
    /// The model's id as a JSON string with its quotes, for answers.
    pub id_json: String,
    /// The model's name at the provider as a JSON string with its quotes, for requests.
    pub upstream_id_json: String,
    /// The provider's connections and circuit breaker, shared by all models of the provider.
    pub upstream: Arc<ProviderPool>,
    /// The pace of the model's requests while the provider limits their rate.
    pub pace: ProviderPace,
    /// The model at its second provider, if we have a key for that provider.
    pub(super) fallback: Option<Arc<ServedModel>>,
    /// Looked up once, because most responses are counted here.
    ok_answers: Counter,
}

impl ServedModel {
    fn new(model: &Arc<Model>, upstream: Arc<ProviderPool>, fallback: Option<Arc<Self>>) -> Self {
        Self {
            model: model.clone(),
            id_json: to_json_string(&model.id),
            upstream_id_json: to_json_string(&model.upstream),
            upstream,
            pace: ProviderPace::default(),
            fallback,
            ok_answers: metrics::gateway_answers(&model.id, StatusCode::OK),
        }
    }

    /// Returns the model at its first provider for which we have a key, or else at its first provider.
    pub fn with_access(self: &Arc<Self>) -> &Arc<Self> {
        match &self.fallback {
            Some(fallback) if matches!(self.model.provider.access, ProviderAccess::Missing(_)) => fallback,
            _ => self,
        }
    }

    fn is_reachable(&self) -> bool {
        let providers = [Some(&self.model), self.fallback.as_ref().map(|second| &second.model)];
        providers.into_iter().flatten().any(|model| !matches!(model.provider.access, ProviderAccess::Missing(_)))
    }

    /// Returns the model in `OpenAI`'s format, with the limits of a key.
    pub fn describe(&self, asks: &RequestLimits) -> Bytes {
        to_json_string(&ModelDescription::from_model(&self.model, asks)).into()
    }

    /// Counts a response to a completion request for this model, by its status, in `svc_gateway_requests_total`.
    pub fn count_answer(&self, status: StatusCode) {
        match status {
            StatusCode::OK => self.ok_answers.increment(1),
            _ => metrics::gateway_answers(&self.model.id, status).increment(1),
        }
    }
}

/// A model as described by `GET /v1/models`: `OpenAI`'s fields, the price, and the limits under the names that clients
/// look for. The limits have no standard: each name has its own readers, and the numbers are this key's.
#[derive(Serialize)]
struct ModelDescription<'m> {
    id: &'m str,
    object: &'static str,
    created: u64,
    owned_by: &'m str,
    pricing: ModelPricing,
    #[serde(flatten)]
    prompt: Option<PromptLimits>,
    #[serde(flatten)]
    output: Option<OutputLimits>,
    /// Our own field, in bytes after decompression.
    max_request_bytes: u64,
    /// The names used by `OpenRouter` (there under `architecture`) and models.dev, from which Cline and opencode decide
    /// whether to offer images.
    input_modalities: &'static [&'static str],
    output_modalities: &'static [&'static str],
    /// The model's capabilities, for people and our own clients.
    supported_features: Vec<&'static str>,
    /// `OpenRouter`'s name, which its clients use to find models with tool calls.
    supported_parameters: Vec<&'static str>,
    /// `LiteLLM`'s name for the paths at which the model is served.
    supported_endpoints: Vec<&'static str>,
}

#[derive(Serialize)]
struct OutputLimits {
    /// `LiteLLM`'s name.
    max_output_tokens: u64,
    /// The name used by `OpenRouter`, Groq and others.
    max_completion_tokens: u64,
}

impl From<u64> for OutputLimits {
    fn from(tokens: u64) -> Self {
        Self { max_output_tokens: tokens, max_completion_tokens: tokens }
    }
}

#[derive(Serialize)]
struct PromptLimits {
    /// The name used by `OpenRouter`, read by Cline, Roo Code, Hermes and Android Studio.
    context_length: u32,
    /// The name used by Groq, Vercel's gateway and Codex's catalogs.
    context_window: u32,
    /// vLLM's name.
    max_model_len: u32,
    /// `LiteLLM`'s name.
    max_input_tokens: u32,
}

impl From<u32> for PromptLimits {
    fn from(tokens: u32) -> Self {
        Self { context_length: tokens, context_window: tokens, max_model_len: tokens, max_input_tokens: tokens }
    }
}

const PARAMETERS: [&str; 7] =
    ["max_tokens", "max_completion_tokens", "n", "response_format", "stop", "temperature", "top_p"];
const TEXT_PARAMETERS: [&str; 6] = ["max_tokens", "n", "stop", "suffix", "temperature", "top_p"];
const EMBEDDING_PARAMETERS: [&str; 2] = ["dimensions", "encoding_format"];

/// The prices of tokens. Optional kinds appear only when their price differs from the base price.
#[derive(Serialize)]
struct ModelPricing {
    input: u32,
    output: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thousand_images: Option<u32>,
    currency: &'static str,
    unit: &'static str,
}

#[derive(Serialize)]
struct ModelList<'m> {
    object: &'static str,
    data: Vec<ModelDescription<'m>>,
}

impl<'m> ModelDescription<'m> {
    fn from_model(model: &'m Model, asks: &RequestLimits) -> Self {
        let has_text = model.has_route(ModelRoute::Completions);
        let has_embeddings = model.has_route(ModelRoute::Embeddings);
        let is_chat = model
            .routes
            .iter()
            .any(|route| matches!(route, ModelRoute::Chat | ModelRoute::Responses | ModelRoute::Messages));
        let writes = is_chat || has_text;
        let mut parameters = match (is_chat, has_text) {
            (true, _) => PARAMETERS.to_vec(),
            (false, true) => TEXT_PARAMETERS.to_vec(),
            (false, false) => Vec::new(),
        };
        if is_chat && has_text {
            parameters.push("suffix");
        }
        if has_embeddings {
            parameters.extend(EMBEDDING_PARAMETERS);
        }
        if model.tools && is_chat {
            parameters.extend(["tools", "tool_choice"]);
        }
        if model.reasoning && is_chat {
            parameters.push("reasoning_effort");
        }
        let prices = &model.prices;
        let beside = |price: u32, usual: u32| (price != usual).then_some(price);
        let features = [
            ("tools", model.tools && is_chat),
            ("reasoning", model.reasoning && is_chat),
            ("vision", model.vision && is_chat),
        ];
        Self {
            id: &model.id,
            object: "model",
            created: CREATED,
            owned_by: &model.owned_by,
            pricing: ModelPricing {
                input: prices.input,
                output: prices.output,
                cached_input: beside(prices.cached_input, prices.input),
                cache_write: beside(prices.cache_write, prices.input),
                reasoning: beside(prices.reasoning, prices.output),
                thousand_images: beside(prices.image, 0),
                currency: "EUR",
                unit: "cents_per_million_tokens",
            },
            prompt: model.context.map(PromptLimits::from),
            output: writes.then(|| asks.token_ceiling(model).most().into()),
            max_request_bytes: asks.body.most,
            input_modalities: if model.vision { &["text", "image"] } else { &["text"] },
            output_modalities: match (writes, has_embeddings) {
                (true, false) => &["text"],
                (false, _) => &["embeddings"],
                (true, true) => &["text", "embeddings"],
            },
            supported_features: features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
            supported_parameters: parameters,
            supported_endpoints: endpoints::for_model(model),
        }
    }
}

impl ServedModels {
    /// Sets up `models` and their providers. Providers unchanged from `before` keep their connections.
    pub fn new(models: &ModelCatalog, config: &Config, before: Option<&Self>) -> Result<Self, ProviderSetupError> {
        let connector = connector()?;
        let mut upstreams: BTreeMap<Arc<str>, Arc<ProviderPool>> = BTreeMap::new();
        let mut upstream_of = |model: &Model| {
            let name = &model.provider.name;
            if let Some(upstream) = upstreams.get(name) {
                return Ok(upstream.clone());
            }
            let upstream = ProviderPool::new(&model.provider, config, connector.clone())?;
            let running = before.and_then(|before| before.find_equal_upstream(&upstream));
            let upstream = running.unwrap_or_else(|| {
                upstream.circuit.show();
                Arc::new(upstream)
            });
            upstreams.insert(name.clone(), upstream.clone());
            Ok::<_, ProviderSetupError>(upstream)
        };
        let mut by_id = BTreeMap::new();
        for model in models.iter() {
            let second =
                model.fallback.as_ref().filter(|second| !matches!(second.provider.access, ProviderAccess::Missing(_)));
            let second = match second {
                Some(second) => Some(Arc::new(ServedModel::new(second, upstream_of(second)?, None))),
                None => None,
            };
            let served = ServedModel::new(model, upstream_of(model)?, second);
            by_id.insert(model.id.clone(), Arc::new(served));
        }
        Ok(Self { by_id, aliases: Aliases::from_config(config) })
    }

    fn find_equal_upstream(&self, upstream: &ProviderPool) -> Option<Arc<ProviderPool>> {
        let models = self.by_id.values().flat_map(|model| [model].into_iter().chain(&model.fallback));
        models.map(|model| &model.upstream).find(|running| running.is_same_provider(upstream)).cloned()
    }

    /// Finds a model by its id or by the operator's alias.
    pub fn find(&self, name: &str) -> Option<&Arc<ServedModel>> {
        self.by_id.get(name).or_else(|| self.by_id.get(self.aliases.find(name)?))
    }

    /// Finds a model like [`find`](Self::find), or else by an alias of the key's account.
    pub fn find_for(&self, name: &str, asks: &RequestLimits) -> Option<&Arc<ServedModel>> {
        self.find(name).or_else(|| self.by_id.get(asks.find_alias(name)?))
    }

    /// Returns the list of usable models in `OpenAI`'s format, with the limits of a key. Clients choose from it, so
    /// models without a provider key are left out.
    pub fn list(&self, asks: &RequestLimits) -> Bytes {
        let reachable = self.by_id.values().filter(|served| served.is_reachable());
        let data = reachable.map(|served| ModelDescription::from_model(&served.model, asks)).collect();
        to_json_string(&ModelList { object: "list", data }).into()
    }

    /// Returns the ids of the models that [`list`](Self::list) leaves out.
    pub fn unreachable(&self) -> Vec<String> {
        let unreachable = self.by_id.values().filter(|served| !served.is_reachable());
        unreachable.map(|served| served.model.id.to_string()).collect()
    }
}

/// Serializes a value of strings and numbers, which cannot fail.
fn to_json_string(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
