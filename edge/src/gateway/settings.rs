//! What the gateway takes over from the configuration while it runs.

use std::env;

use config::{Config, models::Models};
use domain::plans::{PlanLimits, Plans};

use super::{asks::Asks, cors::Cors, meter::Allowance, models::ServedModels};
use crate::memory::keys::GatewayKey;

/// The part of the configuration that the gateway goes by: replaced whole. A request keeps to those that it began with, to its end.
pub struct Settings {
    pub(super) models: ServedModels,
    pub(super) cors: Cors,
    /// Completions of one account that may be under way.
    pub(super) concurrent: usize,
    requests_per_minute: u64,
    tokens_per_day: u64,
    plans: Plans,
    /// The limits of who is subscribed to no plan.
    default_limits: PlanLimits,
    clamps_max_tokens: bool,
}

impl Settings {
    /// The settings in `config`. Providers that are as in those in use until now keep their connections.
    pub fn of(config: &Config, before: Option<&Self>) -> anyhow::Result<Self> {
        let models = Models::of(&config.gateway, |name| env::var(name).ok())?;
        Ok(Self {
            models: ServedModels::new(&models, &config.gateway, before.map(|before| &before.models))?,
            cors: Cors::new(&config.gateway.cors_origins),
            concurrent: usize::try_from(config.limits.gateway_concurrent).unwrap_or(usize::MAX),
            requests_per_minute: config.limits.gateway_per_min.into(),
            tokens_per_day: config.limits.gateway_tokens_per_day,
            plans: config.billing.plans.clone(),
            default_limits: config.billing.plans.limits_of(None),
            clamps_max_tokens: config.gateway.clamp_max_tokens,
        })
    }

    /// What `key` may ask.
    pub(super) fn asks(&self, key: &GatewayKey) -> Asks {
        Asks::of(&key.asks, &self.limits_of(key), self.clamps_max_tokens).by_names(key.aliases.clone())
    }

    fn limits_of(&self, key: &GatewayKey) -> PlanLimits {
        let charged = key.charged.as_deref();
        key.subscribed.as_deref().map_or(self.default_limits, |plan| self.plans.paid_limits_of(Some(plan), charged))
    }

    /// What the account of `key` may use.
    pub(super) fn allowance(&self, key: &GatewayKey) -> Allowance {
        Allowance {
            requests_per_minute: self.requests_per_minute,
            tokens_per_day: self.tokens_per_day,
            credit: self.limits_of(key).ai_credit(),
        }
    }
}
