//! The models that the gateway serves, each with its provider and its description for `GET /v1/models`.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use config::{
    Gateway as Config,
    models::{Access, Aliases, Model, ModelRoute, Models},
};
use http::StatusCode;
use serde::Serialize;

use super::{
    asks::Asks,
    endpoints,
    upstream::{Pace, ProviderSetupError, Upstream, connector},
};
use crate::metrics::{self, Counter};

/// The `created` time of every model, in seconds since 1970. `OpenAI`'s format requires one.
const CREATED: u64 = 1_767_225_600;

/// All models that the gateway serves.
pub(super) struct ServedModels {
    by_id: BTreeMap<Arc<str>, Arc<ServedModel>>,
    aliases: Aliases,
}

/// A model with its provider.
pub(super) struct ServedModel {
    pub(super) model: Arc<Model>,
    /// The model's id as a JSON string.
    pub(super) id_json: String,
    /// The provider's name of the model as a JSON string.
    pub(super) upstream_id_json: String,
    /// The provider.
    pub(super) upstream: Arc<Upstream>,
    /// The pace at which the provider takes requests for the model.
    pub(super) pace: Pace,
    /// The model at its second provider, if that provider admits us.
    pub(super) fallback: Option<Arc<ServedModel>>,
    /// Looked up once, because most answers are counted here.
    ok_answers: Counter,
}

impl ServedModel {
    fn new(model: &Arc<Model>, upstream: Arc<Upstream>, fallback: Option<Arc<Self>>) -> Self {
        Self {
            model: model.clone(),
            id_json: json(&model.id),
            upstream_id_json: json(&model.upstream),
            upstream,
            pace: Pace::new(),
            fallback,
            ok_answers: metrics::gateway_answers(&model.id, StatusCode::OK),
        }
    }

    /// The model at the first of its providers that admits us, or at the first.
    pub(super) fn admitted(self: &Arc<Self>) -> &Arc<Self> {
        match &self.fallback {
            Some(fallback) if matches!(self.model.provider.access, Access::Missing(_)) => fallback,
            _ => self,
        }
    }

    /// Whether one of the model's providers admits us.
    fn is_reachable(&self) -> bool {
        let providers = [Some(&self.model), self.fallback.as_ref().map(|second| &second.model)];
        providers.into_iter().flatten().any(|model| !matches!(model.provider.access, Access::Missing(_)))
    }

    /// The model in `OpenAI`'s format, for a key that may ask this.
    pub(super) fn describe(&self, asks: &Asks) -> Bytes {
        json(&Description::of(&self.model, asks)).into()
    }

    pub(super) fn count_answer(&self, status: StatusCode) {
        match status {
            StatusCode::OK => self.ok_answers.increment(1),
            _ => metrics::gateway_answers(&self.model.id, status).increment(1),
        }
    }
}

/// A model as `GET /v1/models` describes it: `OpenAI`'s fields, the price, and the limits under the names that clients look for. There
/// is no standard for those; each name has readers of its own, and the numbers are this key's.
#[derive(Serialize)]
struct Description<'m> {
    id: &'m str,
    object: &'static str,
    created: u64,
    owned_by: &'m str,
    pricing: Pricing,
    #[serde(flatten)]
    prompt: Option<PromptLimits>,
    #[serde(flatten)]
    output: Option<OutputLimits>,
    /// Ours: nobody else says it. In bytes, decompressed.
    max_request_bytes: u64,
    /// The names of `OpenRouter` (there under `architecture`) and models.dev, from which Cline and opencode know whether to offer
    /// images.
    input_modalities: &'static [&'static str],
    output_modalities: &'static [&'static str],
    /// What the model can do, for people and for clients of ours.
    supported_features: Vec<&'static str>,
    /// `OpenRouter`'s name: clients that were made for it choose the models that can call tools by it.
    supported_parameters: Vec<&'static str>,
    /// `LiteLLM`'s name: the paths at which the model can be asked.
    supported_endpoints: Vec<&'static str>,
}

/// How much a model writes, if it writes words.
#[derive(Serialize)]
struct OutputLimits {
    /// `LiteLLM`'s name.
    max_output_tokens: u64,
    /// The name at `OpenRouter`, Groq and others.
    max_completion_tokens: u64,
}

impl From<u64> for OutputLimits {
    fn from(tokens: u64) -> Self {
        Self { max_output_tokens: tokens, max_completion_tokens: tokens }
    }
}

/// How much a model reads, where that is known.
#[derive(Serialize)]
struct PromptLimits {
    /// The name at `OpenRouter`, read by Cline, Roo Code, Hermes and Android Studio.
    context_length: u32,
    /// The name at Groq and Vercel's gateway, and in Codex's catalogs.
    context_window: u32,
    /// vLLM's name, read by what was made for it.
    max_model_len: u32,
    /// `LiteLLM`'s name.
    max_input_tokens: u32,
}

