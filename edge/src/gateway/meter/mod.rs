//! The meter: what an account may still use, and what it has used.
//!
//! [`Meter::admit`] reserves in Redis what a completion can use at most; the [`Ticket`] it gives is settled with what was
//! really used. From then on [`books`] answer for the completion until Postgres has its row, in memory and in the
//! [`journal`]; [`settle`] brings it there and keeps Redis true. The scripts are in `live::budgets`.
//!
//! Nothing is lost and nothing counted twice, whoever is killed when:
//! - A completion has an id from its admission on, and Postgres takes a row with the same id once.
//! - The journal has the admission before the provider is asked, and what was used before the client gets its last bytes.
//!   It is written in the request's own path, because a client that has its whole answer must find it counted although
//!   the edge was killed the moment after; a write to the page cache costs microseconds and outlives the process.
//! - An edge that starts takes over the journals that dead ones left in its folder. What has no end there is counted by
//!   its estimate, and marked. Where no edge starts again, a job of admin finds the reservation in Redis and does the
//!   same.
//! - An estimate gives way to what is heard later; nothing else changes a row.

mod books;
mod journal;
mod settle;
mod ticket;

use std::{path::PathBuf, sync::Arc, time::Duration};

use config::{Config, models::Model};
use domain::{
    Clock, CompletionId,
    month::{Month, next_midnight},
    usage::{Base, Microcents, UsageRow},
};
use live::{
    Redis, RedisError,
    budgets::{Budget, Used, Verdict},
};
use sqlx::PgPool;
use telemetry::metrics::postgres_failed;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use self::books::Books;
pub use self::{settle::MeterTasks, ticket::Ticket};
use super::keys::GatewayKey;
use crate::limits;

/// What a completion can use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// An estimate of the prompt's tokens.
    pub prompt: u64,
    /// `max_tokens`, for each of the answers asked for.
    pub completion: u64,
}

/// What a completion has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
    /// Whether the provider did not say.
    pub estimated: bool,
}

/// A completion that may be asked for.
#[derive(Debug)]
pub struct Admitted {
    /// To be settled.
    pub ticket: Ticket,
    /// What is left.
    pub rates: Rates,
}

/// How much an account has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Completions a minute.
    pub requests: Rate,
    /// Tokens a UTC day.
    pub tokens: Rate,
}

/// How much of one limit is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The limit.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// Until all of it is there again.
    pub reset: Duration,
}

/// Why a completion may not be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The minute is full.
    Requests {
        /// What is left.
        rates: Rates,
        /// Until there is room for one.
        retry_after: Duration,
    },
    /// The day's tokens do not suffice.
    Tokens {
        /// What is left.
        rates: Rates,
        /// Until the next UTC day.
        retry_after: Duration,
    },
    /// The month's credit does not suffice.
    Credit {
        /// Until the next UTC month.
        retry_after: Duration,
    },
    /// It cannot be counted now, so it is not done.
    Unavailable {
        /// When to come again.
        retry_after: Duration,
    },
}

/// The meter of an edge. Cheap to clone.
#[derive(Clone)]
pub struct Meter(Arc<Parts>);

struct Parts {
    books: Arc<Books>,
    redis: Redis,
    db: PgPool,
    clock: Clock,
    per_minute: u64,
    per_day: u64,
    /// Turns of those who read an account's sums.
    reads: Semaphore,
}

