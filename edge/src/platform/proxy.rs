//! What pingora-proxy asks of us: which admin is next, with which limits, and what to answer when none did.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{StatusCode, header};
use pingora::{
    http::ResponseHeader,
    prelude::{Error, ErrorType, HttpPeer, ProxyHttp, Session},
    proxy::FailToProxy,
};

use super::upstreams::Upstreams;
use crate::{
    http::{SiteBody, accepts_html, pages},
    limits,
};

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
            let wants_page = accepts_html(&session.req_header().headers);
            // The client is our own pipe: when it is gone, nobody misses the answer.
            let _ = write_bad_gateway(session, wants_page).await;
        }
        FailToProxy { error_code: StatusCode::BAD_GATEWAY.as_u16(), can_reuse_downstream: false }
    }
}

async fn write_bad_gateway(session: &mut Session, wants_page: bool) -> pingora::Result<()> {
    let (kind, body) = if wants_page {
        ("text/html; charset=utf-8", bad_gateway_page().await)
    } else {
        let text =
            r#"{"error":{"code":"bad_gateway","message":"The control plane does not answer; try again in a moment."}}"#;
        ("application/json", Bytes::from_static(text.as_bytes()))
    };
    let mut head = ResponseHeader::build(StatusCode::BAD_GATEWAY, Some(4))?;
    head.insert_header(header::CONTENT_TYPE, kind)?;
    head.insert_header(header::CONTENT_LENGTH, body.len())?;
    head.insert_header(header::CACHE_CONTROL, "no-store")?;
    session.write_response_header(Box::new(head), false).await?;
    session.write_response_body(Some(body), true).await
}

async fn bad_gateway_page() -> Bytes {
    let body: SiteBody = pages::bad_gateway().into_body();
    http_body_util::BodyExt::collect(body).await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
