//! What an account may spend is lowered and raised while its completions are under way: the new limit holds at every edge for
//! what comes after, and what is under way is counted in full.

use futures_util::future::join_all;
use reqwest::Method;

use super::{
    limits::assert_code,
    served::{Received, completions, numbered, without_limits, without_limits_but_credit},
    *,
};
use crate::billing::plans::{end_subscription, person, small_and_large, subscribe};

const EDGES: usize = 2;
/// Completions of each edge in a rush.
const AT_ONCE: usize = 8;
/// Refusals of each edge by which it is taken to refuse everything.
const REFUSALS: usize = 20;

/// The completions that are under way during the changes. Each reserves 16 hundredths of a cent for its answer alone.
fn held() -> u64 {
    completions(20)
}

/// The lower limit of a month, in cents: less than what is reserved for those that are under way, and more than what they use.
fn low_cents() -> u64 {
    (held() * 6 / 100).max(1)
}

/// A world whose limit changes.
struct Changing {
    metered: Metered,
    /// The code of a refusal.
    code: &'static str,
    /// The number of the next dear completion, and the prompt's tokens of the next cheap one.
    next: u64,
    cheap: u64,
    received: Received,
}

impl Changing {
    fn of(metered: Metered, code: &'static str) -> Self {
        Self { metered, code, next: 0, cheap: 1, received: Received::default() }
    }

    /// Whether an edge serves what costs next to nothing.
    async fn is_served(&mut self, edge: usize) -> bool {
        let wanted = Completion::of(self.cheap, 1).at_most(1);
        let answer = self.metered.ask_at(edge, &self.metered.key, &wanted).await;
        if answer.status == 200 {
            self.received.add(&wanted);
            self.cheap += 1;
            return true;
        }
        assert_code(&answer, self.code);
        false
    }

    /// Waits until both edges serve, or refuse.
    async fn become_serving(&mut self, are_serving: bool) {
        for edge in 0..EDGES {
            let what = format!("edge {edge} goes by the new limit (serving: {are_serving})");
            eventually(BACKGROUND, &what, async || self.is_served(edge).await == are_serving).await;
        }
    }

    async fn refuse_everything(&mut self) {
        self.become_serving(false).await;
        for number in 0..REFUSALS * EDGES {
            assert!(!self.is_served(number % EDGES).await, "an edge goes by the old limit");
        }
    }

    /// Both edges serve at the same time until neither does any more.
    async fn exhaust(&mut self) {
        loop {
            // Each costs almost as much as it reserves.
            let dear = |number: u64| Completion { answer: 3_000, ..numbered(number).at_most(4_000) };
            let wanted: Vec<_> = (self.next..).map(dear).take(AT_ONCE * EDGES).collect();
            self.next += wanted.len() as u64;
            let askers: Vec<_> = (0..EDGES).map(|edge| self.metered.asker(edge)).collect();
            let asks = wanted.iter().zip(askers.iter().cycle());
            let served = join_all(asks.map(|(wanted, asker)| asker.is_served(wanted))).await;
            if served.iter().all(|is_served| !is_served) {
                break;
            }
            self.received
                .extend(wanted.into_iter().zip(served).filter(|(_, served)| *served).map(|(wanted, _)| wanted));
        }
    }

    async fn cost(&self) -> u64 {
        let cost = "SELECT coalesce(sum(cost_microcents), 0)::bigint FROM ai_usage";
        self.metered.world.sql_number(cost).await.try_into().unwrap()
    }

    /// Lowers and raises the limit with completions under way at both edges, and uses up what the lower one leaves.
    async fn change(mut self, lower: impl AsyncFn(&Metered), raise: impl AsyncFn(&Metered)) {
        self.become_serving(true).await;
        let count = held();
        self.next = count;
        let mut under_way = Vec::new();
        for edge in 0..EDGES {
            let numbers = (0..count).filter(|number| number % EDGES as u64 == edge as u64);
            under_way.push(self.metered.hold(edge, numbers.map(|number| numbered(number).at_most(4_000).held())).await);
        }
        lower(&self.metered).await;
        self.refuse_everything().await;
        raise(&self.metered).await;
        self.become_serving(true).await;
        lower(&self.metered).await;
        self.refuse_everything().await;

        self.metered.provider.release();
        let before = self.received.len();
        for under_way in under_way {
            self.received.extend(under_way.end().await);
        }
        assert_eq!(self.received.len() - before, count, "some that were under way were cut off");
        self.become_serving(true).await;
        self.exhaust().await;
        let figures = self.metered.assert_ledger(&self.received, 0).await;
        assert_eq!(figures.estimated, 0);
        let (cost, limit) = (self.cost().await, low_cents() * 1_000_000);
        assert!((limit / 2..=limit).contains(&cost), "{cost} microcents of {limit}");

        raise(&self.metered).await;
        self.become_serving(true).await;
        self.metered.assert_ledger(&self.received, 0).await;
    }
}

#[tokio::test]
async fn a_plan_changes_with_completions_under_way() {
    let provider = PromptedProvider::start().await;
    let (small, large) = (json!({ "ai_credit_cents": low_cents() }), json!({ "ai_credit_cents": 1_000_000 }));
    let builder = without_limits_but_credit(small_and_large(&small, &large)).edges(EDGES);
    let world = builder.set("GATEWAY__PROVIDER_URL", &provider.url).start().await;
    let ada = world.user("ada").await;
    let key = new_key(&ada).await;
    let account = person(&world, "ada").await;
    subscribe(&world, &account, "large").await;
    let metered = Metered { world, provider, ada, key };
    let raise = async |metered: &Metered| subscribe(&metered.world, &account, "large").await;
    let lower = async |metered: &Metered| end_subscription(&metered.world, &account).await;
    Changing::of(metered, "insufficient_quota").change(lower, raise).await;
}

#[tokio::test]
async fn a_keys_limit_changes_with_completions_under_way() {
    let mut metered = Metered::start_with(|builder| without_limits(builder).edges(EDGES)).await;
    let created = metered.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    created["token"].as_str().unwrap().clone_into(&mut metered.key);
    let path = format!("/tokens/{}", created["id"].as_str().unwrap());
    let set = async |metered: &Metered, cents: Value| {
        metered.ada.request(Method::PATCH, &path).json(&json!({ "monthly_limit_cents": cents })).await.ok();
    };
    let lower = async |metered: &Metered| set(metered, json!(low_cents())).await;
    let raise = async |metered: &Metered| set(metered, Value::Null).await;
    Changing::of(metered, "limit_reached").change(lower, raise).await;
}
