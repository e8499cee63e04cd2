//! What every handler may use.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use config::Config;
use domain::{Clock, addresses::Addresses};
use live::Redis;
use packs::PackStore;
use secrets::MasterKey;
use sqlx::PgPool;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    bounds::Bounds,
    codehost::{self, CodeHost},
    console::Console,
    edges::{Edges, EdgesTasks},
    mail::Mailer,
    middleware::rate_limit::RateLimits,
};

/// The program's shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The truth.
    pub db: PgPool,
    /// Limits and messages to the edges.
    pub redis: Redis,
    /// Deployment packs.
    pub store: PackStore,
    /// Who has to learn of changes.
    pub edges: Edges,
    /// What is done at most at once.
    pub bounds: Bounds,
    /// Where the time comes from.
    pub clock: Clock,
    /// The configuration.
    pub config: Arc<Config>,
    /// The platform's public addresses.
    pub addresses: Addresses,
    /// The console's own.
    pub console: Console,
    /// What sealed rows are opened with.
    pub master_key: MasterKey,
    /// Who people sign in with.
    pub code_host: Arc<dyn CodeHost>,
    /// Mail to people.
    pub mailer: Mailer,
    /// How often anybody may ask.
    pub rate_limits: RateLimits,
    /// Work that outlives its request; the stop waits for it.
    pub tasks: TaskTracker,
    /// Cancelled when the program stops.
    pub stopping: CancellationToken,
}

impl App {
    /// Prepares every part, and the tasks that tell the edges of changes. Connections are made when first needed, so
    /// this fails only when the configuration is wrong.
    pub fn new(config: Arc<Config>) -> anyhow::Result<(Self, EdgesTasks)> {
        let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
        let redis = Redis::connect(&config.redis.url).context("redis.url")?;
        let clock = Clock::system();
        let (edges, edges_tasks) = Edges::new(redis.clone(), db.clone(), clock.clone());
        let app = Self {
            db,
            rate_limits: RateLimits::new(redis.clone(), &config.limits),
            redis,
            store: PackStore::open(&config.store)?,
            edges,
            bounds: Bounds::default(),
            addresses: config.site.addresses(),
            console: Console::new(&config.site),
            master_key: MasterKey::load(&config.secrets.master_key_file)?,
            code_host: codehost::from_config(&config, &clock)?,
            clock,
            mailer: Mailer::new(&config.mail, &config.site.site_domain)?,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            config,
        };
        Ok((app, edges_tasks))
    }

    /// Where uploads are kept while they are received.
    pub fn spool_folder(&self) -> PathBuf {
        self.config.admin.spool.clone().unwrap_or_else(std::env::temp_dir)
    }
}
