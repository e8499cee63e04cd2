//! The rate limits of an account at its authority: buckets that refill steadily and are shared by all admins.
//!
//! A bucket is stored as the time it is full again (the generic cell rate algorithm). Taking one moves that time by the
//! period divided by the limit; the bucket is empty when the time would be more than a period away.

use std::time::Duration;

use domain::{AcmeAccountId, Timestamp};
use sqlx::{PgConnection, PgExecutor};

/// The longest time that a bucket is held. A later time comes from a wrong clock.
const LONGEST_HOLD: Duration = Duration::from_hours(30 * 24);

/// A bucket of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitBucket {
    /// The name, such as `orders` or `names:www.example.com`.
    pub name: String,
    /// The capacity of a full bucket.
    pub limit: u32,
    /// The time in which an empty bucket refills.
    pub period: Duration,
    /// Whether one is taken, rather than the bucket only being required to have one.
    pub is_taken: bool,
}

/// The outcome of [`try_take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome {
    /// One was taken from each bucket.
    All,
    /// A bucket is empty, so nothing was taken.
    NotBefore {
        /// The time it has one again.
        at: Timestamp,
        /// The bucket's name.
        bucket: String,
    },
}

impl RateLimitBucket {
    /// Creates the bucket of [`hold`], which is empty while it is held and is never taken from.
    pub fn for_hold(name: String) -> Self {
        Self { name, limit: 1, period: LONGEST_HOLD, is_taken: false }
    }

