//! Many completions, and whether the ledger says of them what the provider has served.

use std::{collections::BTreeMap, fmt};

use futures_util::{StreamExt as _, stream};
use tokio::task::JoinHandle;

use super::*;

/// The tokens of prompts of which each has one completion: more than an estimate of any prompt here.
const FIRST: u64 = 1_000;
/// Completions that are asked for at the same time.
const AT_ONCE: usize = 16;
/// Completions that are asked for over one client's connections.
pub(super) const ASKED_TOGETHER: usize = 50;
/// Time within which the ledger comes to say what the provider has served, with many completions.
const SETTLED_WITHIN: Duration = Duration::from_mins(2);

/// The number of completions of a fault test: `usual`, or as many as `SVC_TEST_COMPLETIONS` says if that is more.
pub(super) fn completions(usual: u64) -> u64 {
    let wanted = std::env::var("SVC_TEST_COMPLETIONS").map_or(0, |text| text.parse().unwrap());
    usual.max(wanted)
}

/// No limit that many completions would reach.
pub(super) fn without_limits(builder: Builder) -> Builder {
    without_limits_but_credit(builder).plan(&json!({ "ai_credit_cents": 1_000_000 }))
}

/// No limit but the plan's that many completions would reach.
pub(super) fn without_limits_but_credit(builder: Builder) -> Builder {
    builder
        .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
        .set("LIMITS__GATEWAY_CONCURRENT", 10_000)
        .set("LIMITS__GATEWAY_TOKENS_PER_DAY", UNLIMITED_TOKENS)
}

pub(super) const UNLIMITED_TOKENS: u64 = 1_000_000_000;

/// The completion of this number: no other has a prompt of as many tokens.
pub(super) fn numbered(number: u64) -> Completion {
    Completion { stream: number.is_multiple_of(2), ..Completion::of(FIRST + number, number % 90) }
}

/// What clients have received whole: the answers' tokens by the prompts'.
#[derive(Debug, Default)]
pub(super) struct Received(BTreeMap<u64, u64>);

impl Received {
    pub(super) fn add(&mut self, completion: &Completion) {
        self.0.insert(completion.prompt, completion.answer);
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The tokens of all of them.
    pub(super) fn tokens(&self) -> u64 {
        self.0.iter().map(|(prompt, answer)| prompt + answer).sum()
    }
}

impl Extend<Completion> for Received {
    fn extend<T: IntoIterator<Item = Completion>>(&mut self, completions: T) {
        completions.into_iter().for_each(|completion| self.add(&completion));
    }
}

/// Completions that the provider has been asked for and holds.
pub(super) struct Held(Vec<(Completion, JoinHandle<bool>)>);

impl Held {
    /// Waits until each has come to its end, and returns those that were received whole.
    pub(super) async fn end(self) -> Vec<Completion> {
        let mut received = Vec::new();
        for (completion, asking) in self.0 {
            if asking.await.unwrap() {
                received.push(completion);
            }
        }
        received
    }

    /// Their clients leave.
    pub(super) async fn leave(self) {
        for (_, asking) in self.0 {
            asking.abort();
            let _ = asking.await;
        }
    }
}

/// What the ledger says in comparison with what the provider has served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Figures {
    /// Completions that the provider was asked for.
    asked: usize,
    /// Those of them that clients have received whole.
    received: usize,
    /// Rows, and those of them that are estimates.
    rows: usize,
    pub(super) estimated: usize,
    /// Completions that were received, and of which no row has the right tokens.
    lost: usize,
    /// Rows beyond the first of a completion.
    doubled: usize,
    /// Rows of completions that the provider was never asked for, or has reported other tokens of.
    made_up: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, received, rows, estimated, lost, doubled, made_up } = self;
        write!(f, "{asked} asked, {received} received, {rows} rows ({estimated} estimated): ")?;
        write!(f, "{lost} lost, {doubled} doubled, {made_up} made up")
    }
}

impl Asker {
    /// Asks for these completions, some at a time, and returns those that were received whole.
    pub(super) async fn serve(&self, wanted: impl IntoIterator<Item = Completion>) -> Vec<Completion> {
        let asking = stream::iter(wanted).map(|wanted| async move { self.is_served(&wanted).await.then_some(wanted) });
        asking.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }
}

impl Metered {
    /// Has an edge serve these completions, some at a time, and returns those that were received whole.
    pub(super) async fn serve(&self, edge: usize, wanted: impl IntoIterator<Item = Completion>) -> Vec<Completion> {
        self.asker(edge).serve(wanted).await
    }

