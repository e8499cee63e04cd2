//! Refusals of an authority: its problem documents (RFC 7807; RFC 8555, 6.7), parsed and bounded.

use std::{error::Error as StdError, fmt, time::Duration};

use http::StatusCode;
use serde::Deserialize;

/// The limit of characters kept of an authority's explanation.
const DETAIL: usize = 1_000;
const NAMESPACE: &str = "urn:ietf:params:acme:error:";

/// The reason a request to an authority failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcmeError {
    /// The authority responded with a refusal.
    #[error("the certificate authority refuses: {0}")]
    Refused(AcmeProblem),
    /// There was no valid response: the authority is unreachable, or its response is truncated or malformed. Also
    /// returned if a prerequisite such as `acme.ca_file` cannot be used.
    #[error("the certificate authority cannot be asked: {0}")]
    Away(String),
}

/// A refusal, in the authority's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeProblem {
    /// The kind of the refusal.
    pub kind: ProblemKind,
    /// Its name, such as `urn:ietf:params:acme:error:caa`; empty if it has none.
    pub urn: String,
    /// The explanation and those of its subproblems, on one line, at most 1,000 characters.
    pub detail: String,
    /// The wait that the authority requests.
    pub retry_after: Option<Duration>,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// Too many requests in too short a time.
    RateLimited,
    /// A CAA record forbids the authority to issue for the name.
    Caa,
    /// The name could not be looked up.
    Dns,
    /// The server behind the name could not be reached, or its TLS failed.
    Connection,
    /// The response to a challenge was wrong, or the account is not allowed to do this.
    Unauthorized,
    /// The authority does not issue for the name.
    RejectedIdentifier,
    /// The certificate to replace has already been replaced (RFC 9773, 5).
    AlreadyReplaced,
    /// The account does not exist, or no longer.
    AccountGone,
    /// An account must be bound to one that the authority already knows.
    ExternalAccountRequired,
    /// The authority does not know the resource: an order that it has forgotten.
    OrderGone,
    /// The nonce was refused repeatedly.
    BadNonce,
    /// The authority failed.
    ServerInternal,
    /// Anything else.
    Other,
}

