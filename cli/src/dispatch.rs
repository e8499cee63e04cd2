//! Runs the command that was parsed: one arm per command.

use clap::CommandFactory as _;
use domain::BRAND;

use crate::{
    args::{Args, Command, Global},
    client::Client,
    commands::{
        access, ai, audit, billing, deploy, deployments, domains, env, invites, login, members, orgs, projects, repo,
        sessions, share, shares, skill, stats, tokens, transfer, vcs,
    },
    credentials::{Connection, Wanted},
    output::{self, Output},
};

/// Runs the command of `args`, printing to `output`.
pub(crate) async fn run(args: Args, output: Output) -> anyhow::Result<()> {
    let Args { global, command } = args;
    let connection = || connection(&global);
    let client = || Client::new(connection()?);
    match command {
        Command::Login(login) => login::login(login, connection()?, output).await,
        Command::Logout => login::logout(&connection()?, output),
        Command::Whoami => login::whoami(&client()?, output).await,
        Command::Deploy(deploy) => deploy::run(deploy, &client()?, output).await,
        Command::Projects(projects) => projects::run(projects, &client()?, output).await,
        Command::Deployments(deployments) => deployments::run(deployments, &client()?, output).await,
        Command::Rollback(rollback) => deployments::rollback(rollback, &client()?, output).await,
        Command::Access(access) => access::run(access, &client()?, output).await,
        Command::Domains(domains) => domains::run(domains, &client()?, output).await,
        Command::Env(env) => env::run(env, &client()?, output).await,
        Command::Transfer(transfer) => transfer::run(transfer, &client()?, output).await,
        Command::Audit(audit) => audit::run(audit, &client()?, output).await,
        Command::Stats(stats) => stats::run(stats, &client()?, output).await,
        Command::Repo(repo) => repo::run(repo, &client()?, output).await,
        Command::Vcs(vcs) => vcs::run(vcs, &client()?, output).await,
        Command::Open(open) => projects::open(open, &client()?, output).await,
        Command::Share(share) => share::run(share, &client()?, output).await,
        Command::Shares(shares) => shares::run(shares, &client()?, output).await,
        Command::Orgs(orgs) => orgs::run(orgs, &client()?, output).await,
        Command::Members(members) => members::run(members, &client()?, output).await,
        Command::Invites(invites) => invites::run(invites, &client()?, output).await,
        Command::Sessions(sessions) => sessions::run(sessions, &client()?, output).await,
        Command::Tokens(tokens) => tokens::run(tokens, &client()?, output).await,
        Command::Billing(billing) => billing::run(billing, &client()?, output).await,
        Command::Ai(ai) => ai::run(ai, connection()?, output).await,
        Command::Skill(skill) => skill::run(skill, output),
        Command::Completions { shell } => completions(shell, output),
    }
}

fn connection(global: &Global) -> anyhow::Result<Connection> {
    let token = std::env::var("SVC_TOKEN").ok().filter(|token| !token.is_empty());
    let connection = Connection::find(Wanted { api: global.api.clone(), ca_file: global.ca_file.clone(), token })?;
    if let Some(file) = &connection.up_file {
        output::tell(&format!("Using the `make up` of {}", file.display()));
    }
    Ok(connection)
}

fn completions(shell: clap_complete::Shell, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), BRAND, &mut script);
    let script = String::from_utf8(script)?;
    output.result(&serde_json::json!({"shell": shell.to_string(), "script": script}), || script.clone())
}
