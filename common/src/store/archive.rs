//! Reads and judges an uploaded tarball.

/// Why an archive was refused: one sentence for the person who uploaded it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// Over one of the limits on sizes.
    #[error("{0}")]
    TooLarge(String),
    /// Not an archive, or one that holds what may not be stored.
    #[error("{0}")]
    Invalid(String),
}

impl ArchiveError {
    /// Whether it is over a limit on sizes, rather than wrong.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }
}
