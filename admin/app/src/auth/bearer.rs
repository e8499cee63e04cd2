//! Resolves a request's credential: `Authorization: Bearer …`, or otherwise the console's session.

use std::sync::Arc;

use admin_http::error::{ApiError, Code, PossibleError};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use db::sign_in::tokens::{self, PresentedToken, TokenOwner};
use domain::token::{TokenKind, TokenSecret};

use super::{
    Caller, CliUser, Credential, DeployToken, cookies,
    session::{self, ViaConsole},
};
use crate::App;

/// The errors of [`authenticate`] and of the extractors that require a caller.
pub const AUTHENTICATION_ERRORS: &[PossibleError] = &[PossibleError::new(
    Code::Unauthorized,
    "the token is missing, unknown, revoked or of a kind that does not work here",
)];

/// The result of resolving a request's credential, stored in the request's extensions.
#[derive(Debug, Clone)]
pub enum AuthOutcome {
    /// The request carries no credential.
    Absent,
    /// The credential is not accepted here.
    Refused(CredentialError),
    /// The credential belongs to this caller.
    Known(Arc<Caller>),
}

/// The reason why a credential is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialError {
    /// The header is not `Bearer svc_…`.
    Malformed,
    /// No such token exists.
    Unknown,
    /// The token was revoked.
    Revoked,
    /// The token is only for the gateway.
    WrongKind,
    /// The token is an organization's `deploy` token, which may only deploy.
    DeployOnly,
    /// The session has ended.
    SignedOut,
    /// The session's cookie came with a request that was not made by a page of the console.
    ForeignOrigin,
}

impl CredentialError {
    /// Returns the API error, which always has status 401.
    pub fn to_error(self) -> ApiError {
        let message = match self {
            Self::Malformed => {
                "The Authorization header must be `Bearer svc_…` with a whole token. `svc login` gets one."
            }
            Self::Unknown => "The token is not known; run `svc login`.",
            Self::Revoked => "The token was revoked; run `svc login`.",
            Self::WrongKind => "An ai token works against the AI gateway only; use a cli token here.",
            Self::DeployOnly => "A deploy token can only deploy; use a cli token here. `svc login` gets one.",
            Self::SignedOut => "Your session is over; sign in again.",
            Self::ForeignOrigin => {
                "A session works only in requests that the console's own pages make; use a token here."
            }
        };
        ApiError::new(Code::Unauthorized, message)
    }
}

/// Middleware that resolves the credential and stores [`AuthOutcome`] in the request's extensions.
pub async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let by_console = request.extensions().get::<ViaConsole>().is_some();
    match identify(&app, request.method(), request.headers(), by_console).await {
        Ok(mut authentication) => {
            // Here, so that a request refused in any case is not counted as a change, nor stored under its
            // `Idempotency-Key`.
            if let AuthOutcome::Known(caller) = &authentication
                && matches!(**caller, Caller::Deploy(_))
                && !is_open_to_deploy_tokens(&request)
            {
                authentication = AuthOutcome::Refused(CredentialError::DeployOnly);
            }
            request.extensions_mut().insert(authentication);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// The operations that deploy tokens may call. The access matrix test fails if one is missing here.
const OPEN_TO_DEPLOY_TOKENS: [(Method, &str); 5] = [
    (Method::GET, "/me"),
    (Method::GET, "/projects"),
    (Method::GET, "/projects/{name}"),
    (Method::POST, "/projects/{name}/deployments"),
    (Method::POST, "/projects/{name}/deployments/{id}/activate"),
];

fn is_open_to_deploy_tokens(request: &Request) -> bool {
    let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    OPEN_TO_DEPLOY_TOKENS.iter().any(|(open, of)| open == method && path == Some(of))
}

async fn identify(app: &App, method: &Method, headers: &HeaderMap, by_console: bool) -> Result<AuthOutcome, ApiError> {
    let secret = match parse_bearer(headers) {
        Ok(Some(secret)) => secret,
        Ok(None) if by_console => return session::find_via_console(app, method, headers).await,
        Ok(None) => return Ok(AuthOutcome::Absent),
        Err(refusal) => return Ok(AuthOutcome::Refused(refusal)),
    };
    let bearer = db::in_time(tokens::find_bearer(&app.db, &secret.hash())).await?;
    Ok(match bearer.ok_or(CredentialError::Unknown).and_then(admit) {
        Ok(caller) => AuthOutcome::Known(Arc::new(caller)),
        Err(refusal) => AuthOutcome::Refused(refusal),
    })
}

/// Returns the secret of the request's credential, for deriving keys.
pub fn presented_secret(headers: &HeaderMap) -> Option<String> {
    let token = parse_bearer(headers).ok().flatten().map(|secret| secret.expose().to_owned());
    token.or_else(|| cookies::secret(headers, cookies::SESSION).map(|secret| secret.expose().to_owned()))
}

fn parse_bearer(headers: &HeaderMap) -> Result<Option<TokenSecret>, CredentialError> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(CredentialError::Malformed);
    }
    let (scheme, secret) = value.to_str().ok().and_then(|v| v.split_once(' ')).ok_or(CredentialError::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(CredentialError::Malformed);
    }
    TokenSecret::parse(secret.trim()).map(Some).ok_or(CredentialError::Malformed)
}

fn admit(bearer: PresentedToken) -> Result<Caller, CredentialError> {
    let PresentedToken { token, owner } = bearer;
    if token.revoked_at.is_some() {
        return Err(CredentialError::Revoked);
    }
    match (token.kind, owner) {
        (TokenKind::Cli, TokenOwner::User(user)) => {
            Ok(Caller::User(CliUser { credential: Credential::Token(token.id), user }))
        }
        (TokenKind::Deploy, TokenOwner::Org { id, name, created_at, creator, sharing }) => {
            Ok(Caller::Deploy(DeployToken {
                token,
                org: id,
                org_name: name,
                org_created_at: created_at,
                org_creator: creator,
                sharing,
            }))
        }
        _ => Err(CredentialError::WrongKind),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn header(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn only_a_whole_bearer_token_is_read() {
        let secret = TokenSecret::generate();
        let parsed = parse_bearer(&header(&format!("bEaReR {}", secret.expose()))).unwrap().unwrap();
        assert_eq!(parsed.hash(), secret.hash());
        assert!(parse_bearer(&HeaderMap::new()).unwrap().is_none());
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "Bearer svc_short", secret.expose()] {
            assert_eq!(parse_bearer(&header(bad)).err(), Some(CredentialError::Malformed), "{bad}");
        }
        let mut twice = header(&format!("Bearer {}", secret.expose()));
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert_eq!(parse_bearer(&twice).err(), Some(CredentialError::Malformed));
    }
}
