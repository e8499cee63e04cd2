//! HTTP/2: h2 with its limits, and requests that are answered in the connection's own task.
//!
//! Used without hyper, because only h2 knows how much a visitor accepts on a stream, and no more is held.
//! [`control_frames`] limits what h2 does not. Start with [`handshake`] and [`MultiplexedConnection`].

mod control_frames;
mod flow;
mod gathered;
mod multiplexed;
mod oversized;
mod request;

use std::{cell::RefCell, future::poll_fn, pin::pin, sync::Arc, task::Poll};

use ::http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, DATE, TE, TRANSFER_ENCODING, UPGRADE},
};
use bytes::Bytes;
use domain::Timestamp;
use h2::{PingPong, Reason, RecvStream, server::SendResponse};
use http_body::Body as _;
use http_types::{ChargedChunk, pinned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};

use self::{
    flow::ConnectionFlow,
    multiplexed::{AnswerFuture, RequestHandler},
    request::H2RequestBody,
};
pub(super) use self::{multiplexed::MultiplexedConnection, oversized::CookieHeadGuard};
use super::{ConnectionShared, Protocol};

/// Headers that concern connections of other HTTP versions.
const NOT_FOR_HTTP2: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Performs the HTTP/2 handshake; `None` if it fails or times out.
pub(super) async fn handshake<S>(
    stream: S,
    shared: Arc<ConnectionShared>,
) -> Option<MultiplexedConnection<S, Arc<ConnectionShared>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let account = shared.connection.account.clone();
    let greeting = Box::pin(MultiplexedConnection::greet(stream, builder(), account, shared));
    timeout(limits::REQUEST_HEAD, greeting).await.ok().flatten()
}

impl RequestHandler for Arc<ConnectionShared> {
    fn begin(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<ChargedChunk>,
        flow: Arc<ConnectionFlow>,
    ) -> AnswerFuture {
        pinned(|| answer(request, respond, self.clone(), flow))
    }
}

fn builder() -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(limits::H2_STREAMS)
        .max_header_list_size(limits::H2_HEAD_BYTES)
        .initial_window_size(limits::H2_STREAM_WINDOW)
        .initial_connection_window_size(limits::H2_CONNECTION_WINDOW)
        .max_frame_size(limits::H2_FRAME_BYTES)
        .max_send_buffer_size(limits::H2_SEND_BUFFER)
        .max_pending_accept_reset_streams(limits::H2_RESETS)
        .max_local_error_reset_streams(Some(limits::H2_RESETS));
    builder
}

pub(super) async fn ping_timeout(ping_pong: Option<PingPong>) {
    let Some(mut ping_pong) = ping_pong else { return std::future::pending().await };
    loop {
        sleep(limits::H2_PING_EVERY).await;
        match timeout(limits::H2_PING_WAIT, ping_pong.ping(h2::Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself notices that it has ended.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<ChargedChunk>,
    shared: Arc<ConnectionShared>,
    flow: Arc<ConnectionFlow>,
) {
    let len = content_length(request.headers());
    let request = request.map(|stream| H2RequestBody::new(stream, len));
    let answered = {
        let mut answering = pin!(shared.answer(Protocol::Http2, request));
        poll_fn(|cx| {
            if let Poll::Ready(answered) = answering.as_mut().poll(cx) {
                return Poll::Ready(Some(answered));
            }
            // The client reset the stream; drop the response.
            respond.poll_reset(cx).map(|_| None)
        })
        .await
    };
    let Some((response, grant)) = answered else { return };
    let (mut head, body) = response.into_parts();
    if body.is_pulled() {
        // Sites set none of the others, and each lookup has a cost.
        head.headers.remove(CONNECTION);
    } else {
        for name in &NOT_FOR_HTTP2 {
            head.headers.remove(name);
        }
    }
    let date = date(shared.front.now());
    head.headers.entry(DATE).or_insert(date);
    let is_empty = body.is_end_stream();
    if !is_empty && let Some(len) = body.size_hint().exact() {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
    }
    // A head that is charged ends with an empty frame, which has its grant until both are written.
    let is_last = is_empty && grant.is_none();
    if is_empty && !is_last && head.status == StatusCode::NOT_MODIFIED {
        // Some clients expect as many bytes in the frame.
        head.headers.remove(CONTENT_LENGTH);
    }
    match respond.send_response(Response::from_parts(head, ()), is_last) {
        Ok(_) if is_last => {}
        Ok(mut stream) if is_empty => {
            // Fails when the client has reset the stream.
            let _ = stream.send_data(ChargedChunk::new(Bytes::new(), grant, None), true);
        }
        Ok(stream) => flow::send(stream, body, grant, &flow).await,
        Err(error) => {
            tracing::debug!(%error, "an answer could not be sent");
            respond.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

/// Returns the stated length of a request's body, if it is stated only once.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let len = values.next()?.to_str().ok()?.parse().ok();
    len.filter(|_| values.next().is_none())
}

/// Returns the value of `ModifiedDate`, formatted once per second.
fn date(now: Timestamp) -> HeaderValue {
    thread_local! {
        static WRITTEN: RefCell<(i64, HeaderValue)> = const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    WRITTEN.with_borrow_mut(|(second, value)| {
        if *second != now.unix_seconds() {
            *second = now.unix_seconds();
            let text = httpdate::fmt_http_date(now.as_datetime().into());
            *value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        }
        value.clone()
    })
}
