//! The callbacks of pingora-proxy: which admin is next, with which limits, what of its answers is kept, and what to answer when
//! none did.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use pingora::{
    cache::{CacheKey, CacheMeta, ForcedFreshness, HitHandler, RespCacheable},
    http::ResponseHeader,
    prelude::{Error, ErrorType, HttpPeer, ProxyHttp, Session},
    proxy::FailToProxy,
};

use super::{
    answers::{Asked, Failure},
    cache::{self, CACHE_NAME, PlatformCache, PublicName},
    upstreams::Upstreams,
};
use crate::{http::X_REQUEST_ID, limits, memory::Moment};

/// The proxy before the admins.
pub(super) struct Admins {
    upstreams: Arc<Upstreams>,
    cache: PlatformCache,
}

/// A request on its way.
#[derive(Default)]
pub(super) struct Exchange {
    /// The upstreams that were tried.
    tried: Vec<usize>,
    /// The name of what is asked for, if it is public.
    name: Option<PublicName>,
    /// The place in the order of changes at which admin was asked.
    moment: Option<Moment>,
}

impl Admins {
    /// A proxy before `upstreams`, whose public answers `cache` keeps.
    pub(super) fn new(upstreams: Arc<Upstreams>, cache: PlatformCache) -> Self {
        Self { upstreams, cache }
    }
}

#[async_trait]
impl ProxyHttp for Admins {
    type CTX = Exchange;

    fn new_ctx(&self) -> Exchange {
        Exchange::default()
    }

    async fn request_filter(&self, session: &mut Session, exchange: &mut Exchange) -> pingora::Result<bool> {
        let name = session.req_header_mut().remove_header(&CACHE_NAME);
        exchange.name = name.and_then(|name| PublicName::read(&name));
        let client = session.as_downstream_mut();
        client.set_read_timeout(Some(limits::CLIENT_STALL));
        client.set_write_timeout(Some(limits::CLIENT_STALL));
        client.set_keepalive(None);
        Ok(false)
    }

    fn request_cache_filter(&self, session: &mut Session, exchange: &mut Exchange) -> pingora::Result<()> {
        if exchange.name.is_some() {
            self.cache.enable(session);
        }
        Ok(())
    }

    fn cache_key_callback(&self, _: &Session, exchange: &mut Exchange) -> pingora::Result<CacheKey> {
        let name = exchange.name.as_ref().ok_or_else(|| Error::new(ErrorType::InternalError))?;
        Ok(cache::key(name))
    }

    /// Calls every hit fresh: nothing in memory ages.
    async fn cache_hit_filter(
        &self,
        _: &mut Session,
        _: &CacheMeta,
        _: &mut HitHandler,
        _: bool,
        _: &mut Exchange,
    ) -> pingora::Result<Option<ForcedFreshness>> {
        Ok(Some(ForcedFreshness::ForceFresh))
    }

    fn response_cache_filter(
        &self,
        _: &Session,
        answer: &ResponseHeader,
        exchange: &mut Exchange,
    ) -> pingora::Result<RespCacheable> {
        let name = exchange.name.as_ref().ok_or_else(|| Error::new(ErrorType::InternalError))?;
        Ok(self.cache.judge(name, exchange.moment, answer))
    }

    async fn upstream_peer(&self, _: &mut Session, exchange: &mut Exchange) -> pingora::Result<Box<HttpPeer>> {
        let at = self.upstreams.choose(&exchange.tried).ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        exchange.tried.push(at);
        exchange.moment = self.cache.moment();
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
        exchange: &mut Exchange,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some(&at) = exchange.tried.last() {
            self.upstreams.mark_unhealthy(at);
        }
        // Nothing was sent yet, so trying another is always safe.
        error.set_retry(exchange.tried.len() < self.upstreams.len());
        error
    }

    /// One failure, one line: it is said in `fail_to_proxy`.
    fn suppress_error_log(&self, _: &Session, _: &Exchange, _: &Error) -> bool {
        true
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, _: &mut Exchange) -> FailToProxy {
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
