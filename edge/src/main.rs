//! The edge program: reads the configuration, assembles the parts, and runs them under Pingora.

use std::{
    hash::{BuildHasher as _, RandomState},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser;
use config::{
    Config, StatsSource,
    reload::{Reloader, ReloadingProgram},
};
use db::migrations::MigrateError;
use domain::Clock;
use edge::{
    health::{EdgeDependencies, REQUIREMENTS, report::PresenceReporter},
    ownership,
    reload::ConfigReload,
};
use front::HostRouter;
use gate::Gatekeeper;
use gateway::{EdgePeers, Gateway};
use http_types::clients::{self, TopClients};
use limits::MemoryShares;
use listen::{ConnectionBounds, Listeners, ShutdownController, ShutdownPeriods, SocketSource, TlsServer};
use memory::{
    ChallengeReader, ChangeMarks, MembershipCache, PostgresSource, RouteCache, follow::ChangeFollower,
    keys::GatewayKeyCache,
};
use meter::UsageMeter;
use platform::{AdminUpstreams, PlatformProxy};
use sites::{PackSource, SiteService};
use traffic::{AgentRegistry, TrafficCollector, TrafficCounter};

use fairness::budget::ByteBudget;
use live::Redis;
use packs::PackStore;
use pingora::server::{RunArgs, Server, configuration::ServerConf};
use secrets::EdgeKey;
use sqlx::PgPool;
use telemetry::{BuildInfo, health::Health, metrics::MetricsExporter};
use tokio_util::sync::CancellationToken;

// Reuses freed memory while it is still in the core's cache, or returns it to the system: bench/README.md.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BUILD: BuildInfo = BuildInfo { version: env!("CARGO_PKG_VERSION"), commit: env!("SVC_COMMIT") };

/// Serves sites over HTTPS, and proxies requests for the API and the console to admin.
#[derive(Parser)]
#[command(name = "edge", version = env!("SVC_VERSION"))]
struct CliArguments {
    /// The configuration file. By default the one that `SVC_CONFIG` names, or else `svc.toml` in this directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take over the listening sockets of the running edge, which receives SIGQUIT for this and then drains. If no edge
    /// is running, this one just starts.
    #[arg(long)]
    upgrade: bool,
}

fn main() -> ExitCode {
    let arguments = CliArguments::parse();
    telemetry::start();
    match run(&arguments) {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!("edge cannot start: {}", telemetry::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &CliArguments) -> anyhow::Result<ExitCode> {
    let config = Arc::new(Config::load(arguments.config.as_deref())?);
    start(arguments, &config).or_else(|error| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Err(runtime.block_on(diagnosis::explain_exit(error, &config, arguments.config.as_deref())))
    })
}

fn start(arguments: &CliArguments, config: &Arc<Config>) -> anyhow::Result<ExitCode> {
    if let Some(file) = config::missing_file(arguments.config.as_deref()) {
        tracing::info!(
            "no configuration file was found at {}, so that defaults and variables SVC__… are in use",
            file.display()
        );
    }
    let key = load_key(&config.secrets)?;
    // The running edge holds the exporter's address until it has handed over.
    let export = if arguments.upgrade { MetricsExporter::start_when_free } else { MetricsExporter::start };
    let name = config::machine::name(config.edge.name.as_deref());
    let health = Health::new(name.clone(), env!("SVC_VERSION"), &REQUIREMENTS);
    let export = |address| export(address, BUILD, health.clone());
    let exporter = config.edge.metrics_listen.map(export).transpose().context("edge.metrics_listen")?;
    if exporter.is_some() {
        edge_metrics::describe();
        identity::describe();
    }
    for warning in config.site.shared_domain_warnings() {
        tracing::warn!("{warning}");
    }
    // rustls needs an explicit default: we and Pingora compile in one provider each.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // Before the running edge gives up its sockets.
    ownership::check_before_start(config, key.clone(), Clock::system(), exporter.as_ref())?;
    let upgrade_socket = config.edge.upgrade_socket.clone();
    let upgrade_socket = upgrade_socket.unwrap_or_else(|| meter::spool_folder(config).join("upgrade.sock"));
    let (https, http) = (config.edge.listen_https, config.edge.listen_http);
    let sockets = if arguments.upgrade {
        SocketSource::take_over(https, http, upgrade_socket.clone())?
    } else {
        SocketSource::bind(https, http).context("edge.listen_https or edge.listen_http")?
    };
    let threads = match config.edge.threads {
        0 => std::thread::available_parallelism()?.get(),
        threads => threads,
    };
    let blocking = match config.edge.blocking_threads {
        0 => limits::blocking_threads(),
        threads => threads,
    };
    let stop = ShutdownController::new(ShutdownPeriods::from_config(&config.edge), health.clone());
    let reloader = Reloader::new(ReloadingProgram::Edge, arguments.config.clone(), config.clone());
    let conf = ServerConf { threads, max_blocking_threads: Some(blocking), ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    // The pools and connections below belong to this runtime until Pingora's own runs them.
    let setup = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = {
        let _within = setup.enter();
        listeners(config, reloader, key, sockets, upgrade_socket, threads, stop.clone(), exporter, (name, health))?
    };
    server.add_service(listeners);
    server.run(RunArgs { shutdown_signal: Box::new(stop.clone()) });
    match stop.failure() {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => {
            tracing::error!("edge stops: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    clippy::too_many_lines,
    reason = "the parts of the program, in the order in which they need each other"
)]
fn listeners(
    config: &Config,
    reloader: Reloader,
    key: EdgeKey,
    sockets: SocketSource,
    upgrade_socket: PathBuf,
    threads: usize,
    stop: ShutdownController,
    exporter: Option<MetricsExporter>,
    (name, health): (String, Health),
) -> anyhow::Result<Listeners> {
    let clock = Clock::system();
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let near = match &config.postgres.replica_url {
        Some(replica) => db::connect(&config.postgres, replica).context("postgres.replica_url")?,
        None => db.clone(),
    };
    let redis = Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref()).context("redis.url")?;
    let store = PackStore::open(&config.store).context("store.url")?;
    let parts = (db.clone(), redis.clone(), store.clone());
    let refusal = ownership::watch(config, parts, key.clone(), clock.clone());
    let replica =
        config.store.replica().map(|replica| PackStore::open(&replica)).transpose().context("store.replica_url")?;
    let replica = replica.map(|replica| Arc::new(replica) as Arc<dyn PackSource>);

    let edge = edge_id();
    tracing::info!(edge, name, version = BUILD.version, commit = BUILD.commit, "starting");
    let marks = Arc::<ChangeMarks>::default();
    let source = PostgresSource { near: near.clone(), primary: db.clone() };
    let shares = MemoryShares::from_config(&config.edge)?;
    let read_replica = config.postgres.replica_url.is_some().then(|| near.clone());
    let keys = GatewayKeyCache::new(marks.clone(), near, db.clone(), &shares);
    let members = Arc::new(MembershipCache::new(marks.clone(), source.clone(), &shares));
    let budget = ByteBudget::new(shares.flight());
    let routes = Arc::new(RouteCache::new(marks.clone(), source, &shares, clock.clone()));
    let (hashes, account) = (config.edge.password_hashes, budget.common_account());
    let gatekeeper =
        Gatekeeper::new(&key, members, &config.site.console_url, hashes, account, (Some(redis.clone()), clock.clone()));
    let sites =
        SiteService::new(Arc::new(store.clone()), replica, &shares, &budget, routes.clone(), gatekeeper, clock.clone());
    let bounds = ConnectionBounds::from_config(&config.edge, &shares);
    let talkers = Arc::<TopClients>::default();
    let upstreams = AdminUpstreams::parse(&config.edge.admin_upstreams).context("edge.admin_upstreams")?;
    let requests = bounds.platform_requests;
    let platform = PlatformProxy::new(
        upstreams,
        threads,
        requests,
        &shares,
        marks.clone(),
        (key.clone(), clock.clone()),
        talkers.clone(),
    );
    let (admin_watch, has_admin) = (platform.health_watch(), platform.has_admin());
    let settings = gateway::GatewaySettings::from_config(config, None)?;
    let (meter, metering) = UsageMeter::new(config, &edge, redis.clone(), db.clone(), clock.clone());
    let is_awake = {
        let marks = marks.clone();
        move || marks.awake().is_awake()
    };
    meter.set_awake(is_awake.clone());
    let peers = EdgePeers { edge: edge.clone(), redis: redis.clone(), key: key.clone() };
    let gateway = Gateway::new(settings, &shares, Arc::new(keys), meter, clock.clone(), peers);
    let (traces, tracing_task) = traces::start(&config.telemetry, &edge, &name, clock.clone())?.unzip();
    let gateway = Arc::new(gateway.with_traces(traces));
    let answering_edges = gateway.answer_edges();
    let traffic = match config.stats.source {
        StatsSource::Edge => {
            let (geoip_file, agents) = (config.stats.geoip_file.as_deref(), AgentRegistry::new(clock.clone()));
            Some(TrafficCounter::new(threads, geoip_file, agents, clock.clone()).context("stats.geoip_file")?)
        }
        StatsSource::None => None,
    };
    let challenges = Arc::new(ChallengeReader::new(db.clone(), clock.clone()));
    let reported_gateway = gateway.clone();
    let front =
        HostRouter::new(config, routes, challenges.clone(), sites, platform, gateway, budget, talkers.clone(), traffic);
    let front = Arc::new(front?);
    let follower = ChangeFollower::new(edge.clone(), marks.clone(), db.clone(), redis.clone(), clock.clone());

    let (collected_db, collected_clock) = (db.clone(), clock.clone());
    let age_db = db.clone();
    let watched = EdgeDependencies {
        db: db.clone(),
        replica: read_replica,
        redis: redis.clone(),
        store,
        marks: marks.clone(),
        key: key.clone(),
        site_domain: config.site.site_domain.clone(),
        spool: meter::spool_folder(config),
        clock: clock.clone(),
    };
    let presence = PresenceReporter {
        id: edge.clone(),
        name: name.clone(),
        build: BUILD,
        marks: marks.clone(),
        most_connections: bounds.connections,
        health: health.clone(),
        clock: clock.clone(),
        gateway: reported_gateway,
    };
    let tls = TlsServer::new(
        marks,
        db,
        key,
        clock,
        (&config.site.site_domain, config.site.addresses()),
        &shares,
        challenges,
    )?;
    let memory_of = {
        let front = front.clone();
        move || front.memory_used()
    };
    let refusing = stop.clone();
    let reload = ConfigReload::new(reloader, front.clone(), stop.clone())?;
    let mut listeners = Listeners::new(sockets, upgrade_socket, front, tls, threads, stop, bounds, talkers.clone());
    listeners.add_background(presence.report(redis.clone(), listeners.connections(), listeners.departure()));
    let last_connection_gone = listeners.background_stop();
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        stop.run_until_cancelled_owned(Box::pin(watched.watch(health, has_admin))).await;
    });
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        stop.run_until_cancelled_owned(admin_watch).await;
    });
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        if let Some(refusal) = Box::pin(stop.run_until_cancelled_owned(refusal)).await {
            refusing.give_up(refusal);
        }
    });
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        stop.run_until_cancelled_owned(reload.run()).await;
    });
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        stop.run_until_cancelled_owned(Box::pin(answering_edges)).await;
    });
    if let Some(task) = tracing_task {
        listeners.add_background(task.run(last_connection_gone.clone()));
    }
    listeners.add_background(metering.run(last_connection_gone.clone()));
    if let Some(traffic) = traffic {
        let spool = meter::spool_folder(config);
        listeners.add_background(traffic.keep_current(collected_db.clone(), last_connection_gone.clone()));
        let hold = Duration::from_secs(config.stats.send_seconds.into());
        let collector =
            TrafficCollector::new(traffic, collected_db, redis.clone(), edge.clone(), collected_clock, spool, hold);
        collector.set_awake(is_awake);
        listeners.add_background(collector.run(last_connection_gone.clone()));
    }
    if let Some(exporter) = exporter {
        let (stop, memory) = (last_connection_gone.clone(), edge_metrics::watch_memory(shares, memory_of));
        listeners.add_background(async move {
            stop.run_until_cancelled_owned(memory).await;
        });
        // Stop early, to free the address for the next edge.
        let stop = listeners.departure();
        listeners.add_background(async move {
            stop.run_until_cancelled_owned(exporter.run()).await;
        });
    }
    listeners.add_background(report_age(age_db, last_connection_gone.clone()));
    let questions = clients::answer_questions(redis, edge.clone(), name, talkers.clone());
    let stop = last_connection_gone.clone();
    listeners.add_background(async move {
        let counting = async { tokio::join!(questions, talkers.forget()) };
        stop.run_until_cancelled_owned(counting).await;
    });
    listeners.accept_after(follower.announced());
    listeners.add_background(follower.announcer(listeners.departure()));
    listeners.add_background(follower.run(last_connection_gone));
    Ok(listeners)
}

