//! Spares: reservations that are made before their requests come. They spare Redis work, and change nothing that a client or an
//! operator can count.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use domain::{Account, Clock, CompletionId, UserId, usage::UsageRow};
use futures_util::future::join_all;
use live::budgets::{AccountLimits, AdmissionResult, AdmissionVerdict, ReleaseOutcome, SPARE_LIFE, SpareStatus};

use super::{
    budgets::{BUDGET, Budgets, EDGE, base, reserved},
    *,
};
use crate::{metrics::Page, world::ports};

/// Rows for so many spares that are made with `row`.
fn spares(row: &UsageRow, count: usize) -> Vec<UsageRow> {
    let mut spare = row.clone();
    spare.set_spare();
    (0..count).map(|_| UsageRow { id: CompletionId::new(row.at), ..spare.clone() }).collect()
}

impl Budgets {
    async fn admit_with(&self, row: &UsageRow, spares: &[UsageRow]) -> AdmissionResult {
        self.redis.admit(EDGE, row, spares, BUDGET, None).await.unwrap()
    }

    /// The requests of the minute and the tokens of the day, as a refusal gives them: with what is held in spares.
    async fn used(&self) -> (u64, u64) {
        let judgement = self.admit_with(&self.row(self.now, 0, 100_000), &[]).await;
        let AdmissionVerdict::Day(used) = judgement.verdict else { panic!("{judgement:?}") };
        assert_eq!(judgement.spares, SpareStatus::NotInTheWay, "it has no room without spares either");
        (used.requests, used.tokens)
    }

    /// The status of spares in the refusal of a request for so many tokens.
    async fn out(&self, tokens: u64) -> SpareStatus {
        let judgement = self.admit_with(&self.row(self.now, 0, tokens), &[]).await;
        assert!(matches!(judgement.verdict, AdmissionVerdict::Day(_)), "{judgement:?}");
        judgement.spares
    }
}

#[tokio::test]
async fn spares_hold_as_much_as_the_reservation_they_are_made_with_and_give_all_of_it_back() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(1, 100))).await;
    let row = budgets.row(budgets.now, 2, 48);
    let spares = spares(&row, 3);
    let judgement = budgets.admit_with(&row, &spares).await;
    assert_eq!(judgement.spares, SpareStatus::Made(3));
    assert!(matches!(judgement.verdict, AdmissionVerdict::Admitted(used) if (used.requests, used.tokens) == (2, 160)));
    assert_eq!(budgets.used().await, (5, 310));
    let out = budgets.out(840).await;
    let SpareStatus::InTheWayFor(time) = out else { panic!("{out:?}") };
    assert!(time > SPARE_LIFE, "whoever is refused waits until they are back: {time:?}");
    assert_eq!(budgets.out(841).await, SpareStatus::NotInTheWay, "they would not do");

    // One is used for less than it holds; two are not used.
    let request = UsageRow { id: spares[0].id.clone(), at: judgement.at, ..budgets.row(budgets.now, 1, 9) };
    budgets.redis.revalue(EDGE, &budgets.account, &[&request]).await.unwrap();
    assert_eq!(budgets.used().await, (5, 270));
    for (spare, left) in spares[1..].iter().zip([(4, 220), (3, 170)]) {
        assert_ne!(budgets.out(830).await, SpareStatus::NotInTheWay);
        assert_eq!(budgets.release(spare).await, ReleaseOutcome::Released);
        assert_eq!(budgets.release(spare).await, ReleaseOutcome::Missing);
        assert_eq!(budgets.used().await, left);
    }
    assert_eq!(budgets.out(831).await, SpareStatus::NotInTheWay);
    assert_eq!(budgets.release(&spares[0]).await, ReleaseOutcome::Claimed, "a request has come for it");
    assert_eq!(budgets.used().await, (3, 170));
    assert_eq!(budgets.release(&request).await, ReleaseOutcome::Released);
    assert_eq!(budgets.used().await, (3, 160));
}

