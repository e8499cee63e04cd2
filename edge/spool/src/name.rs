//! The name of the database that a spool folder belongs to, in a file beside the segments.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use domain::Timestamp;
use packs::{DatabaseName, NAME_OBJECT};
use serde::{Deserialize, Serialize};

use super::segment::{check_owner, create_folder};

/// Returns the name of the database that `folder` belongs to, or `None` if it has no name yet. Blocks.
pub fn database_name(folder: &Path) -> io::Result<Option<String>> {
    let json = match fs::read(folder.join(NAME_OBJECT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        json => json?,
    };
    let name = DatabaseName::from_json(&json).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(name.map(|name| name.database))
}

/// Sets the database that `folder` belongs to, replacing a former one. Creates the folder if needed. Blocks.
pub fn set_database_name(folder: &Path, name: &DatabaseName) -> io::Result<()> {
    create_folder(folder)?;
    check_owner(folder)?;
    replace(folder, NAME_OBJECT, &name.to_json())
}

/// The file that records take-overs, beside the name.
pub const TAKE_OVERS: &str = "take-overs.json";

#[derive(Debug, Serialize, Deserialize)]
struct TakeOver {
    former: String,
    database: String,
    taken_at: Timestamp,
}

/// Returns when the database took `folder` over from the database `former`, if it did. Blocks.
pub fn taken_over_at(folder: &Path, former: &str, database: &str) -> io::Result<Option<Timestamp>> {
    let is_it = |taken: &TakeOver| taken.former == former && taken.database == database;
    Ok(take_overs(folder)?.into_iter().find(is_it).map(|taken| taken.taken_at))
}

/// Records that the database takes `folder` over from the database `former`. Blocks.
pub fn note_take_over(folder: &Path, former: &str, database: &str, now: Timestamp) -> io::Result<()> {
    let mut all = take_overs(folder)?;
    all.push(TakeOver { former: former.to_owned(), database: database.to_owned(), taken_at: now });
    replace(folder, TAKE_OVERS, &serde_json::to_vec(&all)?)
}

fn take_overs(folder: &Path) -> io::Result<Vec<TakeOver>> {
    match fs::read(folder.join(TAKE_OVERS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        json => Ok(serde_json::from_slice(&json?)?),
    }
}

/// Replaces a file atomically.
fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, folder.join(name))
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
