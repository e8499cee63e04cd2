//! The models as the gateway serves them: ready to be listed, and each with the way to its provider.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use config::{
    Gateway as Config,
    models::{Model, Models},
};
use serde::Serialize;

use super::upstream::{Upstream, UpstreamError, connector};

/// When the list of models was first published, in seconds since 1970: `OpenAI`'s format wants a time.
const PUBLISHED: u64 = 1_767_225_600;

/// All models.
pub(super) struct Catalog {
    served: BTreeMap<String, Arc<Served>>,
    list: Bytes,
}

/// A model, and the way to it.
pub(super) struct Served {
    /// The model.
    pub(super) model: Arc<Model>,
    /// Its id, as JSON.
    pub(super) id_json: String,
    /// What its provider calls it, as JSON.
    pub(super) upstream_json: String,
    /// The way to its provider.
    pub(super) upstream: Arc<Upstream>,
    /// The model in `OpenAI`'s format.
    pub(super) described: Bytes,
}

#[derive(Serialize)]
struct Described<'m> {
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
    data: Vec<Described<'m>>,
}

impl<'m> Described<'m> {
    fn of(model: &'m Model) -> Self {
        Self {
            id: &model.id,
            object: "model",
            created: PUBLISHED,
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

impl Catalog {
    /// The catalog of `models`.
    pub(super) fn new(models: &Models, config: &Config) -> Result<Self, UpstreamError> {
        let connector = connector()?;
        let mut upstreams: BTreeMap<&str, Arc<Upstream>> = BTreeMap::new();
        let mut served = BTreeMap::new();
        for model in models.iter() {
            let name = model.provider.name.as_str();
            let upstream = match upstreams.get(name) {
                Some(upstream) => upstream.clone(),
                None => upstreams
                    .entry(name)
                    .or_insert(Arc::new(Upstream::new(&model.provider, config, connector.clone())?))
                    .clone(),
            };
            let entry = Served {
                model: model.clone(),
                id_json: json(&model.id),
                upstream_json: json(&model.upstream),
                upstream,
                described: json(&Described::of(model)).into(),
            };
            served.insert(model.id.clone(), Arc::new(entry));
        }
        let list = List { object: "list", data: models.iter().map(|model| Described::of(model)).collect() };
        Ok(Self { served, list: json(&list).into() })
    }

    pub(super) fn find(&self, id: &str) -> Option<&Arc<Served>> {
        self.served.get(id)
    }

    /// All models in `OpenAI`'s format.
    pub(super) fn list(&self) -> Bytes {
        self.list.clone()
    }
}

/// Strings and numbers: nothing that has no JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
