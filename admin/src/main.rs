//! `admin`, the control plane.
//!
//! `admin` serves the REST API; `admin migrate` updates the database; `admin store` maintains packs; `admin edges` and
//! `admin admins` list the programs; `admin issue-token` creates a token on the machine itself; `admin suspend` and
//! `admin resume` suspend and resume a site or an account; `admin refund` refunds a payment; `admin mail test` tests
//! the mail server; `admin backup` and `admin restore` create and restore backups; `admin doctor` diagnoses problems;
//! `admin grant-edge` and `admin redis-acl` give edges rights of their own.

mod commands;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use acts::suspension::{self, SuspensionOrder};
use admin::{
    doctor,
    programs::{self, EdgePrograms, ProgramPresence},
    readiness, serve, talkers,
};
use anyhow::Context as _;
use app::{App, bounds::BLOCKING_THREADS, metrics};
use clap::{Parser, Subcommand, ValueEnum};
use code_host::local;
use commands::store::{self, StoreAction};
use config::{
    CodeHostKind, Config,
    reload::{self, Reloader},
};
use db::{
    audit::{self, Actor, NewAuditEntry},
    sign_in::{tokens, users},
};
use domain::{
    Clock, EmailAddress,
    audit::Action,
    billing::Cents,
    site::Suspension,
    token::{TokenKind, TokenSecret},
};
use live::reports::ProgramKind;
use mail::Mailer;
use telemetry::{BuildInfo, health::Health, metrics::MetricsExporter};

const ISSUED: &str = "admin issue-token";

const BUILD: BuildInfo = BuildInfo { version: env!("CARGO_PKG_VERSION"), commit: env!("SVC_COMMIT") };

/// The control plane of svc.
#[derive(Parser)]
#[command(name = "admin", version = env!("SVC_VERSION"))]
struct Arguments {
    /// The configuration file. Defaults to `SVC_CONFIG`, or to `svc.toml` in the current directory.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default).
    Serve,
    /// Migrate the database to this program's version, and exit.
    Migrate,
    /// Create a backup of the database and the packs it needs, or list, verify and prune existing backups.
    Backup(commands::backup::BackupArguments),
    /// Restore a backup into an empty database and an empty store, or the same store.
    Restore(commands::restore::RestoreArguments),
    /// Grant a database role what edges need and nothing else, for `postgres.url` of edges. A role that does not exist
    /// is created, and its password printed. Later migrations renew the grants.
    GrantEdge(commands::edge_rights::GrantEdgeArguments),
    /// Print the rules of the edges' Redis user, to follow `ACL SETUSER`, or `user` in its configuration. Does not
    /// contact Redis.
    RedisAcl(commands::edge_rights::RedisAclArguments),
    /// List the edges: their machines, versions, progress with changes, and load.
    Edges {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        question: Option<EdgesAction>,
    },
    /// List the admins.
    Admins {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the changes that the database has lost because a lagging replica was promoted or a backup was restored.
    LostChanges {
        /// Mark them as handled.
        #[arg(long)]
        acknowledge: bool,
    },
    /// Create a `cli` token for a user of the local code host, and print it.
    IssueToken {
        /// The user's login. The user is created if it does not exist.
        #[arg(long)]
        login: String,
    },
    /// Test the mail server.
    Mail {
        #[command(subcommand)]
        action: MailAction,
    },
    /// Maintain the packs in the store and in its trash.
    Store {
        #[command(subcommand)]
        action: StoreAction,
    },
    /// Take over the store or Redis from another database, whose name it carries: does what `store.take_over_from` and
    /// `redis.take_over_from` do once, every time it is run.
    TakeOver(commands::take_over::TakeOverArguments),
    /// Take a site down: visitors get 403, or 451 where the law demands it. The site is kept, but its owner can neither
    /// publish to it, nor move or delete it, nor take its domains elsewhere. With `--account`, suspend all present and
    /// future sites and AI keys of a person or an organization. A suspended person can read and pay, but change nothing
    /// in any organization; the person's organizations are printed.
    Suspend {
        #[command(flatten)]
        subject: SuspensionSubject,
        /// The reason, which is recorded in the audit log.
        #[arg(long)]
        reason: SuspensionReason,
        /// Also suspend the organizations that nobody else owns: their sites, tokens and AI keys.
        #[arg(long, requires = "account", conflicts_with = "project")]
        with_orgs: bool,
    },
    /// Refund all or part of an invoice's payment. The credit note is issued once the money was sent.
    Refund {
        /// The invoice's number, such as 2026-000001.
        invoice: String,
        /// The amount in cents, including VAT. Defaults to all that has not been refunded.
        #[arg(long)]
        cents: Option<i64>,
        /// The reason, which is stored with the refund.
        #[arg(long)]
        reason: String,
    },
    /// Check svc's dependencies, one line each, with advice. Exits with 1 if a check fails.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve a suspended site again, or everything of a suspended account. Resuming a person also resumes the
    /// organizations suspended along with them; an organization that was suspended by itself stays suspended.
    Resume {
        #[command(flatten)]
        subject: SuspensionSubject,
    },
}

/// The project, share or account that a command suspends or resumes.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct SuspensionSubject {
    /// The project, or the three words of a share.
    project: Option<String>,
    /// The account: a person's login, an organization's name, or the id of either.
    #[arg(long)]
    account: Option<String>,
}

