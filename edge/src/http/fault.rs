//! Requests that are refused before it is known what they ask for, whatever their host is.

use http::StatusCode;

/// Why a request is refused before it is known what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no request, or does not name one host.
    Malformed,
    /// Its connection was made for another application.
    Misdirected,
    /// Its cookies make its head too large.
    CookiesTooLarge,
}

impl Fault {
    /// The status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::CookiesTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    /// The refusal's message, for programs and those who write them.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed: it has to be of HTTP's form and to name one host.",
            Self::Misdirected => {
                "The connection was made for another host, which this one shares none with; connect anew for it."
            }
            Self::CookiesTooLarge => "The cookies make the head of the request too large; send fewer of them.",
        }
    }
}
