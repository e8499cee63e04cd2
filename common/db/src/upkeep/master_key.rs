//! Checks that a master key belongs to this database, by opening its check value or a sample of other sealed values.

use std::path::Path;

use config::without_password;
use secrets::{
    EdgeKey, KeyPurpose, MasterKey,
    master_key::{MasterKeyBytes, TAG_LEN},
};
use sqlx::PgPool;

use super::{
    identity::{self, CHECK},
    sealed::{Column, SealedRow},
};

/// The sealed text, whose content does not matter.
const TEXT: &[u8] = b"svc";
/// The maximum number of sealed values per column that are tried when the check value is missing or does not open.
const SAMPLE: i64 = 20;

/// The master key does not open the database's sealed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it holds {}, and the database's values are sealed with {sealed_by}", .ids.join(", "))]
pub struct WrongKeyError {
    /// The ids of the keys in the key file.
    ids: Vec<String>,
    /// The id of the key that the database's values are sealed with.
    sealed_by: String,
}

impl WrongKeyError {
    /// Explains what is wrong with the key file `file` for the database at `url`, and how to fix it.
    pub fn explain(&self, file: &Path, url: &str) -> String {
        format!(
            "the master key file {} (secrets.master_key_file) is not that of the database {} (postgres.url): {self}; put that key's \
             file in its place, or add the key to the file as another line",
            file.display(),
            without_password(url),
        )
    }

    /// Explains what is wrong with `file`, an edge's keys, for the database at `url`, and how to fix it.
    pub fn explain_edge(&self, file: &Path, url: &str) -> String {
        format!(
            "the file of this edge's keys {} (secrets.edge_key_file) is not of the master key of the database {} (postgres.url): {self}; \
             make it anew with `certs edge-key`, where admin runs, and put it in its place",
            file.display(),
            without_password(url),
        )
    }
}

/// Checks that `master` is the key of this database. With `may_write`, writes the check value if there is none.
///
/// If the check value is missing, as in a database of an older version, other sealed values are tried. They are also
/// tried when it does not open, because `certs rotate-key` of such a version does not reseal it.
pub async fn check(db: &PgPool, master: &MasterKey, may_write: bool) -> Result<Option<WrongKeyError>, sqlx::Error> {
    let sealed = match identity::sealed_check(db).await? {
        Some(sealed) if opens(master, &sealed) => return Ok(None),
        sealed => sealed,
    };
    let sample = OpenedSample::take(db, CheckedKey::Master(master)).await?;
    let ids = || master.keys().iter().map(MasterKeyBytes::id).collect::<Vec<_>>();
    let anew = master.seal(KeyPurpose::MasterKeyCheck, CHECK.as_bytes(), TEXT);
    let Some(sealed) = sealed else {
        // A few values may have been sealed with a wrong key before there was a check.
        if sample.closed > sample.opened {
            return Ok(Some(wrong(&ids(), &sample.first_closed)));
        }
        if !may_write {
            return Ok(None);
        }
        identity::write_check(db, &anew).await?;
        // Another program may have been first, with another key.
        let written = identity::sealed_check(db).await?.unwrap_or(anew);
        return Ok((!opens(master, &written)).then(|| wrong(&ids(), &written)));
    };
    if sample.closed > 0 || sample.opened == 0 {
        return Ok(Some(wrong(&ids(), &sealed)));
    }
    if may_write {
        let row = SealedRow { row: CHECK.to_owned(), sealed };
        Column::MasterKeyChecks.replace(db, &row, &anew).await?;
    }
    Ok(None)
}

/// Checks an edge's keys like [`check`]: they open the check value and the keys of certificates. Writes nothing.
pub async fn check_edge(db: &PgPool, key: &EdgeKey) -> Result<Option<WrongKeyError>, sqlx::Error> {
    let sealed = identity::sealed_check(db).await?;
    if sealed.as_ref().is_some_and(|sealed| key.open_check(CHECK.as_bytes(), sealed).is_ok()) {
        return Ok(None);
    }
    let sample = OpenedSample::take(db, CheckedKey::Edge(key)).await?;
    Ok(match sealed {
        Some(sealed) => (sample.closed > 0 || sample.opened == 0).then(|| wrong(&key.ids(), &sealed)),
        None => (sample.closed > sample.opened).then(|| wrong(&key.ids(), &sample.first_closed)),
    })
}

fn opens(master: &MasterKey, sealed: &[u8]) -> bool {
    master.open(KeyPurpose::MasterKeyCheck, CHECK.as_bytes(), sealed).is_ok()
}

fn wrong(ids: &[String], sealed: &[u8]) -> WrongKeyError {
    let ids = ids.iter().map(|id| format!("key {id}")).collect();
    let sealed_by =
        sealed.get(1..TAG_LEN).map_or_else(|| "another key".to_owned(), |id| format!("key {}", hex::encode(id)));
    WrongKeyError { ids, sealed_by }
}

#[derive(Clone, Copy)]
enum CheckedKey<'a> {
    Master(&'a MasterKey),
    Edge(&'a EdgeKey),
}

impl CheckedKey<'_> {
    /// Returns whether the key opens values of the column, other than the check value.
    fn is_for(self, column: Column) -> bool {
        match self {
            Self::Master(_) => column != Column::MasterKeyChecks,
            Self::Edge(_) => column == Column::Certificates,
        }
    }

    fn opens(self, column: Column, row: &SealedRow) -> bool {
        let identity = column.identity(&row.row);
        match self {
            Self::Master(master) => master.open(column.purpose(), &identity, &row.sealed).is_ok(),
            Self::Edge(key) => key.open_certificate_key(&identity, &row.sealed).is_ok(),
        }
    }
}

/// The outcome of opening some of the sealed values.
#[derive(Default)]
struct OpenedSample {
    opened: usize,
    closed: usize,
    first_closed: Vec<u8>,
}

impl OpenedSample {
    async fn take(db: &PgPool, key: CheckedKey<'_>) -> Result<Self, sqlx::Error> {
        let mut sample = Self::default();
        for &column in Column::ALL {
            if !key.is_for(column) {
                continue;
            }
            // A tag that is not in use, so that rows of every key are read.
            for row in column.stale(db, &[0; TAG_LEN], "", SAMPLE).await? {
                if key.opens(column, &row) {
                    sample.opened += 1;
                } else {
                    if sample.closed == 0 {
                        sample.first_closed = row.sealed;
                    }
                    sample.closed += 1;
                }
            }
        }
        Ok(sample)
    }
}
