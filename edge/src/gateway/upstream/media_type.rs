//! The media types of providers' answers.

use http::{HeaderMap, HeaderValue, header};

/// The media type of an answer, as declared by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum MediaType {
    EventStream,
    Json,
    Other,
    /// Not declared.
    None,
}

impl MediaType {
    pub(in crate::gateway) fn from_headers(headers: &HeaderMap) -> Self {
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
