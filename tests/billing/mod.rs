//! `/billing…` and `/orgs/:name/billing…`: plans and their limits, subscriptions, payments, invoices.

mod api;
mod bandwidth;
pub mod books;
mod cli;
mod documents;
mod figures;
mod free_orgs;
mod ledger;
mod limits;
pub mod plans;
mod vat;
mod walk;
