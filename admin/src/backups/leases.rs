//! The leases that a backup holds: no other backup is created or pruned meanwhile, and the packs of its snapshot stay.

use std::time::Duration;

use anyhow::Context as _;
use db::upkeep::job_leases::{self, JobLease};
use domain::Clock;
use sqlx::PgPool;
use tokio::{signal::unix, time::Instant};

/// How long a lease outlives a killed program.
const LENGTH: Duration = Duration::from_mins(1);
const EXTEND_EVERY: Duration = Duration::from_secs(15);
/// The longest wait for a lease: that of a killed program expires in the meantime.
const WAIT: Duration = Duration::from_secs(90);
/// How long a lease is waited for before a message says so.
const SAY_AFTER: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Runs `work` while holding the leases with these names exclusively. If it fails, the error is recorded with the first
/// lease, as a job's is.
pub(super) async fn with_leases<T>(
    db: &PgPool,
    clock: &Clock,
    names: &[&'static str],
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut held = Vec::new();
    for name in names {
        held.push(take(db, clock, name).await?);
    }
    let done = tokio::select! {
        done = work => done,
        lost = extend(db, clock, &mut held) => Err(lost),
        stopped = stop_signal() => Err(stopped),
    };
    let mut failure = done.as_ref().err().map(|error| format!("{error:#}"));
    for lease in held {
        if let Err(error) = job_leases::release(db, &lease, failure.take().as_deref()).await {
            tracing::warn!(%error, "a lease could not be given back; it ends within a minute");
        }
    }
    done
}

async fn take(db: &PgPool, clock: &Clock, name: &'static str) -> anyhow::Result<JobLease> {
    job_leases::register(db, name).await?;
    let (since, until) = (Instant::now(), Instant::now() + WAIT);
    let mut is_said = false;
    loop {
        let now = clock.now();
        if let Some(lease) = job_leases::acquire(db, name, now, now, LENGTH).await? {
            return Ok(lease);
        }
        if !is_said && since.elapsed() > SAY_AFTER {
            tracing::warn!(
                "waiting for `{name}`, which another program is at, or one that was killed within the last minute; for {} s at most",
                WAIT.as_secs()
            );
            is_said = true;
        }
        anyhow::ensure!(Instant::now() < until, "`{name}` is at work elsewhere; try again when it has ended");
        tokio::time::sleep(TRY_EVERY).await;
    }
}

/// Extends the leases while it is polled. Returns the reason if a lease is lost.
async fn extend(db: &PgPool, clock: &Clock, held: &mut [JobLease]) -> anyhow::Error {
    loop {
        tokio::time::sleep(EXTEND_EVERY).await;
        for lease in &mut *held {
            match job_leases::extend(db, lease, clock.now(), LENGTH).await {
                Ok(true) => {}
                Ok(false) => return anyhow::anyhow!("a lease ran out while Postgres did not answer; try again"),
                Err(error) => tracing::warn!(%error, "a lease could not be extended; it is tried again"),
            }
        }
    }
}

async fn stop_signal() -> anyhow::Error {
    let signals = unix::signal(unix::SignalKind::terminate()).and_then(|terminate| {
        let interrupt = unix::signal(unix::SignalKind::interrupt())?;
        Ok((terminate, interrupt))
    });
    let asked: anyhow::Result<()> = async {
        let (mut terminate, mut interrupt) = signals.context("signals cannot be heard")?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
    .await;
    asked.err().unwrap_or_else(|| anyhow::anyhow!("stopped by a signal; what is complete stays"))
}
