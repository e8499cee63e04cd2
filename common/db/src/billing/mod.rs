//! Plans, subscriptions, payments and invoices of accounts: the rows that say who pays what, and what became of it.
//!
//! An account is named by its id alone, because its books outlive it; whoever asks for them has proved before that they may
//! see them. Whatever changes a subscription or one of its payments locks the account's subscriptions first
//! ([`subscriptions::lock`]). When something is charged, and what follows from a payment, is decided in admin, module
//! `billing`; amounts, periods and VAT are in the crate `domain`. [`plan`] says what an account may use. Start with
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
