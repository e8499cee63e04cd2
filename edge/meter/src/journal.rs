//! The journal: the usage records that the ledger keeps in a [`Spool`] on disk so that they outlive the process.

mod index;

use std::{
    collections::{
        BTreeMap,
        btree_map::{self, Entry},
    },
    path::PathBuf,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use db::upkeep::database;
use domain::{CompletionId, usage::UsageRow};
use edge_metrics as metrics;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use spool::Spool;
use sqlx::PgPool;
use tokio::time::timeout;
use url::Url;

pub(super) use self::index::JournalIndex;

pub(super) type UsageJournal = Spool<JournalRecord>;

/// Opens the journal of the edge `edge` in `folder`. It needs the [`set_database_name`] of its database; earlier versions identified
/// the database by its location, `postgres_url`.
pub(super) fn open(folder: PathBuf, edge: &str, postgres_url: &str) -> UsageJournal {
    Spool::new(options(folder, edge, postgres_url))
}

pub(super) fn options(folder: PathBuf, edge: &str, postgres_url: &str) -> spool::SpoolOptions {
    spool::SpoolOptions {
        folder,
        owner: edge.to_owned(),
        former_scope: database_place(postgres_url),
        segment_bytes: limits::JOURNAL_SEGMENT,
        released_bytes: limits::JOURNAL_SEGMENT,
        max_bytes: limits::JOURNAL_BYTES,
        kept_for: limits::JOURNAL_KEPT,
        kept_bytes: limits::JOURNAL_KEPT_BYTES,
    }
}

/// Sets the name of the journal's database, unless it is set. A journal must not be settled in another database, and
/// must be found again when its database moves to another host.
pub(super) async fn set_database_name(journal: &UsageJournal, db: &PgPool) -> Result<(), sqlx::Error> {
    if !journal.has_scope() {
        let name = timeout(limits::SPENT_WAIT, database::name(db)).await;
        journal.set_scope(name.unwrap_or(Err(sqlx::Error::PoolTimedOut))?);
    }
    Ok(())
}

/// A step of a completion or journal, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JournalRecordRef<'a> {
    /// The completion is sent to a provider. The row has the most that it can use, and the likely part of that. If a
    /// second provider gets the request, there is another such record; versions without second providers use the first.
    Open(&'a UsageRow),
    /// The completion has ended and used what the row says.
    Ended(&'a UsageRow),
    /// The completion has ended and used nothing.
    Released(&'a CompletionId),
    /// The completion, of which this is the only record, has ended and used nothing. The row has its reservation.
    Unused(&'a UsageRow),
    /// The journal of this dead edge is fully adopted into this one.
    Adopted(&'a str),
}

/// A step of a completion or journal, as it is read back; see [`JournalRecordRef`].
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JournalRecord {
    Open(UsageRow),
    Ended(UsageRow),
    Released(CompletionId),
    Unused(UsageRow),
    Adopted(String),
}

impl spool::SpoolRecord for JournalRecord {
    type Ref<'a> = JournalRecordRef<'a>;

    const SUFFIX: &'static str = ".usage";
    const KIND: &'static str = "usage";
    const ERRORS: &'static str = "svc_gateway_journal_errors_total";
    const SLOW: &'static str = "svc_gateway_journal_slow_total";
    const FOREIGN: &'static str = "svc_gateway_journals_foreign";

    fn note_damaged(lost: u64) {
        metrics::usage_damaged(lost);
    }
}

/// The completions in the records of a journal or of one of its segments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JournaledCompletions(BTreeMap<CompletionId, AbandonedCompletion>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbandonedCompletion {
    /// The usage at the completion's end, or its reservation if the end is not recorded.
    pub(super) row: UsageRow,
    pub(super) has_ended: bool,
    pub(super) is_released: bool,
}

impl JournaledCompletions {
    pub(super) fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Open(row) => {
                let completion = AbandonedCompletion { row, has_ended: false, is_released: false };
                match self.0.entry(completion.row.id.clone()) {
                    Entry::Vacant(entry) => _ = entry.insert(completion),
                    // Another provider got the request and may serve it.
                    Entry::Occupied(mut entry) if !entry.get().has_ended => _ = entry.insert(completion),
                    Entry::Occupied(_) => {}
                }
            }
            JournalRecord::Ended(row) => {
                let completion = AbandonedCompletion { row, has_ended: true, is_released: false };
                self.0.insert(completion.row.id.clone(), completion);
            }
            JournalRecord::Released(id) => {
                if let Some(completion) = self.0.get_mut(&id) {
                    (completion.has_ended, completion.is_released) = (true, true);
                }
            }
            JournalRecord::Unused(row) => {
                let completion = AbandonedCompletion { row, has_ended: true, is_released: true };
                self.0.insert(completion.row.id.clone(), completion);
            }
            JournalRecord::Adopted(_) => {}
        }
    }

    /// Iterates over the completions in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AbandonedCompletion> {
        self.0.values()
    }

    /// Returns the completions in the order of their ids.
    pub(super) fn into_values(self) -> btree_map::IntoValues<CompletionId, AbandonedCompletion> {
        self.0.into_values()
    }
}

/// Returns the default folder of the journal: below the state folder that systemd gives a service, or below the
/// temporary folder for trying svc out.
pub(super) fn default_folder() -> PathBuf {
    let state = std::env::var_os("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    state.map_or_else(|| std::env::temp_dir().join("svc-edge-spool"), |state| state.join("spool"))
}

/// Hashes the database's location, without the password.
fn database_place(postgres_url: &str) -> String {
    let place = Url::parse(postgres_url).map_or_else(
        |_| String::new(),
        |url| format!("{}:{}{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(5432), url.path()),
    );
    URL_SAFE_NO_PAD.encode(&Sha256::digest(place.as_bytes())[..12])
}

#[cfg(test)]
mod tests;
