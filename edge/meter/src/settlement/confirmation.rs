//! Confirms to Redis what Postgres has.

use std::collections::BTreeMap;

use domain::{
    Account, CompletionId,
    usage::{DayUsage, UsageRow},
};
use futures_util::future::join_all;
use time::Date;

use super::MeterTasks;

/// Completions of one account and day that Postgres has but that are not confirmed to Redis.
pub(super) struct UnconfirmedBatch {
    /// The account's totals in Postgres, including these completions.
    pub(super) totals: DayUsage,
    pub(super) ids: Vec<CompletionId>,
}

impl MeterTasks {
    /// Confirms written completions to Redis. Those that cannot be confirmed now stay in `unconfirmed`.
    pub(super) async fn confirm_all(&self, unconfirmed: &mut Vec<UnconfirmedBatch>) {
        for chunk in std::mem::take(unconfirmed).chunks_mut(limits::REDIS_BATCH) {
            let confirmed = join_all(chunk.iter().map(async |batch| {
                if self.ledger.is_any_report_pending(&batch.ids) {
                    return false;
                }
                let ids: Vec<&CompletionId> = batch.ids.iter().collect();
                let confirmed = self.redis.confirm(&batch.totals, &ids).await;
                if let Err(error) = &confirmed {
                    tracing::debug!(%error, "usage cannot be confirmed to Redis");
                }
                confirmed.is_ok()
            }))
            .await;
            for (batch, is_confirmed) in chunk.iter_mut().zip(confirmed) {
                let batch = UnconfirmedBatch { totals: batch.totals.clone(), ids: std::mem::take(&mut batch.ids) };
                if is_confirmed { self.ledger.remove(&batch.ids) } else { unconfirmed.push(batch) }
            }
        }
    }
}

/// Groups the written completions by account and day, with the new totals.
pub(super) fn group_by_totals(totals: Vec<DayUsage>, rows: &[UsageRow]) -> Vec<UnconfirmedBatch> {
    let mut ids: BTreeMap<(Account, Date), Vec<CompletionId>> = BTreeMap::new();
    for row in rows {
        ids.entry((row.account.clone(), row.day())).or_default().push(row.id.clone());
    }
    let with_ids = |totals: DayUsage| {
        let ids = ids.remove(&(totals.account.clone(), totals.day)).unwrap_or_default();
        UnconfirmedBatch { totals, ids }
    };
    totals.into_iter().map(with_ids).collect()
}
