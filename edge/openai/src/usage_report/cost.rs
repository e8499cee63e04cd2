//! The cost of a completion in its `usage` object.

use std::fmt;

use config::models::Model;
use domain::usage::CompletionCharge;

use super::TokenUsage;

/// The cost fields, written at the end of a `usage` object: `cost_microeuros`, in millionths of a euro, rounded up; and
/// `cost_assumed`, the kinds of tokens that the provider did not report and that were therefore charged at the higher
/// price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostFields(CompletionCharge);

impl CostFields {
    /// Calculates the cost of `usage` at the prices of `model`.
    pub fn for_usage(usage: &TokenUsage, model: &Model) -> Self {
        model.prices.charge(usage.prompt, usage.completion, &usage.kinds).into()
    }
}

impl From<CompletionCharge> for CostFields {
    fn from(charge: CompletionCharge) -> Self {
        Self(charge)
    }
}

impl fmt::Display for CostFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompletionCharge { cost, assumed } = self.0;
        write!(f, ",\"cost_microeuros\":{}", cost.microeuros())?;
        for (at, name) in assumed.names().enumerate() {
            f.write_str(if at == 0 { ",\"cost_assumed\":[" } else { "," })?;
            write!(f, "\"{name}\"")?;
        }
        f.write_str(if assumed.is_empty() { "" } else { "]" })
    }
}
