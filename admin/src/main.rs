//! `admin`: the control plane. `admin` serves the REST API, `admin migrate` brings the database up to date,
//! `admin edges` and `admin admins` list the programs, `admin issue-token` makes a token from the machine itself, `admin suspend` and
//! `admin resume` take a site or an account down and up, `admin refund` gives back what was paid, `admin mail test` tries the mail server out,
//! `admin store` looks after packs, `admin backup` and `admin restore` make backups and go back to one, `admin doctor` says what is wrong,
//! `admin grant-edge` and `admin redis-acl` give edges rights of their own.

mod commands;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use admin::{
    app::App,
    billing,
    bounds::BLOCKING_THREADS,
    codehost::local,
    doctor,
    mail::Mailer,
    metrics,
    programs::{self, Presence, Programs},
    readiness, serve,
    suspension::{self, Order},
    talkers,
};
use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use commands::store::{self, StoreAction};
use config::{
    CodeHostKind, Config,
    reload::{self, Reloader},
};
use db::sign_in::{tokens, users};
use domain::{
    Clock, EmailAddress,
    billing::Cents,
    site::Suspension,
    token::{TokenKind, TokenSecret},
};
use live::reports::Program;
use telemetry::{Build, health::Health, metrics::Exporter};

/// The label of tokens made by `admin issue-token`.
const ISSUED: &str = "admin issue-token";

/// What this program is built from.
const BUILD: Build = Build { version: env!("CARGO_PKG_VERSION"), commit: env!("SVC_COMMIT") };

/// The control plane of svc.
#[derive(Parser)]
#[command(name = "admin", version = env!("SVC_VERSION"))]
struct Arguments {
    /// The configuration file; `SVC_CONFIG`, else `svc.toml` here, when absent.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default).
    Serve,
    /// Bring the database to this program's version, and stop.
    Migrate,
    /// Make a backup of the database and of the packs that it wants, or list, verify and prune those there are.
    Backup(commands::backup::Backup),
    /// Restore a backup, into an empty database and an empty or the same store.
    Restore(commands::restore::Restore),
    /// Let a role of the database do what edges need and nothing else, for `postgres.url` of edges. A role that does not exist is made, and
    /// its password printed. Migrations grant it anew from then on.
    GrantEdge(commands::edge_rights::GrantEdge),
    /// Print the rules of the user that edges have in Redis, to follow `ACL SETUSER`, or `user` in its configuration. Redis is not asked.
    RedisAcl(commands::edge_rights::RedisAcl),
    /// List the edges: their machines, versions, how far each has come, and what it carries.
    Edges {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        question: Option<EdgesQuestion>,
    },
    /// List the admins.
    Admins {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the changes that the database has lost, since a replica that lagged was promoted or a backup was restored.
    LostChanges {
        /// Mark them as seen to.
        #[arg(long)]
        acknowledge: bool,
    },
    /// Make a `cli` token for a user of the local code host, and print it.
    IssueToken {
        /// The user's login; the user is made when there is none.
        #[arg(long)]
        login: String,
    },
    /// Try the mail server out.
    Mail {
        #[command(subcommand)]
        action: MailAction,
    },
    /// Look after the packs in the store, and those in its trash.
    Store {
        #[command(subcommand)]
        action: StoreAction,
    },
    /// Take the store or Redis over from another database, whose name it carries: what `store.take_over_from` and
    /// `redis.take_over_from` do once, as often as it is run.
    TakeOver(commands::take_over::TakeOver),
    /// Take a site down: visitors get 403, or 451 where a law demands it. Its owner keeps it, and can neither publish to it, nor move
    /// or delete it, nor take its domains elsewhere. With `--account`, all sites and AI keys of a person or an organization, and those
    /// that are made later. A suspended person reads and pays, and changes nothing in any organization; theirs are printed.
    Suspend {
        #[command(flatten)]
        subject: SuspensionSubject,
        /// The reason, which the audit log records.
        #[arg(long)]
        reason: Reason,
        /// Suspend the organizations that nobody else owns, too: their sites, tokens and AI keys.
        #[arg(long, requires = "account", conflicts_with = "project")]
        with_orgs: bool,
    },
    /// Give back what was paid on an invoice, all of it or a part. The credit note is issued once the money is gone.
    Refund {
        /// The invoice's number, such as 2026-000001.
        invoice: String,
        /// The amount in cents, with VAT; all that is left when absent.
        #[arg(long)]
        cents: Option<i64>,
        /// The reason, which is kept with the refund.
        #[arg(long)]
        reason: String,
    },
    /// Check what svc depends on, a line each, with what helps. Exits with 1 when anything fails.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let a suspended site, or what a suspended account has, be served again. With a person, the organizations that were suspended
    /// with them are resumed; one that was suspended by itself stays so.
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
enum EdgesQuestion {
    /// Print the greediest clients of the last minute at every edge. Nothing of it is kept anywhere.
    Top {
        /// The most clients of each edge.
        #[arg(long, default_value_t = 10)]
        count: usize,
    },
}

#[derive(Subcommand)]
enum MailAction {
    /// Send a letter, and say what the mail server answers.
    Test {
        /// The address to send it to.
        #[arg(value_parser = |text: &str| text.parse::<EmailAddress>())]
        address: EmailAddress,
    },
}

/// A reason for which a site is taken down.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Reason {
    /// It harms others, or breaks the terms.
    Abuse,
    /// A law or a court demands it.
    Legal,
    /// Its owner has not paid.
    Payment,
}

impl From<Reason> for Suspension {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Abuse => Self::Abuse,
            Reason::Legal => Self::Legal,
            Reason::Payment => Self::Payment,
        }
    }
}

