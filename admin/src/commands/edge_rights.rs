//! `admin grant-edge` and `admin redis-acl`: rights of their own for edges, in Postgres and in Redis.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use config::Config;
use db::edges::roles;
use postgres_protocol::password::scram_sha_256;

/// Makes a role of edges, or grants the one that there is what edges need now.
#[derive(Args)]
pub(crate) struct GrantEdge {
    /// The name of the role.
    role: String,
    /// A file with the password that the role gets, instead of one that is made up and printed.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Prints the rules of the user that edges have in Redis.
#[derive(Args)]
pub(crate) struct RedisAcl {
    /// The name of the user.
    #[arg(long, default_value = "svc-edge")]
    user: String,
    /// A file with the password of the user, of which a hash is printed.
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
}

/// Grants a role what edges need. Prints its password if it was made up, and nothing else.
#[expect(clippy::print_stdout, reason = "the password is this command's result")]
pub(crate) async fn grant(config: &Config, GrantEdge { role, password_file }: &GrantEdge) -> anyhow::Result<()> {
    db::bring_up_to_date(&config.postgres).await.context("the database could not be brought up to date")?;
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let given = password_file.as_deref().map(read_password).transpose()?;
    let mut tx = db.begin().await?;
    let is_new = !roles::exists(&mut tx, role).await?;
    let password = given.clone().unwrap_or_else(|| hex::encode(rand::random::<[u8; 24]>()));
    let verifier = scram_sha_256(password.as_bytes());
    if is_new {
        roles::make(&mut tx, role, &verifier).await?;
    }
    roles::grant(&mut tx, role).await?;
    if !is_new && given.is_some() {
        roles::make(&mut tx, role, &verifier).await?;
    }
    tx.commit().await?;
    if is_new && given.is_none() {
        println!("{password}");
    }
    Ok(())
}

/// Prints the rules of the user that edges have in Redis.
#[expect(clippy::print_stdout, reason = "the rules are this command's result")]
pub(crate) fn print_acl(arguments: &RedisAcl) -> anyhow::Result<()> {
    println!("{}", live::acl::edge_user(&arguments.user, &read_password(&arguments.password_file)?));
    Ok(())
}

fn read_password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("--password-file {}", file.display()))?;
    let password = text.trim_end();
    anyhow::ensure!(!password.is_empty(), "--password-file {}: the file is empty", file.display());
    Ok(password.to_owned())
}
