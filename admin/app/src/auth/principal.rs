//! Principals as types, and their extractors.

use admin_http::error::{ApiError, Code};
use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::request::Parts,
};
use db::{
    audit::Actor,
    sign_in::{tokens::Token, users::User},
};
use domain::{OrgId, OrgName, PayingAccount, SessionId, Timestamp, TokenId, UserId};

use super::{AuthOutcome, CredentialError};
use crate::rates::{OrgShare, RatePayer};

/// A person, authenticated by a `cli` token or by the console's session.
#[derive(Debug, Clone)]
pub struct CliUser {
    /// The presented credential.
    pub credential: Credential,
    /// The person to whom the credential belongs.
    pub user: User,
}

/// A person's credential.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A `cli` token.
    Token(TokenId),
    /// A session of the console.
    Session(SessionId),
}

impl CliUser {
    /// Returns the person as an actor of the audit log.
    pub fn actor(&self) -> Actor<'_> {
        Actor::user(&self.user, self.token())
    }

    /// Returns the presented token; `None` for a session of the console.
    pub fn token(&self) -> Option<&TokenId> {
        match &self.credential {
            Credential::Token(token) => Some(token),
            Credential::Session(_) => None,
        }
    }

    /// Returns the person as the account whose share of what is scarce their requests use.
    pub fn paying_account(&self) -> PayingAccount {
        self.user.id.clone().into()
    }
}

/// A person in the console, authenticated by a session and not by a token.
#[derive(Debug, Clone)]
pub struct ConsoleUser(pub CliUser);

/// An organization, authenticated by one of its `deploy` tokens.
#[derive(Debug, Clone)]
pub struct DeployToken {
    /// The presented token.
    pub token: Token,
    /// The organization's id.
    pub org: OrgId,
    /// The organization's name.
    pub org_name: OrgName,
    /// The time at which the organization was created.
    pub org_created_at: Timestamp,
    /// The person who created the organization; `None` if that account was deleted.
    pub org_creator: Option<UserId>,
    /// The organizations of that person that have deploy tokens, this one among them.
    pub sharing: u32,
}

/// A caller of the endpoints that deploy tokens may use: a person or an organization.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A person.
    User(CliUser),
    /// An organization's deploy token.
    Deploy(DeployToken),
}

impl Caller {
    /// Returns the name for `deployments.created_by`: the login, or the deploy token's label.
    pub fn display_name(&self) -> String {
        match self {
            Self::User(caller) => caller.user.vcs_login.clone(),
            Self::Deploy(caller) => caller.token.label.clone().unwrap_or_else(|| "deploy token".to_owned()),
        }
    }

    /// Returns the caller as an actor of the audit log.
    pub fn actor(&self) -> Actor<'_> {
        match self {
            Self::User(caller) => caller.actor(),
            Self::Deploy(caller) => Actor::DeployToken { id: &caller.token.id, label: caller.token.label.as_deref() },
        }
    }

    /// Returns the id of the presented token or session, under which requests are counted.
    pub fn credential(&self) -> &str {
        match self {
            Self::User(CliUser { credential: Credential::Token(token), .. }) => token.as_str(),
            Self::User(CliUser { credential: Credential::Session(session), .. }) => session.as_str(),
            Self::Deploy(caller) => caller.token.id.as_str(),
        }
    }

    /// Returns the account whose share of what is scarce the caller's requests use. It is the caller's own in another
    /// account's project too: a member must not use up the share of the organization's creator.
    pub fn paying_account(&self) -> PayingAccount {
        match self {
            Self::User(caller) => caller.paying_account(),
            Self::Deploy(caller) => PayingAccount::new(caller.org.clone().into(), caller.org_creator.clone()),
        }
    }

    /// Returns the party that the caller's requests count against, across all of its credentials.
    ///
    /// A person's own requests count against the person. Requests of organizations count separately, so that a pipeline
    /// does not use up its owner's limit: against the person who pays for the organizations, over all of them, because
    /// organizations are as free to create as tokens. Each has a share of that limit, so that its leaked token does not
    /// lock out the others, however many of them leak. Gateway keys are not callers here; the edges count them for their account.
    pub fn counted_for(&self) -> RatePayer {
        let (payer, org) = match self {
            Self::User(caller) => (caller.user.id.to_string(), None),
            Self::Deploy(DeployToken { org, org_creator: Some(creator), sharing, .. }) => {
                (format!("organizations of {creator}"), Some(OrgShare { org: org.clone(), sharing: *sharing }))
            }
            Self::Deploy(DeployToken { org, .. }) => (org.to_string(), None),
        };
        RatePayer { payer, org }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<AuthOutcome>() {
            Some(AuthOutcome::Known(caller)) => Ok(Caller::clone(caller)),
            Some(AuthOutcome::Refused(refusal)) => Err(refusal.to_error()),
            Some(AuthOutcome::Absent) | None => Err(ApiError::new(
                Code::Unauthorized,
                "This needs a token: send `Authorization: Bearer svc_…`. `svc login` gets one.",
            )),
        }
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Caller {
    type Rejection = ApiError;

    /// `None` only without a credential: one that is not accepted is refused, so that no request becomes anonymous.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, ApiError> {
        match parts.extensions.get::<AuthOutcome>() {
            Some(AuthOutcome::Absent) | None => Ok(None),
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
