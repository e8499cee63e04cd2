//! The gateway's endpoints, by path.

use gateway_formats::CompletionApi;
use gateway_request::endpoints;
use http::Method;

/// The endpoint of a path.
#[derive(Clone, Copy)]
pub(super) enum GatewayRoute<'p> {
    /// Completions, in one of the formats, or embeddings.
    Completions(CompletionApi),
    /// The token count of a Messages request.
    CountTokens,
    Models,
    /// One model, by its id as written in the path.
    Model(&'p str),
    OpenApi,
}

impl<'p> GatewayRoute<'p> {
    pub(super) fn find(path: &'p str) -> Option<Self> {
        match path {
            endpoints::CHAT_COMPLETIONS => Some(Self::Completions(CompletionApi::Chat)),
            endpoints::COMPLETIONS => Some(Self::Completions(CompletionApi::Text)),
            endpoints::EMBEDDINGS => Some(Self::Completions(CompletionApi::Embeddings)),
            endpoints::RESPONSES => Some(Self::Completions(CompletionApi::Responses)),
            endpoints::MESSAGES => Some(Self::Completions(CompletionApi::Messages)),
            endpoints::COUNT_TOKENS => Some(Self::CountTokens),
            endpoints::MODELS => Some(Self::Models),
            endpoints::OPENAPI => Some(Self::OpenApi),
            _ => {
                let id = path.strip_prefix(endpoints::MODELS)?.strip_prefix('/')?;
                (!id.is_empty()).then_some(Self::Model(id))
            }
        }
    }

    /// Returns the route's methods, for `Allow`.
    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Completions(_) | Self::CountTokens => "POST, OPTIONS",
            Self::Models | Self::Model(_) | Self::OpenApi => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn api(self) -> CompletionApi {
        match self {
            Self::Completions(api) => api,
            Self::CountTokens => CompletionApi::Messages,
            Self::Models | Self::Model(_) | Self::OpenApi => CompletionApi::Chat,
        }
    }

    /// Returns the format of the error for an unknown path, which is that of the clients that use the paths above it.
    pub(super) fn api_of_unknown(path: &str) -> CompletionApi {
        match path.strip_prefix(endpoints::MESSAGES) {
            Some(below) if below.starts_with('/') => CompletionApi::Messages,
            _ => CompletionApi::Chat,
        }
    }

    pub(super) fn has_method(self, method: &Method) -> bool {
        self.methods().split(", ").any(|name| name == method.as_str())
    }
}
