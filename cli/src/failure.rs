//! Failures: a sentence and a next step for people, a stable code for programs, an exit code for shells.

use std::fmt;

use serde::Serialize;

/// Classes of failure that a shell script can tell apart. The numbers are documented in `svc --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    Refused = 1,
    Usage = 2,
    NotSignedIn = 3,
    NotFound = 4,
    Conflict = 5,
    Limit = 6,
    Unreachable = 7,
}

/// A failure that the user can act on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureClass,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, code: code.into(), message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureClass::Usage, "usage", message)
    }

    pub(crate) fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Refused, code, message)
    }

    pub(crate) fn not_signed_in(message: impl Into<String>) -> Self {
        Self::new(FailureClass::NotSignedIn, "not_signed_in", message)
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(FailureClass::Limit, "limit_exceeded", message)
    }

    /// Creates the failure for the `code` and `message` of the API's error envelope.
    pub(crate) fn answered(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = match status {
            401 => FailureClass::NotSignedIn,
            404 => FailureClass::NotFound,
            409 => FailureClass::Conflict,
            413 | 429 => FailureClass::Limit,
            500.. => FailureClass::Unreachable,
            _ => FailureClass::Refused,
        };
        let failure = Self::new(kind, code, message);
        match kind {
            FailureClass::NotSignedIn => failure.with_hint("Run `svc login`, or set SVC_TOKEN to a valid token."),
            FailureClass::Unreachable => {
                failure.with_hint("This is the service's fault, not yours; try again in a minute.")
            }
            _ if failure.code == "rate_limit_exceeded" => failure.with_hint("Wait a minute, then try again."),
            _ => failure,
        }
    }

    /// Sets the next step, replacing a more general hint.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A failure that the printed result already reports, so that only the exit code remains.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the result tells of the failure")]
pub(crate) struct AlreadyReported(pub(crate) FailureClass);

/// Returns the failure inside `error`, or creates one: an unforeseen error still gets a code and a sentence.
pub(crate) fn from_error(error: &anyhow::Error) -> Failure {
    error
        .downcast_ref::<Failure>()
        .cloned()
        .unwrap_or_else(|| Failure::new(FailureClass::Refused, "failed", ErrorChain(error).to_string()))
}

/// Formats an error and its causes on one line.
struct ErrorChain<'e>(&'e anyhow::Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// `{"error": {…}}`: the API's own envelope, with the next step in addition to the message.
#[derive(Serialize)]
pub(crate) struct ErrorReport<'f> {
    error: ReportBody<'f>,
}

#[derive(Serialize)]
struct ReportBody<'f> {
    code: &'f str,
    message: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'f str>,
}

impl<'f> From<&'f Failure> for ErrorReport<'f> {
    fn from(failure: &'f Failure) -> Self {
        let Failure { code, message, hint, .. } = failure;
        Self { error: ReportBody { code, message, hint: hint.as_deref() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_the_promised_exit_codes() {
        for (status, exit) in
            [(400, 1), (403, 1), (415, 1), (401, 3), (404, 4), (409, 5), (413, 6), (429, 6), (500, 7), (503, 7)]
        {
            assert_eq!(Failure::answered(status, "code", "message").kind as u8, exit, "{status}");
        }
    }

    #[test]
    fn an_unforeseen_error_keeps_its_causes() {
        let error = anyhow::anyhow!("disk full").context("Cannot write x");
        assert_eq!(from_error(&error).message, "Cannot write x: disk full");
        assert_eq!(from_error(&error).kind, FailureClass::Refused);
    }

    #[test]
    fn a_failure_is_found_under_its_context() {
        let error = anyhow::Error::from(Failure::answered(409, "name_taken", "taken")).context("while creating");
        assert_eq!(from_error(&error).kind, FailureClass::Conflict);
    }
}
