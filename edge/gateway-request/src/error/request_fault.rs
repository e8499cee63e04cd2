//! The errors for a request that a provider refuses as invalid.

use openai::error_code::ErrorCode;

use super::{ApiError, ErrorReport, ProviderError, RequestComplaint};
use crate::request::{KnownField, SentFields};

/// The fault in a request for which its provider refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// The prompt is longer than the model's context, of this many tokens where that is configured.
    ContextLength(Option<u32>),
    /// The request asks for more tokens than the model writes, in this field.
    CompletionLength(&'static str),
    /// The provider's content filter holds the request back.
    ContentFilter,
    /// The model does not read images.
    Images,
    /// A field is not supported; named if the client sent it.
    Field(Option<KnownField>),
    /// The provider answers with status 413, and gives no reason that is recognized.
    Size,
    /// The provider gives no reason, or one that is not recognized.
    Unknown,
}

/// The properties of a request that explain why its provider refuses it.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts {
    /// The model's context in tokens.
    pub context: Option<u32>,
    /// The known fields of the request, since an error names no others.
    pub sent: SentFields,
}

impl RequestFacts {
    /// Returns the fault that a provider's complaint means, or [`RequestFault::Unknown`] without a complaint.
    pub fn fault_for(&self, complaint: Option<RequestComplaint>) -> RequestFault {
        match complaint {
            Some(RequestComplaint::ContextLength) => RequestFault::ContextLength(self.context),
            Some(RequestComplaint::CompletionLength) => {
                let newer = KnownField::find(b"max_completion_tokens").filter(|field| self.sent.has(*field));
                RequestFault::CompletionLength(newer.map_or("max_tokens", KnownField::as_str))
            }
            Some(RequestComplaint::ContentFilter) => RequestFault::ContentFilter,
            Some(RequestComplaint::Images) => RequestFault::Images,
            Some(RequestComplaint::Field(field)) => RequestFault::Field(field.filter(|field| self.sent.has(*field))),
            None => RequestFault::Unknown,
        }
    }

    /// Returns the error for a report in the body of an answer with a successful status.
    pub fn error_for_report(&self, report: ErrorReport) -> ProviderError {
        match (report.complaint, report.status) {
            (Some(complaint), _) => ProviderError::Refused(self.fault_for(Some(complaint))),
            (None, Some(400 | 413 | 422)) => ProviderError::Refused(RequestFault::Unknown),
            (None, Some(429)) => ProviderError::RateLimited { retry_after: None },
            (None, Some(408 | 504)) => ProviderError::Timeout,
            (None, _) => ProviderError::FAILED,
        }
    }
}

impl From<RequestFault> for ApiError {
    fn from(fault: RequestFault) -> Self {
        match fault {
            RequestFault::ContextLength(context) => Self::context_length_exceeded(context),
            RequestFault::CompletionLength(field) => {
                Self::invalid_value(field, "the model does not write as many for this prompt; send a lower number")
            }
            RequestFault::ContentFilter => {
                let message = "The content filter of the model's provider holds the request back. Change the messages.";
                Self::new(ErrorCode::ContentFilter, message).with_param("messages")
            }
            RequestFault::Images => {
                let message = "The model does not read images. Leave the `image_url` parts out, or use another model.";
                Self::new(ErrorCode::InvalidValue, message).with_param("messages")
            }
            RequestFault::Field(Some(field)) => {
                let name = field.as_str();
                let message = format!(
                    "Unsupported parameter: the model's provider does not take `{name}` as it was sent. Change it, or \
                     leave it out."
                );
                Self::new(ErrorCode::UnsupportedParameter, message).with_param(name)
            }
            RequestFault::Field(None) => {
                let message = "Unsupported parameter: the model's provider does not take one of the fields that were \
                               sent. Leave out those that the model can do without.";
                Self::new(ErrorCode::UnsupportedParameter, message)
            }
            RequestFault::Size => {
                let message =
                    "The request is too large for the model's provider. Please reduce the length of the messages.";
                Self::new(ErrorCode::InvalidValue, message).with_param("messages")
            }
            RequestFault::Unknown => {
                let message = "The model's provider takes the request for invalid: check the form of the messages and the \
                               tools, and the optional fields against what the model can do.";
                Self::new(ErrorCode::InvalidValue, message)
            }
        }
    }
}
