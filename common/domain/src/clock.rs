//! Time: the type for instants, and the injected clock.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset};

/// An instant in UTC, to the microsecond (the precision of Postgres). On the wire: RFC 3339 with `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, format = DateTime))]
pub struct Timestamp(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

impl Timestamp {
    /// Creates the instant `millis` milliseconds after the Unix epoch. An out-of-range number becomes the epoch.
    pub fn from_unix_millis(millis: i64) -> Self {
        let nanos = i128::from(millis) * 1_000_000;
        Self(OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }

    /// Returns the milliseconds since the Unix epoch; zero before it.
    pub fn unix_millis(self) -> u64 {
        u64::try_from(self.0.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
    }

    /// Returns the seconds since the Unix epoch.
    pub fn unix_seconds(self) -> i64 {
        self.0.unix_timestamp()
    }

    /// Returns the date and time of day in UTC.
    pub fn as_datetime(self) -> OffsetDateTime {
        self.0
    }

    /// Returns the time elapsed since `earlier`, or zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0 - earlier.0).unwrap_or(Duration::ZERO)
    }
}

impl From<OffsetDateTime> for Timestamp {
    fn from(instant: OffsetDateTime) -> Self {
        let utc = instant.to_offset(UtcOffset::UTC);
        Self(utc.replace_nanosecond(utc.microsecond() * 1_000).unwrap_or(utc))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format(&time::format_description::well_known::Rfc3339).map_err(|_| fmt::Error)?)
    }
}

/// A source of the current time, injected wherever time matters. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Creates a clock that reads the system time.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
        Self(Arc::new(|| OffsetDateTime::now_utc().into()))
    }

    /// Creates a clock that calls `now`, for tests.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