#[tokio::test]
async fn what_spares_hold_counts_for_nobody_who_is_admitted() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 0, 50);
    budgets.admit(&row, Some(base(1, 100))).await;
    let first = budgets.row(budgets.now, 0, 50);
    budgets.admit_with(&first, &spares(&first, 3)).await;
    let second = budgets.row(budgets.now, 0, 10);
    let judgement = budgets.admit_with(&second, &spares(&second, 2)).await;
    assert!(matches!(judgement.verdict, AdmissionVerdict::Admitted(used) if (used.requests, used.tokens) == (3, 210)));
    assert_eq!(budgets.used().await, (8, 380));
}

#[tokio::test]
async fn an_admission_that_is_sent_again_keeps_its_spares() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(1, 100))).await;
    let row = budgets.row(budgets.now, 0, 50);
    let spares = spares(&row, 3);
    let [first, again] = [budgets.admit_with(&row, &spares).await, budgets.admit_with(&row, &spares).await];
    assert_eq!([first.spares, again.spares], [SpareStatus::Made(3); 2]);
    assert_eq!(budgets.used().await, (5, 310), "each is there once");
    for spare in &spares {
        // The time of the answer that arrived is not the one of their making.
        assert_eq!(budgets.release(&UsageRow { at: again.at, ..spare.clone() }).await, ReleaseOutcome::Released);
    }
    assert_eq!(budgets.used().await, (2, 160));
}

#[tokio::test]
async fn an_admission_that_is_sent_again_is_not_refused_for_what_it_holds() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(1, 100))).await;
    // More than half of what is left of the day.
    let row = budgets.row(budgets.now, 0, 600);
    for _ in 0..2 {
        assert!(matches!(budgets.admit(&row, None).await, AdmissionVerdict::Admitted(_)));
    }
    assert_eq!(budgets.used().await, (2, 710));
    assert!(matches!(budgets.admit(&budgets.row(budgets.now, 0, 600), None).await, AdmissionVerdict::Day(_)));
    // The last of a minute.
    let again = budgets.row(budgets.now, 0, 1);
    let last = AccountLimits { per_minute: 3, ..BUDGET };
    for _ in 0..2 {
        let judged = budgets.redis.admit(EDGE, &again, &[], last, None).await.unwrap();
        assert!(matches!(judged.verdict, AdmissionVerdict::Admitted(_)));
    }
    assert_eq!(budgets.used().await, (3, 711));
}

#[tokio::test]
async fn who_waits_for_spares_sees_no_more_of_them_made() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(1, 100))).await;
    let make = async || {
        let row = budgets.row(budgets.now, 0, 1);
        let spares = spares(&row, 2);
        (budgets.admit_with(&row, &spares).await.spares, spares)
    };
    let (made, first) = make().await;
    assert_eq!(made, SpareStatus::Made(2));
    assert_ne!(budgets.out(888).await, SpareStatus::NotInTheWay);
    assert_eq!(make().await.0, SpareStatus::Made(0));
    for spare in &first {
        budgets.release(spare).await;
    }
    assert_eq!(budgets.out(889).await, SpareStatus::NotInTheWay);
    eventually(BACKGROUND, "later ones are made", async || make().await.0 == SpareStatus::Made(2)).await;
}

#[tokio::test]
async fn spares_are_known_and_given_back_whichever_key_redis_loses() {
    for lost in ["spent", "open", "minute"] {
        let budgets = Budgets::start().await;
        budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(1, 100))).await;
        let row = budgets.row(budgets.now, 0, 50);
        let out = spares(&row, 3);
        assert_eq!(budgets.admit_with(&row, &out).await.spares, SpareStatus::Made(3));
        let key = format!("svc:ai:{{{}}}:{lost}", budgets.account);
        assert_eq!(budgets.world.redis_number("DEL", &[&key]).await, Some(1));

        let next = budgets.row(budgets.now, 0, 20);
        let asked = budgets.redis.admit(EDGE, &next, &[], BUDGET, Some(base(1, 100))).await.unwrap();
        assert!(matches!(asked.verdict, AdmissionVerdict::Admitted(_)), "{lost}: {asked:?}");
        // The others: 10 and 50 tokens are held unless what was open is lost.
        let held = if lost == "open" { 0 } else { 60 };
        for spare in &out {
            budgets.release(spare).await;
        }
        assert_eq!(budgets.used().await.1, 120 + held, "{lost}");
        let requests = match lost {
            "spent" => 3,
            "open" => 6, // nothing says any more which places are those of spares
            _ => 1,      // it was lost with the two before
        };
        assert_eq!(budgets.used().await.0, requests, "{lost}: places in the minute");
        // What was lost is not missed by the next.
        let spares = spares(&next, 2);
        let next = UsageRow { id: CompletionId::new(budgets.now), ..next };
        assert_eq!(budgets.admit_with(&next, &spares).await.spares, SpareStatus::Made(2), "{lost}");
        assert_ne!(budgets.out(1_000 - 140 - held).await, SpareStatus::NotInTheWay, "{lost}");
    }
}