    /// As [`serve`](Self::serve), where each is to be received whole.
    pub(super) async fn serve_all(&self, edge: usize, wanted: impl IntoIterator<Item = Completion>) -> Vec<Completion> {
        let wanted: Vec<_> = wanted.into_iter().collect();
        let served = self.serve(edge, wanted.clone()).await;
        assert_eq!(served.len(), wanted.len(), "some were not served");
        served
    }

    /// A world whose edge has served one completion, which Postgres has.
    pub(super) async fn after_one(configure: impl FnOnce(Builder) -> Builder) -> (Self, Received) {
        let (metered, mut received) = (Self::start_with(configure).await, Received::default());
        received.extend(metered.serve_all(0, [Completion::of(1, 1)]).await);
        metered.rows_become(1, "NOT estimated").await;
        (metered, received)
    }

    /// Begins these completions, and returns once the provider has been asked for each. So many at a time that none is refused
    /// because the machine is busy.
    pub(super) async fn hold(&self, edge: usize, wanted: impl IntoIterator<Item = Completion>) -> Held {
        let wanted: Vec<_> = wanted.into_iter().collect();
        let mut held = Vec::new();
        for wanted in wanted.chunks(ASKED_TOGETHER) {
            let asker = self.asker(edge);
            for completion in wanted {
                let (asker, asked) = (asker.clone(), completion.clone());
                held.push((completion.clone(), tokio::spawn(async move { asker.is_served(&asked).await })));
            }
            eventually(BACKGROUND, "the provider is asked", async || {
                let asked = self.provider.asked_for();
                wanted.iter().all(|wanted| asked.contains_key(&wanted.prompt))
            })
            .await;
        }
        Held(held)
    }

    async fn figures(&self, received: &Received) -> Figures {
        let asked = self.provider.asked_for();
        let all = "SELECT coalesce(string_agg(certainty || ' ' || prompt_tokens || ' ' || completion_tokens, ','), '')
                   FROM ai_usage WHERE certainty < 3";
        let text = self.world.sql_text(all).await;
        let (mut exact, mut estimated, mut made_up) = (BTreeMap::<u64, Vec<u64>>::new(), 0, 0);
        for row in text.split_terminator(',') {
            let [certainty, prompt, answer] = row.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u64>>()[..]
            else {
                panic!("{row}")
            };
            if certainty < 2 {
                estimated += 1;
            } else {
                made_up += usize::from(asked.get(&prompt) != Some(&answer));
                exact.entry(prompt).or_default().push(answer);
            }
        }
        let rows = estimated + exact.values().map(Vec::len).sum::<usize>();
        let doubled = rows - estimated - exact.len();
        let is_lost = |(prompt, answer): &(&u64, &u64)| !exact.get(prompt).is_some_and(|rows| rows.contains(answer));
        let lost = received.0.iter().filter(is_lost).count();
        // An estimate does not say what it is of.
        made_up += (rows - doubled - made_up).saturating_sub(asked.len());
        Figures { asked: asked.len(), received: received.0.len(), rows, estimated, lost, doubled, made_up }
    }

    /// Waits until the ledger says what the provider has served: each completion that was `received` is counted once, by the
    /// tokens that the provider reported, and nothing is counted that the provider was not asked for. Whatever else it was asked
    /// for is counted at most once, or exactly once except for `uncounted`.
    #[expect(clippy::print_stderr, reason = "figures for those who raise the number of completions")]
    pub(super) async fn assert_ledger(&self, received: &Received, uncounted: usize) -> Figures {
        let left = async || (files(&spool(self)), open_in_redis(self, "").await);
        let is_settled = async || {
            let figures = self.figures(received).await;
            figures.lost == 0
                && figures.rows + uncounted == figures.asked
                && matches!(left().await, (files, Some(0)) if files <= self.world.edges.len())
        };
        let is_settled = crate::world::holds_within(SETTLED_WITHIN, is_settled).await;
        let figures = self.figures(received).await;
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        eprintln!("{test}: {figures}");
        assert_eq!((figures.lost, figures.doubled, figures.made_up), (0, 0, 0), "{figures}");
        assert_eq!(figures.rows + uncounted, figures.asked, "{figures}");
        assert!(is_settled, "not settled within {SETTLED_WITHIN:?}: {figures}; journals, open: {:?}", left().await);
        self.assert_sums().await;
        figures
    }
}