impl From<u32> for PromptLimits {
    fn from(tokens: u32) -> Self {
        Self { context_length: tokens, context_window: tokens, max_model_len: tokens, max_input_tokens: tokens }
    }
}

/// The parameters that every model for conversations takes.
const PARAMETERS: [&str; 7] =
    ["max_tokens", "max_completion_tokens", "n", "response_format", "stop", "temperature", "top_p"];
/// Those that a model takes which only goes on with prompts.
const TEXT_PARAMETERS: [&str; 6] = ["max_tokens", "n", "stop", "suffix", "temperature", "top_p"];
/// Those of a model for embeddings.
const EMBEDDING_PARAMETERS: [&str; 2] = ["dimensions", "encoding_format"];

/// What tokens cost. A kind of them is named where its price is another than that of the rest.
#[derive(Serialize)]
struct Pricing {
    input: u32,
    output: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u32>,
    /// For a thousand images.
    #[serde(skip_serializing_if = "Option::is_none")]
    thousand_images: Option<u32>,
    currency: &'static str,
    unit: &'static str,
}

#[derive(Serialize)]
struct List<'m> {
    object: &'static str,
    data: Vec<Description<'m>>,
}

impl<'m> Description<'m> {
    fn of(model: &'m Model, asks: &Asks) -> Self {
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
            pricing: Pricing {
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
            output: writes.then(|| asks.tokens_of(model).most().into()),
            max_request_bytes: asks.body.most,
            input_modalities: if model.vision { &["text", "image"] } else { &["text"] },
            output_modalities: match (writes, has_embeddings) {
                (true, false) => &["text"],
                (false, _) => &["embeddings"],
                (true, true) => &["text", "embeddings"],
            },
            supported_features: features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
            supported_parameters: parameters,
            supported_endpoints: endpoints::of(model),
        }
    }
}

impl ServedModels {
    /// Sets up `models` and their providers; those that are as `before` stay the same, with their connections.
    pub(super) fn new(models: &Models, config: &Config, before: Option<&Self>) -> Result<Self, ProviderSetupError> {
        let connector = connector()?;
        let mut upstreams: BTreeMap<Arc<str>, Arc<Upstream>> = BTreeMap::new();
        let mut upstream_of = |model: &Model| {
            let name = &model.provider.name;
            if let Some(upstream) = upstreams.get(name) {
                return Ok(upstream.clone());
            }
            let upstream = Upstream::new(&model.provider, config, connector.clone())?;
            let running = before.and_then(|before| before.upstream_like(&upstream));
            let upstream = running.unwrap_or_else(|| {
                upstream.circuit.show();
                Arc::new(upstream)
            });
            upstreams.insert(name.clone(), upstream.clone());
            Ok::<_, ProviderSetupError>(upstream)
        };
        let mut by_id = BTreeMap::new();
        for model in models.iter() {
            let second = model.fallback.as_ref().filter(|second| !matches!(second.provider.access, Access::Missing(_)));
            let second = match second {
                Some(second) => Some(Arc::new(ServedModel::new(second, upstream_of(second)?, None))),
                None => None,
            };
            let served = ServedModel::new(model, upstream_of(model)?, second);
            by_id.insert(model.id.clone(), Arc::new(served));
        }
        Ok(Self { by_id, aliases: Aliases::of(config) })
    }

    fn upstream_like(&self, upstream: &Upstream) -> Option<Arc<Upstream>> {
        let models = self.by_id.values().flat_map(|model| [model].into_iter().chain(&model.fallback));
        models.map(|model| &model.upstream).find(|running| running.is_like(upstream)).cloned()
    }

    /// The model with this id, or to which the operator has given this name.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<ServedModel>> {
        self.by_id.get(name).or_else(|| self.by_id.get(self.aliases.find(name)?))
    }

    /// The model that [`find`](Self::find) returns, or else the one to which the account of a key that may ask this has given the name.
    pub(super) fn find_for(&self, name: &str, asks: &Asks) -> Option<&Arc<ServedModel>> {
        self.find(name).or_else(|| self.by_id.get(asks.alias(name)?))
    }

    /// The list of the models that can be asked, in `OpenAI`'s format, for a key that may ask this. Clients choose from it, so that a model
    /// whose provider has no key here is not on it.
    pub(super) fn list(&self, asks: &Asks) -> Bytes {
        let reachable = self.by_id.values().filter(|served| served.is_reachable());
        let data = reachable.map(|served| Description::of(&served.model, asks)).collect();
        json(&List { object: "list", data }).into()
    }

    /// The ids of the models that are not on the [`list`](Self::list).
    pub(super) fn unreachable(&self) -> Vec<String> {
        let unreachable = self.by_id.values().filter(|served| !served.is_reachable());
        unreachable.map(|served| served.model.id.to_string()).collect()
    }
}

/// The value as JSON. It consists of strings and numbers, which cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
