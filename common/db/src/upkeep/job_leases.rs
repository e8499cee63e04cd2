//! Leases of background jobs: of all admins, one runs a job at a time, and a job runs once in its interval.

use std::time::Duration;

use domain::Timestamp;
use sqlx::PgExecutor;

/// The right to run a job until the lease expires.
#[derive(Debug)]
pub struct Lease {
    job: &'static str,
    until: Timestamp,
}

/// Makes the row of a job's lease unless it exists.
pub async fn register(db: impl PgExecutor<'_>, job: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("INSERT INTO job_leases (job) VALUES ($1) ON CONFLICT DO NOTHING", job).execute(db).await.map(drop)
}

/// Takes the lease for `length`, unless somebody holds it or the job ran later than `not_since`.
pub async fn take(
    db: impl PgExecutor<'_>,
    job: &'static str,
    now: Timestamp,
    not_since: Timestamp,
    length: Duration,
) -> Result<Option<Lease>, sqlx::Error> {
    let until = now + length;
    // Skipping a locked row, because another admin is just taking it.
    let taken = sqlx::query!(
        "UPDATE job_leases SET leased_until = $4, last_run_at = $2
         WHERE job = (SELECT job FROM job_leases WHERE job = $1 AND (leased_until IS NULL OR leased_until <= $2)
                        AND (last_run_at IS NULL OR last_run_at <= $3) FOR UPDATE SKIP LOCKED)",
        job,
        now,
        not_since,
        until,
    )
    .execute(db)
    .await?;
    Ok((taken.rows_affected() == 1).then_some(Lease { job, until }))
}

/// Holds the lease for `length` from now on. Returns false when it ran out meanwhile and is somebody else's.
pub async fn extend(
    db: impl PgExecutor<'_>,
    lease: &mut Lease,
    now: Timestamp,
    length: Duration,
) -> Result<bool, sqlx::Error> {
    let until = now + length;
    let extended = sqlx::query!(
        "UPDATE job_leases SET leased_until = $3 WHERE job = $1 AND leased_until = $2",
        lease.job,
        lease.until,
        until,
    )
    .execute(db)
    .await?;
    lease.until = until;
    Ok(extended.rows_affected() == 1)
}

/// Gives the lease back, with what went wrong; a lease that ran out meanwhile stays with its next holder.
pub async fn give_back(db: impl PgExecutor<'_>, lease: &Lease, error: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE job_leases SET leased_until = NULL, last_error = $3 WHERE job = $1 AND leased_until = $2",
        lease.job,
        lease.until,
        error,
    )
    .execute(db)
    .await
    .map(drop)
}

/// A job whose last run failed.
#[derive(Debug)]
pub struct FailingJob {
    /// The job's name.
    pub job: String,
    /// What went wrong.
    pub error: String,
    /// When the run began.
    pub last_run_at: Option<Timestamp>,
}

/// Returns the jobs whose last run failed, at most `limit`.
pub async fn failing(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<FailingJob>, sqlx::Error> {
    sqlx::query_as!(
        FailingJob,
        r#"SELECT job, last_error AS "error!", last_run_at FROM job_leases
           WHERE last_error IS NOT NULL ORDER BY job LIMIT $1"#,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Returns what [`move_cursor`] stored last for the job.
pub async fn cursor(db: impl PgExecutor<'_>, job: &str) -> Result<Option<String>, sqlx::Error> {
    let cursor = sqlx::query_scalar!("SELECT cursor FROM job_leases WHERE job = $1", job).fetch_optional(db).await?;
    Ok(cursor.flatten())
}

/// Stores how far the job is through what it goes through in several batches, so that the next run goes on there; `None`
/// begins again.
pub async fn move_cursor(db: impl PgExecutor<'_>, job: &str, cursor: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE job_leases SET cursor = $2 WHERE job = $1", job, cursor).execute(db).await.map(drop)
}
