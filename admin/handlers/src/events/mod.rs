//! `/events`: live changes to a person's accounts.

mod follower;
mod frames;

use admin_http::error::ApiError;
use api::events::ChangeEvent;
use app::{
    App,
    auth::{CliUser, Credential},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;

use self::follower::EventFollower;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Asks proxies in front of the edge not to buffer events.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Streams changes to your account and to your organizations.
///
/// The stream consists of server-sent events, as read by `EventSource`. A `change` event reports a change in your own
/// account or in one of your organizations, as far as your role may see the changed thing. A `reset` event means that
/// some events were lost: reload everything. The stream ends with a `signed_out` event when your session or token ends;
/// if it ends otherwise, reconnect.
///
/// To receive missed events, send the last `id` as `Last-Event-ID`, as `EventSource` does automatically; if too many
/// were missed, or they are no longer known, a `reset` comes first. A comment is sent every 15 seconds. You may have 16
/// streams open at a time, 8 of them per session.
#[utoipa::path(
    get, path = "/events", operation_id = "stream_events", tag = "Events",
    params(("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that you have got")),
    responses((
        status = 200, description = "The stream; this is the `data` of an event called `change`", body = ChangeEvent,
        content_type = "text/event-stream", headers(("Cache-Control"), ("X-Accel-Buffering")),
    )),
    extensions(("x-errors" = json!({
        "rate_limit_exceeded": "you follow in as many places as may be, or have sent too many requests",
        "busy": "too many people follow events",
    }))),
)]
pub async fn follow(State(app): State<App>, caller: CliUser, headers: HeaderMap) -> Result<Response, ApiError> {
    let session = match &caller.credential {
        Credential::Session(session) => Some(session),
        Credential::Token(_) => None,
    };
    let turn = app.bounds.event_stream(&caller.user.id.clone().into(), session)?;
    let last = headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty());
    let follower = EventFollower::begin(&app, caller, last, turn).await?;
    let body = Body::from_stream(stream::unfold(Box::new(follower), EventFollower::next));
    let headers = [
        (header::CONTENT_TYPE, EVENT_STREAM),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}