// As the edge's: what an upload took goes back to the machine within seconds.
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
    // More than one of rustls' providers may be compiled in, so the program has to choose one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(BLOCKING_THREADS).enable_all().build()?;
    let ran: anyhow::Result<ExitCode> = runtime.block_on(async {
        let done = match arguments.command.unwrap_or(Command::Serve) {
            Command::Doctor { json } => return examine(&config, json).await,
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
                let start = |address| Exporter::start(address, BUILD, health.clone());
                let exporter = config.admin.metrics_listen.map(start).transpose().context("admin.metrics_listen")?;
                let programs = Programs::default();
                let is_exporting = exporter.is_some();
                if let Some(mut exporter) = exporter {
                    metrics::describe();
                    identity::describe();
                    exporter.add_section(programs.section());
                    tokio::spawn(exporter.run());
                }
                for warning in config.site.shared_domains() {
                    tracing::warn!("{warning}");
                }
                let reloader = Reloader::new(reload::Program::Admin, arguments.config, config.clone());
                let (app, tasks) = App::new(config)?;
                let presence = Presence { name, build: BUILD, health: health.clone() };
                tokio::spawn(presence.report(app.redis.clone(), app.clock.clone(), app.stopping.clone()));
                tokio::spawn(readiness::watch(app.clone(), health));
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
            Command::Edges { question: Some(EdgesQuestion::Top { count }), .. } => print_top(&config, count).await,
            Command::Edges { question: None, json } => print_programs(&config, Program::Edge, json).await,
            Command::Admins { json } => print_programs(&config, Program::Admin, json).await,
            Command::LostChanges { acknowledge } => commands::lost_changes::run(&config, acknowledge).await,
            Command::IssueToken { login } => issue_token(&config, &login).await,
            Command::Mail { action: MailAction::Test { address } } => test_mail(&config, &address).await,
            Command::Store { action } => store::run(config, action).await,
            Command::TakeOver(arguments) => commands::take_over::run(config, arguments).await,
            Command::Suspend { subject, reason, with_orgs } => {
                set_suspended(config, subject, Order::Suspend { reason: reason.into(), with_orgs }).await
            }
            Command::Refund { invoice, cents, reason } => refund(config, &invoice, cents.map(Cents), &reason).await,
            Command::Resume { subject } => set_suspended(config, subject, Order::Resume).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    ran.map_err(|error| runtime.block_on(diagnosis::explained(error, &of_errors, file.as_deref())))
}

/// Prints what the doctor found.
#[expect(clippy::print_stdout, reason = "the report is this command's result")]
async fn examine(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
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
    let edges = talkers::ask(&redis, count).await.context("Redis (redis.url) cannot be asked")?;
    print!("{}", talkers::table(&edges));
    Ok(())
}

/// Prints the programs of a kind, as a table or as JSON.
#[expect(clippy::print_stdout, reason = "the list is this command's result")]
async fn print_programs(config: &Config, program: Program, is_json: bool) -> anyhow::Result<()> {
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

/// Sends a letter that tries the mail server out, and prints what became of it.
#[expect(clippy::print_stdout, reason = "what the mail server said is this command's result")]
async fn test_mail(config: &Config, address: &EmailAddress) -> anyhow::Result<()> {
    let server = Mailer::new(&config.mail, &config.site)?.test(address).await?;
    println!("{server} took the letter to {address}; look whether it arrives, and whether it is taken for spam");
    Ok(())
}

/// Takes a site or an account down or up, and prints how many edges have applied it.
#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn set_suspended(
    config: Arc<Config>,
    SuspensionSubject { project, account }: SuspensionSubject,
    order: Order,
) -> anyhow::Result<()> {
    if let Some(name) = account {
        let suspension::ChangedAccount { account, name, orgs, propagation } =
            suspension::set_account(config, &name, order).await?;
        match order {
            Order::Suspend { reason, .. } => {
                println!("the account {name} ({account}) is suspended ({}); edges: {propagation}", reason.as_str());
            }
            Order::Resume => println!("the account {name} ({account}) is suspended no more; edges: {propagation}"),
        }
        for (org, outcome) in orgs {
            println!("the organization {org}: {outcome}");
        }
        return Ok(());
    }
    let reason = match order {
        Order::Suspend { reason, .. } => Some(reason),
        Order::Resume => None,
    };
    let name = project.context("a project or an account has to be named")?;
    let suspension::Changed { project, propagation } = suspension::set(config, &name, reason).await?;
    match reason {
        Some(reason) => println!("{project} is suspended ({}); edges: {propagation}", reason.as_str()),
        None => println!("{project} is served again; edges: {propagation}"),
    }
    Ok(())
}

/// Refunds an invoice, and prints the refund's id.
#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn refund(config: Arc<Config>, number: &str, total: Option<Cents>, reason: &str) -> anyhow::Result<()> {
    // A refund changes nothing that edges remember, so that nobody runs their tasks.
    let (app, _edges) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    app.watch().start().await?;
    let (id, total) = billing::refund_by_number(&app, number, total, reason).await?;
    println!("{total} of invoice {number} is given back ({id})");
    Ok(())
}

/// Makes a token and prints it: standard output carries nothing else, so that a script can read it.
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
    tokens::create_for_user(&mut tx, &user.id, TokenKind::Cli, Some(ISSUED), limits, &secret.hash(), now).await?;
    tx.commit().await?;
    println!("{}", secret.expose());
    Ok(())
}
