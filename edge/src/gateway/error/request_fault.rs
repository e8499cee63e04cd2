//! What a client is told when a provider refuses its request as invalid.

use super::{ApiError, Complaint, ErrorCode, ProviderError, Report};
use crate::gateway::request::{KnownField, SentFields};

/// The fault for which a provider refuses a request, as far as its words tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum RequestFault {
    /// The prompt is longer than the model's context, with its tokens where they are configured.
    ContextLength(Option<u32>),
    /// More tokens are asked for than the model writes, in the field that the client used.
    CompletionLength(&'static str),
    /// A content filter holds the prompt back.
    ContentFilter,
    /// The model does not read images.
    Images,
    /// A field is not supported, named if the client sent it.
    Field(Option<KnownField>),
    /// All of it is too large for the provider.
    Size,
    /// The provider does not say, or in words that are not known.
    Unknown,
}

/// The properties of a request that explain why its provider refuses it.
#[derive(Debug, Clone, Copy)]
pub(in crate::gateway) struct RequestFacts {
    /// The most tokens that a prompt of the model can have.
    pub(in crate::gateway) context: Option<u32>,
    /// The fields that the client has sent.
    pub(in crate::gateway) sent: SentFields,
}

impl RequestFacts {
    /// What the client is told of a complaint of its provider's.
    pub(in crate::gateway) fn fault(&self, complaint: Option<Complaint>) -> RequestFault {
        match complaint {
            Some(Complaint::ContextLength) => RequestFault::ContextLength(self.context),
            Some(Complaint::CompletionLength) => {
                let newer = KnownField::find(b"max_completion_tokens").filter(|field| self.sent.has(*field));
                RequestFault::CompletionLength(newer.map_or("max_tokens", KnownField::as_str))
            }
            Some(Complaint::ContentFilter) => RequestFault::ContentFilter,
            Some(Complaint::Images) => RequestFault::Images,
            Some(Complaint::Field(field)) => RequestFault::Field(field.filter(|field| self.sent.has(*field))),
            None => RequestFault::Unknown,
        }
    }

    /// What the client is told of an error in the body of an answer that began well.
    pub(in crate::gateway) fn reported(&self, report: Report) -> ProviderError {
        match (report.complaint, report.status) {
            (Some(complaint), _) => ProviderError::Refused(self.fault(Some(complaint))),
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
