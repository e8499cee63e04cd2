//! Memberships of organizations, which the gates of their sites check at every request.

use std::sync::Arc;

use async_trait::async_trait;
use db::sign_in::gate_tickets::SiteTicket;
use domain::{OrgId, UserId};
use fairness::Client;
use limits::MemoryShares;

use super::{
    CacheReadError, ChangeMarks, PostgresSource, RouteSource,
    recall::{ReadThroughCache, ReadThroughLimits, SourceRead},
};

/// A person's membership of an organization, as far as gates need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrgMembership {
    /// The number of times that the person has signed out everywhere: an older cookie is rejected.
    pub gate_version: i64,
}

/// Looks up members of organizations, and tickets issued by the console.
#[async_trait]
pub trait MemberLookup: Send + Sync {
    /// Returns the user's membership of the org, if any, for a visit of `asker`.
    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        asker: Client,
    ) -> Result<Option<OrgMembership>, CacheReadError>;
    /// Removes and returns a ticket: only the first caller gets it.
    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<SiteTicket>, CacheReadError>;
}

/// A read-through cache of the members of organizations over `source`.
pub struct MembershipCache<S = PostgresSource> {
    recall: ReadThroughCache<(OrgId, UserId), OrgMembership>,
    marks: Arc<ChangeMarks>,
    source: S,
}

impl<S: RouteSource> MembershipCache<S> {
    /// Creates an empty cache over `source` with the capacity in `shares`. Changes that reach `marks` invalidate it.
    pub fn new(marks: Arc<ChangeMarks>, source: S, shares: &MemoryShares) -> Self {
        let bounds = ReadThroughLimits {
            present: shares.members,
            usual: limits::MEMBERSHIP_BYTES,
            absent: shares.absences(),
            present_life: None,
            absent_life: None,
            can_lapse: true,
            flights: limits::FLIGHTS,
            askers_per_client: limits::ASKERS_PER_CLIENT,
            reads: limits::ROUTE_READS,
            reads_per_client: limits::ROUTE_READS_PER_CLIENT,
            wait: limits::ROUTE_WAIT,
            tries: limits::READ_TRIES,
            back_off: limits::READ_BACK_OFF,
            failures: limits::FAILURES,
        };
        Self { recall: ReadThroughCache::new(marks.clone(), bounds), marks, source }
    }
}

#[async_trait]
impl<S: RouteSource> MemberLookup for MembershipCache<S> {
    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        asker: Client,
    ) -> Result<Option<OrgMembership>, CacheReadError> {
        let key = (org.clone(), user.clone());
        let read = |is_retry| async move {
            let read = self.source.membership(org, user, is_retry).await?;
            let reading = self.marks.reading(&read.extent, [org.as_str(), user.as_str(), user.as_str()]);
            let key = (org.clone(), user.clone());
            Ok(SourceRead { key, value: read.value, reading, bytes: limits::MEMBERSHIP_BYTES })
        };
        self.recall.find(&key, asker, read).await
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<SiteTicket>, CacheReadError> {
        let taken = tokio::time::timeout(limits::TICKET_WAIT, self.source.take_ticket(secret_hash)).await;
        taken.unwrap_or_else(|_| Err(CacheReadError::Unreadable("timed out".into())))
    }
}
