//! Checks that this edge's store, Redis, key file (crate `identity`) and spool belong to its database.

use std::{path::Path, sync::Arc};

use config::{Config, without_password};
use domain::{Clock, Timestamp};
use identity::{IdentityError, IdentityWatch, PartCheck, ProgramKeys};
use live::Redis;
use packs::{DatabaseName, PackStore};
use secrets::EdgeKey;
use sqlx::PgPool;
use telemetry::metrics::MetricsExporter;

/// Checks every part before the edge starts, or takes the sockets of another.
///
/// Fails if a part belongs to another database. Unreachable parts are checked later, by [`watch`]. May wait for admin
/// to name the store; meanwhile `exporter` reports that this program is alive.
pub fn check_before_start(
    config: &Config,
    key: EdgeKey,
    clock: Clock,
    exporter: Option<&MetricsExporter>,
) -> anyhow::Result<()> {
    // Uses its own connections: a connection belongs to the runtime that created it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(async {
        let mut watch =
            IdentityWatch::open(config, ProgramKeys::Edge(key))?.with_part(SPOOL, spool_check(config, clock));
        let answering = async {
            match exporter {
                Some(exporter) => exporter.run_at_start().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            checked = watch.start() => checked,
            () = answering => Ok(()),
        }
    });
    // Does not wait for a read of a hung disk.
    runtime.shutdown_background();
    Ok(checked?)
}

/// Checks every part periodically. Returns once one belongs to another database; such a Redis is only no longer used.
pub fn watch(
    config: &Config,
    parts: (PgPool, Redis, PackStore),
    key: EdgeKey,
    clock: Clock,
) -> impl Future<Output = IdentityError> + Send + 'static {
    let watch = IdentityWatch::new(config, parts, ProgramKeys::Edge(key), clock.clone());
    watch.with_part(SPOOL, spool_check(config, clock)).run()
}

const SPOOL: &str = "spool";

/// Compares the name in the spool's folder with the database's, and writes it if there is none.
fn spool_check(config: &Config, clock: Clock) -> PartCheck {
    let (folder, take_over_from) = (meter::spool_folder(config), config.edge.spool_take_over_from.clone());
    let postgres = without_password(&config.postgres.url);
    Arc::new(move |database| {
        let former = match spool::database_name(&folder) {
            Ok(Some(name)) if name == database => return Ok(()),
            Ok(former) => former,
            // The spool itself reports this on its first write.
            Err(error) => {
                tracing::debug!(%error, "the spool's name cannot be read");
                return Ok(());
            }
        };
        if let Some(former) = &former
            && take_over_from.as_ref() != Some(former)
        {
            return Err(foreign(&folder, former, database, &postgres));
        }
        if let Some(former) = &former {
            let noted = match spool::taken_over_at(&folder, former, database) {
                Ok(Some(at)) => return Err(used_up(&folder, former, database, at)),
                Ok(None) => spool::note_take_over(&folder, former, database, clock.now()),
                Err(error) => Err(error),
            };
            if let Err(error) = noted {
                return Err(IdentityError::new(format!(
                    "the spool {} (edge.spool) is not taken over, because that cannot be noted in it: {error}",
                    folder.display()
                )));
            }
        }
        match spool::set_database_name(&folder, &DatabaseName::new(database.to_owned(), clock.now())) {
            Ok(()) => {
                if let Some(former) = former {
                    tracing::warn!(
                        former,
                        "this database has taken the spool over (edge.spool_take_over_from, which can be removed now)"
                    );
                }
            }
            Err(error) => tracing::debug!(%error, "the spool cannot be given the name of its database"),
        }
        Ok(())
    })
}

fn foreign(folder: &Path, owner: &str, database: &str, postgres: &str) -> IdentityError {
    IdentityError::new(format!(
        "the spool {} (edge.spool) belongs to the database {owner}, not to the database {database} (postgres.url, {postgres}): set \
         edge.spool or postgres.url right, or, to take the spool over, set edge.spool_take_over_from = \"{owner}\"",
        folder.display(),
    ))
}

fn used_up(folder: &Path, former: &str, database: &str, at: Timestamp) -> IdentityError {
    IdentityError::new(format!(
        "the spool {0} (edge.spool) belongs to the database {former} again, not to {database}: edge.spool_take_over_from = \"{former}\" was \
         followed at {at}, and is followed once. Set edge.spool or postgres.url right, or, to take the spool over once more, remove the \
         file {0}/{1}",
        folder.display(),
        spool::TAKE_OVERS,
    ))
}
