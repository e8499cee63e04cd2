//! The health of Postgres and Redis, checked once a second regardless of requests: a health request costs them nothing,
//! and is answered immediately even while they hang.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use live::Redis;
use sqlx::PgPool;
use telemetry::{OutageLine, OutageLog};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Timeout of a check.
const PATIENCE: Duration = Duration::from_secs(1);
/// Polling interval while a starting program waits for the first answers.
const WELL_LOOK: Duration = Duration::from_millis(20);
/// The time for which an answer counts. Longer than a failed check: a late answer from busy connections is no outage.
const LASTING: Duration = Duration::from_millis(3_500);

/// The health of Postgres and Redis as of the last checks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DependencyHealth {
    postgres: DependencyState,
    redis: DependencyState,
}

/// The health of Postgres and Redis at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthReading {
    /// Whether Postgres answers.
    pub postgres: bool,
    /// Whether Redis answers.
    pub redis: bool,
}

impl HealthReading {
    /// Returns whether both answer.
    pub fn is_well(self) -> bool {
        self.postgres && self.redis
    }
}

/// When a service last answered.
#[derive(Debug, Clone, Default)]
struct DependencyState {
    answered: Arc<Mutex<Option<Instant>>>,
}

impl DependencyState {
    fn note_answer(&self, now: Instant) {
        // The lock is never poisoned: no code panics while holding it.
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn is_up(&self, now: Instant) -> bool {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.is_some_and(|answered| now.saturating_duration_since(answered) < LASTING)
    }
}

impl DependencyHealth {
    /// Returns the health at `now`.
    pub fn reading(&self, now: Instant) -> HealthReading {
        HealthReading { postgres: self.postgres.is_up(now), redis: self.redis.is_up(now) }
    }

    /// Checks both for as long as it is polled.
    pub async fn watch(&self, db: &PgPool, redis: &Redis) {
        tokio::join!(
            follow("Postgres", &self.postgres, || async move { Ok::<_, anyhow::Error>(db::ping(db).await?) }),
            follow("Redis", &self.redis, || async move { Ok::<_, anyhow::Error>(redis.ping().await?) }),
        );
    }

    /// Waits until both have answered, for at most `longest`.
    pub async fn wait_until_well(&self, longest: Duration) {
        let well = async {
            while !self.reading(Instant::now()).is_well() {
                tokio::time::sleep(WELL_LOOK).await;
            }
        };
        let _ = timeout(longest, well).await;
    }
}

async fn follow<Answer>(name: &'static str, part: &DependencyState, ask: impl Fn() -> Answer)
where
    Answer: Future<Output = anyhow::Result<()>>,
{
    let mut every = interval(LOOK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outage = OutageLog::new();
    loop {
        every.tick().await;
        let answer = timeout(PATIENCE, ask()).await;
        let now = Instant::now();
        let why = match answer {
            Ok(Ok(())) => {
                part.note_answer(now);
                if let Some(lasted) = outage.record_success() {
                    tracing::info!(seconds = lasted.as_secs(), "{name} answers again");
                }
                continue;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer".to_owned(),
        };
        // A service that still counts as up has failed once or twice, as happens on a busy machine.
        if !part.is_up(now)
            && let Some(OutageLine { lasted, .. }) = outage.record_failure()
        {
            tracing::warn!(why, seconds = lasted.as_secs(), "{name} does not answer");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_some_seconds() {
        let (vitals, start) = (DependencyHealth::default(), Instant::now());
        assert!(!vitals.reading(start).is_well());
        vitals.postgres.note_answer(start);
        assert_eq!(vitals.reading(start), HealthReading { postgres: true, redis: false });
        vitals.redis.note_answer(start + PATIENCE);
        assert!(vitals.reading(start + PATIENCE).is_well());
        assert_eq!(vitals.reading(start + LASTING), HealthReading { postgres: false, redis: true });
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_that_fails_is_no_outage() {
        let part = DependencyState::default();
        let looks = Mutex::new(0);
        let ask = || async {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            if *looks == 2 { Err(anyhow::anyhow!("busy")) } else { Ok(()) }
        };
        let _ = timeout(LOOK_EVERY * 2, follow("a part", &part, ask)).await;
        assert!(*looks.lock().unwrap() >= 2 && part.is_up(Instant::now()));
    }
}
