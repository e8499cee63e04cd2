//! What a `usage` object says of the cost of its completion.

use std::fmt;

use config::models::Model;
use domain::usage::Charge;

use super::Usage;

/// The fields that say what a completion costs, to be written at the end of its `usage`: `cost_microeuros`, in millionths of a euro, a
/// part of one counted as one; and `cost_assumed`, the kinds of tokens that the provider has not reported, and that were therefore
/// charged at the dearer price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) struct Cost(Charge);

impl Cost {
    /// The cost of a completion of the model.
    pub(in crate::gateway) fn of(usage: &Usage, model: &Model) -> Self {
        model.prices.charge(usage.prompt, usage.completion, &usage.kinds).into()
    }
}

impl From<Charge> for Cost {
    fn from(charge: Charge) -> Self {
        Self(charge)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Charge { cost, assumed } = self.0;
        write!(f, ",\"cost_microeuros\":{}", cost.microeuros())?;
        for (at, name) in assumed.names().enumerate() {
            f.write_str(if at == 0 { ",\"cost_assumed\":[" } else { "," })?;
            write!(f, "\"{name}\"")?;
        }
        f.write_str(if assumed.is_empty() { "" } else { "]" })
    }
}
