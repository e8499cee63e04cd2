//! Who is asking. [`authenticate`] looks the token up once a request; the extractors prove what kind it is.
//!
//! A handler that takes [`CliUser`] is a person's alone; one that takes [`Caller`] is open to deploy tokens too.
//! Which endpoints those are is the contract's: `GET /me`, `GET /projects`, `GET /projects/:name`, upload, activate.
//! Nothing of a token is remembered between requests, so a revoked one stops working at once, on every admin.

mod bearer;
mod org_access;
mod principal;
mod project_access;

pub use bearer::{Authentication, authenticate, presented_secret};
pub use org_access::OrgAccess;
pub use principal::{Caller, CliUser, DeployToken};
pub use project_access::ProjectAccess;
