//! One file per noun: from what was said to calls of the API and what is printed.

pub(crate) mod access;
pub(crate) mod ai;
pub(crate) mod audit;
mod browser;
pub(crate) mod deploy;
pub(crate) mod deployments;
pub(crate) mod domains;
pub(crate) mod env;
pub(crate) mod invites;
pub(crate) mod login;
pub(crate) mod members;
pub(crate) mod orgs;
mod password;
pub(crate) mod projects;
mod publish;
pub(crate) mod repo;
pub(crate) mod share;
pub(crate) mod shares;
pub(crate) mod skill;
pub(crate) mod tokens;
pub(crate) mod transfer;
pub(crate) mod vcs;

use clap::CommandFactory as _;
use common::BRAND;

use crate::{
    args::{Args, Command, Global},
    client::{Client, Propagation},
    credentials::{Connection, Wanted},
    output::{self, Output},
};

/// Ends the help of commands that need not be told what to do.
const LIST_IS_USUAL: &str = "Without a command: list.";
const SHOW_IS_USUAL: &str = "Without a command: show.";

/// Does what was said.
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
        Command::Deployments(deployments) => deployments::list(deployments, &client()?, output).await,
        Command::Rollback(rollback) => deployments::rollback(rollback, &client()?, output).await,
        Command::Access(access) => access::run(access, &client()?, output).await,
        Command::Domains(domains) => domains::run(domains, &client()?, output).await,
        Command::Env(env) => env::run(env, &client()?, output).await,
        Command::Transfer(transfer) => transfer::run(transfer, &client()?, output).await,
        Command::Audit(audit) => audit::run(audit, &client()?, output).await,
        Command::Repo(repo) => repo::run(repo, &client()?, output).await,
        Command::Vcs(vcs) => vcs::run(vcs, &client()?, output).await,
        Command::Open(open) => projects::open(open, &client()?, output).await,
        Command::Share(share) => share::run(share, &client()?, output).await,
        Command::Shares(shares) => shares::run(shares, &client()?, output).await,
        Command::Orgs(orgs) => orgs::run(orgs, &client()?, output).await,
        Command::Members(members) => members::run(members, &client()?, output).await,
        Command::Invites(invites) => invites::run(invites, &client()?, output).await,
        Command::Tokens(tokens) => tokens::run(tokens, &client()?, output).await,
        Command::Ai(ai) => ai::run(ai, connection()?, output).await,
        Command::Skill(skill) => skill::run(skill, output),
        Command::Completions { shell } => completions(shell, output),
    }
}

fn connection(global: &Global) -> anyhow::Result<Connection> {
    let token = std::env::var("SVC_TOKEN").ok().filter(|token| !token.is_empty());
    Connection::find(Wanted { api: global.api.clone(), ca_file: global.ca_file.clone(), token })
}

fn completions(shell: clap_complete::Shell, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), BRAND, &mut script);
    let script = String::from_utf8(script)?;
    output.result(&serde_json::json!({"shell": shell.to_string(), "script": script}), || script.clone())
}

/// Says how far a change got, in commentary: `Live on 3 of 3 edges in 9 ms.`
fn tell_propagation(output: Output, what: &str, propagation: Option<Propagation>) {
    let Some(Propagation { acknowledged, edges, milliseconds }) = propagation else { return };
    if edges > 0 {
        output.success(&format!("{what} on {acknowledged} of {edges} edges in {milliseconds} ms."));
    }
    if acknowledged < edges {
        output::warning("The others have not answered; they take the change over when they are back.");
    }
}
