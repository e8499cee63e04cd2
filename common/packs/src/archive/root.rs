//! The published part of an archive: all of it, or a folder of the repository in it.

use domain::{
    limits::{REPO_TARBALL_BYTES, UPLOAD_BYTES},
    repo::Directory,
    size,
};

use super::{ArchiveError, OVERHEAD_BYTES, REPO_OVERHEAD_BYTES, REPO_REST_BYTES, REST_BYTES, path::shown};

/// The part of an archive that is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishRoot {
    /// The whole archive.
    Archive,
    /// A folder of a repository whose archive has everything under one folder (`owner-name-sha/`).
    Repository(Directory),
}

impl PublishRoot {
    pub(super) fn tarball_bytes(&self) -> u64 {
        match self {
            Self::Archive => UPLOAD_BYTES,
            Self::Repository(_) => REPO_TARBALL_BYTES,
        }
    }

    pub(super) fn overhead_bytes(&self) -> u64 {
        match self {
            Self::Archive => OVERHEAD_BYTES,
            Self::Repository(_) => REPO_OVERHEAD_BYTES,
        }
    }

    pub(super) fn rest_bytes(&self) -> u64 {
        match self {
            Self::Archive => REST_BYTES,
            Self::Repository(_) => REPO_REST_BYTES,
        }
    }

    /// Returns the error message for exceeding [`Self::rest_bytes`].
    pub(super) fn too_large_message(&self) -> String {
        let limit = size(self.rest_bytes());
        match self {
            Self::Archive => format!("the archive has more than {limit} of files that are not published"),
            Self::Repository(_) => format!("the repository is larger than {limit}"),
        }
    }

    /// Returns the published path of `path`, or `None` if it is not published. `path` must be validated.
    pub(super) fn published<'p>(&self, path: &'p str) -> Result<Option<&'p str>, ArchiveError> {
        let Self::Repository(directory) = self else { return Ok(Some(path)) };
        let Some((_, mut rest)) = path.split_once('/') else {
            let why = format!("{} is outside the one folder that a repository's archive holds", shown(path.as_bytes()));
            return Err(ArchiveError::invalid(why));
        };
        for segment in directory.segments() {
            match rest.strip_prefix(segment).and_then(|rest| rest.strip_prefix('/')) {
                Some(within) => rest = within,
                None => return Ok(None),
            }
        }
        Ok(Some(rest))
    }

    /// Returns the error message for an archive without files to publish.
    pub(super) fn no_files_message(&self) -> String {
        match self {
            Self::Archive => "the archive holds no file".to_owned(),
            Self::Repository(directory) if directory.segments().next().is_none() => {
                "the repository holds no file at this commit".to_owned()
            }
            Self::Repository(directory) => {
                let directory = shown(directory.as_str().as_bytes());
                format!("the repository has no folder {directory} with files in it at this commit")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(directory: &str, path: &str) -> Option<String> {
        PublishRoot::Repository(directory.parse().unwrap()).published(path).unwrap().map(str::to_owned)
    }

    #[test]
    fn the_top_folder_and_the_directory_are_stripped() {
        assert_eq!(published(".", "o-r-1/a/b").as_deref(), Some("a/b"));
        assert_eq!(published("site/public", "o-r-1/site/public/x/y").as_deref(), Some("x/y"));
        for other in ["o-r-1/site/publicity/x", "o-r-1/site/x", "o-r-1/public/x", "o-r-1/site/public", "site/public/x"]
        {
            assert_eq!(published("site/public", other), None, "{other}");
        }
        assert_eq!(PublishRoot::Archive.published("a/b").unwrap(), Some("a/b"));
    }

    #[test]
    fn files_beside_the_top_folder_are_refused() {
        assert!(PublishRoot::Repository(Directory::root()).published("stray").is_err());
    }
}
