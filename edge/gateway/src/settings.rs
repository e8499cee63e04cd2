//! The parts of the configuration that the gateway can reload while it runs.

use std::env;

use config::{Config, models::ModelCatalog};
use domain::plans::{PlanLimits, Plans};
use gateway_request::{asks::RequestLimits, models::ServedModels};
use memory::keys::GatewayKey;
use meter::Allowance;

use super::cors::CorsPolicy;

/// The gateway's configuration, replaced as a whole. A request uses the settings it began with until its end.
pub struct GatewaySettings {
    pub(super) models: ServedModels,
    pub(super) cors: CorsPolicy,
    /// The limit of concurrent completions per account.
    pub(super) concurrent: usize,
    requests_per_minute: u64,
    tokens_per_day: u64,
    plans: Plans,
    /// The limits of accounts without a paid plan.
    default_limits: PlanLimits,
    clamps_max_tokens: bool,
}

impl GatewaySettings {
    /// Creates the settings from `config`. Providers unchanged from `before` keep their connections.
    pub fn from_config(config: &Config, before: Option<&Self>) -> anyhow::Result<Self> {
        let models = ModelCatalog::from_config(&config.gateway, |name| env::var(name).ok())?;
        Ok(Self {
            models: ServedModels::new(&models, &config.gateway, before.map(|before| &before.models))?,
            cors: CorsPolicy::new(&config.gateway.cors_origins),
            concurrent: usize::try_from(config.limits.gateway_concurrent).unwrap_or(usize::MAX),
            requests_per_minute: config.limits.gateway_per_min.into(),
            tokens_per_day: config.limits.gateway_tokens_per_day,
            plans: config.billing.plans.clone(),
            default_limits: config.billing.plans.limits_for(None),
            clamps_max_tokens: config.gateway.clamp_max_tokens,
        })
    }

    pub(super) fn request_limits(&self, key: &GatewayKey) -> RequestLimits {
        RequestLimits::combine(&key.asks, &self.plan_limits(key), self.clamps_max_tokens)
            .with_aliases(key.aliases.clone())
    }

    fn plan_limits(&self, key: &GatewayKey) -> PlanLimits {
        let charged = key.charged.as_deref();
        key.subscribed.as_deref().map_or(self.default_limits, |plan| self.plans.paid_limits_for(Some(plan), charged))
    }

    pub(super) fn allowance(&self, key: &GatewayKey) -> Allowance {
        Allowance {
            requests_per_minute: self.requests_per_minute,
            tokens_per_day: self.tokens_per_day,
            credit: self.plan_limits(key).ai_credit(),
        }
    }
}