#[derive(Subcommand)]
enum EdgesAction {
    /// Print the clients that used the most of each edge in the last minute. This data is not stored.
    Top {
        /// The maximum number of clients per edge.
        #[arg(long, default_value_t = 10)]
        count: usize,
    },
}

#[derive(Subcommand)]
enum MailAction {
    /// Send a test letter, and print the mail server's response.
    Test {
        /// The address to send it to.
        #[arg(value_parser = |text: &str| text.parse::<EmailAddress>())]
        address: EmailAddress,
    },
}

/// The reason why a site is taken down.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SuspensionReason {
    /// The site harms others, or breaks the terms.
    Abuse,
    /// A law or a court demands it.
    Legal,
    /// The owner has not paid.
    Payment,
}

impl From<SuspensionReason> for Suspension {
    fn from(reason: SuspensionReason) -> Self {
        match reason {
            SuspensionReason::Abuse => Self::Abuse,
            SuspensionReason::Legal => Self::Legal,
            SuspensionReason::Payment => Self::Payment,
        }
    }
}

// As in the edge: memory used by an upload is returned to the system within seconds.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    telemetry::start();
    match run(arguments) {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!("{}", telemetry::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Arc::new(Config::load(arguments.config.as_deref())?);
    let (of_errors, file) = (config.clone(), arguments.config.clone());
    // Several of rustls' providers may be compiled in, so the program must choose one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(BLOCKING_THREADS).enable_all().build()?;
    let ran: anyhow::Result<ExitCode> = runtime.block_on(async {
        let done = match arguments.command.unwrap_or(Command::Serve) {
            Command::Doctor { json } => return print_doctor_report(&config, json).await,
            Command::Serve => {
                let name = config::machine::name(config.admin.name.as_deref());
                tracing::info!(name, version = BUILD.version, commit = BUILD.commit, "starting");
                if let Some(file) = config::missing_file(arguments.config.as_deref()) {
                    tracing::info!(
                        "no configuration file was found at {}, so that defaults and variables SVC__… are in use",
                        file.display()
                    );
                }
                let health = Health::new(name.clone(), env!("SVC_VERSION"), &readiness::REQUIREMENTS);
                let start = |address| MetricsExporter::start(address, BUILD, health.clone());
                let exporter = config.admin.metrics_listen.map(start).transpose().context("admin.metrics_listen")?;
                let programs = EdgePrograms::default();
                let is_exporting = exporter.is_some();
                if let Some(mut exporter) = exporter {
                    metrics::describe();
                    identity::describe();
                    exporter.add_section(programs.section());
                    tokio::spawn(exporter.run());
                }
                for warning in config.site.shared_domain_warnings() {
                    tracing::warn!("{warning}");
                }
                let reloader = Reloader::new(reload::ReloadingProgram::Admin, arguments.config, config.clone());
                let (app, tasks) = App::new(config)?;
                let presence = ProgramPresence { name, build: BUILD, health: health.clone() };
                tokio::spawn(presence.report(app.redis.clone(), app.clock.clone(), app.stopping.clone()));
                tokio::spawn(readiness::watch_readiness(app.clone(), health));
                if is_exporting {
                    tokio::spawn(programs.watch(app.redis.clone(), app.db.clone()));
                }
                serve::serve(app, tasks, reloader).await
            }
            Command::Migrate => migrate(&config).await,
            Command::Backup(arguments) => Box::pin(commands::backup::run(config, arguments)).await,
            Command::Restore(arguments) => commands::restore::run(config, arguments).await,
            Command::GrantEdge(arguments) => commands::edge_rights::grant(&config, &arguments).await,
            Command::RedisAcl(arguments) => commands::edge_rights::print_acl(&arguments),
            Command::Edges { question: Some(EdgesAction::Top { count }), .. } => print_top(&config, count).await,
            Command::Edges { question: None, json } => print_programs(&config, ProgramKind::Edge, json).await,
            Command::Admins { json } => print_programs(&config, ProgramKind::Admin, json).await,
            Command::LostChanges { acknowledge } => commands::lost_changes::run(&config, acknowledge).await,
            Command::IssueToken { login } => issue_token(&config, &login).await,
            Command::Mail { action: MailAction::Test { address } } => test_mail(&config, &address).await,
            Command::Store { action } => store::run(config, action).await,
            Command::TakeOver(arguments) => commands::take_over::run(config, arguments).await,
            Command::Suspend { subject, reason, with_orgs } => {
                set_suspended(config, subject, SuspensionOrder::Suspend { reason: reason.into(), with_orgs }).await
            }
            Command::Refund { invoice, cents, reason } => refund(config, &invoice, cents.map(Cents), &reason).await,
            Command::Resume { subject } => set_suspended(config, subject, SuspensionOrder::Resume).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    ran.map_err(|error| runtime.block_on(diagnosis::explain_exit(error, &of_errors, file.as_deref())))
}

#[expect(clippy::print_stdout, reason = "the report is this command's result")]
async fn print_doctor_report(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let report = doctor::examine(config).await;
    println!("{}", if json { report.json() } else { report.lines() });
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn migrate(config: &Config) -> anyhow::Result<()> {
    db::bring_up_to_date(&config.postgres).await.context("the database could not be brought up to date")
}

#[expect(clippy::print_stdout, reason = "the table is this command's result")]
async fn print_top(config: &Config, count: usize) -> anyhow::Result<()> {
    let redis =
        live::Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref()).context("redis.url")?;
    let edges = talkers::fetch_top_clients(&redis, count).await.context("Redis (redis.url) cannot be asked")?;
    print!("{}", talkers::table(&edges));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the list is this command's result")]
async fn print_programs(config: &Config, program: ProgramKind, is_json: bool) -> anyhow::Result<()> {
    let redis = live::Redis::connect(&config.redis.url).context("redis.url")?;
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let list = programs::list(&redis, &db, program).await.context("Redis (redis.url) cannot be asked")?;
    if is_json {
        println!("{}", serde_json::to_string_pretty(&list)?);
    } else {
        print!("{}", programs::table(&list, Clock::system().now()));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what the mail server said is this command's result")]
async fn test_mail(config: &Config, address: &EmailAddress) -> anyhow::Result<()> {
    let server = Mailer::new(&config.mail, &config.site)?.send_test_letter(address).await?;
    println!("{server} took the letter to {address}; look whether it arrives, and whether it is taken for spam");
    Ok(())
}

/// Suspends or resumes a site or an account, and prints how many edges have applied the change.
#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn set_suspended(
    config: Arc<Config>,
    SuspensionSubject { project, account }: SuspensionSubject,
    order: SuspensionOrder,
) -> anyhow::Result<()> {
    if let Some(name) = account {
        let suspension::SuspendedAccountChange { account, name, orgs, propagation } =
            suspension::set_account(config, &name, order).await?;
        match order {
            SuspensionOrder::Suspend { reason, .. } => {
                println!("the account {name} ({account}) is suspended ({}); edges: {propagation}", reason.as_str());
            }
            SuspensionOrder::Resume => {
                println!("the account {name} ({account}) is suspended no more; edges: {propagation}");
            }
        }
        for (org, outcome) in orgs {
            println!("the organization {org}: {outcome}");
        }
        return Ok(());
    }
    let reason = match order {
        SuspensionOrder::Suspend { reason, .. } => Some(reason),
        SuspensionOrder::Resume => None,
    };
    let name = project.context("a project or an account has to be named")?;
    let suspension::SuspendedSiteChange { project, propagation } = suspension::set(config, &name, reason).await?;
    match reason {
        Some(reason) => println!("{project} is suspended ({}); edges: {propagation}", reason.as_str()),
        None => println!("{project} is served again; edges: {propagation}"),
    }
    Ok(())
}

/// Refunds an invoice, and prints the refund's id.
#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn refund(config: Arc<Config>, number: &str, total: Option<Cents>, reason: &str) -> anyhow::Result<()> {
    // Edges cache nothing that a refund changes, so their tasks do not run.
    let (app, _edges) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    app.ownership_watch().start().await?;
    let (id, total) = billing::refund_by_number(&app, number, total, reason).await?;
    println!("{total} of invoice {number} is given back ({id})");
    Ok(())
}

/// Creates a token and prints it. Standard output carries nothing else, so that scripts can read it.
#[expect(clippy::print_stdout, reason = "the token is this command's result")]
async fn issue_token(config: &Config, login: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.code_host.kind == CodeHostKind::Local,
        "issue-token is for code_host.kind = \"local\"; with a code host, people run `svc login`"
    );
    let identity = local::identity(login)?;
    db::bring_up_to_date(&config.postgres).await.context("the database could not be brought up to date")?;
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let (now, secret) = (Clock::system().now(), TokenSecret::generate());
    let mut tx = db.begin().await?;
    let user = users::upsert(&mut tx, &identity, now).await?;
    let limits = tokens::NewLimits::default();
    let token =
        tokens::create_for_user(&mut tx, &user.id, TokenKind::Cli, Some(ISSUED), limits, &secret.hash(), now).await?;
    let entry = NewAuditEntry::for_person(Action::TokenCreate, &user.id).with("token", token.id.as_str());
    let entry = entry.with("kind", TokenKind::Cli.as_str()).with("label", ISSUED);
    audit::record(&mut tx, Actor::Platform, &entry, now).await?;
    tx.commit().await?;
    println!("{}", secret.expose());
    Ok(())
}
