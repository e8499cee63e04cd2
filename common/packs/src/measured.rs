//! Metrics of store operations: duration and reason of failure.

use telemetry::metrics;
use tokio::time::Instant;

use super::{PackStore, StoreError, WriteError};
use domain::DeploymentId;

/// The id of a pack that exists in no store.
const NO_PACK: &str = "dep_00000000000000000000";

/// An error that may come from the store.
pub(crate) trait StoreFailure {
    /// Returns the store's error, if this is one.
    fn as_store_error(&self) -> Option<&StoreError>;
}

impl StoreFailure for StoreError {
    fn as_store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl StoreFailure for WriteError {
    fn as_store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Archive(_) => None,
            Self::Store(error) => Some(error),
        }
    }
}

/// Runs an operation and records its duration and outcome.
pub(crate) async fn measured<T, E: StoreFailure>(
    operation: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let began = Instant::now();
    let outcome = work.await;
    let failure = outcome.as_ref().err().and_then(StoreFailure::as_store_error).and_then(reason);
    metrics::store_operation(operation, began.elapsed(), failure);
    outcome
}

fn reason(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::NotFound => Some("missing"),
        StoreError::Damaged(_) => Some("damaged"),
        StoreError::Config(_)
        | StoreError::Io(_)
        | StoreError::Bucket(_)
        | StoreError::Absent(_)
        | StoreError::Stalled => Some("unavailable"),
        StoreError::Stopping | StoreError::Unconfirmed | StoreError::RuledElsewhere => None,
    }
}

impl PackStore {
    /// Fails unless the store answers a request for a nonexistent pack, which is not counted as a missing one.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let id: DeploymentId = NO_PACK.parse().map_err(|_| StoreError::Config("the probe has no id".to_owned()))?;
        match self.open_unmeasured(&id).await {
            Ok(_) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_answers_though_it_has_no_such_pack() {
        let folder = tempfile::TempDir::new().unwrap();
        let url = url::Url::from_directory_path(folder.path()).unwrap();
        let store = PackStore::open(&config::Store { url, ..config::Store::default() }).unwrap();
        store.ping().await.unwrap();
        folder.close().unwrap();
        assert!(store.ping().await.is_err(), "the folder is gone");
    }

    #[test]
    fn a_pack_that_is_missing_and_a_store_that_is_away_are_told_apart() {
        assert_eq!(reason(&StoreError::NotFound), Some("missing"));
        assert_eq!(reason(&StoreError::Damaged(String::new())), Some("damaged"));
        assert_eq!(reason(&StoreError::Io(std::io::ErrorKind::TimedOut.into())), Some("unavailable"));
        assert_eq!(WriteError::from(StoreError::Stopping).as_store_error().and_then(reason), None);
    }
}
