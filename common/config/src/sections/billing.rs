//! `[billing]`: plans.

use domain::plans::Plans;
use serde::{Deserialize, Serialize};

/// `[billing]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Billing {
    /// The plans, by id; the cheapest is that of accounts without a subscription. Written in the configuration, the table
    /// replaces the shipped one whole: `[billing.plans.free]` with `name`, `price_cents` and `limits`.
    pub plans: Plans,
}
