//! The models that the gateway serves, each with its provider and its description for `GET /v1/models`.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use config::{
    Gateway as Config,
    models::{Aliases, Model, Models},
};
use http::StatusCode;
use serde::Serialize;

use super::upstream::{ProviderSetupError, Upstream, connector};
use crate::metrics::{self, Counter};

/// The `created` time of every model, in seconds since 1970. `OpenAI`'s format requires one.
const CREATED: u64 = 1_767_225_600;

/// All models that the gateway serves.
pub(super) struct ServedModels {
    by_id: BTreeMap<Arc<str>, Arc<ServedModel>>,
    aliases: Aliases,
    /// The answer to `GET /v1/models`.
    list: Bytes,
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
    /// The model in `OpenAI`'s format.
    pub(super) description: Bytes,
    /// Looked up once, because most answers are counted here.
    ok_answers: Counter,
}

impl ServedModel {
    pub(super) fn count_answer(&self, status: StatusCode) {
        match status {
            StatusCode::OK => self.ok_answers.increment(1),
            _ => metrics::gateway_answers(&self.model.id, status).increment(1),
        }
    }
}

#[derive(Serialize)]
struct Description<'m> {
    id: &'m str,
    object: &'static str,
    created: u64,
    owned_by: &'m str,
    pricing: Pricing,
}

#[derive(Serialize)]
struct Pricing {
    input: u32,
    output: u32,
    currency: &'static str,
    unit: &'static str,
}

#[derive(Serialize)]
struct List<'m> {
    object: &'static str,
    data: Vec<Description<'m>>,
}

impl<'m> Description<'m> {
    fn of(model: &'m Model) -> Self {
        Self {
            id: &model.id,
            object: "model",
            created: CREATED,
            owned_by: &model.provider.owned_by,
            pricing: Pricing {
                input: model.input_cents,
                output: model.output_cents,
                currency: "EUR",
                unit: "cents_per_million_tokens",
            },
        }
    }
}

impl ServedModels {
    /// Sets up `models` and their providers; those that are as `before` stay the same, with their connections.
    pub(super) fn new(models: &Models, config: &Config, before: Option<&Self>) -> Result<Self, ProviderSetupError> {
        let connector = connector()?;
        let mut upstreams: BTreeMap<&str, Arc<Upstream>> = BTreeMap::new();
        let mut by_id = BTreeMap::new();
        for model in models.iter() {
            let name = &*model.provider.name;
            let upstream = if let Some(upstream) = upstreams.get(name) {
                upstream.clone()
            } else {
                let upstream = Upstream::new(&model.provider, config, connector.clone())?;
                let running = before.and_then(|before| before.upstream_like(&upstream));
                upstreams.entry(name).or_insert(running.unwrap_or_else(|| Arc::new(upstream))).clone()
            };
            let served = ServedModel {
                model: model.clone(),
                id_json: json(&model.id),
                upstream_id_json: json(&model.upstream),
                upstream,
                description: json(&Description::of(model)).into(),
                ok_answers: metrics::gateway_answers(&model.id, StatusCode::OK),
            };
            by_id.insert(model.id.clone(), Arc::new(served));
        }
        let list = List { object: "list", data: models.iter().map(|model| Description::of(model)).collect() };
        Ok(Self { by_id, aliases: Aliases::of(config), list: json(&list).into() })
    }

    fn upstream_like(&self, upstream: &Upstream) -> Option<Arc<Upstream>> {
        self.by_id.values().map(|model| &model.upstream).find(|running| running.is_like(upstream)).cloned()
    }

    /// The model with this id, or to which the operator has given this name.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<ServedModel>> {
        self.by_id.get(name).or_else(|| self.by_id.get(self.aliases.find(name)?))
    }

    /// The list of all models in `OpenAI`'s format.
    pub(super) fn list(&self) -> Bytes {
        self.list.clone()
    }
}

/// The value as JSON. It consists of strings and numbers, which cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
