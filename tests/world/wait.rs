//! Waiting for a condition. Nothing else in these tests lets time pass, but for the servers of [`crate::stubs`] that are
//! slow.

use std::{panic::Location, time::Duration};

/// The pause between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `holds` says so, and panics when it does not within `within`. That bounds a hang; it asserts no speed.
#[track_caller]
pub fn eventually(within: Duration, what: &str, holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    let caller = Location::caller();
    async move {
        assert!(holds_within(within, holds).await, "{caller}: not within {within:?}: {what}");
    }
}

/// Waits until `holds` says so, or for `within`. Returns whether it did.
pub async fn holds_within(within: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        while !holds().await {
            #[expect(clippy::disallowed_methods, reason = "the pause between two looks")]
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(within, waiting).await.is_ok()
}
