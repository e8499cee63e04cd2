//! Limits: shared by all keys and edges of an account, never overrun by concurrent requests, with an exact `Retry-After`.

use std::{cell::Cell, time::Instant};

use futures_util::future::join_all;

use super::*;

pub(super) fn seconds_to_midnight() -> i64 {
    86_400 - (domain::Clock::system().now().unix_seconds() % 86_400)
}

pub(super) fn retry_after(answer: &Answer) -> i64 {
    answer.header("retry-after").parse().unwrap()
}

#[track_caller]
pub(super) fn assert_code(answer: &Answer, code: &str) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["error"]["code"], code, "{body}");
}

#[tokio::test]
async fn an_account_has_sixty_requests_a_minute_over_all_keys_and_edges() {
    let metered = Metered::start_with(|builder| builder.edges(2)).await;
    let keys = [metered.key.clone(), new_key(&metered.ada).await];
    let wanted = Completion::of(1, 1);
    let start = Instant::now();
    let answers = join_all((0..80).map(|n| metered.ask_at(n % 2, &keys[(n / 2) % 2], &wanted))).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(served, 60);
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.status, 429);
    assert_code(refused, "rate_limit_exceeded");
    assert_eq!(refused.header("x-ratelimit-limit-requests"), "60");
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), "0");
    // The next request is allowed a minute after the first of the sixty, and not sooner.
    let refused = metered.ask(&wanted).await.assert_status(429);
    let wait = retry_after(&refused);
    let spent = i64::try_from(start.elapsed().as_secs()).unwrap();
    assert!((60 - spent - 1..=60).contains(&wait), "{wait} s, {spent} s after the first");
    // Another account has its own limit.
    let eve = metered.world.user("eve").await;
    metered.ask_at(0, &new_key(&eve).await, &wanted).await.assert_status(200);
}

#[tokio::test]
async fn the_last_minutes_requests_survive_a_loss_of_redis() {
    let mut metered = Metered::start_with(|builder| builder.edges(2)).await;
    let start = Instant::now();
    let wanted = Completion::of(1, 1);
    let asked = join_all((0..58).map(|n| metered.ask_at(n % 2, &metered.key, &wanted))).await;
    for answer in asked {
        answer.assert_status(200);
    }
    // Two are under way, so that only their edges know of them.
    let slow = Completion::of(2, 1).held();
    let under_way: Vec<_> = [0, 1]
        .map(|edge| {
            let (asker, slow) = (metered.asker(edge), slow.clone());
            tokio::spawn(async move { asker.is_served(&slow).await })
        })
        .into();
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 60).await;
    metered.rows_become(58, "NOT estimated").await;
    // An edge remembers a refusal, but not one of another memory of Redis.
    let refused = async |metered: &Metered, edge: usize, why: &str| {
        let answer = metered.ask_at(edge, &metered.key, &Completion::of(1, 1)).await;
        assert_eq!(answer.status, 429, "{why}: {}", answer.text());
        assert_code(&answer, "rate_limit_exceeded");
        let (wait, passed) = (retry_after(&answer), i64::try_from(start.elapsed().as_secs()).unwrap());
        assert!((60 - passed - 1..=61 - passed).contains(&wait), "{why}: {wait} s, {passed} s after the first");
    };
    refused(&metered, 0, "as it is").await;
    metered.world.redis_command("FLUSHALL").await;
    refused(&metered, 1, "after a flush").await;
    metered.world.redis.kill();
    metered.world.restart_redis();
    // Another account has its own limit, and shows the edge that Redis has begun anew.
    let eves = new_key(&metered.world.user("eve").await).await;
    let is_back = async || metered.ask_at(0, &eves, &Completion::of(1, 1)).await.status == 200;
    eventually(BACKGROUND, "Redis is back", is_back).await;
    refused(&metered, 0, "after a crash").await;
    metered.provider.release();
    for one in under_way {
        assert!(one.await.unwrap());
    }
}

/// Makes every admission of the last minute so much older, as Redis knows it.
async fn age_the_minute(metered: &Metered, by: Duration) {
    let script = "local aged = 0
                  for _, key in ipairs(redis.call('KEYS', 'svc:ai:*:minute')) do
                    for i, at in ipairs(redis.call('LRANGE', key, 0, -1)) do
                      redis.call('LSET', key, i - 1, string.format('%.0f', tonumber(at) - tonumber(ARGV[1])))
                      aged = aged + 1
                    end
                  end
                  return aged";
    let aged = metered.world.redis_number("EVAL", &[script, "0", &by.as_millis().to_string()]).await;
    assert!(aged > Some(0), "Redis knows of no admission");
}