/// What stopped an admission.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
    #[error("Postgres: {0}")]
    Postgres(#[from] sqlx::Error),
    #[error("the account's sums cannot be read: {0}")]
    Sums(&'static str),
}

impl Meter {
    /// A meter for the edge that is called `edge`, and the tasks that have to run for what it counts to arrive.
    pub fn new(config: &Config, edge: &str, redis: Redis, db: PgPool, clock: Clock) -> (Self, MeterTasks) {
        let folder = config.edge.spool.clone().unwrap_or_else(usual_folder);
        let books = Arc::new(Books::new(journal::Journal::new(folder, edge, &config.postgres.url)));
        let tasks = MeterTasks::new(books.clone(), edge.to_owned(), redis.clone(), db.clone(), clock.clone());
        let parts = Parts {
            books,
            redis,
            db,
            clock,
            per_minute: config.limits.gateway_per_min.into(),
            per_day: config.limits.gateway_tokens_per_day,
            reads: Semaphore::new(limits::SPENT_READS),
        };
        (Self(Arc::new(parts)), tasks)
    }

    /// Reserves `reserve` for a completion of `model`, if the key's account has so much left.
    pub async fn admit(
        &self,
        key: &Arc<GatewayKey>,
        model: &Arc<Model>,
        reserve: Reserve,
    ) -> Result<Admitted, Refused> {
        let now = self.0.clock.now();
        let (prompt, completion) =
            (reserve.prompt.min(limits::BELIEVED_TOKENS), reserve.completion.min(limits::BELIEVED_TOKENS));
        let row = UsageRow {
            id: CompletionId::new(now),
            account: key.account.clone(),
            token: key.token.clone(),
            model: model.id.clone(),
            provider: model.provider.name.clone(),
            prompt,
            completion,
            estimated: true,
            cost: Microcents::of(prompt, model.input_cents, completion, model.output_cents),
            at: now,
        };
        let refused = |why: &'static str| {
            metrics::counter!("svc_gateway_refused_total", "why" => why).increment(1);
            tracing::debug!(account = %key.account, model = model.id, why, "a completion is refused");
        };
        let unavailable = Refused::Unavailable { retry_after: limits::METER_RETRY_AFTER };
        if !self.0.books.has_room() {
            tracing::warn!("too much usage waits for Postgres; nothing is admitted until it is there");
            refused("books");
            return Err(unavailable);
        }
        let budget = Budget { per_minute: self.0.per_minute, per_day: self.0.per_day, per_month: key.credit.0 };
        let verdict = match self.ask(&row, budget).await {
            Ok(verdict) => verdict,
            Err(obstacle) => {
                tracing::debug!(%obstacle, "a completion cannot be counted");
                if matches!(obstacle, Obstacle::Postgres(_)) {
                    postgres_failed("sums");
                }
                refused("unavailable");
                // The reservation may stand all the same.
                if let Obstacle::Redis(error) = obstacle
                    && !error.is_connection_refusal()
                {
                    self.0.books.never_began(row);
                }
                return Err(unavailable);
            }
        };
        let rates = |used| self.rates(used, next_midnight(now).since(now));
        match verdict {
            Verdict::Admitted(used) => {
                metrics::counter!("svc_gateway_admitted_total").increment(1);
                let ticket = Ticket::new(self.0.books.clone(), row, model.clone());
                Ok(Admitted { ticket, rates: rates(used) })
            }
            Verdict::Minute(used) => {
                refused("requests");
                Err(Refused::Requests { rates: rates(used), retry_after: used.frees_in })
            }
            Verdict::Day(used) => {
                refused("tokens");
                Err(Refused::Tokens { rates: rates(used), retry_after: next_midnight(now).since(now) })
            }
            Verdict::Month(_) => {
                refused("credit");
                Err(Refused::Credit { retry_after: Month::of(now).next().start().since(now) })
            }
            Verdict::Unknown => {
                refused("unavailable");
                Err(unavailable)
            }
        }
    }

    async fn ask(&self, row: &UsageRow, budget: Budget) -> Result<Verdict, Obstacle> {
        let edge = self.0.books.edge();
        let mut verdict = self.0.redis.admit(edge, row, budget, None).await?;
        // More than once only if Postgres was written to between our reading and its arrival in Redis.
        for _ in 0..limits::SPENT_READ_TRIES {
            if verdict != Verdict::Unknown {
                break;
            }
            let base = timeout(limits::SPENT_WAIT, self.base(row)).await;
            let base = base.map_err(|_| Obstacle::Sums("it takes too long"))??;
            verdict = self.0.redis.admit(edge, row, budget, Some(base)).await?;
        }
        // A client that has just had its answer finds what that did not use: Redis may not know it yet.
        if matches!(verdict, Verdict::Day(_) | Verdict::Month(_)) && self.0.books.all_told().await {
            verdict = self.0.redis.admit(edge, row, budget, None).await?;
        }
        Ok(verdict)
    }

    /// What Postgres holds of the account: for a Redis that does not know it yet, or has forgotten it.
    async fn base(&self, row: &UsageRow) -> Result<Base, Obstacle> {
        let _turn = self.0.reads.acquire().await.map_err(|_| Obstacle::Sums("the meter has ended"))?;
        let epoch = self.0.redis.epoch().await?;
        if let Some(pause) = limits::EMPTY_REDIS_PAUSE.checked_sub(epoch.age) {
            sleep(pause).await;
        }
        let now = self.0.clock.now();
        Ok(db::ai_usage::base(&self.0.db, &row.account, row.day(), now, self.0.per_minute).await?)
    }

    fn rates(&self, used: Used, until_midnight: Duration) -> Rates {
        let left = |limit: u64, taken: u64| limit.saturating_sub(taken);
        let (per_minute, per_day) = (self.0.per_minute, self.0.per_day);
        Rates {
            requests: Rate { limit: per_minute, remaining: left(per_minute, used.requests), reset: used.resets_in },
            tokens: Rate { limit: per_day, remaining: left(per_day, used.tokens), reset: until_midnight },
        }
    }
}

/// Where no folder is configured: below the state folder that systemd gives a service, or, for trying svc out, in the
/// temporary one.
fn usual_folder() -> PathBuf {
    let state = std::env::var_os("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    state.map_or_else(|| std::env::temp_dir().join("svc-edge-spool"), |state| state.join("spool"))
}
