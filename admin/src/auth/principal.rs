//! Principals as types, with the extractors that make them.

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::request::Parts,
};
use db::{
    audit::Actor,
    sign_in::{tokens::Token, users::User},
};
use domain::{OrgId, OrgName, SessionId, Timestamp, TokenId, UserId};

use super::{Authentication, CredentialError};
use crate::{
    error::{ApiError, Code},
    rates::CountedFor,
};

/// A person, authenticated by a `cli` token or by the console's session.
#[derive(Debug, Clone)]
pub struct CliUser {
    /// The credential presented.
    pub credential: Credential,
    /// The person whose credential it is.
    pub user: User,
}

/// The credential of a person.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A `cli` token.
    Token(TokenId),
    /// A session of the console.
    Session(SessionId),
}

impl CliUser {
    /// The person as the audit log names them.
    pub fn actor(&self) -> Actor<'_> {
        Actor::user(&self.user, self.token())
    }

    /// The token presented. None in the console.
    pub fn token(&self) -> Option<&TokenId> {
        match &self.credential {
            Credential::Token(token) => Some(token),
            Credential::Session(_) => None,
        }
    }
}

/// A person in the console, authenticated by its session and by no token.
#[derive(Debug, Clone)]
pub struct ConsoleUser(pub CliUser);

/// An organization, authenticated by one of its `deploy` tokens.
#[derive(Debug, Clone)]
pub struct DeployToken {
    /// The token presented.
    pub token: Token,
    /// The organization's id.
    pub org: OrgId,
    /// The organization's name.
    pub org_name: OrgName,
    /// The time of the organization's creation.
    pub org_created_at: Timestamp,
    /// The person who created the organization; `None` once that account is gone.
    pub org_creator: Option<UserId>,
}

/// A caller of the endpoints that deploy: a person or an organization.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A person.
    User(CliUser),
    /// An organization's deploy token.
    Deploy(DeployToken),
}

impl Caller {
    /// The name in `deployments.created_by`: the login, or the deploy token's label.
    pub fn display_name(&self) -> String {
        match self {
            Self::User(caller) => caller.user.vcs_login.clone(),
            Self::Deploy(caller) => caller.token.label.clone().unwrap_or_else(|| "deploy token".to_owned()),
        }
    }

    /// The caller as the audit log names them.
    pub fn actor(&self) -> Actor<'_> {
        match self {
            Self::User(caller) => caller.actor(),
            Self::Deploy(caller) => Actor::DeployToken { id: &caller.token.id, label: caller.token.label.as_deref() },
        }
    }

    /// The id of the token or session presented, under which requests are counted.
    pub fn credential(&self) -> &str {
        match self {
            Self::User(CliUser { credential: Credential::Token(token), .. }) => token.as_str(),
            Self::User(CliUser { credential: Credential::Session(session), .. }) => session.as_str(),
            Self::Deploy(caller) => caller.token.id.as_str(),
        }
    }

    /// Returns whoever the caller's requests are counted for, however many credentials they have. A person's own are counted
    /// for the person. Those of organizations are counted apart, so that no pipeline is in its owner's way, and for the person who created
    /// the organization, over all of theirs: an organization is as free to make as a token. One of them has a part of that, so that a
    /// token of it that has leaked locks no other out. Keys of the gateway are no callers here; the edges count them for their account.
    pub fn counted_for(&self) -> CountedFor {
        let (payer, org) = match self {
            Self::User(caller) => (caller.user.id.to_string(), None),
            Self::Deploy(DeployToken { org, org_creator: Some(creator), .. }) => {
                (format!("organizations of {creator}"), Some(org.clone()))
            }
            Self::Deploy(DeployToken { org, .. }) => (org.to_string(), None),
        };
        CountedFor { payer, org }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<Authentication>() {
            Some(Authentication::Known(caller)) => Ok(Caller::clone(caller)),
            Some(Authentication::Refused(refusal)) => Err(refusal.to_error()),
            Some(Authentication::Absent) | None => Err(ApiError::new(
                Code::Unauthorized,
                "This needs a token: send `Authorization: Bearer svc_…`. `svc login` gets one.",
            )),
        }
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Caller {
    type Rejection = ApiError;

    /// None only without a credential. One that does not work is refused, so that no request goes on anonymously by
    /// mistake.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, ApiError> {
        match parts.extensions.get::<Authentication>() {
            Some(Authentication::Absent) | None => Ok(None),
            Some(_) => <Self as FromRequestParts<S>>::from_request_parts(parts, state).await.map(Some),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CliUser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match <Caller as FromRequestParts<S>>::from_request_parts(parts, state).await? {
            Caller::User(user) => Ok(user),
            Caller::Deploy(_) => Err(CredentialError::DeployOnly.to_error()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ConsoleUser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = <CliUser as FromRequestParts<S>>::from_request_parts(parts, state).await?;
        match caller.credential {
            Credential::Session(_) => Ok(Self(caller)),
            Credential::Token(_) => Err(ApiError::new(
                Code::Unauthorized,
                "This is for the console's own pages; with a token of kind ai, ask the gateway itself.",
            )),
        }
    }
}
