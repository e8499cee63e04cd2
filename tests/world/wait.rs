//! Waits for a condition. Nothing else in these tests lets time pass, except the slow servers of [`crate::stubs`].

use std::{panic::Location, time::Duration};

/// The polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `holds` returns true; panics after `within`, which guards against hangs and asserts no speed.
#[track_caller]
pub fn eventually(within: Duration, what: &str, holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    let caller = Location::caller();
    async move {
        assert!(holds_within(within, holds).await, "{caller}: not within {within:?}: {what}");
    }
}

/// Waits until `holds` returns true or `within` has passed. Returns whether it did.
pub async fn holds_within(within: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        while !holds().await {
            #[expect(clippy::disallowed_methods, reason = "the pause between two looks")]
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(within, waiting).await.is_ok()
}
