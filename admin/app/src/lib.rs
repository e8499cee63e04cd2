//! The parts that handlers and jobs share, as one value that is cheap to clone.
//!
//! The crates below take what they need from it, never the whole. Start with [`App::change`], through which
//! all changes are made. [`LiveApp`] holds the app with the current configuration.

pub mod auth;
pub mod bounds;
pub mod change;
pub mod console_files;
pub mod edges;
pub mod events;
pub mod fresh_traffic;
mod fullness;
pub mod gateway;
pub mod metrics;
pub mod middleware;
pub mod rates;
#[cfg(test)]
mod scarce;
pub mod vitals;

use std::{os::unix::fs::DirBuilderExt as _, path::PathBuf, sync::Arc};

use admin_http::{addresses::ConsoleAddresses, error::ApiError};
use anyhow::Context as _;
use arc_swap::ArcSwap;
use code_host::{self as codehost, CodeHost, grants::UserGrants};
use config::Config;
use db::{audit::Actor, billing::plan};
use domain::{
    Account, Clock,
    addresses::PlatformAddresses,
    plans::{PlanAllowance, Plans},
};
use hostnames::{HostnameResolver, authorities::CertificateAuthorities, probe::certificate::CertificateProbe};
use identity::{IdentityWatch, ProgramKeys};
use live::Redis;
use mail::Mailer;
use packs::PackStore;
use payments::{self, ConfiguredProvider};
use secrets::MasterKey;
use sqlx::PgPool;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;
use vat::VatRegistry;

use crate::{
    bounds::ConcurrencyLimits,
    change::Change,
    console_files::ConsoleFiles,
    edges::{EdgeRegistry, EdgesTasks},
    events::{EventPublisher, EventsTasks},
    fresh_traffic::FreshTraffic,
    gateway::GatewayClient,
    rates::RateLimits,
    vitals::DependencyHealth,
};

/// The program's shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database, which is the source of truth.
    pub db: PgPool,
    /// A separate pool of database connections for the leases of jobs.
    pub leases: PgPool,
    /// Redis, for limits and for messages to the edges.
    pub redis: Redis,
    /// The store of deployment packs.
    pub store: PackStore,
    /// A second store with copies of the same packs, if any.
    pub replica: Option<PackStore>,
    /// The edges, which receive changes.
    pub edges: EdgeRegistry,
    /// The events that accounts receive.
    pub events: EventPublisher,
    /// Makes the edges send the traffic that a report is about to read.
    pub fresh_traffic: FreshTraffic,
    /// The limits on concurrent work.
    pub bounds: ConcurrencyLimits,
    /// The clock that all times are read from.
    pub clock: Clock,
    /// The certificate authorities, and the notification that wakes the ordering of certificates.
    pub certificates: CertificateAuthorities,
    /// The configuration.
    pub config: Arc<Config>,
    /// The platform's public addresses.
    pub addresses: PlatformAddresses,
    /// The console's own addresses.
    pub console: ConsoleAddresses,
    /// The built console; `None` if the configuration names none.
    pub console_files: Option<ConsoleFiles>,
    /// The key that opens sealed rows.
    pub master_key: MasterKey,
    /// The code host, where people sign in.
    pub code_host: Arc<dyn CodeHost>,
    /// A client of the AI gateway.
    pub gateway: GatewayClient,
    /// The mailer.
    pub mailer: Mailer,
    /// The payment provider.
    pub payments: ConfiguredProvider,
    /// The rate limits.
    pub rate_limits: RateLimits,
    /// The DNS of custom domains.
    pub hostnames: HostnameResolver,
    /// Checks the certificates that custom domains present.
    pub certificate_probe: CertificateProbe,
    /// The EU's VAT registry.
    pub vat: VatRegistry,
    /// The tokens with which admin acts for people at the code host.
    pub grants: UserGrants,
    /// Whether Postgres and Redis answer.
    pub vitals: DependencyHealth,
    /// Work that outlives its request; shutdown waits for it.
    pub tasks: TaskTracker,
    /// Cancelled when the program stops.
    pub stopping: CancellationToken,
}

/// The tasks that send changes to edges and events to people. Created with [`App`]; run until the program ends.
pub struct AppTasks {
    edges: EdgesTasks,
    events: EventsTasks,
}

impl AppTasks {
    /// Runs the tasks until `stop`, which must come after the last request was answered.
    pub async fn run(self, stop: CancellationToken) {
        tokio::join!(self.edges.run(stop.clone()), self.events.run(stop));
    }
}

/// The app with the current configuration. Clones share it.
#[derive(Clone)]
pub struct LiveApp(Arc<ArcSwap<App>>);

impl LiveApp {
    /// Starts with `app`.
    pub fn new(app: App) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(app)))
    }

    /// Returns the current app. Work keeps the app that it started with.
    pub fn now(&self) -> Arc<App> {
        self.0.load_full()
    }

    /// Replaces the app for work that starts from now on.
    pub fn replace(&self, app: App) {
        self.0.store(Arc::new(app));
    }
}

struct ReloadableParts {
    certificates: CertificateAuthorities,
    certificate_probe: CertificateProbe,
    code_host: Arc<dyn CodeHost>,
    console_files: Option<ConsoleFiles>,
    gateway: GatewayClient,
    hostnames: HostnameResolver,
    mailer: Mailer,
    payments: ConfiguredProvider,
    vat: VatRegistry,
}

