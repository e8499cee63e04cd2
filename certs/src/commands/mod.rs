//! The tool's commands, one file each, and their shared helpers.

mod accounts;
mod doctor;
mod import;
mod issue;
mod list;
mod local_ca;
mod renew;
mod revoke;
mod rotate_account;

use std::path::Path;

use anyhow::Context as _;
use certs::{
    private_file,
    rotation::{self, KeyFiles},
};
use config::Config;
use db::upkeep::master_key::check;
use secrets::{MasterKey, master_key::MasterKeyBytes};
use serde::Serialize;
use sqlx::PgPool;

use crate::{Arguments, Command, RotationArgs};

const NO_DATABASE: &str = "the database does not answer as it should (postgres.url; `admin migrate` makes its tables)";

pub(crate) struct CommandOutcome {
    pub(crate) said: String,
    pub(crate) is_good: bool,
}

impl CommandOutcome {
    fn success(said: impl Into<String>) -> Self {
        Self { said: said.into(), is_good: true }
    }

    fn formatted(
        value: &impl Serialize,
        json: bool,
        text: impl FnOnce() -> String,
        is_good: bool,
    ) -> anyhow::Result<Self> {
        let said = if json { serde_json::to_string_pretty(value)? } else { text() };
        Ok(Self { said, is_good })
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<CommandOutcome> {
    if let Command::MasterKey { file } = &arguments.command {
        private_file::create(file, &format!("{}\n", MasterKeyBytes::generate().to_base64()))
            .with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(CommandOutcome::success(format!("wrote a new master key to {}", file.display())));
    }
    let config = Config::load(arguments.config.as_deref())?;
    match run_with(&config, arguments).await {
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(diagnosis::explain_exit(error, &config, arguments.config.as_deref()).await),
    }
}

async fn run_with(config: &Config, arguments: &Arguments) -> anyhow::Result<CommandOutcome> {
    if !matches!(arguments.command, Command::Doctor { .. }) {
        check_master_key(config).await?;
    }
    match &arguments.command {
        Command::MasterKey { .. } => Ok(CommandOutcome::success("")),
        Command::EdgeKey { file } => edge_key(config, file),
        Command::RotateKey { how } => rotate_key(config, how).await,
        Command::LocalCa { dir, names } => local_ca::run(config, dir, names).await,
        Command::Import { chain, key } => import::run(config, chain, key).await,
        Command::List { expiring, json } => list::run(config, *expiring, *json).await,
        Command::Issue { names, wait, json } => issue::run(config, names, *wait, *json).await,
        Command::Renew { names, all, json } => renew::run(config, names, *all, *json).await,
        Command::Revoke { name, reason, json } => revoke::run(config, name, *reason, *json).await,
        Command::RotateAccount { json } => rotate_account::run(config, *json).await,
        Command::Doctor { json } => doctor::run(config, *json).await,
    }
}

fn edge_key(config: &Config, file: &Path) -> anyhow::Result<CommandOutcome> {
    let ids = rotation::write_edge_key(&config.secrets.master_key_file, file)?.join(", ");
    Ok(CommandOutcome::success(format!("wrote what edges need of key {ids} to {}", file.display())))
}

async fn rotate_key(config: &Config, how: &RotationArgs) -> anyhow::Result<CommandOutcome> {
    let files = KeyFiles {
        master: &config.secrets.master_key_file,
        edge: config.secrets.edge_key_file.as_deref().filter(|file| file.exists()),
    };
    let (files, db) = (&files, database(config)?);
    Ok(CommandOutcome::success(match how {
        RotationArgs { prepare: true, .. } => rotation::prepare(files)?.to_string(),
        RotationArgs { finish: true, .. } => rotation::finish(&db, files).await?.to_string(),
        RotationArgs { .. } => rotation::rotate(&db, files).await?.to_string(),
    }))
}

/// Fails if the key file does not belong to this database. Each command reports a missing database or key file itself.
async fn check_master_key(config: &Config) -> anyhow::Result<()> {
    let (Ok(db), Ok(master)) = (database(config), master_key(config)) else { return Ok(()) };
    match check(&db, &master, true).await {
        Ok(Some(wrong)) => {
            anyhow::bail!("{}", wrong.explain(&config.secrets.master_key_file, &config.postgres.url))
        }
        Ok(None) | Err(_) => Ok(()),
    }
}

fn database(config: &Config) -> anyhow::Result<PgPool> {
    db::connect(&config.postgres, &config.postgres.url).context("postgres.url")
}

fn master_key(config: &Config) -> anyhow::Result<MasterKey> {
    Ok(MasterKey::load(&config.secrets.master_key_file)?)
}
