//! Properties that must hold for any bytes from a client or a provider: for the fields of JSON objects ([`fields`]),
//! for streams ([`frames`]) and for requests ([`requests`]).
//!
//! This is not a part of the gateway. It is compiled for tests, which check `fuzz/seeds`, mutations of them and random
//! input, and for the targets in `fuzz/`. Cases with a single correct result are tested next to the parsers. Start with
//! [`WireChecks`].

mod fields;
mod frames;
mod requests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use config::{Gateway as Config, gateway::ProviderQuirks, models::ModelCatalog};
use gateway_request::models::{ServedModel, ServedModels};

/// The provider that is checked without its quirks.
const PLAIN: &str = "ovhcloud";
/// The model of the checked streams.
const STREAMED: &str = "svc/qwen3-32b";

/// A property that does not hold, and the text that violates it.
pub type PropertyViolation = String;

/// The parsers of requests and answers, with the shipped models. No provider is contacted.
pub struct WireChecks {
    models: ServedModels,
    streamed: Arc<ServedModel>,
}

impl WireChecks {
    /// Sets up the parsers.
    pub fn new() -> Result<Self, PropertyViolation> {
        let mut config = Config::default();
        config.providers.get_mut(PLAIN).ok_or("no such provider is shipped")?.quirks = ProviderQuirks::default();
        // The checks are about what a request may hold, not about which model supports it.
        config.models.values_mut().for_each(|model| model.vision = true);
        let models =
            ModelCatalog::from_config(&config, |_| Some("key".to_owned())).map_err(|error| error.to_string())?;
        let models = ServedModels::new(&models, &config, None).map_err(|error| error.to_string())?;
        let streamed = models.find(STREAMED).ok_or("no such model is shipped")?.clone();
        Ok(Self { models, streamed })
    }
}

/// Fails with the first of `properties` that does not hold for `text`.
fn require<const N: usize>(text: &[u8], properties: [(&str, bool); N]) -> Result<(), PropertyViolation> {
    match properties.iter().find(|(_, holds)| !holds) {
        Some((property, _)) => Err(format!("not so: {property}: {}", text.escape_ascii())),
        None => Ok(()),
    }
}
