//! A change of the platform, from its transaction to the edges that have applied it.
//!
//! A [`Change`] takes all steps in the same order: it executes statements, then writes the audit log and the rows for
//! the edges, commits, has these rows numbered, sends the messages to the edges, and waits for them. No change waits
//! for another before its commit; numbers are assigned afterwards, many in one batch.

use std::ops::{Deref, DerefMut};

use db::{
    audit::{self, Actor, NewAuditEntry},
    certificates,
    edges::route_changes::{self, PendingId},
};
use domain::{CertificateId, ChangeSubject, Clock, Timestamp, UserId, changes::PendingChange};
use live::events::{AccountEvent, StreamMessage};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::{
    edges::{EdgeRegistry, Propagation},
    events::{self, EventPublisher},
};

/// A transaction that carries its actor, its audit entries, and what edges have to forget.
///
/// It derefs to the connection. If it is dropped without a commit, it is rolled back.
#[must_use = "a change that is not committed is rolled back"]
pub struct Change<'a> {
    transaction: Transaction<'static, Postgres>,
    edges: EdgeRegistry,
    events: EventPublisher,
    actor: Actor<'a>,
    now: Timestamp,
    entries: Vec<NewAuditEntry>,
    messages: Vec<StreamMessage>,
    touched: Vec<PendingChange>,
    certificate: Option<(CertificateId, Vec<String>)>,
}

impl<'a> Change<'a> {
    /// Begins a change on behalf of `actor`.
    pub async fn begin(
        db: &PgPool,
        edges: &EdgeRegistry,
        events: &EventPublisher,
        clock: &Clock,
        actor: Actor<'a>,
    ) -> Result<Self, sqlx::Error> {
        Ok(Self {
            transaction: db.begin().await?,
            edges: edges.clone(),
            events: events.clone(),
            actor,
            now: clock.now(),
            entries: Vec::new(),
            messages: Vec::new(),
            touched: Vec::new(),
            certificate: None,
        })
    }

    /// Returns the time of the change, for its rows and its audit entries.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Adds an entry to the audit log, with this change's actor.
    pub fn audit(&mut self, entry: NewAuditEntry) {
        self.entries.push(entry);
    }

    /// Sends an event to those who follow the account. Audit entries become events by themselves.
    pub fn publish(&mut self, event: AccountEvent) {
        self.messages.push(StreamMessage::Event(Box::new(event)));
    }

    /// Makes a person's event streams check whether their sessions and tokens have ended.
    pub fn recheck_credentials(&mut self, user: &UserId) {
        self.messages.push(StreamMessage::Credentials { user: user.clone() });
    }

    /// Makes the edges drop a subject from their caches. Touching a subject twice has the same effect as once.
    pub fn touch(&mut self, touched: impl Into<PendingChange>) {
        let touched = touched.into();
        match self.touched.iter_mut().find(|before| before.subject == touched.subject) {
            Some(before) => before.hosts.extend(touched.hosts),
            None => self.touched.push(touched),
        }
    }

    /// Makes the edges look up the certificate for `names` again, because this one was inserted.
    pub fn announce_certificate(&mut self, certificate: CertificateId, names: Vec<String>) {
        self.certificate = Some((certificate, names));
    }

    /// Commits, and waits until the living edges have applied the change. Does not wait if nothing was touched.
    pub async fn commit(self) -> Result<Propagation, sqlx::Error> {
        let (edges, events) = (self.edges.clone(), self.events.clone());
        let (changes, told) = self.finish().await?;
        let propagation = edges.apply(changes).await;
        for receipt in events::receipt_events(&told, propagation) {
            events.publish(StreamMessage::Event(Box::new(receipt)));
        }
        Ok(propagation)
    }

    /// Commits and notifies the edges without waiting for them, for changes that nobody observes right away.
    pub async fn commit_without_waiting(self) -> Result<(), sqlx::Error> {
        let edges = self.edges.clone();
        edges.send(self.finish().await?.0);
        Ok(())
    }

    /// Writes the final rows, commits, and publishes the events. Returns the audit log's events.
    async fn finish(mut self) -> Result<(Vec<PendingId>, Vec<AccountEvent>), sqlx::Error> {
        for entry in &self.entries {
            audit::record(&mut self.transaction, self.actor, entry, self.now).await?;
        }
        let mut changes = Vec::with_capacity(self.touched.len() + 1);
        for touched in self.touched {
            if let ChangeSubject::User(user) = &touched.subject {
                self.messages.push(StreamMessage::Credentials { user: user.clone() });
            }
            changes.push(route_changes::record(&mut self.transaction, touched, self.now).await?);
        }
        if let Some((id, names)) = self.certificate {
            changes.push(certificates::announce(&mut self.transaction, &id, names, self.now).await?);
        }
        self.transaction.commit().await?;
        let told: Vec<AccountEvent> =
            self.entries.iter().map(|entry| events::event_from_entry(entry, self.actor, self.now)).collect();
        // Ended credentials first: their streams are not told of anything more, not even of their own end.
        let (ended, others): (Vec<_>, Vec<_>) =
            self.messages.into_iter().partition(|message| matches!(message, StreamMessage::Credentials { .. }));
        let entries = told.iter().cloned().map(|event| StreamMessage::Event(Box::new(event)));
        for message in ended.into_iter().chain(entries).chain(others) {
            self.events.publish(message);
        }
        Ok((changes, told))
    }
}

impl Deref for Change<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.transaction
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}
