//! Requests that are refused before their target is known, whatever their host is.

use http::StatusCode;

/// The fault for which a request is refused before its target is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpFault {
    /// The request is not valid HTTP, or does not name exactly one host.
    Malformed,
    /// The request's connection was made for another application.
    Misdirected,
    /// The cookies make the head of the request too large.
    CookiesTooLarge,
}

impl HttpFault {
    /// Returns the status of the refusal: 400, 421 or 431.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::CookiesTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    /// Returns the text that explains the fault to the clients of the API and of the gateway.
    pub fn message(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed: it has to be of HTTP's form and to name one host.",
            Self::Misdirected => {
                "The connection was made for another host, which this one shares none with; connect anew for it."
            }
            Self::CookiesTooLarge => "The cookies make the head of the request too large; send fewer of them.",
        }
    }
}
