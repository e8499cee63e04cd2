//! Server-sent event frames (HTML, section 9.2).

use api::events::ChangeEvent;
use bytes::Bytes;
use live::events::{AccountEvent, EventId};

/// The client's reconnection delay, in milliseconds.
const RETRY: u32 = 1_000;

/// Opens the stream after the entry `id`, from which a client that reconnects before any event resumes.
pub(super) fn opening(id: Option<EventId>) -> Bytes {
    format!("retry: {RETRY}\n: connected\n{}\n", id_line(id)).into()
}

pub(super) fn keep_alive(id: Option<EventId>) -> Bytes {
    format!(": keep-alive\n{}\n", id_line(id)).into()
}

/// Reports that the events before `id` are unknown.
pub(super) fn reset(id: Option<EventId>) -> Bytes {
    format!("{}event: reset\ndata: {{}}\n\n", id_line(id)).into()
}

pub(super) fn signed_out() -> Bytes {
    Bytes::from_static(b"event: signed_out\ndata: {}\n\n")
}

/// Reports a change to `account`, with all its details if `is_whole`.
pub(super) fn change(id: EventId, event: &AccountEvent, account: &str, is_whole: bool) -> Bytes {
    let mut detail = event.detail.clone();
    if is_whole {
        detail.extend(event.admin_detail.clone());
    }
    let view = ChangeEvent {
        kind: event.kind.clone(),
        account: account.to_owned(),
        project: event.project.clone(),
        subject: event.subject.clone(),
        by: event.by.clone(),
        at: event.at,
        detail,
    };
    // JSON escapes line breaks within strings, so the data is one line. Serializing this value cannot fail.
    let data = serde_json::to_string(&view).unwrap_or_default();
    format!("id: {id}\nevent: change\ndata: {data}\n\n").into()
}

fn id_line(id: Option<EventId>) -> String {
    id.map(|id| format!("id: {id}\n")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use domain::{Account, Timestamp, UserId, role::Role};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_of_data_with_the_details_that_its_reader_may_see() {
        let now = Timestamp::from_unix_millis(0);
        let event = AccountEvent {
            kind: "token.create".to_owned(),
            owner: Account::User(UserId::new(now)),
            org: None,
            project: None,
            subject: Some("two\nlines\r\n\n".to_owned()),
            by: None,
            actor: None,
            at: now,
            detail: json!({"open": 1}).as_object().unwrap().clone(),
            admin_detail: json!({"label": "x"}).as_object().unwrap().clone(),
            told_from: Role::Admin,
            changes_members: false,
        };
        let id = "7-1".parse().unwrap();
        for (is_whole, label) in [(true, true), (false, false)] {
            let frame = String::from_utf8(change(id, &event, "acme", is_whole).to_vec()).unwrap();
            assert_eq!(frame.matches('\n').count(), 4, "{frame:?}");
            assert!(frame.starts_with("id: 7-1\nevent: change\ndata: {") && frame.ends_with("}\n\n"), "{frame:?}");
            assert_eq!(frame.contains("label"), label, "{frame}");
            assert!(frame.contains("\"open\":1"), "{frame}");
        }
        assert_eq!(keep_alive(Some(id)), ": keep-alive\nid: 7-1\n\n");
        assert_eq!(reset(None), "event: reset\ndata: {}\n\n");
    }
}
