//! Plans, subscriptions, payments and invoices of accounts.
//!
//! An account is identified by its id alone, because its billing records outlive it; callers have already proved that
//! the reader may see them. Every change of a subscription or its payments first locks the account's subscriptions
//! ([`subscriptions::lock`]). When to charge, and the consequences of a payment, are decided in admin, module
//! `billing`; amounts, periods and VAT are in the crate `domain`. [`plan`] reads an account's allowance. Start with
//! [`subscriptions`].

pub mod bandwidth_levels;
pub mod customers;
pub mod documents;
pub mod invoices;
pub mod ledger;
pub mod overview;
pub mod payments;
pub mod plan;
pub mod play;
pub mod profiles;
pub mod reconciliation;
pub mod reversals;
pub mod subscriptions;
pub mod usage;
