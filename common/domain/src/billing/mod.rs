//! Money that people pay: amounts, countries, VAT, the months of a subscription, the states of payments.
//!
//! Rules without IO. Not here: what a plan allows ([`crate::plans`]), the credit of the gateway, which is counted in
//! millionths of a cent ([`crate::usage`]). Start with [`vat::Treatment`] and [`subscription`].

pub mod country;
pub mod details;
pub mod invoice;
pub mod money;
pub mod payment;
pub mod period;
pub mod rates;
pub mod subscription;
pub mod vat;

pub use country::Country;
pub use money::Cents;