impl ReloadableParts {
    fn new(
        config: &Config,
        db: &PgPool,
        clock: &Clock,
        before: Option<&CertificateAuthorities>,
    ) -> anyhow::Result<Self> {
        let hostnames = HostnameResolver::new(config)?;
        Ok(Self {
            certificates: CertificateAuthorities::new(config, before)?,
            certificate_probe: CertificateProbe::new(config, hostnames.clone(), clock.clone()),
            code_host: codehost::from_config(config, clock)?,
            console_files: config.admin.console.as_deref().map(ConsoleFiles::read).transpose()?,
            gateway: GatewayClient::new(config)?,
            hostnames,
            mailer: Mailer::new(&config.mail, &config.site)?,
            payments: payments::from_config(config, db, clock)?,
            vat: VatRegistry::new(config)?,
        })
    }
}

impl App {
    /// Creates every part, and the tasks that send changes to edges and events to people. Connections are opened on
    /// first use, so this fails only if the configuration is wrong.
    pub fn new(config: Arc<Config>) -> anyhow::Result<(Self, AppTasks)> {
        let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
        let leases = db::connect_for_leases(&config.postgres, &config.postgres.url).context("postgres.url")?;
        let redis = Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref()).context("redis.url")?;
        let clock = Clock::system();
        let (edges, of_edges) = EdgeRegistry::new(redis.clone(), db.clone(), clock.clone());
        let (events, of_events) = EventPublisher::new(redis.clone());
        let parts = ReloadableParts::new(&config, &db, &clock, None)?;
        make_spool(&config)?;
        let master_key = MasterKey::load(&config.secrets.master_key_file)?;
        let tasks = TaskTracker::new();
        let grants = UserGrants {
            db: db.clone(),
            master_key: master_key.clone(),
            host: parts.code_host.clone(),
            clock: clock.clone(),
            tasks: tasks.clone(),
        };
        let app = Self {
            db,
            leases,
            payments: parts.payments,
            rate_limits: RateLimits::new(redis.clone(), &config.limits, master_key.clone()),
            fresh_traffic: FreshTraffic::new(redis.clone(), edges.clone()),
            redis,
            store: PackStore::open(&config.store).context("store.url")?,
            replica: config
                .store
                .replica()
                .map(|replica| PackStore::open(&replica))
                .transpose()
                .context("store.replica_url")?,
            edges,
            events,
            bounds: ConcurrencyLimits::new(&config.admin, &spool_folder(&config)),
            addresses: config.site.addresses(),
            certificates: parts.certificates,
            console: ConsoleAddresses::new(&config.site),
            console_files: parts.console_files,
            master_key,
            code_host: parts.code_host,
            gateway: parts.gateway,
            grants,
            certificate_probe: parts.certificate_probe,
            hostnames: parts.hostnames,
            clock,
            mailer: parts.mailer,
            vat: parts.vat,
            vitals: DependencyHealth::default(),
            tasks,
            stopping: CancellationToken::new(),
            config,
        };
        Ok((app, AppTasks { edges: of_edges, events: of_events }))
    }

    /// Creates an app with another configuration that shares connections, limits, and running work with this one.
    pub fn reconfigured(&self, config: Arc<Config>) -> anyhow::Result<Self> {
        let ReloadableParts {
            certificates,
            certificate_probe,
            code_host,
            console_files,
            gateway,
            hostnames,
            mailer,
            payments,
            vat,
        } = ReloadableParts::new(&config, &self.db, &self.clock, Some(&self.certificates))?;
        Ok(Self {
            rate_limits: self.rate_limits.reconfigured(&config.limits),
            grants: UserGrants { host: code_host.clone(), ..self.grants.clone() },
            certificates,
            certificate_probe,
            code_host,
            console_files,
            gateway,
            hostnames,
            mailer,
            payments,
            vat,
            config,
            ..self.clone()
        })
    }

    /// Checks who owns the store, Redis and the master key. [Start](IdentityWatch::start) it before using any of them.
    pub fn ownership_watch(&self) -> IdentityWatch {
        let parts = (self.db.clone(), self.redis.clone(), self.store.clone());
        IdentityWatch::new(&self.config, parts, ProgramKeys::Admin(self.master_key.clone()), self.clock.clone())
    }

    /// Begins a change on behalf of `actor`.
    pub async fn change<'a>(&self, actor: Actor<'a>) -> Result<Change<'a>, sqlx::Error> {
        Change::begin(&self.db, &self.edges, &self.events, &self.clock, actor).await
    }

    /// Runs `work` in its own task once polled: it completes even if the client disconnects, and shutdown waits for it.
    pub fn in_background<T, Work>(
        &self,
        work: Work,
    ) -> impl Future<Output = Result<T, ApiError>> + Send + 'static + use<T, Work>
    where
        T: Send + 'static,
        Work: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let (tasks, work) = (self.tasks.clone(), Box::pin(work));
        async move { tasks.spawn(work.in_current_span()).await.map_err(ApiError::internal)? }
    }

    /// Returns the folder that holds uploads while they are received.
    pub fn spool_folder(&self) -> PathBuf {
        spool_folder(&self.config)
    }

    /// Returns the available plans.
    pub fn plans(&self) -> &Plans {
        &self.config.billing.plans
    }

    /// Reads the limits of `account`'s plan, for a check before work begins.
    pub async fn allowance(&self, account: &Account) -> Result<PlanAllowance<'_>, sqlx::Error> {
        plan::allowance(&self.db, self.plans(), account).await
    }
}

/// Creates the uploads folder if the configuration names one that does not exist, as an edge does with its own.
fn make_spool(config: &Config) -> anyhow::Result<()> {
    let Some(folder) = &config.admin.spool else { return Ok(()) };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("the folder of uploads {} (admin.spool) cannot be made", folder.display()))
}

fn spool_folder(config: &Config) -> PathBuf {
    config.admin.spool.clone().unwrap_or_else(std::env::temp_dir)
}
