//! `/events`: what happens to one's accounts, as it happens.

mod follower;
mod frames;

use api::events::ChangeEvent;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;

use self::follower::Follower;
use crate::{
    app::App,
    auth::{CliUser, Credential},
    error::ApiError,
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Asks proxies before the edge to hand on each event as it comes.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Streams what happens to your account and to your organizations.
///
/// Server-sent events, as browsers read them with `EventSource`. An event called `change` says what happened; you get those of
/// your own account and of every organization you belong to, as far as your role may see the thing that changed. An event called
/// `reset` says that what came between is not known: read everything anew. The stream ends with an event called `signed_out` when
/// your session or token is ended; when it ends otherwise, connect again.
///
/// Send the last `id` as `Last-Event-ID`, as `EventSource` does by itself, to get what you have missed; if that is too much, or
/// not known any more, a `reset` comes first. A comment comes every 15 seconds. You may follow in 16 places at a time, in 8
/// of them by one session.
#[utoipa::path(
    get, path = "/events", tag = "Events",
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
    let follower = Follower::begin(&app, caller, last, turn).await?;
    let body = Body::from_stream(stream::unfold(Box::new(follower), Follower::next));
    let headers = [
        (header::CONTENT_TYPE, EVENT_STREAM),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}
