//! Two years of a subscription with a fault in each month: nothing is charged or invoiced twice, and nothing is lost.
//!
//! A seed chooses the histories. It is printed with a failure, and `SVC_TEST_SEED` selects it again; where a run is
//! interrupted depends on the timing of the database as well. `make test` runs a few histories, and `bench/run --only
//! billing` as many as reach [`PERIODS`].

use std::{
    collections::BTreeSet,
    future::poll_fn,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use ::payments::MandateState;
use domain::{Account, billing::payment::PaymentState};
use futures_util::{
    FutureExt as _,
    future::{join, join_all},
};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::{
    Bench, DAY, at,
    property::{HistoryStep, assert_sound, buyer, come_to_rest, forget, happening, take},
    provider::ProviderFault,
};
use crate::{poll_by_provider_id, poll_due, renew_due};

const MONTHS: usize = 24;
const HISTORIES: usize = 3;
const PERIODS: usize = 10_000;
const AT_A_TIME: usize = 4;
/// The days on which histories begin: ends of months in a leap year, and others. Within two years of them, the VAT
/// rates of Finland, Slovakia, Estonia and Romania change.
const BEGINNINGS: [&str; 7] = [
    "2024-01-29T23:59:59Z",
    "2024-01-30T10:00:00Z",
    "2024-01-31T10:00:00Z",
    "2024-02-29T00:00:00Z",
    "2024-03-31T10:00:00Z",
    "2024-04-15T10:00:00Z",
    "2023-12-31T23:30:00Z",
];
const ROUNDS: usize = 6;
const BATCH: i64 = 10;

#[derive(Debug, Clone)]
enum MonthFault {
    /// The program is killed after each of these numbers of steps, in turn.
    Kills(Vec<u16>),
    /// The provider is away or busy, or its responses are lost.
    Provider(Vec<ProviderFault>),
    /// Webhooks of old and new payments, by their indices, arrive in this order and repeatedly.
    Webhooks(Vec<usize>),
    /// This number of admins work concurrently, and one of them is killed after this number of steps.
    Admins(usize, u16),
}

#[derive(Debug, Clone)]
struct HistoryMonth {
    trouble: MonthFault,
    is_well: bool,
    /// The events of the history, each some days after the previous one.
    steps: Vec<(u32, HistoryStep)>,
}

#[derive(Debug, Clone)]
struct History {
    begins: &'static str,
    buyer: (&'static str, Option<&'static str>),
    plan: &'static str,
    months: Vec<HistoryMonth>,
}

fn trouble() -> impl Strategy<Value = MonthFault> {
    let fault = prop::sample::select(vec![ProviderFault::Away, ProviderFault::AnswerLost, ProviderFault::Busy]);
    prop_oneof![
        4 => vec(0..40_u16, 1..4).prop_map(MonthFault::Kills),
        3 => vec(fault, 1..4).prop_map(MonthFault::Provider),
        2 => vec(0..6_usize, 1..6).prop_map(MonthFault::Webhooks),
        2 => (2..5_usize, 0..40_u16).prop_map(|(admins, steps)| MonthFault::Admins(admins, steps)),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let month = (trouble(), prop::bool::weighted(0.8), vec((0..6_u32, happening()), 0..4));
    let month = month.prop_map(|(trouble, is_well, steps)| HistoryMonth { trouble, is_well, steps });
    let begins = prop::sample::select(BEGINNINGS.to_vec());
    let plan = prop::sample::select(vec!["pro", "business"]);
    (begins, buyer(), plan, vec(month, MONTHS)).prop_map(|(begins, buyer, plan, months)| History {
        begins,
        buyer,
        plan,
        months,
    })
}

fn histories(seed: u64) -> impl Iterator<Item = History> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    std::iter::from_fn(move || Some(history().new_tree(&mut runner).unwrap().current()))
}

fn seed() -> u64 {
    std::env::var("SVC_TEST_SEED").map_or_else(|_| rand::random::<u32>().into(), |seed| seed.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn years_with_a_fault_in_every_month() {
    let seed = seed();
    let bench = Bench::start().await;
    let mut lived = HistoryTotals::default();
    for (number, history) in histories(seed).take(HISTORIES).enumerate() {
        lived.add(&Box::pin(live(&bench, seed, number, history)).await);
    }
    bench.stop().await;
    assert!(lived.periods > HISTORIES * MONTHS / 2, "seed {seed}: {lived:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "it is read by the bench, and takes long")]
async fn ten_thousand_periods() {
    let (seed, start) = (seed(), Instant::now());
    println!("seed {seed}");
    let benches = join_all((0..AT_A_TIME).map(|_| Bench::start())).await;
    let (mut lived, mut histories) = (HistoryTotals::default(), histories(seed).enumerate());
    while lived.periods < PERIODS {
        let turn = benches.iter().zip(histories.by_ref());
        let turn = turn.map(|(bench, (number, history))| live(bench, seed, number, history));
        join_all(turn).await.into_iter().for_each(|one| lived.add(&one));
        eprintln!("  {} of {PERIODS} periods", lived.periods);
    }
    join_all(benches.into_iter().map(Bench::stop)).await;
    let HistoryTotals { histories, periods, charges, documents, kills } = lived;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    // Anything lost or doubled has failed by now.
    println!("| {seed} | {histories} | {periods} | {kills} | {charges} | {documents} | 0 | 0 | {minutes:.0} |");
}

#[derive(Debug, Default)]
struct HistoryTotals {
    histories: usize,
    /// The months for which a charge was recorded during a fault.
    periods: usize,
    charges: usize,
    documents: usize,
    /// The kills that interrupted something.
    kills: usize,
}

impl HistoryTotals {
    fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.periods += other.periods;
        self.charges += other.charges;
        self.documents += other.documents;
        self.kills += other.kills;
    }
}

#[expect(clippy::print_stderr, reason = "a failed test says what failed")]
async fn live(bench: &Bench, seed: u64, number: usize, history: History) -> HistoryTotals {
    let lived = AssertUnwindSafe(Box::pin(live_through(bench, &history))).catch_unwind().await;
    lived.unwrap_or_else(|panic| {
        eprintln!("SVC_TEST_SEED={seed}, history {number}: {history:#?}");
        resume_unwind(panic)
    })
}

async fn live_through(bench: &Bench, history: &History) -> HistoryTotals {
    forget(bench).await;
    *bench.time.lock().unwrap() = at(history.begins);
    let account = bench.person("NL").await;
    let (country, vat_number) = history.buyer;
    bench.move_to(&account, country, vat_number).await;
    let mut lived = HistoryTotals { histories: 1, ..HistoryTotals::default() };
    for month in &history.months {
        answer_of_banks(bench);
        if month.is_well {
            become_well(bench);
        }
        let before = months(bench).await;
        pass_to_renewal(bench, &account).await;
        let is_disturbed = Box::pin(renew(bench, &account, history.plan, &month.trouble, &mut lived)).await;
        recover(bench).await;
        let charged = months(bench).await.difference(&before).count();
        lived.periods += if is_disturbed { charged.min(1) } else { 0 };
        for (days, step) in &month.steps {
            bench.pass(DAY * *days);
            renew_due(&bench.app, BATCH).await.unwrap();
            take(bench, &account, step).await;
        }
        assert_sound(bench, &account).await;
    }
    come_to_rest(bench, &account).await;
    lived.charges = bench.provider.known().payments.len();
    lived.documents = bench.invoices(&account).await.len();
    lived
}

fn answer_of_banks(bench: &Bench) {
    let mut known = bench.provider.known();
    for payment in known.payments.iter_mut().filter(|payment| payment.state == PaymentState::Open) {
        payment.state = PaymentState::Failed;
    }
}

fn become_well(bench: &Bench) {
    let mut known = bench.provider.known();
    known.faults.clear();
    (known.mandate, known.recurring) = (MandateState::Valid, PaymentState::Paid);
}

async fn months(bench: &Bench) -> BTreeSet<(String, i32)> {
    let months = sqlx::query_as("SELECT DISTINCT subscription_id, period FROM payments").fetch_all(&bench.app.db).await;
    months.unwrap().into_iter().collect()
}

async fn pass_to_renewal(bench: &Bench, account: &Account) {
    let end = bench.current(account).await.and_then(|current| current.next_attempt_at.max(current.period_end));
    let mut now = bench.time.lock().unwrap();
    *now = end.unwrap_or(*now).max(*now);
}

/// Renews the account's subscription, or starts one, during a fault. Returns whether the fault had an effect.
async fn renew(
    bench: &Bench,
    account: &Account,
    plan: &'static str,
    trouble: &MonthFault,
    lived: &mut HistoryTotals,
) -> bool {
    match trouble {
        MonthFault::Kills(steps) => {
            let mut is_cut = false;
            for steps in steps {
                if is_cut_off(*steps, Box::pin(work(bench, account, plan))).await {
                    (is_cut, lived.kills) = (true, lived.kills + 1);
                }
                bench.pass(Duration::from_mins(5));
            }
            work(bench, account, plan).await;
            is_cut
        }
        MonthFault::Provider(faults) => {
            bench.provider.known().faults.extend(faults.iter().copied());
            for _ in 0..=faults.len() {
                work(bench, account, plan).await;
                bench.pass(Duration::from_mins(10));
            }
            true
        }
        MonthFault::Webhooks(places) => {
            let told = places.iter().map(|place| deliver_webhook(bench, *place));
            join(work(bench, account, plan), join_all(told)).await;
            for place in places.iter().chain(places.iter().rev()) {
                deliver_webhook(bench, *place).await;
            }
            true
        }
        MonthFault::Admins(admins, steps) => {
            let others = join_all((1..*admins).map(|_| work(bench, account, plan)));
            let ((), is_cut) =
                join(async { drop(others.await) }, is_cut_off(*steps, Box::pin(work(bench, account, plan)))).await;
            lived.kills += usize::from(is_cut);
            true
        }
    }
}

/// Does admin's work of a renewal, or subscribes again as a person would. It may be interrupted anywhere.
async fn work(bench: &Bench, account: &Account, plan: &'static str) {
    if bench.current(account).await.is_none_or(|current| !current.status.is_entitled()) {
        take(bench, account, &HistoryStep::Checkout(plan)).await;
        take(bench, account, &HistoryStep::Turn(0, PaymentState::Paid)).await;
        deliver_webhook(bench, 0).await;
    }
    renew_due(&bench.app, BATCH).await.unwrap();
    poll_due(&bench.app, BATCH).await.unwrap();
}

async fn deliver_webhook(bench: &Bench, place: usize) {
    let id = bench.provider.known().payments.iter().rev().nth(place).map(|payment| payment.id.clone());
    if let Some(id) = id {
        // The provider may be away.
        let _ = poll_by_provider_id(&bench.app, &id).await;
    }
}

/// Polls `work` for this number of steps, then drops it, as a kill would. Returns whether it was still running.
async fn is_cut_off(steps: u16, work: impl Future<Output = ()>) -> bool {
    let (mut work, mut taken) = (pin!(work), 0);
    poll_fn(move |cx| {
        if taken > steps {
            return Poll::Ready(true);
        }
        taken += 1;
        work.as_mut().poll(cx).map(|()| false)
    })
    .await
}

async fn recover(bench: &Bench) {
    for _ in 0..ROUNDS {
        bench.pass(Duration::from_hours(1));
        let renewed = renew_due(&bench.app, BATCH).await.unwrap();
        if renewed + poll_due(&bench.app, BATCH).await.unwrap() == 0 {
            return;
        }
    }
}
