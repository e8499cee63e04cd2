//! Events out of what is known of a change: lines of the audit log, receipts of the edges, and what has no line.

use db::{
    audit::{Actor, Entry},
    projects::Project,
};
use domain::{Timestamp, audit::Action, role::Role};
use live::events::Event;
use serde_json::{Map, Value};

use crate::edges::Propagation;

/// The kind of the event that says how many edges have applied a change.
const KIND_RECEIPT: &str = "receipt";
/// The kind of the event that says that a custom domain's certificate is in another state.
pub const KIND_DOMAIN_STATE: &str = "domain.state";
/// The kind of the event that says that a push is queued, or could not be deployed.
pub const KIND_PUSH: &str = "push";
/// The kind of the event that says that a subscription or a payment has changed.
pub const KIND_BILLING: &str = "billing";
/// Most characters of an author's name, and of a detail that is text.
const TEXT_CHARS: usize = 300;
/// The details that name the thing that something was done to, the first of them that there is.
const SUBJECTS: [&str; 8] = ["deployment", "domain", "login", "key", "token", "invite", "installation", "repo"];

/// The event of a line of the audit log.
pub fn of_entry(entry: &Entry, actor: Actor<'_>, now: Timestamp) -> Event {
    let action = entry.action();
    let cut = entry.detail().iter().map(|(key, value)| (key.clone(), cut(value)));
    let (detail, admin_detail): (Map<_, _>, Map<_, _>) = cut.partition(|(key, _)| action.is_open(key));
    let named = |key: &&str| detail.get(*key).or_else(|| admin_detail.get(*key));
    let subject = SUBJECTS.iter().find_map(named).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    // Whoever takes a domain away, by proof, is a stranger to those who lose it.
    let actor = Some(actor).filter(|_| action != Action::DomainLose);
    Event {
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
        told_from: action.told_from(),
        changes_members: action.changes_members(),
    }
}

/// An event of a project that the audit log has no line for.
pub fn of_project(kind: &str, project: &Project, subject: Option<&str>, by: Option<&str>, now: Timestamp) -> Event {
    Event {
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

/// The receipts of a change that `told` were the lines of: one for each project or account that it was about.
pub fn receipts(told: &[Event], propagation: Propagation) -> Vec<Event> {
    let Some(figures) = propagation.detail() else { return Vec::new() };
    let mut receipts: Vec<Event> = Vec::with_capacity(told.len());
    for event in told {
        let is_there = receipts.iter().any(|receipt| receipt.owner == event.owner && receipt.project == event.project);
        if is_there {
            continue;
        }
        let mut detail = figures.clone();
        detail.insert("action".to_owned(), event.kind.clone().into());
        receipts.push(Event {
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
