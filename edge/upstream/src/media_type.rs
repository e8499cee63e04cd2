//! The media types of providers' answers.

use http::{HeaderMap, HeaderValue, header};

/// The media type of an answer, as declared by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// `text/event-stream`: a stream of events.
    EventStream,
    /// `application/json`: a whole answer, or an error.
    Json,
    /// Any other type, or one that is not valid.
    Other,
    /// Not declared.
    None,
}

impl MediaType {
    /// Reads the media type from `Content-Type`, whatever its case and its parameters.
    pub fn from_headers(headers: &HeaderMap) -> Self {
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
