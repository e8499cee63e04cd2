//! `admin restore`: restores a backup.

use std::sync::Arc;

use admin::backups::{Backups, RestoreOptions};
use clap::Args;
use config::Config;
use url::Url;

/// Restore the database and the packs that it references from a backup.
#[derive(Args)]
pub(crate) struct RestoreArguments {
    /// The place of the backups, `file:///folder` or `s3://bucket/prefix`; defaults to `backup.url`.
    from: Option<Url>,
    /// The name of the backup, as `admin backup list` prints it; defaults to the newest.
    #[arg(long, value_name = "BACKUP")]
    at: Option<String>,
    /// Read back everything that was restored.
    #[arg(long)]
    verify: bool,
    /// Replace the tables of this database; the former ones are kept in a separate schema.
    #[arg(long, value_name = "DATABASE")]
    overwrite: Option<String>,
    /// The database whose backups are meant, if the configured one has tables and a different name (`admin backup list`
    /// prints it).
    #[arg(long, value_name = "DATABASE")]
    of: Option<String>,
}

#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
pub(crate) async fn run(config: Arc<Config>, arguments: RestoreArguments) -> anyhow::Result<()> {
    let backups = Backups::open(config, arguments.from, arguments.of)?;
    let manifest = backups.find(arguments.at.as_deref()).await?;
    let options = RestoreOptions { verify: arguments.verify, overwrite: arguments.overwrite };
    let restored = backups.restore(&manifest, &options).await?;
    println!(
        "{} is restored: {}, of which the store lacked {} ({} bytes)",
        manifest.name,
        telemetry::format_count(manifest.packs.len(), "pack", "packs"),
        restored.copied_packs,
        restored.copied_bytes
    );
    if let Some(aside) = &restored.set_aside {
        println!(
            "the former tables are in the schema {aside}; drop it when nobody needs them: DROP SCHEMA {aside} CASCADE"
        );
    }
    if !restored.missing_roles.is_empty() {
        println!(
            "the server does not have these roles, so that their rights were left out: {}",
            restored.missing_roles.join(", ")
        );
    }
    if restored.is_ruled_elsewhere {
        println!(
            "the store is ruled by the database that this one is a copy of, so that this one moves and deletes no pack; once the former is out \
             of use for good, run `admin store sweep --yes`"
        );
    }
    for (project, deployment) in &restored.missing {
        println!("missing: {deployment} of the site {project}");
    }
    for damage in &restored.damaged {
        println!("damaged: {damage}");
    }
    let (missing, damaged) = (restored.missing.len(), restored.damaged.len());
    anyhow::ensure!(
        missing + damaged == 0,
        "restored, but {missing} sites have no pack and {damaged} objects are damaged"
    );
    if options.verify {
        println!("everything was read back and is undamaged");
    }
    Ok(())
}
