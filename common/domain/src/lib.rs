//! The rules of the service, without IO: names, ids, states, limits, time.
//!
//! A value of one of these types is known to be valid; constructors report why other input is not. SQL, Redis, files
//! and the API's request and response types are elsewhere. Start with [`ids`] and [`names`].

pub mod access;
pub mod account;
pub mod addresses;
pub mod audit;
pub mod billing;
pub mod certificates;
pub mod changes;
pub mod clock;
#[cfg(feature = "sqlx")]
mod column;
pub mod deployment;
pub mod email;
pub mod env;
pub mod gate;
pub mod gateway;
pub mod hostname;
pub mod ids;
pub mod limits;
pub mod line;
pub mod month;
pub mod names;
pub mod networks;
pub mod opaque;
pub mod orgs;
mod patch;
pub mod payer;
mod paying_account;
pub mod plans;
pub mod private_files;
pub mod repo;
pub mod role;
mod share_words;
pub mod site;
mod size;
pub mod stats;
pub mod token;
pub mod traffic;
pub mod usage;

pub use account::Account;
pub use addresses::{HostKey, PlatformAddresses};
pub use changes::{ChangePosition, ChangeSubject, Epoch, PendingChange, RouteChange};
pub use clock::{Clock, Timestamp};
pub use email::EmailAddress;
pub use hostname::Hostname;
pub use ids::{
    AcmeAccountId, AuditId, CertificateId, CompletionId, DeploymentId, IdError, InviteId, InvoiceId, LetterId, OrgId,
    PaymentId, ProjectId, ReversalId, SessionId, SubscriptionId, TokenId, UserId,
};
pub use names::{OrgName, ProjectName, ShareName};
pub use opaque::OpaqueSecret;
pub use patch::Patch;
pub use payer::Payer;
pub use paying_account::PayingAccount;
pub use site::{Site, SiteGate, SiteKind};
pub use size::size;

/// The brand in identifiers: token prefix, `X-Svc-*` headers, model namespace, client name.
pub const BRAND: &str = "svc";
