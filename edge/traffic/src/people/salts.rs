//! The key under which visitors are hashed: random, the same on all edges, and valid for one UTC day only.

use std::{net::IpAddr, time::Duration};

use arc_swap::ArcSwap;
use db::stats::salts;
use domain::{Clock, ProjectId, Timestamp};
use edge_metrics as metrics;
use rand::RngExt as _;
use siphasher::sip::SipHasher13;
use sqlx::PgPool;
use time::Date;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::VisitorHash;

pub(in super::super) struct DailySalts(ArcSwap<DailySalt>);

struct DailySalt {
    hasher: SipHasher13,
    /// The day for which all edges share it; `None` for a salt that this edge generated.
    shared_on: Option<Date>,
    made_on: Option<Date>,
}

impl DailySalt {
    /// Generates a salt of this edge alone: sufficient to recognize a visitor, not to count visitors.
    fn own(day: Option<Date>) -> Self {
        Self { shared_on: None, ..Self::shared(day, &random()) }
    }

    fn shared(day: Option<Date>, salt: &[u8; limits::SALT_BYTES]) -> Self {
        // Half of the salt is the key of the hash. The other half is prefixed to everything hashed.
        let (key, rest) = salt.split_at(limits::SALT_BYTES / 2);
        let mut hasher = SipHasher13::new_with_key(key.try_into().unwrap_or(&[0; limits::SALT_BYTES / 2]));
        std::hash::Hasher::write(&mut hasher, rest);
        Self { hasher, shared_on: day, made_on: day }
    }
}

impl DailySalts {
    /// Creates a salt of this edge alone, until [`Self::follow`] has read the shared one.
    pub(in super::super) fn new() -> Self {
        Self(ArcSwap::from_pointee(DailySalt::own(None)))
    }

    pub(in super::super) fn visitor(&self, project: &ProjectId, address: IpAddr, user_agent: &[u8]) -> VisitorHash {
        use std::hash::Hasher as _;

        let salt = self.0.load();
        let mut hasher = salt.hasher;
        // Project ids have a fixed length, and so have addresses in this form.
        hasher.write(project.as_str().as_bytes());
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        hasher.write(&address.octets());
        hasher.write(user_agent);
        VisitorHash::new(hasher.finish(), salt.shared_on.is_some())
    }

    pub(in super::super) fn is_shared(&self) -> bool {
        self.0.load().shared_on.is_some()
    }

    pub(in super::super) fn share(&self, day: Date, salt: &[u8; limits::SALT_BYTES]) {
        self.0.store(DailySalt::shared(Some(day), salt).into());
    }

    /// Returns whether the shared salt is that of `day`. Replaces a salt of another day by one of this edge alone.
    fn is_current(&self, day: Date) -> bool {
        let current = self.0.load();
        if current.made_on.is_some_and(|made| made != day) {
            self.0.store(DailySalt::own(Some(day)).into());
            return false;
        }
        current.shared_on.is_some()
    }

    /// Keeps the salt up to date with `db` until `stop`. While it cannot be read, visitors are not counted.
    pub(in super::super) async fn follow(&self, db: PgPool, clock: &Clock, stop: CancellationToken) {
        let mut tomorrow = None;
        // Randomized, so that edges do not all read at the same moment.
        let ahead = rand::rng().random_range(limits::SALT_AHEAD / 2..limits::SALT_AHEAD);
        while !stop.is_cancelled() {
            let now = clock.now();
            let today = now.as_datetime().date();
            if !self.is_current(today) {
                let salt = match tomorrow.take().filter(|(day, _)| *day == today) {
                    Some((_, salt)) => Some(salt),
                    None => read(&db, today).await,
                };
                if let Some(salt) = salt {
                    self.share(today, &salt);
                }
            }
            if let Some(next) = today.next_day().filter(|_| until_midnight(now) < ahead && tomorrow.is_none()) {
                tomorrow = read(&db, next).await.map(|salt| (next, salt));
            }
            let pause = until_midnight(clock.now()).min(limits::SALT_CHECK_EVERY);
            let _ = stop.run_until_cancelled(sleep(pause)).await;
        }
    }
}

async fn read(db: &PgPool, day: Date) -> Option<[u8; limits::SALT_BYTES]> {
    let read = timeout(limits::TRAFFIC_WAIT, salts::find_or_insert(db, day, random())).await;
    read.unwrap_or(Err(sqlx::Error::PoolTimedOut))
        .inspect_err(|error| {
            metrics::postgres_failed("salts", error);
            tracing::debug!(%error, "the salt of visitors cannot be read");
        })
        .ok()
}

fn until_midnight(now: Timestamp) -> Duration {
    let next = now.as_datetime().date().next_day().map(|day| Timestamp::from(day.midnight().assume_utc()));
    next.map_or(limits::SALT_CHECK_EVERY, |next| next.since(now))
}

fn random() -> [u8; limits::SALT_BYTES] {
    let mut bytes = [0; limits::SALT_BYTES];
    rand::rng().fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn day(number: u64) -> Date {
        Timestamp::from_unix_millis(i64::try_from(number * 86_400_000).unwrap()).as_datetime().date()
    }

    #[test]
    fn edges_with_the_same_salt_see_the_same_visitor_and_nobody_else_does() {
        let project = |number: u8| ProjectId::from_body(&format!("{number:0>20}")).unwrap();
        let (one, other) = (DailySalts::new(), DailySalts::new());
        let address = |last: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let see = |salts: &DailySalts| salts.visitor(&project(1), address(1), b"Mozilla");
        assert_ne!(see(&one), see(&other));
        assert!(see(&one).register().is_none(), "nobody is counted before edges agree");
        one.share(day(1), &[7; limits::SALT_BYTES]);
        other.share(day(1), &[7; limits::SALT_BYTES]);
        assert_eq!(see(&one), see(&other));
        assert!(see(&one).register().is_some());
        let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
        assert_eq!(one.visitor(&project(1), mapped, b"Mozilla"), see(&one));
        for visitor in [
            one.visitor(&project(2), address(1), b"Mozilla"),
            one.visitor(&project(1), address(2), b"Mozilla"),
            one.visitor(&project(1), address(1), b"Mozilla/5.0"),
        ] {
            assert_ne!(visitor, see(&one));
        }
        let today = see(&one);
        let mut salt = [7; limits::SALT_BYTES];
        salt[limits::SALT_BYTES - 1] = 8;
        one.share(day(2), &salt);
        assert_ne!(see(&one), today, "every byte of the salt counts");
    }

    #[test]
    fn a_salt_does_not_outlive_its_day() {
        let salts = DailySalts::new();
        assert!(!salts.is_current(day(1)));
        salts.share(day(1), &[7; limits::SALT_BYTES]);
        assert!(salts.is_current(day(1)) && salts.is_shared());
        let see = || salts.visitor(&ProjectId::from_body("00000000000000000001").unwrap(), IpAddr::from([0; 4]), b"");
        let yesterday = see();
        assert!(!salts.is_current(day(2)) && !salts.is_shared());
        assert_ne!(see(), yesterday);
        let own = see();
        assert!(!salts.is_current(day(2)));
        assert_eq!(see(), own, "one for the day, also of an edge alone");
    }
}
