//! Whether this edge is ready, and what it lacks: for load balancers (`/readyz`) and operators (`admin edges`).
//!
//! An edge is ready once it listens, has followed route changes, has read its default certificate from Postgres, and
//! has had a response from the store. A later loss only degrades it: warm sites are served without Postgres, Redis and
//! the store. Start with [`EdgeDependencies::watch`]; [`report`] reports this edge to admin and the operator.

pub mod report;

use std::{path::PathBuf, sync::Arc};

use domain::Clock;
use live::Redis;
use memory::ChangeMarks;
use packs::{DiskSpace, PackStore};
use secrets::EdgeKey;
use sqlx::PgPool;
use telemetry::{health::Health, metrics};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// The requirements for an edge to be ready. The listeners report `listening`.
pub const REQUIREMENTS: [&str; 4] = ["listening", "changes", "certificates", "store"];

/// The dependencies of this edge.
pub struct EdgeDependencies {
    /// The database.
    pub db: PgPool,
    /// The replica used for reads, if there is one.
    pub replica: Option<PgPool>,
    /// Redis.
    pub redis: Redis,
    /// The store of packs.
    pub store: PackStore,
    /// Shows whether changes have been followed.
    pub marks: Arc<ChangeMarks>,
    /// Decrypts certificates' private keys.
    pub key: EdgeKey,
    /// The domain of sites, whose wildcard certificate is the default.
    pub site_domain: String,
    /// The folder of the spool.
    pub spool: PathBuf,
    /// The clock.
    pub clock: Clock,
}

impl EdgeDependencies {
    /// Checks everything for as long as it is polled. `has_admin` returns whether any admin is healthy.
    pub async fn watch(self, health: Health, has_admin: impl Fn() -> bool + Send + Sync) {
        let (this, health) = (&self, &health);
        tokio::join!(
            this.watch_changes(health),
            this.watch_certificate(health),
            this.watch_store(health),
            watch_postgres(&this.db, "postgres", health),
            async {
                if let Some(replica) = &this.replica {
                    watch_postgres(replica, "postgres_replica", health).await;
                }
            },
            this.watch_redis(health),
            this.watch_disks(),
            async {
                loop {
                    health.set_degraded("admin", !has_admin());
                    sleep(limits::DEPENDENCY_EVERY).await;
                }
            },
        );
    }

    async fn watch_changes(&self, health: &Health) {
        while self.marks.applied().is_none() {
            sleep(limits::READY_EVERY).await;
        }
        health.set_met("changes", true);
    }

    /// Waits until the default certificate's key decrypts, or Postgres has none, which it takes a ready edge to obtain.
    async fn watch_certificate(&self, health: &Health) {
        let names = [format!("*.{}", self.site_domain)];
        let has_read = async || {
            let found = db::certificates::find_covering(&self.db, &names, self.clock.now()).await.ok()?;
            found.is_none_or(|certificate| certificate.open_key_at_edge(&self.key).is_ok()).then_some(())
        };
        while !matches!(timeout(limits::DEPENDENCY_WAIT, has_read()).await, Ok(Some(()))) {
            sleep(limits::CERTIFICATE_EVERY).await;
        }
        health.set_met("certificates", true);
    }

    async fn watch_store(&self, health: &Health) {
        loop {
            let asked = Instant::now();
            let is_there = matches!(timeout(limits::STORE_PROBE_TIMEOUT, self.store.ping()).await, Ok(Ok(())));
            metrics::dependency("store", is_there.then(|| asked.elapsed()));
            health.set_degraded("store", !is_there);
            if is_there {
                health.set_met("store", true);
            }
            let pause = if health.is_missing("store") { limits::CERTIFICATE_EVERY } else { limits::STORE_PROBE_EVERY };
            sleep(pause).await;
        }
    }

    async fn watch_redis(&self, health: &Health) {
        let mut every = interval(limits::DEPENDENCY_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let asked = Instant::now();
            let is_there = matches!(timeout(limits::DEPENDENCY_WAIT, self.redis.ping()).await, Ok(Ok(())));
            metrics::dependency("redis", is_there.then(|| asked.elapsed()));
            health.set_degraded("redis", !is_there);
        }
    }

    async fn watch_disks(&self) {
        loop {
            let spool = self.spool.clone();
            let spool = tokio::task::spawn_blocking(move || DiskSpace::for_folder(&spool)).await;
            if let Ok(Ok(DiskSpace { free, total })) = spool {
                metrics::disk("spool", free, total);
            }
            if !self.store.is_remote()
                && let Ok(DiskSpace { free, total }) = self.store.space().await
            {
                metrics::disk("store", free, total);
            }
            sleep(limits::DISK_EVERY).await;
        }
    }
}

async fn watch_postgres(pool: &PgPool, name: &'static str, health: &Health) {
    let mut every = interval(limits::DEPENDENCY_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let asked = Instant::now();
        let is_there = matches!(timeout(limits::DEPENDENCY_WAIT, db::ping(pool)).await, Ok(Ok(())));
        metrics::dependency(name, is_there.then(|| asked.elapsed()));
        health.set_degraded(name, !is_there);
        let (open, most) = (pool.size(), pool.options().get_max_connections());
        metrics::postgres_pool(name, open as usize, pool.num_idle(), most as usize);
    }
}