    /// Returns the time the bucket is full after one is taken or, as an error, the time it has one again.
    fn after_one(&self, full_at: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Timestamp> {
        // A later time comes from a wrong clock.
        let full_at = full_at.filter(|full_at| full_at.since(now) <= self.period * 2);
        let next = full_at.map_or(now, |full_at| full_at.max(now)) + self.cost();
        if next.since(now) <= self.period { Ok(next) } else { Err(next - self.period) }
    }

    fn cost(&self) -> Duration {
        self.period / self.limit.max(1)
    }
}

/// Takes one from each bucket, or nothing when one of them is empty. Call it in a transaction.
pub async fn try_take(
    conn: &mut PgConnection,
    account: &AcmeAccountId,
    buckets: &[RateLimitBucket],
    now: Timestamp,
) -> Result<TakeOutcome, sqlx::Error> {
    // Sort by name, so that concurrent callers wait for each other instead of deadlocking.
    let mut sorted: Vec<&RateLimitBucket> = buckets.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<String> = sorted.iter().map(|bucket| bucket.name.clone()).collect();
    // The upsert locks a bucket even if it had no row, so that nobody else can insert it concurrently.
    let stored = sqlx::query!(
        "INSERT INTO acme_budgets AS b (account_id, bucket, full_at) SELECT $1, name, $3 FROM unnest($2::text[]) AS name
         ON CONFLICT (account_id, bucket) DO UPDATE SET full_at = b.full_at RETURNING bucket, full_at",
        account.as_str(),
        &names,
        now,
    )
    .fetch_all(&mut *conn)
    .await?;
    let full_at = |name: &str| stored.iter().find(|row| row.bucket == name).map(|row| row.full_at);
    let mut taken = Vec::new();
    let mut refused: Option<(Timestamp, &RateLimitBucket)> = None;
    for bucket in sorted {
        match bucket.after_one(full_at(&bucket.name), now) {
            Ok(next) if bucket.is_taken => taken.push((&bucket.name, next)),
            // On a tie, report the last bucket: it is the narrowest one.
            Err(at) if refused.is_none_or(|(latest, _)| at >= latest) => refused = Some((at, bucket)),
            Ok(_) | Err(_) => {}
        }
    }
    if let Some((at, bucket)) = refused {
        return Ok(TakeOutcome::NotBefore { at, bucket: bucket.name.clone() });
    }
    for (name, full_at) in taken {
        sqlx::query!(
            "UPDATE acme_budgets SET full_at = $3 WHERE account_id = $1 AND bucket = $2",
            account.as_str(),
            name,
            full_at,
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(TakeOutcome::All)
}

/// Takes one from a bucket even if it is empty, because the counted event has happened.
pub async fn charge(
    db: impl PgExecutor<'_>,
    account: &AcmeAccountId,
    bucket: &RateLimitBucket,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO acme_budgets AS b (account_id, bucket, full_at)
         VALUES ($1, $2, $3::timestamptz + make_interval(secs => $4))
         ON CONFLICT (account_id, bucket) DO UPDATE
             SET full_at = least(greatest(b.full_at, $3::timestamptz), $3::timestamptz + make_interval(secs => $5))
                           + make_interval(secs => $4)",
        account.as_str(),
        bucket.name,
        now as Timestamp,
        bucket.cost().as_secs_f64(),
        bucket.period.as_secs_f64(),
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns one to a bucket, because the counted event did not happen.
pub async fn refund(
    db: impl PgExecutor<'_>,
    account: &AcmeAccountId,
    bucket: &RateLimitBucket,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE acme_budgets SET full_at = greatest(full_at - make_interval(secs => $4), $3::timestamptz)
         WHERE account_id = $1 AND bucket = $2",
        account.as_str(),
        bucket.name,
        now as Timestamp,
        bucket.cost().as_secs_f64(),
    )
    .execute(db)
    .await
    .map(drop)
}

/// Keeps a bucket empty until `until` at least.
pub async fn hold(
    db: impl PgExecutor<'_>,
    account: &AcmeAccountId,
    bucket: &str,
    until: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO acme_budgets AS b (account_id, bucket, full_at) VALUES ($1, $2, $3)
         ON CONFLICT (account_id, bucket) DO UPDATE SET full_at = greatest(b.full_at, excluded.full_at)",
        account.as_str(),
        bucket,
        until,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns the number of an account's held buckets whose names begin with `prefix`.
pub async fn count_held(
    db: impl PgExecutor<'_>,
    account: &AcmeAccountId,
    prefix: &str,
    now: Timestamp,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM acme_budgets
            WHERE account_id = $1 AND starts_with(bucket, $2) AND full_at > $3"#,
        account.as_str(),
        prefix,
        now,
    )
    .fetch_one(db)
    .await
}

/// Deletes at most `limit` full buckets, and returns their number.
pub async fn delete_full(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query!(
        "DELETE FROM acme_budgets WHERE (account_id, bucket) IN (
             SELECT account_id, bucket FROM acme_budgets WHERE full_at < $1 ORDER BY full_at LIMIT $2
             FOR UPDATE SKIP LOCKED)",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(forgotten.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn bucket(limit: u32) -> RateLimitBucket {
        RateLimitBucket { name: "orders".to_owned(), limit, period: HOUR, is_taken: true }
    }

    #[test]
    fn a_full_bucket_gives_its_limit_and_then_one_at_a_time() {
        let (bucket, now) = (bucket(3), Timestamp::from_unix_millis(1_800_000_000_000));
        let mut full_at = None;
        for _ in 0..3 {
            full_at = Some(bucket.after_one(full_at, now).unwrap());
        }
        let third = HOUR / 3;
        assert_eq!(bucket.after_one(full_at, now), Err(now + third), "empty until a third of the period has passed");
        assert!(bucket.after_one(full_at, now + third).is_ok());
        assert_eq!(bucket.after_one(full_at, now + third - Duration::from_millis(1)), Err(now + third));
    }

    #[test]
    fn a_held_bucket_is_empty_until_its_time() {
        let (bucket, now) =
            (RateLimitBucket::for_hold("held".to_owned()), Timestamp::from_unix_millis(1_800_000_000_000));
        assert_eq!(bucket.after_one(Some(now + HOUR), now), Err(now + HOUR));
        assert!(bucket.after_one(Some(now + HOUR), now + HOUR).is_ok());
        assert!(bucket.after_one(None, now).is_ok());
    }

    #[test]
    fn a_time_that_no_bucket_can_have_counts_for_nothing() {
        let (bucket, now) = (bucket(2), Timestamp::from_unix_millis(1_800_000_000_000));
        let year = HOUR * 24 * 365;
        assert_eq!(bucket.after_one(Some(now + year), now), Ok(now + HOUR / 2), "a clock was a year ahead");
        assert!(bucket.after_one(Some(now + HOUR + HOUR / 2), now).is_err(), "charged though it was empty");
    }

    #[test]
    fn nothing_is_saved_beyond_the_limit() {
        let (bucket, now) = (bucket(2), Timestamp::from_unix_millis(1_800_000_000_000));
        let once = bucket.after_one(None, now).unwrap();
        let later = now + HOUR * 100;
        let again = bucket.after_one(bucket.after_one(Some(once), later).ok(), later).unwrap();
        assert_eq!(bucket.after_one(Some(again), later), Err(later + HOUR / 2));
    }
}