#[tokio::test]
async fn retry_after_is_exact_for_the_minutes_limit() {
    // Each edge remembers what it refused; another one asks Redis.
    let metered = Metered::start_with(|builder| builder.edges(3).set("LIMITS__GATEWAY_PER_MIN", 2)).await;
    let wanted = Completion::of(1, 1);
    metered.ask(&wanted).await.assert_status(200);
    metered.ask(&wanted).await.assert_status(200);
    let refused = metered.ask(&wanted).await.assert_status(429);
    let wait = Duration::from_secs(retry_after(&refused).try_into().unwrap());
    // Half a minute before it is free.
    let left = Duration::from_secs(30);
    age_the_minute(&metered, wait.checked_sub(left).unwrap()).await;
    let refused = metered.ask_at(1, &metered.key, &wanted).await.assert_status(429);
    let wait = Duration::from_secs(retry_after(&refused).try_into().unwrap());
    assert!(wait <= left, "{wait:?}");
    age_the_minute(&metered, wait).await;
    metered.ask_at(2, &metered.key, &wanted).await.assert_status(200);
}

#[tokio::test]
async fn refusals_of_the_minute_cost_redis_nothing() {
    let metered = Metered::start_with(|builder| builder.set("LIMITS__GATEWAY_PER_MIN", 2)).await;
    let wanted = Completion::of(1, 1);
    let start = Instant::now();
    metered.ask(&wanted).await.assert_status(200);
    metered.ask(&wanted).await.assert_status(200);
    metered.ask(&wanted).await.assert_status(429);
    // Only the script of admissions asks for a length.
    let before = metered.world.redis_calls("llen").await;
    for _ in 0..30 {
        let refused = metered.ask(&wanted).await.assert_status(429);
        assert_code(&refused, "rate_limit_exceeded");
        assert_eq!(refused.header("x-ratelimit-remaining-requests"), "0");
        let (wait, passed) = (retry_after(&refused), i64::try_from(start.elapsed().as_secs()).unwrap());
        assert!((60 - passed - 1..=60).contains(&wait), "{wait} s, {passed} s after the first");
    }
    assert_eq!(metered.world.redis_calls("llen").await, before, "Redis was asked");
    // Another account is none of its business.
    let eve = metered.world.user("eve").await;
    metered.ask_at(0, &new_key(&eve).await, &wanted).await.assert_status(200);
    assert!(metered.world.redis_calls("llen").await > before);
}

#[tokio::test]
async fn a_refusal_for_want_of_tokens_ends_when_some_are_given_back() {
    let metered = Metered::start_with(|builder| {
        builder.set("LIMITS__GATEWAY_TOKENS_PER_DAY", 5_000).set("LIMITS__GATEWAY_PER_MIN", 1_000)
    })
    .await;
    let wanted = Completion::of(10, 10).at_most(4_000);
    let (asker, held) = (metered.asker(0), wanted.clone().held());
    let under_way = tokio::spawn(async move { asker.is_served(&held).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 1).await;
    for _ in 0..5 {
        assert_code(&metered.ask(&wanted).await.assert_status(429), "daily_token_limit_exceeded");
    }
    metered.provider.release();
    assert!(under_way.await.unwrap());
    metered.ask(&wanted).await.assert_status(200);
}

/// Asks for held completions concurrently, and lets them end when each was admitted or refused.
pub(super) async fn ask_held(
    metered: &Metered,
    asks: impl Iterator<Item = impl Future<Output = Answer>>,
) -> Vec<Answer> {
    let refused = Cell::new(0);
    let asks: Vec<_> = asks
        .map(async |ask| {
            let answer = ask.await;
            refused.set(refused.get() + usize::from(answer.status != 200));
            answer
        })
        .collect();
    let all = asks.len();
    let release = async {
        let is_decided = async || metered.provider.asked().len() + refused.get() == all;
        eventually(BACKGROUND, "each is admitted or refused", is_decided).await;
        metered.provider.release();
    };
    futures_util::future::join(join_all(asks), release).await.0
}

#[tokio::test]
async fn a_hundred_concurrent_requests_do_not_overrun_the_day() {
    const BUDGET: u64 = 8_000;
    let metered = Metered::start_with(|builder| {
        builder.edges(2).set("LIMITS__GATEWAY_PER_MIN", 100_000).set("LIMITS__GATEWAY_TOKENS_PER_DAY", BUDGET)
    })
    .await;
    // All of them use what they reserved for their answers, after all of them were admitted or refused.
    let wanted = Completion::of(10, 100).held();
    let answers = ask_held(&metered, (0..100).map(|n| metered.ask_at(n % 2, &metered.key, &wanted))).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    assert!(served * 110 <= BUDGET, "{served} were served: the day is overrun");
    assert!(served >= 20, "only {served} were served");
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.status, 429);
    assert_code(refused, "daily_token_limit_exceeded");
    let wait = retry_after(refused);
    assert!((wait - seconds_to_midnight()).abs() <= 5, "{wait} s, {} s before midnight", seconds_to_midnight());

    // What was reserved and not used is available again once both edges have told Redis, so the day can be used up.
    let used = Cell::new(served * 110);
    eventually(BACKGROUND, "the day is used up", async || {
        let is_served = metered.ask(&Completion::of(100, 100)).await.status == 200;
        used.set(used.get() + if is_served { 200 } else { 0 });
        assert!(used.get() <= BUDGET, "{} tokens", used.get());
        !is_served && used.get() + 300 > BUDGET
    })
    .await;
}

