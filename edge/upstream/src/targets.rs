//! The request paths of a provider.

use config::models::{ModelProvider, ModelRoute};
use http::Uri;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProviderTargets {
    chat: Uri,
    responses: Uri,
    messages: Uri,
    completions: Uri,
    embeddings: Uri,
}

impl ProviderTargets {
    /// Creates the targets under the provider's address.
    pub(super) fn for_provider(provider: &ModelProvider) -> Result<Self, http::Error> {
        let target = |own: Option<&String>, usual: &str| {
            let path = own.map_or(usual, |own| own.trim_start_matches('/'));
            let url = format!("{}/{path}", provider.base_url.as_str().trim_end_matches('/'));
            let uri: Uri = url.parse()?;
            Ok::<Uri, http::Error>(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).parse()?)
        };
        let quirks = &provider.quirks;
        Ok(Self {
            chat: target(None, "chat/completions")?,
            responses: target(None, "responses")?,
            messages: target(None, "messages")?,
            completions: target(quirks.completions.path.as_ref(), "completions")?,
            embeddings: target(quirks.embeddings.path.as_ref(), "embeddings")?,
        })
    }

    pub(super) fn at(&self, route: ModelRoute) -> &Uri {
        match route {
            ModelRoute::Chat => &self.chat,
            ModelRoute::Responses => &self.responses,
            ModelRoute::Messages => &self.messages,
            ModelRoute::Completions => &self.completions,
            ModelRoute::Embeddings => &self.embeddings,
        }
    }
}
