//! The request limits of an API key: body size, tokens, and the model names it can use.
//!
//! The contract's defaults apply unless the account's plan sets others. A key may have lower limits, and a model's own
//! output limit always applies.

use std::{ops::RangeInclusive, sync::Arc};

use config::models::{MAX_TOKENS, Model};
use domain::{
    gateway::{BodyLimit, KeyLimits, ModelAliases, TokenLimit},
    plans::PlanLimits,
};

/// The request limits of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// The largest body, in bytes.
    pub(super) body: LimitWithSource,
    /// The most tokens per choice, for models that can write that many.
    tokens: LimitWithSource,
    /// Whether a request for more tokens is reduced rather than refused.
    clamps: bool,
    aliases: Option<Arc<ModelAliases>>,
}

/// A limit and what sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitWithSource {
    pub(super) most: u64,
    by: LimitSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitSource {
    Plan,
    Key,
    Model,
}

/// The most tokens allowed per choice of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenCeiling {
    limited: LimitWithSource,
    clamps: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestedTokens {
    pub(super) tokens: u64,
    /// Whether the request asked for more.
    pub(super) is_cut: bool,
}

impl RequestLimits {
    /// Combines the limits of a key and of its plan.
    pub fn combine(key: &KeyLimits, plan: &PlanLimits, clamps: bool) -> Self {
        Self {
            body: LimitWithSource::lower(plan.gateway_body_bytes.get(), key.body_bytes.map(BodyLimit::get)),
            tokens: LimitWithSource::lower(plan.gateway_max_tokens.get(), key.max_tokens.map(TokenLimit::get)),
            clamps,
            aliases: None,
        }
    }

    /// Returns the limits with these aliases, the account's own names for models.
    #[must_use]
    pub fn with_aliases(self, aliases: Option<Arc<ModelAliases>>) -> Self {
        Self { aliases, ..self }
    }

    /// Returns the id of the model to which the account has given this name.
    pub(super) fn find_alias(&self, name: &str) -> Option<&str> {
        self.aliases.as_ref()?.find(name)
    }

    pub(super) fn token_ceiling(&self, model: &Model) -> TokenCeiling {
        let output = model.most_output();
        let limited = if output < self.tokens.most {
            LimitWithSource { most: output, by: LimitSource::Model }
        } else {
            self.tokens
        };
        TokenCeiling { limited, clamps: self.clamps }
    }
}

/// The contract's defaults.
impl Default for RequestLimits {
    fn default() -> Self {
        let limited = |most| LimitWithSource { most, by: LimitSource::Plan };
        Self {
            body: limited(BodyLimit::DEFAULT.get()),
            tokens: limited(TokenLimit::DEFAULT.get()),
            clamps: false,
            aliases: None,
        }
    }
}

#[cfg(test)]
impl RequestLimits {
    pub(super) fn body_bytes(&self) -> usize {
        usize::try_from(self.body.most).unwrap()
    }

    pub(super) fn with_tokens(self, most: u64) -> Self {
        Self { tokens: LimitWithSource { most, ..self.tokens }, ..self }
    }

    pub(super) fn with_body(self, most: u64) -> Self {
        Self { body: LimitWithSource { most, ..self.body }, ..self }
    }

    pub(super) fn clamped(self) -> Self {
        Self { clamps: true, ..self }
    }
}

impl LimitWithSource {
    fn lower(plan: u64, key: Option<u64>) -> Self {
        match key.filter(|key| *key < plan) {
            Some(most) => Self { most, by: LimitSource::Key },
            None => Self { most: plan, by: LimitSource::Plan },
        }
    }

    /// Returns how a client can get a higher limit, as the end of a message.
    pub(super) fn remedy(&self) -> &'static str {
        match self.by {
            LimitSource::Plan => "your plan allows no more, and a larger plan may",
            LimitSource::Key => {
                "this key allows no more (`svc tokens limit ID --max-tokens N --max-body SIZE` changes that, with `--org NAME` for an \
                 organization's key, or PATCH /tokens/:id and /orgs/:name/tokens/:id)"
            }
            LimitSource::Model => "the model writes no more",
        }
    }
}

