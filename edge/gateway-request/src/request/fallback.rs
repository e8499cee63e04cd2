//! The request for a model's second provider, written only when it is needed, which is rare.

use std::sync::Arc;

use bytes::Bytes;
use upstream::BodyPieces;

use super::{
    super::{asks::RequestLimits, error::ApiError, models::ServedModel},
    CompletionRequest, RequestFields, validate_for,
};

/// Writes a request in another format than a chat completion.
pub trait WriteRequest: Send + Sync {
    /// Writes the body for a model's provider.
    fn write(&self, model: &ServedModel) -> BodyPieces;
}

/// A request for a model's second provider. Until it is needed, it holds the chat completion from which the first
/// provider's body was written; both share their long parts.
pub struct FallbackRequest {
    /// The model at its second provider.
    pub model: Arc<ServedModel>,
    body: Bytes,
    asks: RequestLimits,
    hints: &'static [&'static str],
    /// The request in the client's own format, if the second provider has an endpoint for it.
    native: Option<Box<dyn WriteRequest>>,
}

impl FallbackRequest {
    pub(super) fn new(
        model: &Arc<ServedModel>,
        body: &Bytes,
        asks: &RequestLimits,
        hints: &'static [&'static str],
    ) -> Self {
        Self { model: model.clone(), body: body.clone(), asks: asks.clone(), hints, native: None }
    }

    /// Makes the request pass in the client's own format.
    pub fn set_native(&mut self, native: Box<dyn WriteRequest>) {
        self.native = Some(native);
        self.body = Bytes::new();
    }

    /// Returns whether the request passes in the client's own format.
    pub fn is_native(&self) -> bool {
        self.native.is_some()
    }

    fn validate(&self) -> Result<CompletionRequest, ApiError> {
        validate_for(&self.model, &self.body, RequestFields::parse(&self.body)?, &self.asks, self.hints)
    }

    /// Writes the provider's body, on a blocking thread if it is large.
    pub async fn write(self: Box<Self>) -> Result<BodyPieces, ()> {
        if let Some(native) = &self.native {
            return Ok(native.write(&self.model));
        }
        let is_small = self.body.len() < limits::JUDGED_APART_BYTES;
        let write = move || self.validate().map(|request| request.body).map_err(|_| ());
        if is_small {
            return write();
        }
        // Fails when the runtime stops.
        tokio::task::spawn_blocking(write).await.unwrap_or(Err(()))
    }
}

impl CompletionRequest {
    /// Adds a request for the second provider, if that provider accepts it. The reservation covers both, since another
    /// dialect may need more tokens. The model's price applies whichever provider serves it.
    pub(super) fn with_fallback(mut self, fallback: FallbackRequest) -> Self {
        if let Ok(second) = fallback.validate() {
            self.max_usage.prompt = self.max_usage.prompt.max(second.max_usage.prompt);
            self.max_usage.completion = self.max_usage.completion.max(second.max_usage.completion);
            self.expected.completion = self.max_usage.completion;
            self.fallback = Some(Box::new(fallback));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use config::{
        Gateway,
        gateway::FallbackEntry,
        models::{ModelCatalog, ModelRoute},
    };

    use super::{
        super::{super::models::ServedModels, validate},
        *,
    };

    /// Models with the shipped dialects, one with a second provider, given these provider keys.
    fn models(keys: &[&str]) -> ServedModels {
        let mut config = Gateway::default();
        let (provider, upstream) = ("mistral".to_owned(), "second".to_owned());
        config.models.get_mut("svc/qwen3-32b").unwrap().fallback =
            Some(FallbackEntry { provider, upstream, routes: vec![ModelRoute::Chat] });
        let models = ModelCatalog::from_config(&config, |name| keys.contains(&name).then(|| "key".to_owned())).unwrap();
        ServedModels::new(&models, &config, None).unwrap()
    }

    const KEYS: [&str; 2] = ["OVH_AI_ENDPOINTS_ACCESS_TOKEN", "MISTRAL_API_KEY"];

    fn read(models: &ServedModels, fields: &str) -> CompletionRequest {
        let body = format!(r#"{{"model":"svc/qwen3-32b","max_tokens":7,{fields}}}"#);
        validate(&Bytes::from(body), models, &RequestLimits::default()).unwrap()
    }

    #[tokio::test]
    async fn the_second_providers_request_is_in_its_own_dialect_and_within_the_reservation() {
        let fields = r#""user":"ada","messages":[{"role":"tool","content":"7","tool_call_id":"a"},{"role":"user","content":"hi","name":"ada"}]"#;
        let request = read(&models(&KEYS), fields);
        let alone = read(&models(&KEYS[..1]), fields);
        assert!(alone.fallback.is_none());
        assert_eq!(request.body.joined(), alone.body.joined(), "the first one's is what it always is");
        assert!(request.max_usage.prompt >= alone.max_usage.prompt);
        let written = request.fallback.unwrap().write().await.unwrap().joined();
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!((&written["model"], &written["max_tokens"]), (&"second".into(), &7.into()));
        assert!(written.get("user").is_none() && written["messages"][0]["tool_call_id"] != "a", "{written}");
        assert_eq!(written["messages"].as_array().unwrap().len(), 3, "a turn goes between a tool and the user");
        assert!(request.max_usage.prompt >= written["messages"].to_string().len() as u64);
    }

    #[test]
    fn what_the_second_provider_does_not_take_has_the_first_alone() {
        let request = read(&models(&KEYS), r#""logprobs":true,"messages":[{"role":"user","content":"hi"}]"#);
        assert!(request.fallback.is_none());
    }

    #[test]
    fn a_model_whose_first_provider_does_not_admit_us_is_served_by_the_second() {
        let request = read(&models(&KEYS[1..]), r#""messages":[{"role":"user","content":"hi"}]"#);
        assert_eq!((&*request.model.upstream.name, request.fallback.is_none()), ("mistral", true));
    }
}
