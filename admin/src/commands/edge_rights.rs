//! `admin grant-edge` and `admin redis-acl`: limited rights for edges, in Postgres and in Redis.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use config::Config;
use db::edges::roles;
use postgres_protocol::password::scram_sha_256;

/// Create a role for edges, or grant an existing role what edges need now.
#[derive(Args)]
pub(crate) struct GrantEdgeArguments {
    /// The name of the role.
    role: String,
    /// A file with the password of the role, instead of a generated one that is printed.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Print the ACL rules of the Redis user for edges.
#[derive(Args)]
pub(crate) struct RedisAclArguments {
    /// The name of the user.
    #[arg(long, default_value = "svc-edge")]
    user: String,
    /// A file with the password of the user, whose hash is printed.
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
}

/// Grants a role what edges need. Prints only the password, and only if it was generated.
#[expect(clippy::print_stdout, reason = "the password is this command's result")]
pub(crate) async fn grant(
    config: &Config,
    GrantEdgeArguments { role, password_file }: &GrantEdgeArguments,
) -> anyhow::Result<()> {
    db::bring_up_to_date(&config.postgres).await.context("the database could not be brought up to date")?;
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let given = password_file.as_deref().map(read_password).transpose()?;
    let mut tx = db.begin().await?;
    let is_new = !roles::exists(&mut tx, role).await?;
    let password = given.clone().unwrap_or_else(|| hex::encode(rand::random::<[u8; 24]>()));
    let verifier = scram_sha_256(password.as_bytes());
    if is_new {
        roles::create(&mut tx, role, &verifier).await?;
    }
    roles::grant(&mut tx, role).await?;
    if !is_new && given.is_some() {
        roles::create(&mut tx, role, &verifier).await?;
    }
    tx.commit().await?;
    if is_new && given.is_none() {
        println!("{password}");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the rules are this command's result")]
pub(crate) fn print_acl(arguments: &RedisAclArguments) -> anyhow::Result<()> {
    println!("{}", live::acl::edge_user(&arguments.user, &read_password(&arguments.password_file)?));
    Ok(())
}

fn read_password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("--password-file {}", file.display()))?;
    let password = text.trim_end();
    anyhow::ensure!(!password.is_empty(), "--password-file {}: the file is empty", file.display());
    Ok(password.to_owned())
}
