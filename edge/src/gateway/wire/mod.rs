//! What must hold of whatever bytes a client or a provider sends: of the fields of JSON objects ([`fields`]), of streams
//! ([`frames`]) and of requests ([`requests`]).
//!
//! No part of the gateway: compiled for tests, which ask it of `fuzz/seeds`, of mutations of them and of random input, and
//! for the targets in `fuzz/`. Cases with one right answer stand beside the readers. Start with [`Wire`].

mod fields;
mod frames;
mod requests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use config::{Gateway as Config, gateway::Quirks, models::Models};

use super::models::{ServedModel, ServedModels};

/// The provider that is checked without its quirks.
const PLAIN: &str = "ovhcloud";
/// The model of the streams that are checked.
const STREAMED: &str = "svc/qwen3-32b";

/// A property that does not hold, and the text that it does not hold of.
pub type Violation = String;

/// The readers of requests and answers, with the shipped models. No provider is asked.
pub struct Wire {
    models: ServedModels,
    streamed: Arc<ServedModel>,
}

impl Wire {
    /// Sets the readers up.
    pub fn new() -> Result<Self, Violation> {
        let mut config = Config::default();
        config.providers.get_mut(PLAIN).ok_or("no such provider is shipped")?.quirks = Quirks::default();
        // What a request may hold is looked at, not which model reads it.
        config.models.values_mut().for_each(|model| model.vision = true);
        let models = Models::of(&config, |_| Some("key".to_owned())).map_err(|error| error.to_string())?;
        let models = ServedModels::new(&models, &config, None).map_err(|error| error.to_string())?;
        let streamed = models.find(STREAMED).ok_or("no such model is shipped")?.clone();
        Ok(Self { models, streamed })
    }
}

/// Fails with the first of `properties` that does not hold of `text`.
fn require<const N: usize>(text: &[u8], properties: [(&str, bool); N]) -> Result<(), Violation> {
    match properties.iter().find(|(_, holds)| !holds) {
        Some((property, _)) => Err(format!("not so: {property}: {}", text.escape_ascii())),
        None => Ok(()),
    }
}
