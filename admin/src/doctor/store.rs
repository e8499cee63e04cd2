//! Checks the store: which database it belongs to, whether it is writable, and known faults of its packs. It writes
//! only one object, which it deletes again, and only in a store with which admin would start.

use acts::trash::SweepStopReason;
use config::Config;
use db::upkeep::{identity::is_unmigrated, pack_faults, store_sweep};
use diagnosis::{CheckOutcome, fail, warn};
use identity::{StoreFinding, examine_store};
use packs::{PackStore, StoreError};
use sqlx::PgPool;

/// Checks which database the store belongs to, as admin does at startup, then writes and deletes an object.
pub(super) async fn store(config: Config, db: PgPool) -> CheckOutcome {
    let url = config.store.url.clone();
    let store = match PackStore::open_existing(&config.store) {
        Ok(store) => store,
        Err(error) => return fail(error.to_string(), "set [store] right"),
    };
    let finding = examine_store(&config, &db, &store).await;
    match &finding {
        StoreFinding::Refused(refusal) => return fail(refusal.to_string(), "admin does not start until then"),
        StoreFinding::Unknown(_) | StoreFinding::ToBeNamed => match store.ping().await {
            Ok(()) => {}
            Err(StoreError::Absent(_)) if !store.is_remote() => {
                let said = format!("the folder of {url} does not exist");
                return match finding {
                    StoreFinding::ToBeNamed => warn(said, "admin makes it at its start, if it may"),
                    _ => fail(said, "set store.url right, or mount what belongs there"),
                };
            }
            Err(error) => {
                return fail(
                    format!("{url} does not answer: {error}"),
                    "does [store] lead to a bucket that exists, or a folder, and do its keys let admin in?",
                );
            }
        },
        StoreFinding::Ours | StoreFinding::RuledElsewhere => {}
    }
    if let Err(error) = store.probe_write().await {
        return fail(
            format!("{url}: nothing can be written and deleted: {error}"),
            "give admin's key, or its user, the right to write and to delete there, and look whether the disk is full",
        );
    }
    match finding {
        StoreFinding::Ours => Ok(format!("{url} is this database's; an object was written and deleted")),
        StoreFinding::RuledElsewhere => warn(
            format!("{url} is ruled by another copy of this database, so that this one moves and deletes no pack"),
            "is this database made from a dump of the one in use? Then give it a store of its own. If the other one is out of use for good: \
             `admin store sweep --yes`",
        ),
        StoreFinding::ToBeNamed => warn(
            format!("{url} has no name; an object was written and deleted"),
            "admin gives it one at its start; if admin runs, is store.url the same there?",
        ),
        StoreFinding::Unknown(why) => {
            warn(format!("{url}: an object was written and deleted"), format!("whose it is is not known: {why}"))
        }
        StoreFinding::Refused(refusal) => fail(refusal.to_string(), "admin does not start until then"),
    }
}

pub(super) async fn packs(db: PgPool) -> CheckOutcome {
    match pack_faults::count_packs(&db).await {
        Ok(0) => Ok("none is known to be lost or damaged".to_owned()),
        Ok(count) => fail(
            format!("{count} are lost or damaged in the store"),
            "`admin store check` names them, and deploy/runbook/packs-missing.md says what to do",
        ),
        Err(error) if is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(error.to_string(), "see `postgres`"),
    }
}

pub(super) async fn sweep(db: PgPool) -> CheckOutcome {
    match store_sweep::state(&db).await.map(|state| state.stopped_for) {
        Ok(None) => Ok("the sweep of the store runs".to_owned()),
        Ok(Some(word)) => {
            let why = SweepStopReason::parse(&word).map_or(word, |reason| reason.sentence().to_owned());
            warn(format!("the sweep of the store has stopped: {why}"), "see deploy/runbook/sweep-stopped.md")
        }
        Err(error) if is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(error.to_string(), "see `postgres`"),
    }
}