#[tokio::test]
async fn no_spare_is_made_beyond_half_of_a_limit() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 100), Some(base(1, 100))).await;
    let (row, plenty) = (budgets.row(budgets.now, 0, 50), AccountLimits { per_day: 100_000, ..BUDGET });
    // Two requests, and 250 tokens, which cost as much, are used with the request's own.
    let cases = [
        (AccountLimits { per_day: 699, ..BUDGET }, 1),
        (AccountLimits { per_day: 700, ..BUDGET }, 2),
        (AccountLimits { per_minute: 6, ..plenty }, 1),
        (AccountLimits { per_month: 700, ..plenty }, 2),
        (AccountLimits { account_limit: Some(699), ..plenty }, 1),
    ];
    for (budget, made) in cases {
        let asked = UsageRow { id: CompletionId::new(row.at), ..row.clone() };
        let spares = spares(&asked, 10);
        let judgement = budgets.redis.admit(EDGE, &asked, &spares, budget, None).await.unwrap();
        assert_eq!(judgement.spares, SpareStatus::Made(made), "{budget:?}");
        for spare in &spares[..made] {
            assert_eq!(budgets.release(spare).await, ReleaseOutcome::Released);
        }
        budgets.release(&asked).await;
        // What is given back stays a request of the minute unless it was a spare.
        let minute = format!("svc:ai:{{{}}}:minute", budgets.account);
        budgets.world.redis_number("LPOP", &[&minute]).await;
    }
    // A refusal makes none either.
    let refused = budgets.row(budgets.now, 0, 100_000);
    assert_eq!(budgets.admit_with(&refused, &spares(&refused, 10)).await.spares, SpareStatus::NotInTheWay);
    assert_eq!(budgets.redis.open_completions(&budgets.account).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_spares_that_are_overdue_hold_is_told_from_what_others_use() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(0, 0))).await;
    budgets.redis.renew_lease(EDGE).await.unwrap();
    let row = budgets.row(budgets.now, 0, 40);
    budgets.admit_with(&row, &spares(&row, 4)).await;
    eventually(BACKGROUND, "their edge should have given them back", async || {
        budgets.redis.renew_lease(EDGE).await.unwrap();
        let status = budgets.out(900).await;
        assert!(matches!(status, SpareStatus::InTheWayFor(_)), "{status:?}");
        status == SpareStatus::InTheWayFor(Duration::ZERO)
    })
    .await;
    assert_eq!(budgets.out(951).await, SpareStatus::NotInTheWay);
}

