//! The gateway's endpoints, by path.

use http::Method;

use super::{endpoints, formats::Api};

/// The endpoint of a path.
#[derive(Clone, Copy)]
pub(super) enum Route<'p> {
    /// Completions, in one of the formats, or embeddings.
    Completions(Api),
    /// The token count of a Messages request.
    CountTokens,
    Models,
    /// One model, by its id as written in the path.
    Model(&'p str),
    OpenApi,
}

impl<'p> Route<'p> {
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

    /// Returns the route's methods, for `Allow`.
    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Completions(_) | Self::CountTokens => "POST, OPTIONS",
            Self::Models | Self::Model(_) | Self::OpenApi => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn api(self) -> Api {
        match self {
            Self::Completions(api) => api,
            Self::CountTokens => Api::Messages,
            Self::Models | Self::Model(_) | Self::OpenApi => Api::Chat,
        }
    }

    /// Returns the format of the error for an unknown path, which is that of the clients that use the paths above it.
    pub(super) fn api_of_unknown(path: &str) -> Api {
        match path.strip_prefix(endpoints::MESSAGES) {
            Some(below) if below.starts_with('/') => Api::Messages,
            _ => Api::Chat,
        }
    }

    pub(super) fn has_method(self, method: &Method) -> bool {
        self.methods().split(", ").any(|name| name == method.as_str())
    }
}
