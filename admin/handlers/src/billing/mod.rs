//! `/billing` and `/orgs/:name/billing`: an account's plan, payments and invoices. People and organizations are billed
//! alike, so each operation has one implementation, in [`billing`], and two routes.
//!
//! Start with [`overview`]. The payment provider's webhooks are in `webhooks`.

pub mod documents;
pub mod invoices;
pub mod ledger;
pub mod overview;
pub mod profile;
pub mod subscription;