/// Logs once if this program is too old for the database. It keeps serving the sites that it can.
async fn report_age(db: PgPool, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let checked = async {
            let mut conn = db.acquire().await?;
            db::migrations::check_age(&mut conn).await
        };
        match checked.await {
            Ok(()) => return,
            Err(error @ MigrateError::TooOld { .. }) => return tracing::error!("{error}"),
            Err(error) => tracing::debug!(%error, "the age of the schema is not known yet"),
        }
        // Postgres is unreachable. Nothing else depends on this check.
        stop.run_until_cancelled(tokio::time::sleep(limits::SCHEMA_CHECK_EVERY)).await;
    }
}

fn load_key(secrets: &config::Secrets) -> anyhow::Result<EdgeKey> {
    let file = secrets.edge_file();
    let key = EdgeKey::load(file)?;
    let ids = key.ids().join(", ");
    if key.holds_master_key() {
        tracing::warn!(
            file = %file.display(),
            %ids,
            "this edge can read the whole master key; `certs edge-key` makes a file of what an edge needs, for secrets.edge_key_file"
        );
    } else {
        tracing::info!(file = %file.display(), %ids, "keys of an edge loaded");
    }
    Ok(key)
}

/// Returns a new random ID at each start: a restarted edge has none of the state that the old one acknowledged.
fn edge_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
