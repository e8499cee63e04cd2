//! Files that only their owner may read.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{self as unix, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Writes a new file with mode 0600. Fails if the file exists: keys are never overwritten.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Replaces a file's content with `text` atomically, keeping its owner and mode.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Behind a symbolic link, the file itself is replaced, not the link.
    let path = path.canonicalize()?;
    let about = fs::metadata(&path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = folder.join(name);
    // Left by an attempt that was interrupted before it replaced anything.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create(&new, text)?;
    let same_owner = fs::metadata(&new).map(|made| (made.uid(), made.gid()) == (about.uid(), about.gid()))?;
    if !same_owner {
        unix::chown(&new, Some(about.uid()), Some(about.gid()))?;
    }
    fs::set_permissions(&new, about.permissions())?;
    fs::rename(&new, &path)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_private_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, "first").unwrap();
        assert_eq!(create(&path, "second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("key"), folder.path().join("link"));
        create(&path, "first").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::write(folder.path().join("key.new"), "of an attempt that was cut off").unwrap();
        replace(&link, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
