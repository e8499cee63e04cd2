//! Runs the command that was parsed: one arm per command.

use std::path::Path;

use domain::token::TokenSecret;

use crate::{
    args::{Args, Command, GlobalArgs},
    client::Client,
    commands::{
        access, ai, audit, billing, deploy, deployments, domains, env, invites, login, members, notifications, orgs,
        projects, repo, sessions, share, shares, skill, stats, tokens, transfer, vcs,
    },
    complete,
    credentials::{self, Connection, ConnectionOptions, LoginStore, RequestOutput},
    failure::Failure,
    output::{self, Output},
};

pub(crate) async fn run(args: Args, output: Output) -> anyhow::Result<()> {
    let Args { global, command } = args;
    let connection = || connection(&global);
    let client = || Client::new(connection()?);
    match command {
        Command::Login(login) => login::login(login, connection()?, output).await,
        Command::Logout => login::logout(connection()?, output).await,
        Command::Whoami => {
            let connection = connection()?;
            let up_file = connection.up_file.clone();
            login::whoami(&Client::new(connection)?, up_file.as_deref(), output).await
        }
        Command::Deploy(deploy) => deploy::run(deploy, &client()?, output).await,
        Command::Projects(projects) => projects::run(projects, &client()?, output).await,
        Command::Deployments(deployments) => deployments::run(deployments, &client()?, output).await,
        Command::Rollback(rollback) => deployments::rollback(rollback, &client()?, output).await,
        Command::Download(download) => deployments::download(download, &client()?, output).await,
        Command::Access(access) => access::run(access, &client()?, output).await,
        Command::Domains(domains) => domains::run(domains, &client()?, output).await,
        Command::Env(env) => env::run(env, &client()?, output).await,
        Command::Transfer(transfer) => transfer::run(transfer, &client()?, output).await,
        Command::Audit(audit) => audit::run(audit, &client()?, output).await,
        Command::Activity(activity) => audit::activity(&activity, &client()?, output).await,
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
        Command::Notifications(notifications) => notifications::run(notifications, &client()?, output).await,
        Command::Tokens(tokens) => tokens::run(tokens, &client()?, output).await,
        Command::Billing(billing) => billing::run(billing, &client()?, output).await,
        Command::Ai(ai) => ai::run(ai, connection()?, output).await,
        Command::Skill(skill) => skill::run(skill, output),
        Command::Completions { shell } => completions(shell, output),
    }
}

fn connection(global: &GlobalArgs) -> anyhow::Result<Connection> {
    let token = std::env::var("SVC_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    if token.as_ref().is_some_and(|token| TokenSecret::parse(token).is_none()) {
        return Err(Failure::not_signed_in("SVC_TOKEN does not hold a whole token.")
            .with_hint(
                "A token is svc_ and 43 characters; `svc tokens create` makes one. Or unset it, and run `svc login`.",
            )
            .into());
    }
    let wanted = ConnectionOptions { api: global.api.clone(), ca_file: global.ca_file.clone(), token };
    let mut connection = Connection::find(wanted)?;
    connection.voice = RequestOutput {
        is_verbose: global.verbose,
        is_watched: !global.quiet && !global.json && console::user_attended_stderr(),
    };
    if let Some(file) = &connection.up_file {
        report_up_file(file, global.verbose);
    }
    Ok(connection)
}

/// Reports which `make up` is used, because a file near the folder was trusted: once per file, or `always`.
fn report_up_file(up_file: &Path, always: bool) {
    let remembered = || -> anyhow::Result<bool> {
        // The person chose the folder by setting the variable.
        if std::env::var_os("SVC_STATE_DIR").is_some() {
            return Ok(true);
        }
        let file = credentials::file()?;
        let mut logins = LoginStore::load(&file)?;
        let is_new = logins.remember_up_file(up_file);
        if is_new {
            logins.save(&file)?;
        }
        Ok(!is_new)
    };
    // If it could not be recorded, it is reported again next time.
    if always || !remembered().unwrap_or(false) {
        output::print_stderr(&format!("Using the `make up` of {}", up_file.display()));
    }
}

fn completions(shell: clap_complete::Shell, output: Output) -> anyhow::Result<()> {
    let script = complete::script(&shell.to_string())?;
    let script = script.ok_or_else(|| Failure::usage(format!("There are no completions for {shell}.")))?;
    output.result(&serde_json::json!({"shell": shell.to_string(), "script": script}), || script.clone())
}
