//! The name of the database that a folder of spools belongs to, in a file beside the segments.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use packs::{DatabaseName, NAME_OBJECT};

use super::segment::{check_owner, create_folder};

/// Returns the name of the database that `folder` belongs to; `None` while it has none. Blocks.
pub fn database_name(folder: &Path) -> io::Result<Option<String>> {
    let json = match fs::read(folder.join(NAME_OBJECT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        json => json?,
    };
    let name = DatabaseName::from_json(&json).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(name.map(|name| name.database))
}

/// Gives `folder` the name of its database, in the place of a former one. The folder is created if there is none. Blocks.
pub fn set_database_name(folder: &Path, name: &DatabaseName) -> io::Result<()> {
    create_folder(folder)?;
    check_owner(folder)?;
    let new = folder.join(format!(".{NAME_OBJECT}.{}", std::process::id()));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(&name.to_json())?;
        file.sync_all()?;
        fs::rename(&new, folder.join(NAME_OBJECT))
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