#[tokio::test]
async fn an_unused_reservation_is_available_to_the_next_request() {
    let metered = Metered::start_with(|builder| {
        builder.set("LIMITS__GATEWAY_TOKENS_PER_DAY", 5_000).set("LIMITS__GATEWAY_PER_MIN", 1_000)
    })
    .await;
    for stream in [false, true] {
        for _ in 0..10 {
            let wanted = Completion { stream, ..Completion::of(10, 10).at_most(4_000) };
            metered.ask(&wanted).await.assert_status(200);
        }
    }
    let answer = metered.ask(&Completion::of(10, 10).at_most(4_000)).await.assert_status(200);
    assert_eq!(answer.header("x-ratelimit-limit-tokens"), "5000");
}

#[tokio::test]
async fn concurrent_requests_do_not_overrun_the_months_credit() {
    // One cent: a million tokens of this model cost 900.
    let plans = json!({"tiny": {"name": "Tiny", "price_cents": 0, "limits": {
        "projects": 1, "domains": 1, "ready_apps": 0, "bandwidth_bytes": 1, "ai_credit_cents": 1,
    }}});
    let metered = Metered::start_with(|builder| builder.set("BILLING__PLANS", &plans)).await;
    let wanted = Completion::of(100, 100).at_most(400).by("svc/mistral-large").held();
    let answers = ask_held(&metered, (0..20).map(|_| metered.ask(&wanted))).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    // 400 tokens at 900 are 0.36 cents; the prompt is a little more.
    assert_eq!(served, 2);
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.status, 429);
    assert_code(refused, "insufficient_quota");
    let now = domain::Clock::system().now();
    let left = domain::month::Month::from_timestamp(now).next().start().since(now).as_secs();
    assert!(retry_after(refused).unsigned_abs().abs_diff(left) <= 5, "{} s, {left} s left", retry_after(refused));
    metered.rows_become(2, "NOT estimated AND cost_microcents = 100 * 300 + 100 * 900").await;
}

#[tokio::test]
async fn an_emptied_redis_is_rebuilt_from_postgres() {
    let mut metered = Metered::start_with(|builder| {
        builder.edges(2).set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000).set("LIMITS__GATEWAY_PER_MIN", 1_000)
    })
    .await;
    metered.ask(&Completion::of(500, 100)).await.assert_status(200);
    // An edge remembers for a moment that it refused as much.
    let refused = async |metered: &Metered, at_most: u64, why: &str| {
        for edge in [0, 1] {
            let answer = metered.ask_at(edge, &metered.key, &Completion::of(1, 1).at_most(at_most)).await;
            assert_eq!(answer.status, 429, "{why}: {}", answer.text());
            assert_code(&answer, "daily_token_limit_exceeded");
        }
    };
    metered.rows_become(1, "NOT estimated").await;
    refused(&metered, 500, "as it is").await;
    metered.world.redis_command("FLUSHALL").await;
    refused(&metered, 450, "after a flush").await;

    // An open completion counts too, although only its edge has it.
    let asker = metered.asker(1);
    let slow = Completion::of(50, 50).at_most(200).held();
    let under_way = tokio::spawn(async move { asker.is_served(&slow).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 2).await;
    metered.world.redis.kill();
    let answer = metered.ask(&Completion::of(1, 1)).await.assert_status(503);
    assert!(retry_after(&answer) > 0);
    metered.world.restart_redis();
    eventually(BACKGROUND, "admissions go on", async || {
        metered.ask(&Completion::of(1, 1).at_most(500)).await.status == 429
    })
    .await;
    let refused = metered.ask(&Completion::of(1, 1).at_most(100)).await;
    assert_eq!(
        refused.status,
        429,
        "600 used, 200 and a prompt under way, 100 and a prompt wanted: {}",
        refused.text()
    );
    metered.provider.release();
    assert!(under_way.await.unwrap());
    metered.rows_become(2, "NOT estimated").await;
    eventually(BACKGROUND, "the rest is free", async || {
        metered.ask(&Completion::of(1, 1).at_most(100)).await.status == 200
    })
    .await;
    metered.assert_sums().await;
}
