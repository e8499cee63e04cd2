//! Billing rules without IO: amounts, countries, VAT, subscription months, payment states.
//!
//! Plan limits are in [`crate::plans`]; gateway credit, counted in millionths of a cent, is in [`crate::usage`]. Start
//! with [`vat::VatTreatment`] and [`subscription`].

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
