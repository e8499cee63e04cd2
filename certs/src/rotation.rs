//! Rotates the master key while the programs run.
//!
//! The new key is added to the key file in front of the old one. Running programs load it within [`RELOAD_EVERY`]; from
//! then on they seal with it and open with both. Then every sealed row is sealed again. A program that has not loaded
//! the new key yet may add a row under the old one in the meantime, so the search is repeated until it finds nothing
//! after all programs must have loaded it. The old key stays in the file until [`finish`].
//!
//! Everything may be interrupted at any point and run again: a row is sealed with one key or the other, and says which.

use std::{fmt, fs, io, path::Path, time::Duration};

use db::upkeep::sealed::Column;
use secrets::{
    EdgeKey, MasterKey,
    master_key::{KeyError, KeyFile, MasterKeyBytes, RELOAD_EVERY},
};
use sqlx::PgPool;

use crate::private_file;

const BATCH: i64 = 200;
/// The longest time that a program may take from sealing a value to committing it.
const COMMITTED_WITHIN: Duration = Duration::from_secs(3);
/// The limit of searches for values under the old key. More are needed only if a program continues to seal with it.
const SEARCHES: usize = 5;

/// The files of a rotation.
#[derive(Debug, Clone, Copy)]
pub struct KeyFiles<'a> {
    /// The master key's file.
    pub master: &'a Path,
    /// The key file of the edges on this machine, if they have one. It is written right after the master key's: edges
    /// must know a key before anything is sealed with it.
    pub edge: Option<&'a Path>,
}

/// The reason a rotation stopped. Every stored value stays readable.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key file or its folder cannot be written.
    #[error("cannot replace the key file {path}: {source}")]
    Write {
        /// The path of the file.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
    /// The file for an edge's keys contains something else.
    #[error("{0} holds something else than an edge's keys; it is not replaced")]
    NotAnEdges(String),
    /// Another rotation is running; two at the same time would lose a key.
    #[error("another `certs rotate-key` is at work on this key file; wait for it to end")]
    Busy,
    /// The key file already contains a prepared key; the next step is the rotation.
    #[error("the key file already holds a prepared key: run `certs rotate-key` to go on")]
    Prepared,
    /// Some values open with no known key; they were unreadable before.
    #[error("{} of the sealed values open with no key of the file, {} first; the old keys are kept", .0.len(), .0[0])]
    OpenError(Vec<String>),
    /// Values were still being sealed with the old key after the last search.
    #[error(
        "values are still being sealed with the old key: does every program read this key file? Copy it to all \
         machines and run `certs rotate-key` again"
    )]
    StillOld,
    /// Values sealed with an old key remain.
    #[error("some values are still sealed with an old key; run `certs rotate-key` first")]
    Unfinished,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// The outcome of [`prepare`]: the key file contains a new key that opens but does not seal.
#[derive(Debug)]
pub struct PreparedKey(MasterKeyBytes);

impl fmt::Display for PreparedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "prepared key {}; copy the key file to every machine that runs admin, and that of `certs edge-key`, made anew, to every \
             edge; then run `certs rotate-key`",
            self.0.id()
        )
    }
}

/// The outcome of [`rotate`]: everything is sealed with the new key.
#[derive(Debug)]
pub struct RotatedKey {
    key: MasterKeyBytes,
    resealed: Vec<(Column, u64)>,
}

impl fmt::Display for RotatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (column, values) in &self.resealed {
            writeln!(f, "{}: {values} sealed anew", column.name())?;
        }
        write!(
            f,
            "everything is sealed with key {}; keep a copy of the key file as it is now for as long as backups from before: they \
             need the old key, which `certs rotate-key --finish` forgets. From the next start of an edge after that, visitors of \
             protected sites give their password again",
            self.key.id()
        )
    }
}

/// The outcome of [`finish`]: the old keys were removed from the file.
#[derive(Debug)]
pub struct FinishedRotation {
    key: MasterKeyBytes,
    forgotten: usize,
}

impl fmt::Display for FinishedRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.forgotten {
            0 => write!(f, "key {} is the only one already", self.key.id()),
            _ => write!(
                f,
                "key {} is the only one now; keep a copy of the key file, and keep copies of the former ones for as long as you keep backups of \
                 the database from before: those open with no other key",
                self.key.id()
            ),
        }
    }
}

/// Adds a key that opens but does not seal yet.
pub fn prepare(files: &KeyFiles<'_>) -> Result<PreparedKey, RotationError> {
    let _lock = lock(files.master)?;
    let mut file = read(files.master)?;
    if file.next.is_some() {
        return Err(RotationError::Prepared);
    }
    let key = MasterKeyBytes::generate();
    file.next = Some(key.clone());
    write(files, &file)?;
    Ok(PreparedKey(key))
}

