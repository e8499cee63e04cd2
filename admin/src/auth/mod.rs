//! Who is asking. [`authenticate`] looks the token up once a request; the extractors prove what kind it is.
//!
//! A handler that takes [`CliUser`] is a person's alone; one that takes [`Caller`] is open to deploy tokens too.
//! Which endpoints those are is the contract's: `GET /me`, `GET /projects`, `GET /projects/:name`, upload, activate.
//! Nothing of a token is remembered between requests, so a revoked one stops working at once, on every admin.
//!
//! A person shows a `cli` token, or, in the console, the cookie of a [`session`].

mod bearer;
pub mod cookies;
pub mod operator;
mod org_access;
mod principal;
mod project_access;
pub mod session;

pub use bearer::{AUTHENTICATION_ERRORS, Authentication, Refusal, authenticate, presented_secret};
pub use org_access::OrgAccess;
pub use principal::{Caller, CliUser, Credential, DeployToken};
pub use project_access::ProjectAccess;
pub use session::WebUser;
