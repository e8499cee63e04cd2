//! The shipped providers, each a stub that takes its own dialect alone and keeps a ledger, behind a gateway at `localhost`.

use std::collections::BTreeMap;

use serde_json::json;

use super::{super::create_key, at_localhost};
use crate::{
    BACKGROUND,
    gateway::histories::{MODELS, with_shipped_providers_at},
    stubs::provider::{
        dialects::Dialect,
        vendor::{Ledger, Vendor},
    },
    world::{World, holds_within},
};

/// Requests, and tokens of prompts and of answers.
type Sums = (u64, u64, u64);

/// Whether all clients are wanted, as `make clients` wants them, and not only those that every run of the tests has.
pub(super) fn are_all_wanted() -> bool {
    std::env::var("SVC_TEST_CLIENTS").is_ok_and(|wanted| wanted == "all")
}

pub(super) struct Vendors {
    pub(super) world: World,
    /// By the name of the provider.
    by_provider: BTreeMap<&'static str, Vendor>,
    pub(super) key: String,
    /// What was served so far, by the name of the provider.
    served: BTreeMap<&'static str, Sums>,
}

impl Vendors {
    pub(super) async fn start() -> Self {
        let mut by_provider = BTreeMap::new();
        for (_, provider, _, dialect) in MODELS {
            by_provider.insert(provider, Vendor::start(Dialect::named(dialect)).await);
        }
        let urls = MODELS.map(|(_, provider, ..)| by_provider[provider].provider.url.as_str());
        // As agents need it: their first request has 5 to 77 KB.
        let limits =
            json!({ "gateway_body_bytes": 32 << 20, "gateway_max_tokens": 32_768, "ai_credit_cents": 100_000 });
        let world = at_localhost(with_shipped_providers_at(urls)).plan(&limits).start().await;
        let key = create_key(&world.user("ada").await).await;
        Self { world, by_provider, key, served: BTreeMap::new() }
    }

    /// The gateway's address.
    pub(super) fn address(&self) -> String {
        format!("https://localhost:{}", self.world.public_port())
    }

    /// Whether a story is told by now.
    pub(super) fn is_story_told(&self) -> bool {
        self.by_provider.values().any(Vendor::tells_story)
    }

    /// Waits until Postgres has counted what the providers have served, to the token and the microcent, and nothing else. Returns the
    /// providers' ledgers since the last call, by the name of the provider.
    pub(super) async fn settle(&mut self, what: &str) -> BTreeMap<&'static str, Ledger> {
        let mut ledgers = BTreeMap::new();
        for (provider, vendor) in &self.by_provider {
            let ledger = vendor.take_ledger();
            assert!(ledger.unfit.is_empty(), "{what}: {provider} was sent what it does not take: {:?}", ledger.unfit);
            let sums = self.served.entry(*provider).or_default();
            for served in &ledger.served {
                *sums = (sums.0 + 1, sums.1 + served.prompt, sums.2 + served.completion);
            }
            ledgers.insert(*provider, ledger);
        }
        let expected = self.served.iter().filter(|(_, sums)| sums.0 > 0);
        let expected: Vec<_> =
            expected.map(|(name, (count, prompt, said))| format!("{name} {count} {prompt} {said}")).collect();
        let expected = expected.join(", ");
        let all = "SELECT coalesce(string_agg(sums, ', ' ORDER BY sums), '') FROM (
                       SELECT concat_ws(' ', provider, count(*), sum(prompt_tokens), sum(completion_tokens)) AS sums
                       FROM ai_usage WHERE NOT estimated GROUP BY provider) AS by_provider";
        holds_within(BACKGROUND, async || self.world.sql_text(all).await == expected).await;
        assert_eq!(self.world.sql_text(all).await, expected, "{what}");
        assert_eq!(self.world.sql_number("SELECT count(*) FROM ai_usage WHERE estimated").await, 0, "{what}");
        self.assert_costs(what).await;
        ledgers
    }

    /// Checks that each row costs what the model's table says.
    async fn assert_costs(&self, what: &str) {
        for (id, model) in config::Gateway::default().models {
            let wrong = format!(
                "SELECT count(*) FROM ai_usage WHERE model = '{id}'
                 AND cost_microcents <> prompt_tokens * {} + completion_tokens * {}",
                model.input_cents, model.output_cents
            );
            assert_eq!(self.world.sql_number(&wrong).await, 0, "{what}: {id}");
        }
    }
}
