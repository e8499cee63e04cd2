//! Authentication and permission. [`authenticate`] looks the credential up once a request; the extractors here prove
//! who is asking ([`CliUser`], [`Caller`]) and what they may do ([`ProjectAccess`], [`OrgAccess`]).
//!
//! A handler that takes [`CliUser`] is for people alone; one that takes [`Caller`] is open to deploy tokens too, as the
//! contract says of `GET /me`, `GET /projects`, `GET /projects/:name`, upload and activate. Nothing of a token is
//! cached between requests, so a revoked one stops working immediately, on every admin.
//!
//! A suspended caller reads, and changes nothing: [`refuse_suspended`].
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

pub use bearer::{AUTHENTICATION_ERRORS, Authentication, CredentialError, authenticate, presented_secret};
pub use org_access::OrgAccess;
pub use principal::{Caller, CliUser, ConsoleUser, Credential, DeployToken};
pub use project_access::ProjectAccess;
pub use session::WebUser;
pub use suspended::{SUSPENSION_ERRORS, is_closed_to_suspended, refuse_suspended, require_unsuspended};
