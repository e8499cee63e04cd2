//! Clients that leave in the middle of their completions, as many as there are.

use super::{
    served::{Received, completions, numbered, without_limits},
    *,
};

/// Completions of one account that are read to their end concurrently without their clients.
const ACCOUNT_DRAINS: usize = 32;

#[tokio::test]
async fn what_clients_that_left_had_asked_for_is_counted_by_what_the_provider_reports() {
    let metered = Metered::start_with(without_limits).await;
    let numbers: Vec<u64> = (0..completions(8)).collect();
    let mut left = 0;
    for numbers in numbers.chunks(ACCOUNT_DRAINS) {
        let takes = Duration::from_millis(500);
        let wanted = numbers.iter().map(|&number| Completion { takes, ..numbered(number) });
        metered.hold(0, wanted).await.leave().await;
        left += i64::try_from(numbers.len()).unwrap();
        metered.rows_become(left, "true").await;
    }
    let figures = metered.assert_ledger(&Received::default(), 0).await;
    assert_eq!(figures.estimated, 0);
}
