//! Usage is counted once, in full and at the full price, however the provider reports it, and though it is more than what was
//! reserved.

use super::{
    provider::Report,
    served::{Received, completions, numbered, without_limits},
    *,
};

/// The completion of this number: each way of reporting, streamed and not, with less reserved than it uses and with more.
fn reported(number: u64) -> Completion {
    let at = |nth: u64, of: u64| usize::try_from(number / nth % of).unwrap();
    let report = Report::ALL[at(2, Report::ALL.len() as u64)];
    let max_tokens = [1, 4_000][at(2 * Report::ALL.len() as u64, 2)];
    Completion { report, ..numbered(number).at_most(max_tokens) }
}

#[tokio::test]
async fn usage_is_counted_once_however_it_is_reported() {
    let metered = Metered::start_with(without_limits).await;
    let mut received = Received::default();
    let ways = 4 * Report::ALL.len() as u64;
    received.extend(metered.serve_all(0, (0..completions(ways)).map(reported)).await);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
    assert_eq!(metered.rows("cost_microcents <> prompt_tokens * 10 + completion_tokens * 40").await, 0);
}
