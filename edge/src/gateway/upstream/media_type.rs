//! What providers say that their answers are.

use http::{HeaderMap, HeaderValue, header};

/// What a provider says that its answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum MediaType {
    EventStream,
    Json,
    Other,
    /// It does not say.
    None,
}

impl MediaType {
    /// The media type of an answer with these headers.
    pub(in crate::gateway) fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        match essence.to_ascii_lowercase().as_slice() {
            b"" => Self::None,
            b"text/event-stream" => Self::EventStream,
            b"application/json" => Self::Json,
            _ => Self::Other,
        }
    }
}