/// Makes the prepared key (or, without one, a new key) the one that seals, and seals everything again. If the file
/// already contains more than one key, it resumes an interrupted rotation.
pub async fn rotate(db: &PgPool, files: &KeyFiles<'_>) -> Result<RotatedKey, RotationError> {
    let _lock = lock(files.master)?;
    let mut file = read(files.master)?;
    let fresh = match file.next.take() {
        Some(prepared) => Some(prepared),
        None if file.keys.len() == 1 => Some(MasterKeyBytes::generate()),
        None => None,
    };
    if let Some(key) = fresh {
        file.keys.insert(0, key);
    }
    // Also when resuming after an interruption between the two files: edges need the key before it seals anything.
    write(files, &file)?;
    let master = MasterKey::load(files.master)?;
    let mut resealed: Vec<(Column, u64)> = Column::ALL.iter().map(|column| (*column, 0)).collect();
    for search in 0..SEARCHES {
        let mut found = 0;
        let mut unopenable = Vec::new();
        for (column, values) in &mut resealed {
            let anew = reseal(db, &master, *column, &mut unopenable).await?;
            *values += anew;
            found += anew;
        }
        if !unopenable.is_empty() {
            return Err(RotationError::OpenError(unopenable));
        }
        // Not after the first search: see below.
        if found == 0 && search > 0 {
            return Ok(RotatedKey { key: file.keys.swap_remove(0), resealed });
        }
        // Values sealed with the old key by programs that had not loaded the new one are committed after this.
        tokio::time::sleep(RELOAD_EVERY + COMMITTED_WITHIN).await;
    }
    Err(RotationError::StillOld)
}

/// Removes keys from the key file that nothing is sealed with.
pub async fn finish(db: &PgPool, files: &KeyFiles<'_>) -> Result<FinishedRotation, RotationError> {
    let _lock = lock(files.master)?;
    let mut file = read(files.master)?;
    if file.next.is_some() || !is_all_current(db, &MasterKey::load(files.master)?).await? {
        return Err(RotationError::Unfinished);
    }
    let old = file.keys.split_off(1);
    if !old.is_empty() {
        write(files, &file)?;
    }
    Ok(FinishedRotation { key: file.keys.swap_remove(0), forgotten: old.len() })
}

/// Seals a column's values again and returns their number. Rows that no key opens are added to `unopenable`.
async fn reseal(
    db: &PgPool,
    master: &MasterKey,
    column: Column,
    unopenable: &mut Vec<String>,
) -> Result<u64, sqlx::Error> {
    let (mut values, mut after) = (0, String::new());
    loop {
        let rows = column.stale(db, &master.tag(), &after, BATCH).await?;
        let Some(last) = rows.last() else { return Ok(values) };
        after.clone_from(&last.row);
        for row in rows {
            let identity = column.identity(&row.row);
            match master.open(column.purpose(), &identity, &row.sealed) {
                Ok(plain) => {
                    let sealed = master.seal(column.purpose(), &identity, &plain);
                    // If another process replaced the value first, the next search finds it if needed.
                    values += u64::from(column.replace(db, &row, &sealed).await?);
                }
                Err(_) => unopenable.push(format!("{} of {}", column.name(), row.row)),
            }
        }
    }
}

async fn is_all_current(db: &PgPool, master: &MasterKey) -> Result<bool, sqlx::Error> {
    for column in Column::ALL {
        if !column.stale(db, &master.tag(), "", 1).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read(path: &Path) -> Result<KeyFile, RotationError> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|cause| KeyError::Read { path: shown.clone(), cause })?;
    KeyFile::parse(&text).ok_or(RotationError::Key(KeyError::Form(shown)))
}

fn write(files: &KeyFiles<'_>, file: &KeyFile) -> Result<(), RotationError> {
    replace(files.master, &file.to_text())?;
    files.edge.map_or(Ok(()), |edge| replace_edge_key(edge, file))
}

fn replace(path: &Path, text: &str) -> Result<(), RotationError> {
    private_file::replace(path, text)
        .map_err(|source| RotationError::Write { path: path.display().to_string(), source })
}

/// Writes the part of the master key file that edges need to a separate file, and returns the ids of the keys.
pub fn write_edge_key(master: &Path, edge: &Path) -> Result<Vec<String>, RotationError> {
    let file = read(master)?;
    if edge.exists() {
        replace_edge_key(edge, &file)?;
    } else {
        let failed = |source| RotationError::Write { path: edge.display().to_string(), source };
        private_file::create(edge, &file.to_edge_text()).map_err(failed)?;
    }
    Ok(file.keys.iter().chain(&file.next).map(MasterKeyBytes::id).collect())
}

/// Replaces a file of an edge's keys, and no other: it might be the only copy of the master key.
fn replace_edge_key(edge: &Path, file: &KeyFile) -> Result<(), RotationError> {
    if EdgeKey::load(edge)?.holds_master_key() {
        return Err(RotationError::NotAnEdges(edge.display().to_string()));
    }
    replace(edge, &file.to_edge_text())
}

/// Locks the key file's folder until the returned file is dropped; the key file itself is replaced.
fn lock(path: &Path) -> Result<fs::File, RotationError> {
    let failed = |source| RotationError::Write { path: path.display().to_string(), source };
    let path = path.canonicalize().map_err(failed)?;
    let folder = fs::File::open(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(fs::TryLockError::WouldBlock) => Err(RotationError::Busy),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}
