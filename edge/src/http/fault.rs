//! Requests that are refused before it is known what they ask for, whatever their host is.

use http::StatusCode;

/// Why a request is refused before it is known what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is not of HTTP's form, or does not name exactly one host.
    Malformed,
    /// The request's connection was made for another application.
    Misdirected,
    /// The request's cookies make its head too large.
    CookiesTooLarge,
}

impl Fault {
    /// The status of the answer that refuses the request.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::CookiesTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    /// The sentence that tells the client's developer what is wrong with the request.
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
