//! The callbacks of pingora-proxy: the limits for the admin of an [`AdminAttempt`], and what is cached of its responses. A
//! failed attempt ends without a response: [`super::exchange`] decides about its request.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, StatusCode, header::CONTENT_LENGTH};
use memory::AppliedMoment;
use pingora::{
    cache::{CacheKey, CacheMeta, CachePhase, ForcedFreshness, HitHandler, NoCacheReason, RespCacheable},
    http::ResponseHeader,
    prelude::{Error, ErrorType, HttpPeer, ProxyHttp, Session},
    protocols::l4::ext::TcpKeepalive,
    proxy::FailToProxy,
};

use super::{
    attempt::{ATTEMPT, AdminAttempt, AttemptFailure},
    cache::{self, CACHE_NAME, PlatformCache, PublicName},
};

pub(super) struct AdminProxy {
    cache: PlatformCache,
}

#[derive(Default)]
pub(super) struct ProxyContext {
    /// Its attempt; every task that contacts an admin has one.
    attempt: Option<Arc<AdminAttempt>>,
    name: Option<PublicName>,
    /// The position in the order of changes when admin was contacted.
    moment: Option<AppliedMoment>,
}

impl AdminProxy {
    pub(super) fn new(cache: PlatformCache) -> Self {
        Self { cache }
    }
}

#[async_trait]
impl ProxyHttp for AdminProxy {
    type CTX = ProxyContext;

    fn new_ctx(&self) -> ProxyContext {
        ProxyContext { attempt: ATTEMPT.try_with(Arc::clone).ok(), ..ProxyContext::default() }
    }

    async fn request_filter(&self, session: &mut Session, exchange: &mut ProxyContext) -> pingora::Result<bool> {
        let name = session.req_header_mut().remove_header(&CACHE_NAME);
        exchange.name = name.and_then(|name| PublicName::parse(&name));
        let client = session.as_downstream_mut();
        client.set_read_timeout(Some(limits::CLIENT_STALL));
        client.set_write_timeout(Some(limits::CLIENT_STALL));
        client.set_keepalive(None);
        Ok(false)
    }

    fn request_cache_filter(&self, session: &mut Session, exchange: &mut ProxyContext) -> pingora::Result<()> {
        if exchange.name.is_some() {
            self.cache.enable(session);
        }
        Ok(())
    }

    fn cache_key_callback(&self, _: &Session, exchange: &mut ProxyContext) -> pingora::Result<CacheKey> {
        let name = exchange.name.as_ref().ok_or_else(|| Error::new(ErrorType::InternalError))?;
        Ok(cache::key(name))
    }

    /// Treats every hit as fresh: ended entries are not found.
    async fn cache_hit_filter(
        &self,
        _: &mut Session,
        _: &CacheMeta,
        _: &mut HitHandler,
        _: bool,
        _: &mut ProxyContext,
    ) -> pingora::Result<Option<ForcedFreshness>> {
        Ok(Some(ForcedFreshness::ForceFresh))
    }

    fn response_cache_filter(
        &self,
        _: &Session,
        answer: &ResponseHeader,
        exchange: &mut ProxyContext,
    ) -> pingora::Result<RespCacheable> {
        let name = exchange.name.as_ref().ok_or_else(|| Error::new(ErrorType::InternalError))?;
        Ok(self.cache.decide_caching(name, exchange.moment, answer))
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        exchange: &mut ProxyContext,
    ) -> pingora::Result<Box<HttpPeer>> {
        let attempt = exchange.attempt.as_ref().ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        attempt.asked.cancel();
        exchange.moment = self.cache.current_moment();
        let only_reads = session.req_header().method.is_safe();
        let mut peer = HttpPeer::new(attempt.admin.address(), false, String::new());
        peer.options.connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.total_connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.read_timeout = Some(if only_reads { limits::ADMIN_ANSWER } else { limits::ADMIN_READ });
        peer.options.write_timeout = Some(limits::ADMIN_WRITE);
        peer.options.idle_timeout = Some(limits::ADMIN_IDLE);
        // Pingora reads all that is available, up to 64 KB at a time, and several times ahead of its client, so the
        // kernel buffers less. Public responses are read whole soon anyway. Each kind has its own connections.
        let is_public = exchange.name.is_some();
        peer.group_key = is_public.into();
        peer.options.tcp_recv_buf = (!is_public).then_some(limits::ADMIN_RECEIVE_BYTES);
        peer.options.tcp_keepalive = Some(TcpKeepalive {
            idle: limits::ADMIN_PROBE_AFTER,
            interval: limits::ADMIN_PROBE_EVERY,
            count: limits::ADMIN_PROBES,
            user_timeout: std::time::Duration::ZERO,
        });
        Ok(Box::new(peer))
    }

    async fn upstream_response_filter(
        &self,
        _: &mut Session,
        answer: &mut ResponseHeader,
        exchange: &mut ProxyContext,
    ) -> pingora::Result<()> {
        if answer.status == StatusCode::CONTINUE
            && let Some(attempt) = &exchange.attempt
        {
            attempt.wants_body.cancel();
        }
        Ok(())
    }

    /// Releases the lock of a response that will not be cached: pingora-proxy reads only what its client wants of a
    /// body, which for a HEAD, a condition or a range is not all. Waiting requests then send their own.
    async fn response_filter(
        &self,
        session: &mut Session,
        answer: &mut ResponseHeader,
        _: &mut ProxyContext,
    ) -> pingora::Result<()> {
        let is_whole = session.req_header().method == Method::GET && answer.status == StatusCode::OK;
        if !is_whole && session.cache.phase() == CachePhase::Miss {
            let len = session.cache.maybe_cache_meta().and_then(|meta| meta.headers().get(CONTENT_LENGTH));
            let len = len.and_then(|len| len.to_str().ok()?.parse::<usize>().ok());
            if len.is_none_or(|len| len > limits::CACHED_SMALL_BYTES) {
                session.cache.disable(NoCacheReason::Deferred);
            }
        }
        Ok(())
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        exchange: &mut ProxyContext,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some(attempt) = &exchange.attempt {
            attempt.admin.mark_unreachable();
            attempt.fail(AttemptFailure::Unreached);
        }
        error.set_retry(false);
        error
    }

    fn error_while_proxy(
        &self,
        _: &HttpPeer,
        _: &mut Session,
        mut error: Box<Error>,
        exchange: &mut ProxyContext,
        _: bool,
    ) -> Box<Error> {
        if let Some(attempt) = &exchange.attempt {
            attempt.fail_with(&error);
        }
        error.set_retry(false);
        error
    }

    /// One failure, one line: [`super::exchange`] logs it.
    fn suppress_error_log(&self, _: &Session, _: &ProxyContext, _: &Error) -> bool {
        true
    }

    async fn fail_to_proxy(&self, _: &mut Session, error: &Error, _: &mut ProxyContext) -> FailToProxy {
        tracing::debug!(%error, "an attempt failed");
        FailToProxy { error_code: StatusCode::BAD_GATEWAY.as_u16(), can_reuse_downstream: false }
    }
}
