//! The endpoints of the gateway, by their paths.

use http::Method;

use super::{endpoints, formats::Api};

/// The endpoint that a path stands for.
#[derive(Clone, Copy)]
pub(super) enum Route<'p> {
    /// Completions, in one of the formats, or embeddings.
    Completions(Api),
    /// The tokens that a request for messages has.
    CountTokens,
    Models,
    /// One model, by its id as the path has it.
    Model(&'p str),
    OpenApi,
}

impl<'p> Route<'p> {
    /// The endpoint at this path.
    pub(super) fn find(path: &'p str) -> Option<Self> {
        match path {
            endpoints::CHAT_COMPLETIONS => Some(Self::Completions(Api::Chat)),
            endpoints::COMPLETIONS => Some(Self::Completions(Api::Text)),
            endpoints::EMBEDDINGS => Some(Self::Completions(Api::Embeddings)),
            endpoints::RESPONSES => Some(Self::Completions(Api::Responses)),
            endpoints::MESSAGES => Some(Self::Completions(Api::Messages)),
            endpoints::COUNT_TOKENS => Some(Self::CountTokens),
            endpoints::MODELS => Some(Self::Models),
            endpoints::OPENAPI => Some(Self::OpenApi),
            _ => {
                let id = path.strip_prefix(endpoints::MODELS)?.strip_prefix('/')?;
                (!id.is_empty()).then_some(Self::Model(id))
            }
        }
    }

    /// The methods that the route has, for `Allow`.
    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Completions(_) | Self::CountTokens => "POST, OPTIONS",
            Self::Models | Self::Model(_) | Self::OpenApi => "GET, HEAD, OPTIONS",
        }
    }

    /// The format of the answers.
    pub(super) fn api(self) -> Api {
        match self {
            Self::Completions(api) => api,
            Self::CountTokens => Api::Messages,
            Self::Models | Self::Model(_) | Self::OpenApi => Api::Chat,
        }
    }

    /// The format of the error for a path that is no endpoint: the one of the clients that ask below it.
    pub(super) fn api_of_unknown(path: &str) -> Api {
        match path.strip_prefix(endpoints::MESSAGES) {
            Some(below) if below.starts_with('/') => Api::Messages,
            _ => Api::Chat,
        }
    }

    /// Whether it has this method.
    pub(super) fn has_method(self, method: &Method) -> bool {
        self.methods().split(", ").any(|name| name == method.as_str())
    }
}
