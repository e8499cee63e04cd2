//! Who belongs to an organization: what its sites' gates ask at every request. Read and remembered as routes are; a
//! change of the org, or of the person, ends the memory.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use db::gate_tickets::Ticket;
use domain::{OrgId, UserId};

use super::{Membership, RouteError, Routes, Source};
use crate::{gate::Members, limits};

impl<S: Source> Routes<S> {
    /// The user's place in the org, if they have one.
    pub async fn membership(&self, org: &OrgId, user: &UserId) -> Result<Option<Membership>, RouteError> {
        if let Some(place) = self.memory.membership(org, user) {
            return Ok(place);
        }
        let found = tokio::time::timeout(limits::ROUTE_WAIT, self.read_membership_in_turn(org, user)).await;
        found.unwrap_or_else(|_| Err(RouteError::Unreadable(Arc::from("timed out"))))
    }

    async fn read_membership_in_turn(&self, org: &OrgId, user: &UserId) -> Result<Option<Membership>, RouteError> {
        let mut last_failure = self.turn(user.as_str()).lock().await;
        if let Some(place) = self.memory.membership(org, user) {
            return Ok(place);
        }
        if last_failure.is_some_and(|at| at.elapsed() < limits::ROUTE_RETRY_AFTER) {
            return Err(RouteError::Unreadable("it failed a moment ago".into()));
        }
        let read = self.read_membership(org, user).await;
        *last_failure = read.is_err().then(Instant::now);
        read
    }

    async fn read_membership(&self, org: &OrgId, user: &UserId) -> Result<Option<Membership>, RouteError> {
        for tried in 0..limits::ROUTE_READ_TRIES {
            let read = self.source.membership(org, user, tried > 0).await?;
            if self.memory.remember_membership(org, user, read.value, read.seq) {
                return Ok(read.value);
            }
        }
        Err(RouteError::Unsettled)
    }
}

#[async_trait]
impl<S: Source> Members for Routes<S> {
    async fn membership(&self, org: &OrgId, user: &UserId) -> Result<Option<Membership>, RouteError> {
        Self::membership(self, org, user).await
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<Ticket>, RouteError> {
        let taken = tokio::time::timeout(limits::TICKET_WAIT, self.source.take_ticket(secret_hash)).await;
        taken.unwrap_or_else(|_| Err(RouteError::Unreadable(Arc::from("timed out"))))
    }
}
