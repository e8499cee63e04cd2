//! The journal: the usage records that the ledger keeps in a [`Spool`] on disk, so that they outlive the process.

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
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;
use tokio::time::timeout;
use url::Url;

pub(super) use self::index::JournalIndex;
use crate::{
    limits, metrics,
    spool::{self, Spool},
};

/// The spool of an edge's usage records.
pub(super) type Journal = Spool<Record>;

/// The journal of the edge `edge`, in `folder`. It needs the [`name`] of its database; earlier versions went by where that is,
/// which is `postgres_url`.
pub(super) fn open(folder: PathBuf, edge: &str, postgres_url: &str) -> Journal {
    Spool::new(options(folder, edge, postgres_url))
}

/// The folder of the journal that [`open`] opens, and its bounds.
pub(super) fn options(folder: PathBuf, edge: &str, postgres_url: &str) -> spool::Options {
    spool::Options {
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

/// Names the database whose usage the journal keeps, if that is not done. A journal of one database must not be settled in
/// another, and has to be found again when the same one has moved to another host.
pub(super) async fn name(journal: &Journal, db: &PgPool) -> Result<(), sqlx::Error> {
    if !journal.has_scope() {
        let name = timeout(limits::SPENT_WAIT, database::name(db)).await;
        journal.set_scope(name.unwrap_or(Err(sqlx::Error::PoolTimedOut))?);
    }
    Ok(())
}

/// A step of a completion, or of a journal, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RecordRef<'a> {
    /// A provider is asked for the completion, which can use at most what the row says, and likely what it says of that. Another one
    /// when a second provider is asked; versions that know of none keep to the first.
    Open(&'a UsageRow),
    /// The completion has ended and used what the row says.
    Ended(&'a UsageRow),
    /// The completion has ended and used nothing.
    Released(&'a CompletionId),
    /// The completion, of which this journal says nothing else, has ended and used nothing; the row says what was reserved for it.
    Unused(&'a UsageRow),
    /// The journal of this dead edge is taken over to its end: what was in it is in this one.
    Adopted(&'a str),
}

/// A step of a completion, or of a journal, as it is read back; see [`RecordRef`].
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    Open(UsageRow),
    Ended(UsageRow),
    Released(CompletionId),
    Unused(UsageRow),
    Adopted(String),
}

impl spool::Record for Record {
    type Ref<'a> = RecordRef<'a>;

    const SUFFIX: &'static str = ".usage";
    const KIND: &'static str = "usage";
    const ERRORS: &'static str = "svc_gateway_journal_errors_total";
    const SLOW: &'static str = "svc_gateway_journal_slow_total";
    const FOREIGN: &'static str = "svc_gateway_journals_foreign";

    fn note_damaged(lost: u64) {
        metrics::usage_damaged(lost);
    }
}

/// The completions that the records of a journal, or of a segment of one, tell of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completions(BTreeMap<CompletionId, AbandonedCompletion>);

/// A completion, as far as a journal goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbandonedCompletion {
    /// The usage at the completion's end, or the reservation if its end is not recorded.
    pub(super) row: UsageRow,
    /// Whether its end is recorded.
    pub(super) has_ended: bool,
    /// Whether the completion used nothing.
    pub(super) is_released: bool,
}

impl Completions {
    /// Applies the next record.
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Open(row) => {
                let completion = AbandonedCompletion { row, has_ended: false, is_released: false };
                match self.0.entry(completion.row.id.clone()) {
                    Entry::Vacant(entry) => _ = entry.insert(completion),
                    // Another provider is asked: that one may serve it.
                    Entry::Occupied(mut entry) if !entry.get().has_ended => _ = entry.insert(completion),
                    Entry::Occupied(_) => {}
                }
            }
            Record::Ended(row) => {
                let completion = AbandonedCompletion { row, has_ended: true, is_released: false };
                self.0.insert(completion.row.id.clone(), completion);
            }
            Record::Released(id) => {
                if let Some(completion) = self.0.get_mut(&id) {
                    (completion.has_ended, completion.is_released) = (true, true);
                }
            }
            Record::Unused(row) => {
                let completion = AbandonedCompletion { row, has_ended: true, is_released: true };
                self.0.insert(completion.row.id.clone(), completion);
            }
            Record::Adopted(_) => {}
        }
    }

    /// The completions in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AbandonedCompletion> {
        self.0.values()
    }

    /// The completions in the order of their ids, taken out.
    pub(super) fn into_values(self) -> btree_map::IntoValues<CompletionId, AbandonedCompletion> {
        self.0.into_values()
    }
}

/// The folder of the journal where none is configured: below the state folder that systemd gives a service, or below
/// the temporary folder, for trying svc out.
pub(super) fn default_folder() -> PathBuf {
    let state = std::env::var_os("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    state.map_or_else(|| std::env::temp_dir().join("svc-edge-spool"), |state| state.join("spool"))
}

/// A hash of where the database is, without its password.
fn database_place(postgres_url: &str) -> String {
    let place = Url::parse(postgres_url).map_or_else(
        |_| String::new(),
        |url| format!("{}:{}{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(5432), url.path()),
    );
    URL_SAFE_NO_PAD.encode(&Sha256::digest(place.as_bytes())[..12])
}

#[cfg(test)]
mod tests;