#[tokio::test]
async fn spares_of_an_edge_that_died_cost_nothing() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 10), Some(base(0, 0))).await;
    budgets.redis.renew_lease(EDGE).await.unwrap();
    let row = budgets.row(budgets.now, 3, 40);
    assert_eq!(budgets.admit_with(&row, &spares(&row, 4)).await.spares, SpareStatus::Made(4));
    eventually(BACKGROUND, "they are released, and the other two settled", async || {
        budgets.redis.open_completions(&budgets.account).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(budgets.world.sql_number("SELECT count(*) FROM ai_usage").await, 2);
    assert_eq!(budgets.used().await, (2, 53));
}

#[tokio::test]
async fn requests_that_follow_each_other_do_not_wait_for_redis_and_are_counted_to_the_token() {
    let port = ports::free();
    let metered = Metered::start_with(|builder| {
        let builder = builder.set("LIMITS__GATEWAY_PER_MIN", 1_000_000);
        builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    let (asked, wanted) = (AtomicU32::new(0), Completion::of(3, 4));
    // Returns the requests and the tokens that are left.
    let ask = async || {
        let answer = metered.ask(&wanted).await.assert_status(200);
        asked.fetch_add(1, Ordering::Relaxed);
        let left = |what: &str| answer.header(&format!("x-ratelimit-remaining-{what}")).parse::<u64>().unwrap();
        (left("requests"), left("tokens"))
    };
    eventually(BACKGROUND, "spares are used", async || {
        for _ in 0..20 {
            ask().await;
        }
        Page::of(port).await.labelled("svc_gateway_spares_total", "end=\"used\"").is_some_and(|used| used >= 20.0)
    })
    .await;
    // Redis itself may not have been told yet what the one before has used.
    eventually(BACKGROUND, "the headers go on from one to the next", async || {
        let left = [ask().await, ask().await, ask().await];
        left.windows(2).all(|pair| (pair[0].0 - pair[1].0, pair[0].1.abs_diff(pair[1].1)) == (1, 7))
    })
    .await;
    let asked = i64::from(asked.load(Ordering::Relaxed));
    metered.rows_become(asked, "completion_tokens = 4 AND NOT estimated").await;
    eventually(BACKGROUND, "what was not used is given back", async || open_in_redis(&metered, "").await == Some(0))
        .await;
    assert_eq!(metered.rows("true").await, asked, "and is no row");
    metered.assert_sums().await;
}

#[tokio::test]
async fn what_one_edge_holds_in_spares_is_not_missed_at_another() {
    let metered = Metered::start_with(|builder| builder.edges(2).set("LIMITS__GATEWAY_PER_MIN", 12)).await;
    let wanted = Completion::of(1, 1);
    let start = Instant::now();
    // The second has a spare made, and the fourth two.
    for _ in 0..4 {
        metered.ask_at(0, &metered.key, &wanted).await.assert_status(200);
    }
    let others = join_all((0..8).map(|_| metered.ask_at(1, &metered.key, &wanted))).await;
    assert!(others.iter().all(|answer| answer.status == 200), "{:?} after the first", start.elapsed());
    for edge in [0, 1] {
        let refused = metered.ask_at(edge, &metered.key, &wanted).await.assert_status(429);
        assert_eq!(refused.header("x-ratelimit-remaining-requests"), "0");
    }
}

#[tokio::test]
async fn who_waits_for_spares_is_served_though_redis_forgets_the_account_meanwhile() {
    let metered = Metered::start_with(|builder| builder.set("LIMITS__GATEWAY_PER_MIN", 6)).await;
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let number = async |command: &str, arguments: &[&str]| metered.world.redis_number(command, arguments).await;
    let (wanted, tries) = (Completion::of(1, 1), AtomicU32::new(0));
    // An account of its own each time: on a busy machine the wait may be over before the rest is done.
    let is_served = async || {
        let login = format!("eve{}", tries.fetch_add(1, Ordering::Relaxed));
        let key = new_key(&metered.world.user(&login).await).await;
        metered.ask_at(0, &key, &wanted).await.assert_status(200);
        let user = metered.world.sql_text(&format!("SELECT id FROM users WHERE vcs_login = '{login}'")).await;
        let account: Account = user.parse::<UserId>().unwrap().into();
        let spent = format!("svc:ai:{{{account}}}:spent");

        // Another edge takes what is left of the minute, most of it in spares.
        redis.renew_lease(EDGE).await.unwrap();
        let row = reserved(&account, Clock::system().now(), 0, 1);
        let spares = spares(&row, 4);
        let judgement = redis.admit(EDGE, &row, &spares, BUDGET, None).await.unwrap();
        assert_eq!(judgement.spares, SpareStatus::Made(4));
        let waiting = Asker { key, ..metered.asker(0) };
        let waiting = tokio::spawn({
            let wanted = wanted.clone();
            async move { waiting.is_served(&wanted).await }
        });
        eventually(BACKGROUND, "a request waits for them", async || {
            waiting.is_finished() || number("HEXISTS", &[&spent, "no_spares_until"]).await == Some(1)
        })
        .await;
        number("DEL", &[&spent]).await;
        eventually(BACKGROUND, "the account's sums are back", async || {
            waiting.is_finished() || number("HEXISTS", &[&spent, "d"]).await == Some(1)
        })
        .await;
        redis.release(&account, &spares.iter().collect::<Vec<_>>()).await.unwrap();
        waiting.await.unwrap()
    };
    eventually(BACKGROUND, "a request that had to wait is served", is_served).await;
}
