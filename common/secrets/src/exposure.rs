//! Checks the permissions of key files: only the owner should be able to read one, and nobody else may write it.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// Writable by the group or everybody.
const WRITABLE: u32 = 0o022;
/// Readable by everybody. Group access is how a service reads a file that root owns.
const READABLE: u32 = 0o004;

/// The access of others to a key file, according to its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileExposure {
    /// None, except that its group may read it.
    None,
    /// Everybody on the machine may read it; contains the mode.
    Readable(u32),
    /// Others may write it and thus replace the keys; contains the mode.
    Writable(u32),
}

impl FileExposure {
    /// Checks the mode of a file.
    pub fn for_file(path: &Path) -> io::Result<Self> {
        let mode = fs::metadata(path)?.mode() & 0o7777;
        Ok(match mode {
            _ if mode & WRITABLE != 0 => Self::Writable(mode),
            _ if mode & READABLE != 0 => Self::Readable(mode),
            _ => Self::None,
        })
    }

    /// Describes the problem with the file and its remedy, if there is one.
    pub fn warning(self, path: &Path) -> Option<String> {
        let (mode, who) = match self {
            Self::None => return None,
            Self::Readable(mode) => (mode, "everybody on this machine may read it"),
            Self::Writable(mode) => (mode, "others than its owner may write it"),
        };
        let path = path.display();
        Some(format!("the key file {path} has mode {mode:04o}, so that {who}: `chmod u=rw,g=r,o= {path}`"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_file_is_for_its_owner_and_a_group_that_reads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, wanted) in [
            (0o600, FileExposure::None),
            (0o640, FileExposure::None),
            (0o644, FileExposure::Readable(0o644)),
            (0o660, FileExposure::Writable(0o660)),
            (0o666, FileExposure::Writable(0o666)),
        ] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(FileExposure::for_file(file.path()).unwrap(), wanted, "{mode:o}");
        }
        assert!(FileExposure::Readable(0o644).warning(Path::new("/k")).unwrap().contains("0644"));
    }
}
