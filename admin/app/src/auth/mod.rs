//! Authentication and permission. [`authenticate`] resolves the credential once per request; the extractors here prove
//! the caller's identity ([`CliUser`], [`Caller`]) and permissions ([`ProjectAccess`], [`OrgAccess`]).
//!
//! A handler that takes [`CliUser`] serves only people; one that takes [`Caller`] also accepts deploy tokens, as
//! documented for `GET /me`, `GET /projects`, `GET /projects/:name`, upload and activate. Tokens are not cached between
//! requests, so a revoked one stops working immediately on every admin.
//!
//! A suspended caller may read but not change anything: see [`refuse_suspended`].
//!
//! A person authenticates with a `cli` token or, in the console, with the cookie of a [`session`].

mod bearer;
pub mod cookies;
pub mod operator;
mod org_access;
mod principal;
mod project_access;
pub mod second_look;
pub mod session;
mod suspended;

pub use bearer::{AUTHENTICATION_ERRORS, AuthOutcome, CredentialError, authenticate, presented_secret};
pub use org_access::OrgAccess;
pub use principal::{Caller, CliUser, ConsoleUser, Credential, DeployToken};
pub use project_access::ProjectAccess;
pub use session::WebUser;
pub use suspended::{SUSPENSION_ERRORS, is_closed_to_suspended, refuse_suspended, require_unsuspended};
