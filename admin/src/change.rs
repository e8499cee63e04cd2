//! A change of the platform, from its transaction to the edges that have applied it.
//!
//! Every change goes through the same steps in the same order, and a [`Change`] is the one place that knows it: acts, then
//! the audit log, then the rows that tell the edges, the commit, the numbers of these rows, the messages to the edges, the wait for
//! them. No change waits for another one before its commit; the numbers are given afterwards, to many at once.

use std::ops::{Deref, DerefMut};

use db::{
    audit::{self, Actor, Entry},
    certificates,
    edges::route_changes::{self, PendingId},
};
use domain::{CertificateId, Clock, Subject, Timestamp, UserId, changes::Touched};
use live::events::{Event, Message};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::{
    edges::{Edges, Propagation},
    events::{self, Events},
};

/// A transaction that knows who makes it, what the audit log is to say of it, and what edges have to forget.
///
/// Acts take it as the connection that it derefs to. Dropped without a commit, it leaves nothing behind.
#[must_use = "a change that is not committed is rolled back"]
pub struct Change<'a> {
    transaction: Transaction<'static, Postgres>,
    edges: Edges,
    events: Events,
    actor: Actor<'a>,
    now: Timestamp,
    entries: Vec<Entry>,
    messages: Vec<Message>,
    touched: Vec<Touched>,
    certificate: Option<(CertificateId, Vec<String>)>,
}

impl<'a> Change<'a> {
    /// Begins a change in the name of `actor`.
    pub async fn begin(
        db: &PgPool,
        edges: &Edges,
        events: &Events,
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

    /// The time of the change, which its rows and its audit entries carry.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Adds a line to the audit log, in the actor's name.
    pub fn audit(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Tells those who follow the account of something that the audit log has no line for. Every line of the audit log is
    /// told of anyway.
    pub fn tell(&mut self, event: Event) {
        self.messages.push(Message::Event(Box::new(event)));
    }

    /// Has the event streams of a person look whether their sessions and tokens have ended.
    pub fn recheck_credentials(&mut self, user: &UserId) {
        self.messages.push(Message::Credentials { user: user.clone() });
    }

    /// Has the edges forget what they remember of a subject. Touching one twice is the same as touching it once.
    pub fn touch(&mut self, touched: impl Into<Touched>) {
        let touched = touched.into();
        match self.touched.iter_mut().find(|before| before.subject == touched.subject) {
            Some(before) => before.hosts.extend(touched.hosts),
            None => self.touched.push(touched),
        }
    }

    /// Has the edges look for the certificate of `names` again: this one was inserted.
    pub fn announce(&mut self, certificate: CertificateId, names: Vec<String>) {
        self.certificate = Some((certificate, names));
    }

    /// Commits, and waits until the living edges have applied the change; does not wait when nothing was touched.
    pub async fn commit(self) -> Result<Propagation, sqlx::Error> {
        let (edges, events) = (self.edges.clone(), self.events.clone());
        let (changes, told) = self.finish().await?;
        let propagation = edges.apply(changes).await;
        for receipt in events::receipts(&told, propagation) {
            events.publish(Message::Event(Box::new(receipt)));
        }
        Ok(propagation)
    }

    /// Commits, and tells the edges without waiting for them: for changes that nobody looks for right away.
    pub async fn commit_without_waiting(self) -> Result<(), sqlx::Error> {
        let edges = self.edges.clone();
        edges.send(self.finish().await?.0);
        Ok(())
    }

    /// Writes the rows that end the transaction, commits it, and publishes what was done as events. Returns those of the
    /// audit log.
    async fn finish(mut self) -> Result<(Vec<PendingId>, Vec<Event>), sqlx::Error> {
        for entry in &self.entries {
            audit::record(&mut self.transaction, self.actor, entry, self.now).await?;
        }
        let mut changes = Vec::with_capacity(self.touched.len() + 1);
        for touched in self.touched {
            if let Subject::User(user) = &touched.subject {
                self.messages.push(Message::Credentials { user: user.clone() });
            }
            changes.push(route_changes::record(&mut self.transaction, touched, self.now).await?);
        }
        if let Some((id, names)) = self.certificate {
            changes.push(certificates::announce(&mut self.transaction, &id, names, self.now).await?);
        }
        self.transaction.commit().await?;
        let told: Vec<Event> = self.entries.iter().map(|entry| events::of_entry(entry, self.actor, self.now)).collect();
        for message in told.iter().cloned().map(|event| Message::Event(Box::new(event))).chain(self.messages) {
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
