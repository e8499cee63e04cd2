//! The AI credit of organizations without a subscription, which share one free plan per creator.
//!
//! Postgres hands out parts of the month's credit. An organization's completions are checked against the part that it
//! has drawn, like any other credit. Postgres is queried when a completion does not fit into the part and, while the
//! organization makes requests, once per [`limits::FREE_CREDIT_LIFE`]: unused parts go back.

use std::time::Instant;

use db::gateway::free_credit::{self, DrawnCredit};
use domain::{Account, OrgId, Timestamp, month::Month, usage::Microcents};
use memory::keys::GatewayKey;
use quick_cache::sync::Cache;
use tokio::time::timeout;

use super::{UsageMeter, check::BudgetError};

/// The parts that organizations have drawn, according to the latest query.
pub(super) struct FreeCreditCache(Cache<OrgId, KnownCredit>);

#[derive(Debug, Clone, Copy)]
struct KnownCredit {
    drawn: DrawnCredit,
    month: Month,
    credit: Microcents,
    asked: Instant,
    /// Whether the other organizations have left nothing to draw.
    is_dry: bool,
}

pub(super) fn free_org(key: &GatewayKey) -> Option<&OrgId> {
    match &key.account {
        Account::Org(org) if key.subscribed.is_none() => Some(org),
        _ => None,
    }
}

impl FreeCreditCache {
    pub(super) fn new() -> Self {
        Self(Cache::new(limits::FREE_CREDITS))
    }

    /// Returns the organization's drawn part of `credit` in the month of `now`, if Postgres was queried recently.
    pub(super) fn find(&self, org: &OrgId, credit: Microcents, now: Timestamp) -> Option<DrawnCredit> {
        self.0.get(org).filter(|known| known.matches(credit, now) && known.is_fresh()).map(|known| known.drawn)
    }

    /// Returns the drawn part, however old the query is.
    fn find_stale(&self, org: &OrgId, credit: Microcents, now: Timestamp) -> Option<DrawnCredit> {
        self.0.get(org).filter(|known| known.matches(credit, now)).map(|known| known.drawn)
    }
}

impl KnownCredit {
    fn matches(&self, credit: Microcents, now: Timestamp) -> bool {
        self.credit == credit && self.month == Month::from_timestamp(now)
    }

    fn is_fresh(&self) -> bool {
        self.asked.elapsed() < limits::FREE_CREDIT_LIFE
    }
}

impl UsageMeter {
    /// Returns the part of `credit` that the organization has drawn for the month of `now`. If Postgres is unavailable,
    /// this is the last known part of this month.
    pub(super) async fn drawn_credit(
        &self,
        org: &OrgId,
        credit: Microcents,
        now: Timestamp,
    ) -> Result<DrawnCredit, BudgetError> {
        if let Some(drawn) = self.0.free_credit.find(org, credit, now) {
            return Ok(drawn);
        }
        let drawn = self.draw(org, credit, now, None).await;
        drawn.or_else(|error| self.0.free_credit.find_stale(org, credit, now).ok_or(error))
    }

    /// Draws more credit than the part `before`, for a completion that may cost `cost`. Returns the new part.
    pub(super) async fn draw_more(
        &self,
        org: &OrgId,
        credit: Microcents,
        now: Timestamp,
        before: u64,
        cost: Microcents,
    ) -> Result<DrawnCredit, BudgetError> {
        match self.0.free_credit.0.get(org).filter(|known| known.matches(credit, now) && known.is_fresh()) {
            // Another of its requests has just drawn more, or found that none is left.
            Some(known) if known.drawn.part.0 > before => Ok(known.drawn),
            Some(known) if known.is_dry && known.asked.elapsed() < limits::FREE_CREDIT_DRY => Ok(known.drawn),
            _ => {
                let step = cost.0.max(credit.0 / limits::FREE_CREDIT_STEPS);
                self.draw(org, credit, now, Some((before, Microcents(step)))).await
            }
        }
    }

    async fn draw(
        &self,
        org: &OrgId,
        credit: Microcents,
        now: Timestamp,
        more: Option<(u64, Microcents)>,
    ) -> Result<DrawnCredit, BudgetError> {
        let step = more.map(|(_, step)| step).unwrap_or_default();
        let asked = Instant::now();
        let month = Month::from_timestamp(now);
        let drawn = timeout(limits::SPENT_WAIT, async {
            let _permit = self.0.total_reads.acquire().await.map_err(|_| BudgetError::Totals("the meter has ended"))?;
            Ok::<_, BudgetError>(free_credit::draw(&self.0.db, org, month, credit, step).await?)
        });
        let drawn = drawn.await.map_err(|_| BudgetError::Totals("the read takes too long"))??;
        let is_dry = more.is_some_and(|(before, _)| drawn.part.0 <= before);
        self.0.free_credit.0.insert(org.clone(), KnownCredit { drawn, month, credit, asked, is_dry });
        Ok(drawn)
    }
}
