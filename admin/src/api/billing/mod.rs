//! `/billing` and `/orgs/:name/billing`: an account's plan, payments and invoices. A person and an organization are billing
//! scopes of the same kind, so each operation has one act and two routes; what they do is in [`crate::billing`].
//!
//! Start with [`overview`]. Not here: what the payment provider posts, which is in `webhooks`.

pub mod documents;
pub mod invoices;
pub mod ledger;
pub mod overview;
pub mod profile;
pub mod subscription;