impl ProblemKind {
    /// Returns the name of the kind, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Caa => "caa",
            Self::Dns => "dns",
            Self::Connection => "connection",
            Self::Unauthorized => "unauthorized",
            Self::RejectedIdentifier => "rejected_identifier",
            Self::AlreadyReplaced => "already_replaced",
            Self::AccountGone => "account_gone",
            Self::ExternalAccountRequired => "external_account_required",
            Self::OrderGone => "order_gone",
            Self::BadNonce => "bad_nonce",
            Self::ServerInternal => "server_internal",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for AcmeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.detail.is_empty(), self.urn.is_empty()) {
            (false, false) => write!(f, "{} ({})", self.detail, self.urn),
            (false, true) => f.write_str(&self.detail),
            (true, _) => f.write_str(&self.urn),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProblemDocument {
    r#type: Option<String>,
    detail: Option<String>,
    subproblems: Vec<Subproblem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subproblem {
    r#type: Option<String>,
    detail: Option<String>,
    identifier: Option<ProblemIdentifier>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProblemIdentifier {
    value: String,
}

impl ProblemDocument {
    pub(super) fn refusal(self, status: Option<StatusCode>, retry_after: Option<Duration>) -> AcmeProblem {
        let urn = self.r#type.unwrap_or_default();
        let first = self.subproblems.first().and_then(|problem| problem.r#type.clone()).unwrap_or_default();
        let detail = self.detail.unwrap_or_default();
        let kind = match short(&urn) {
            "compound" => kind(short(&first), status, &detail),
            name => kind(name, status, &detail),
        };
        let subproblems = self.subproblems.into_iter().map(|problem| {
            let name = problem.identifier.map(|identifier| identifier.value).unwrap_or_default();
            (name, problem.detail.unwrap_or_default())
        });
        let told = std::iter::once((String::new(), detail)).chain(subproblems);
        let mut parts: Vec<String> = Vec::new();
        for (name, detail) in told.filter(|(_, detail)| !detail.is_empty()) {
            parts.push(if name.is_empty() { detail } else { format!("{name}: {detail}") });
        }
        AcmeProblem { kind, urn: on_one_line(&urn), detail: on_one_line(&parts.join("; ")), retry_after }
    }
}

impl From<instant_acme::Problem> for AcmeProblem {
    fn from(problem: instant_acme::Problem) -> Self {
        let subproblems = problem.subproblems.into_iter().map(|subproblem| Subproblem {
            r#type: subproblem.r#type,
            detail: subproblem.detail,
            identifier: subproblem
                .identifier
                .map(|name| ProblemIdentifier { value: name.authorized(false).to_string() }),
        });
        let subproblems = subproblems.collect();
        ProblemDocument { r#type: problem.r#type, detail: problem.detail, subproblems }.refusal(None, None)
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> Self {
        match error {
            instant_acme::Error::Api(problem) => Self::Refused(problem.into()),
            // Our own HTTP client has already interpreted it.
            instant_acme::Error::Other(error) => match error.downcast::<Self>() {
                Ok(known) => *known,
                Err(other) => Self::unreachable(&*other),
            },
            other => Self::unreachable(&other),
        }
    }
}

impl AcmeError {
    /// Creates an error of the connection to the authority, with its causes.
    pub(super) fn unreachable(error: &(dyn StdError + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        let told: Vec<String> = causes.map(ToString::to_string).collect();
        Self::Away(on_one_line(&told.join(": ")))
    }

    /// Creates a refusal that has no name in ACME.
    pub(super) fn refused(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self::Refused(AcmeProblem { kind, urn: String::new(), detail: on_one_line(&detail.into()), retry_after: None })
    }
}

fn short(urn: &str) -> &str {
    urn.strip_prefix(NAMESPACE).unwrap_or(urn)
}

fn kind(name: &str, status: Option<StatusCode>, detail: &str) -> ProblemKind {
    match name {
        "rateLimited" => ProblemKind::RateLimited,
        "caa" => ProblemKind::Caa,
        "dns" => ProblemKind::Dns,
        "connection" | "tls" => ProblemKind::Connection,
        // The refusal of a deactivated account has no name of its own.
        "unauthorized" if status.is_some() && is_account_closed(detail) => ProblemKind::AccountGone,
        "unauthorized" | "incorrectResponse" => ProblemKind::Unauthorized,
        "rejectedIdentifier" | "unsupportedIdentifier" => ProblemKind::RejectedIdentifier,
        "alreadyReplaced" => ProblemKind::AlreadyReplaced,
        "accountDoesNotExist" => ProblemKind::AccountGone,
        "externalAccountRequired" => ProblemKind::ExternalAccountRequired,
        "badNonce" => ProblemKind::BadNonce,
        _ if status == Some(StatusCode::TOO_MANY_REQUESTS) => ProblemKind::RateLimited,
        _ if status == Some(StatusCode::NOT_FOUND) => ProblemKind::OrderGone,
        "serverInternal" => ProblemKind::ServerInternal,
        _ if status.is_some_and(|status| status.is_server_error()) => ProblemKind::ServerInternal,
        _ => ProblemKind::Other,
    }
}

fn is_account_closed(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    detail.contains("account") && (detail.contains("deactivated") || detail.contains("revoked"))
}

/// Sanitizes an authority's text for terminals and pages.
fn on_one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().nth(DETAIL).is_none() {
        return shown.collect();
    }
    shown.take(DETAIL - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, document: &str) -> AcmeProblem {
        let document: ProblemDocument = serde_json::from_str(document).unwrap();
        document.refusal(Some(StatusCode::from_u16(status).unwrap()), Some(Duration::from_secs(7)))
    }

    #[test]
    fn refusals_have_a_kind() {
        let named = |name: &str| format!(r#"{{"type":"urn:ietf:params:acme:error:{name}","detail":"d"}}"#);
        for (status, name, kind) in [
            (429, "rateLimited", ProblemKind::RateLimited),
            (403, "caa", ProblemKind::Caa),
            (400, "dns", ProblemKind::Dns),
            (400, "connection", ProblemKind::Connection),
            (400, "tls", ProblemKind::Connection),
            (403, "unauthorized", ProblemKind::Unauthorized),
            (400, "rejectedIdentifier", ProblemKind::RejectedIdentifier),
            (409, "alreadyReplaced", ProblemKind::AlreadyReplaced),
            (400, "accountDoesNotExist", ProblemKind::AccountGone),
            (401, "externalAccountRequired", ProblemKind::ExternalAccountRequired),
            (400, "badNonce", ProblemKind::BadNonce),
            (500, "serverInternal", ProblemKind::ServerInternal),
            (404, "malformed", ProblemKind::OrderGone),
            (400, "malformed", ProblemKind::Other),
            (429, "somethingNew", ProblemKind::RateLimited),
            (503, "somethingNew", ProblemKind::ServerInternal),
        ] {
            let problem = refusal(status, &named(name));
            assert_eq!(problem.kind, kind, "{status} {name}");
            assert_eq!(problem.retry_after, Some(Duration::from_secs(7)));
        }
        let closed = r#"{"type":"urn:ietf:params:acme:error:unauthorized",
                         "detail":"Account is not valid, has status \"deactivated\""}"#;
        assert_eq!(refusal(403, closed).kind, ProblemKind::AccountGone);
    }

    #[test]
    fn subproblems_are_told_and_decide() {
        let problem = refusal(
            403,
            r#"{"type":"urn:ietf:params:acme:error:compound","detail":"Two errors","subproblems":[
                {"type":"urn:ietf:params:acme:error:caa","detail":"CAA forbids",
                 "identifier":{"type":"dns","value":"a.example"}},
                {"type":"urn:ietf:params:acme:error:dns","detail":"no such name"}]}"#,
        );
        assert_eq!(problem.kind, ProblemKind::Caa);
        assert_eq!(problem.detail, "Two errors; a.example: CAA forbids; no such name");
    }

    #[test]
    fn what_an_authority_writes_is_bounded_and_harmless() {
        let long = format!("\u{1b}[31mred\n{}", "é".repeat(5_000));
        let problem = ProblemDocument { detail: Some(long), ..ProblemDocument::default() }.refusal(None, None);
        assert_eq!(problem.detail.chars().count(), DETAIL);
        assert!(problem.detail.starts_with(" [31mred é") && problem.detail.ends_with('…'), "{problem}");
        assert_eq!(on_one_line(&"x".repeat(DETAIL)), "x".repeat(DETAIL));
        assert_eq!(refusal(400, "{}").kind, ProblemKind::Other);
    }

    #[test]
    fn a_problem_within_an_order_is_read_alike() {
        let inner = r#"{"type":"urn:ietf:params:acme:error:connection","detail":"timeout","status":400}"#;
        let problem: AcmeProblem = serde_json::from_str::<instant_acme::Problem>(inner).unwrap().into();
        assert_eq!((problem.kind, problem.detail.as_str()), (ProblemKind::Connection, "timeout"));
        assert_eq!(problem.to_string(), "timeout (urn:ietf:params:acme:error:connection)");
        let known = AcmeError::refused(ProblemKind::OrderGone, "gone");
        let through = AcmeError::from(instant_acme::Error::Other(Box::new(known)));
        assert!(matches!(through, AcmeError::Refused(AcmeProblem { kind: ProblemKind::OrderGone, .. })), "{through}");
    }
}