impl TokenCeiling {
    pub(super) fn most(&self) -> u64 {
        self.limited.most
    }

    /// Returns the tokens for a request that names no number: the contract's default, or this limit if it is lower.
    pub(super) fn default_tokens(&self) -> u64 {
        self.limited.most.min(MAX_TOKENS)
    }

    /// Validates a requested number of tokens. Returns `None` if it is out of range.
    pub(super) fn admit(&self, tokens: u64) -> Option<RequestedTokens> {
        let is_cut = self.clamps && tokens > self.most();
        let tokens = if is_cut { self.most() } else { tokens };
        self.range().contains(&tokens).then_some(RequestedTokens { tokens, is_cut })
    }

    pub(super) fn rule(&self) -> String {
        let range = self.range();
        format!("expected an integer from {} to {}: {}", range.start(), range.end(), self.limited.remedy())
    }

    fn range(&self) -> RangeInclusive<u64> {
        1..=self.most()
    }
}

#[cfg(test)]
mod tests {
    use config::{Gateway, models::ModelCatalog};
    use domain::plans::Plans;

    use super::*;

    fn asks(plan: Option<&str>, key: KeyLimits) -> RequestLimits {
        RequestLimits::combine(&key, &Plans::default().limits_for(plan), false)
    }

    #[test]
    fn the_contract_holds_for_who_pays_for_nothing() {
        assert_eq!(asks(None, KeyLimits::default()), RequestLimits::default());
        let asks = RequestLimits::default();
        assert_eq!((asks.body_bytes(), asks.tokens.most), (65_536, 4_096));
    }

    #[test]
    fn a_key_may_ask_less_than_its_plan_and_never_more() {
        let key = |body: &str, tokens: &str| KeyLimits {
            body_bytes: Some(body.parse().unwrap()),
            max_tokens: Some(tokens.parse().unwrap()),
        };
        let lower = asks(Some("pro"), key("100 KB", "100"));
        assert_eq!((lower.body_bytes(), lower.tokens.most), (100 * 1024, 100));
        assert!(lower.body.remedy().contains("PATCH /tokens/:id"));
        let higher = asks(None, key("32 MB", "100000"));
        assert_eq!((higher.body_bytes(), higher.tokens.most), (65_536, 4_096));
        assert!(higher.body.remedy().contains("plan"));
    }

    #[test]
    fn no_model_is_asked_for_more_than_it_writes() {
        let models = ModelCatalog::from_config(&Gateway::default(), |_| Some("key".to_owned())).unwrap();
        let largest = asks(Some("business"), KeyLimits::default());
        let most = |id: &str| largest.token_ceiling(models.find(id).unwrap()).most();
        assert_eq!(most("svc/llama-3.3-70b-instruct"), 16_384);
        assert_eq!(most("svc/gpt-oss-120b"), 32_768);
        assert_eq!(most("svc/mistral-large"), 131_072, "of the plan");
        let ceiling = largest.token_ceiling(models.find("svc/gpt-oss-120b").unwrap());
        assert_eq!((ceiling.default_tokens(), ceiling.admit(32_769)), (4_096, None));
        assert!(ceiling.rule().contains("from 1 to 32768: the model writes no more"), "{}", ceiling.rule());
        let ceiling = RequestLimits::default().with_tokens(10).token_ceiling(models.find("svc/gpt-oss-120b").unwrap());
        assert_eq!(ceiling.default_tokens(), 10);
    }

    #[test]
    fn a_request_is_cut_where_the_operator_has_said_so() {
        let models = ModelCatalog::from_config(&Gateway::default(), |_| Some("key".to_owned())).unwrap();
        let model = models.find("svc/mistral-large").unwrap();
        let asked = |asks: &RequestLimits, tokens| asks.token_ceiling(model).admit(tokens);
        assert_eq!(asked(&RequestLimits::default(), 4_097), None);
        let cut = RequestLimits::default().clamped();
        assert_eq!(asked(&cut, 4_097), Some(RequestedTokens { tokens: 4_096, is_cut: true }));
        assert_eq!(asked(&cut, 4_096), Some(RequestedTokens { tokens: 4_096, is_cut: false }));
        assert_eq!(asked(&cut, 0), None);
    }
}
