//! What pingora-proxy asks of us: which admin is next, with which limits, and what to answer when none did.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use pingora::{
    http::ResponseHeader,
    prelude::{Error, ErrorType, HttpPeer, ProxyHttp, Session},
    proxy::FailToProxy,
};

use super::{
    answers::{Asked, Failure},
    upstreams::Upstreams,
};
use crate::{http::X_REQUEST_ID, limits};

/// The proxy before the admins.
pub(super) struct Admins {
    upstreams: Arc<Upstreams>,
}

impl Admins {
    /// A proxy before `upstreams`.
    pub(super) fn new(upstreams: Arc<Upstreams>) -> Self {
        Self { upstreams }
    }
}

#[async_trait]
impl ProxyHttp for Admins {
    /// The upstreams that were tried for the request.
    type CTX = Vec<usize>;

    fn new_ctx(&self) -> Self::CTX {
        Vec::new()
    }

    async fn request_filter(&self, session: &mut Session, _: &mut Self::CTX) -> pingora::Result<bool> {
        let client = session.as_downstream_mut();
        client.set_read_timeout(Some(limits::CLIENT_STALL));
        client.set_write_timeout(Some(limits::CLIENT_STALL));
        client.set_keepalive(None);
        Ok(false)
    }

    async fn upstream_peer(&self, _: &mut Session, tried: &mut Self::CTX) -> pingora::Result<Box<HttpPeer>> {
        let at = self.upstreams.choose(tried).ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        tried.push(at);
        let mut peer = HttpPeer::new(self.upstreams.address(at), false, String::new());
        peer.options.connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.total_connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.read_timeout = Some(limits::ADMIN_READ);
        peer.options.write_timeout = Some(limits::ADMIN_WRITE);
        peer.options.idle_timeout = Some(limits::ADMIN_IDLE);
        Ok(Box::new(peer))
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        tried: &mut Self::CTX,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some(&at) = tried.last() {
            self.upstreams.mark_unhealthy(at);
        }
        // Nothing was sent yet, so trying another is always safe.
        error.set_retry(tried.len() < self.upstreams.len());
        error
    }

    /// One failure, one line: it is said in `fail_to_proxy`.
    fn suppress_error_log(&self, _: &Session, _: &Self::CTX, _: &Error) -> bool {
        true
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, _: &mut Self::CTX) -> FailToProxy {
        if session.as_downstream().response_written().is_none() {
            tracing::warn!(%error, "no admin answered");
            // The client is our own pipe: when it is gone, nobody misses the answer.
            let _ = write_failure(session).await;
        }
        FailToProxy { error_code: StatusCode::BAD_GATEWAY.as_u16(), can_reuse_downstream: false }
    }
}

async fn write_failure(session: &mut Session) -> pingora::Result<()> {
    let request = session.req_header();
    let id = request.headers.get(X_REQUEST_ID).cloned().unwrap_or(HeaderValue::from_static("req_unknown"));
    let asked = Asked::of(&request.method, &request.uri, &request.headers, id);
    let (parts, body) = asked.failed(Failure::NoAdmin).into_parts();
    let mut head = ResponseHeader::build(parts.status, Some(parts.headers.len()))?;
    for (name, value) in &parts.headers {
        head.append_header(name, value)?;
    }
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    session.write_response_header(Box::new(head), false).await?;
    session.write_response_body(Some(body), true).await
}
