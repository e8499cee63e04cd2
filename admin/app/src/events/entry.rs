//! Builds events from a change: from its audit log entries, from the edges' receipts, and for changes without an entry.

use db::{
    audit::{Actor, NewAuditEntry},
    projects::Project,
};
use domain::{Timestamp, audit::Action, role::Role};
use live::events::AccountEvent;
use serde_json::{Map, Value};

use crate::edges::Propagation;

/// The kind of event that reports how many edges have applied a change.
const KIND_RECEIPT: &str = "receipt";
/// The kind of event that reports a new state of a custom domain's certificate.
pub const KIND_DOMAIN_STATE: &str = "domain.state";
/// The kind of event that reports that a push is queued, waits or could not be deployed.
pub const KIND_PUSH: &str = "push";
/// The kind of event that reports a changed subscription or payment.
pub const KIND_BILLING: &str = "billing";
const TEXT_CHARS: usize = 300;
/// The details that can name the subject of an event, in order of precedence.
const SUBJECTS: [&str; 8] = ["deployment", "domain", "login", "key", "token", "invite", "installation", "repo"];

/// Returns the event of an audit log entry.
pub fn event_from_entry(entry: &NewAuditEntry, actor: Actor<'_>, now: Timestamp) -> AccountEvent {
    let action = entry.action();
    let cut = entry.detail().iter().map(|(key, value)| (key.clone(), cut(value)));
    let (detail, admin_detail): (Map<_, _>, Map<_, _>) = cut.partition(|(key, _)| action.is_open(key));
    let named = |key: &&str| detail.get(*key).or_else(|| admin_detail.get(*key));
    let subject = SUBJECTS.iter().find_map(named).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    // The account that takes over a domain, by proof of control, is a stranger to those who lose it.
    let actor = Some(actor).filter(|_| action != Action::DomainLose);
    AccountEvent {
        kind: action.as_str().to_owned(),
        owner: entry.owner().clone(),
        org: entry.org().cloned(),
        project: entry.project().cloned(),
        subject,
        by: actor.and_then(Actor::name).map(shortened),
        actor: actor.and_then(Actor::person).cloned(),
        at: now,
        detail,
        admin_detail,
        told_from: action.notified_role(),
        changes_members: action.changes_members(),
    }
}

/// Returns an event of a project that has no audit log entry.
pub fn project_event(
    kind: &str,
    project: &Project,
    subject: Option<&str>,
    by: Option<&str>,
    now: Timestamp,
) -> AccountEvent {
    AccountEvent {
        kind: kind.to_owned(),
        owner: project.owner.clone(),
        org: project.org.clone(),
        project: Some(project.name.clone()),
        subject: subject.map(ToOwned::to_owned),
        by: by.map(shortened),
        actor: None,
        at: now,
        detail: Map::new(),
        admin_detail: Map::new(),
        told_from: Role::Member,
        changes_members: false,
    }
}

/// Returns the receipts of the change that produced the events `told`: one for each project or account concerned.
pub fn receipt_events(told: &[AccountEvent], propagation: Propagation) -> Vec<AccountEvent> {
    let Some(figures) = propagation.detail() else { return Vec::new() };
    let mut receipts: Vec<AccountEvent> = Vec::with_capacity(told.len());
    for event in told {
        let is_there = receipts.iter().any(|receipt| receipt.owner == event.owner && receipt.project == event.project);
        if is_there {
            continue;
        }
        let mut detail = figures.clone();
        detail.insert("action".to_owned(), event.kind.clone().into());
        receipts.push(AccountEvent {
            kind: KIND_RECEIPT.to_owned(),
            detail,
            admin_detail: Map::new(),
            changes_members: false,
            ..event.clone()
        });
    }
    receipts
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) => shortened(text).into(),
        other => other.clone(),
    }
}
