//! `admin backup`: creates, lists, verifies and prunes backups.

use std::{fmt::Write as _, sync::Arc};

use admin::backups::{Backups, CreatedBackup, ListedBackup, RetentionRule};
use clap::{Args, Subcommand};
use config::Config;
use telemetry::format_count;
use url::Url;

/// Make a backup, or list, verify and prune those there are.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BackupArguments {
    /// The place of the backups, `file:///folder` or `s3://bucket/prefix`; defaults to `backup.url`.
    to: Option<Url>,
    /// Read back the packs that earlier backups have copied, and copy damaged ones again.
    #[arg(long)]
    recheck: bool,
    #[command(subcommand)]
    action: Option<BackupAction>,
}

#[derive(Subcommand)]
enum BackupAction {
    /// List the backups, oldest first.
    List {
        /// The place of the backups; defaults to `backup.url`.
        at: Option<Url>,
        /// The database whose backups are meant, if it is not the configured one.
        #[arg(long, value_name = "DATABASE")]
        of: Option<String>,
    },
    /// Read a backup without restoring it, and list its damaged objects.
    Verify {
        /// The place of the backups; defaults to `backup.url`.
        at: Option<Url>,
        /// The database whose backups are meant, if it is not the configured one.
        #[arg(long, value_name = "DATABASE")]
        of: Option<String>,
        /// The name of the backup; defaults to the newest.
        #[arg(long = "at", value_name = "BACKUP")]
        backup: Option<String>,
    },
    /// Remove old backups, and the packs that no other backup needs. The newest backup stays.
    #[command(group(clap::ArgGroup::new("keep").required(true).multiple(true)))]
    Prune {
        /// The place of the backups; defaults to `backup.url`.
        at: Option<Url>,
        /// The database whose backups are meant, if it is not the configured one.
        #[arg(long, value_name = "DATABASE")]
        of: Option<String>,
        /// Keep backups that are at most this many days old.
        #[arg(long, group = "keep")]
        keep_days: Option<u32>,
        /// Keep this number of newest backups.
        #[arg(long, group = "keep")]
        keep_last: Option<usize>,
    },
}

#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
pub(crate) async fn run(config: Arc<Config>, arguments: BackupArguments) -> anyhow::Result<()> {
    match arguments.action {
        None => {
            let created = Backups::open(config, arguments.to, None)?.create(arguments.recheck).await?;
            println!("{}", described(&created));
            let missing = &created.manifest.missing;
            let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
            anyhow::ensure!(
                missing.is_empty(),
                "the backup is complete but for {} that the store does not have: {}",
                format_count(missing.len(), "pack", "packs"),
                names.join(", ")
            );
        }
        Some(BackupAction::List { at, of }) => {
            let backups = Backups::open(config, at, of)?.list().await?;
            print!("{}", table(&backups));
        }
        Some(BackupAction::Verify { at, of, backup }) => {
            let backups = Backups::open(config, at, of)?;
            let manifest = backups.find(backup.as_deref()).await?;
            let damages = backups.verify(&manifest).await?;
            for damage in &damages {
                println!("{damage}");
            }
            anyhow::ensure!(
                damages.is_empty(),
                "the backup {} is damaged in {}",
                manifest.name,
                format_count(damages.len(), "place", "places")
            );
            let packs = format_count(manifest.packs.len(), "pack", "packs");
            println!("{} is undamaged: {packs}, {} bytes", manifest.name, manifest.bytes());
        }
        Some(BackupAction::Prune { at, of, keep_days, keep_last }) => {
            let keep = RetentionRule { last: keep_last, days: keep_days };
            let pruned = Backups::open(config, at, of)?.prune(keep).await?;
            println!(
                "{} removed, {} kept; {} removed, {} bytes",
                format_count(pruned.removed.len(), "backup", "backups"),
                pruned.kept.len(),
                format_count(pruned.removed_packs, "pack", "packs"),
                pruned.removed_bytes
            );
        }
    }
    Ok(())
}

fn described(created: &CreatedBackup) -> String {
    let CreatedBackup { manifest, copied_packs, copied_bytes } = created;
    format!(
        "{} is complete: {}, {} bytes; copied {}, {copied_bytes} bytes with the dump\n\
         it needs the master key {}; keep a copy of the key file elsewhere for as long as the backup",
        manifest.name,
        format_count(manifest.packs.len(), "pack", "packs"),
        manifest.bytes(),
        format_count(*copied_packs, "pack", "packs"),
        manifest.keys.join(", "),
    )
}

fn table(backups: &[ListedBackup]) -> String {
    if backups.is_empty() {
        return "There is no backup.\n".to_owned();
    }
    let mut text = format!(
        "{:<22} {:>8} {:>16} {:>7}  {:<9} {:<10} keys\n",
        "backup", "packs", "bytes", "schema", "program", "database"
    );
    for ListedBackup { name, manifest } in backups {
        let backup = match manifest {
            Ok(backup) => backup,
            Err(error) => {
                let _ = writeln!(text, "{name:<22} cannot be read: {}", error.root_cause());
                continue;
            }
        };
        let (packs, bytes) = (backup.packs.len(), backup.bytes());
        let keys = backup.keys.join(",");
        let _ = write!(
            text,
            "{name:<22} {packs:>8} {bytes:>16} {:>7}  {:<9} {:<10} {keys}",
            backup.schema, backup.program, backup.database
        );
        if !backup.missing.is_empty() {
            let _ = write!(text, "  ({} missing)", format_count(backup.missing.len(), "pack was", "packs were"));
        }
        text.push('\n');
    }
    text
}
