//! The cache of admin's responses: files of the console that have a hash in their name, icons of organizations, and,
//! for a few seconds, the API description.
//!
//! [`name`] decides by the form of the address alone what may be cached, and under which name; [`memory`] keeps it
//! within its share of `edge.memory`. A miss goes through pingora-cache in [`super::proxy`], under its lock: concurrent
//! requests for the same name wait for that response. A hit is answered here, before a turn, a pipe or a connection is
//! taken.
//!
//! The cache holds no personal data: a request that has a name goes to admin without cookies and credentials, and only
//! known headers of its response are cached. A change of its organization ends an icon: its response carries the
//! organization's ID, by which [`ChangeMarks`] end it before admin reports the change.

mod memory;
mod name;

use std::{str::FromStr as _, sync::Arc, time::SystemTime};

use ::memory::{AppliedMoment, ChangeMarks};
use domain::ChangeSubject;
use edge_metrics as metrics;
use http::{HeaderMap, HeaderName, Method, Response, StatusCode, header};
use http_types::{FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, SiteBody, X_REQUEST_ID};
use limits::MemoryShares;
use live::bus;
use pingora::{
    cache::{
        CacheKey, CacheMeta, CacheOptionOverrides, NoCacheReason, RespCacheable,
        lock::{CacheKeyLockImpl, CacheLock},
    },
    http::ResponseHeader,
    prelude::Session,
};
use sites::conditional::{ConditionOutcome, FormValidators};

use self::memory::{CacheMemory, CachedResponse};
pub use self::name::PublicName;

/// The header in which admin names the subject whose change ends a response.
pub(super) const SURROGATE_KEY: HeaderName = HeaderName::from_static(bus::SURROGATE_KEY);
/// The header that carries a request's name from here to the proxy. A visitor's own is never passed on.
pub(super) const CACHE_NAME: HeaderName = HeaderName::from_static("x-svc-cache-name");

/// The headers of a request for a public response, besides [`CONDITIONS`]. Others could influence it, and are dropped.
const PUBLIC_FIELDS: [HeaderName; 7] = [
    header::HOST,
    header::IF_NONE_MATCH,
    header::USER_AGENT,
    FORWARDED_FOR,
    FORWARDED_HOST,
    FORWARDED_PROTO,
    X_REQUEST_ID,
];

/// The headers of a response that are cached with it. The others concern one request or one connection.
const KEPT_HEADERS: [HeaderName; 9] = [
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_SECURITY_POLICY,
    header::CONTENT_TYPE,
    header::ETAG,
    header::VARY,
    header::X_CONTENT_TYPE_OPTIONS,
    HeaderName::from_static("cross-origin-resource-policy"),
];
/// The headers of a 304 response.
const NOT_MODIFIED_HEADERS: [HeaderName; 3] = [header::CACHE_CONTROL, header::ETAG, header::VARY];
/// Headers of requests that the proxy answers, because it implements ranges and dates.
const CONDITIONS: [HeaderName; 5] =
    [header::RANGE, header::IF_RANGE, header::IF_MATCH, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE];

#[derive(Clone, Copy)]
pub(super) struct PlatformCache {
    memory: &'static CacheMemory,
    lock: &'static CacheKeyLockImpl,
}

impl PlatformCache {
    /// Creates an empty cache with the capacity in `shares`. Leaks it, because Pingora requires `'static` references.
    pub(super) fn new(shares: &MemoryShares, marks: Arc<ChangeMarks>) -> Self {
        let memory = Box::leak(Box::new(CacheMemory::new(shares.platform, marks)));
        Self { memory, lock: Box::leak(CacheLock::new_boxed(limits::CACHE_FILL)) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Returns the cached response to a request for `name`, unless the request has a condition for the proxy.
    pub(super) fn answer(&self, name: &PublicName, method: &Method, headers: &HeaderMap) -> Option<Response<SiteBody>> {
        if CONDITIONS.iter().any(|condition| headers.contains_key(condition)) {
            return None;
        }
        let kept = self.memory.find(&key(name));
        metrics::platform_cached(kept.is_some());
        let kept = kept?;
        if is_not_modified(headers, &kept) {
            let mut response = Response::new(SiteBody::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.headers_mut() = only(kept.headers(), &NOT_MODIFIED_HEADERS);
            return Some(response);
        }
        let body = if method == Method::HEAD { SiteBody::empty() } else { SiteBody::from(kept.body().clone()) };
        let mut response = Response::new(body);
        *response.headers_mut() = kept.headers().clone();
        Some(response)
    }

    /// Normalizes the headers of a request for `name`, the same for every visitor, and adds the name for the proxy.
    pub(super) fn normalize_request(name: &PublicName, headers: &mut HeaderMap) {
        let mut public = only(headers, &PUBLIC_FIELDS);
        public.extend(only(headers, &CONDITIONS));
        if let Some(accepted) = name.accept_encoding() {
            public.insert(header::ACCEPT_ENCODING, accepted);
        }
        public.insert(CACHE_NAME, name.text().clone());
        *headers = public;
    }

    pub(super) fn enable(&self, session: &mut Session) {
        let mut wait = CacheOptionOverrides::default();
        wait.wait_timeout = Some(limits::CACHE_FILL);
        session.cache.enable(self.memory, Some(self.memory.evictions()), None, Some(self.lock), Some(wait));
    }

    /// Returns the position in the order of changes for requests to admin from now on.
    pub(super) fn current_moment(&self) -> Option<AppliedMoment> {
        self.memory.marks().moment()
    }

    /// Decides whether admin's response to a request for `name`, made at this `moment`, is cached.
    pub(super) fn decide_caching(
        &self,
        name: &PublicName,
        moment: Option<AppliedMoment>,
        answer: &ResponseHeader,
    ) -> RespCacheable {
        self.admit(name, moment, answer).map_or_else(RespCacheable::Uncacheable, RespCacheable::Cacheable)
    }

    fn admit(
        &self,
        name: &PublicName,
        moment: Option<AppliedMoment>,
        answer: &ResponseHeader,
    ) -> Result<CacheMeta, NoCacheReason> {
        const NOT_PUBLIC: NoCacheReason = NoCacheReason::OriginNotCache;
        if answer.status != StatusCode::OK || !is_public(name, &answer.headers) {
            return Err(NOT_PUBLIC);
        }
        let reading = if name.can_change() {
            let subject = answer.headers.get(SURROGATE_KEY).and_then(|key| key.to_str().ok());
            let subject = subject.and_then(|key| ChangeSubject::from_str(key).ok()).ok_or(NOT_PUBLIC)?;
            let moment = moment.ok_or(NOT_PUBLIC)?;
            Some(self.memory.marks().reading_at(moment, subject.as_str()))
        } else {
            None
        };
        let len = answer.headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok());
        let len = len.and_then(|len| len.parse::<usize>().ok()).ok_or(NOT_PUBLIC)?;
        if len > limits::CACHED_ANSWER_BYTES {
            return Err(NoCacheReason::ResponseTooLarge);
        }
        let headers = only(&answer.headers, &KEPT_HEADERS);
        let beside = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        let admission = self.memory.admit(len, beside + name.text().len(), (reading, name.max_age()));
        let admission = admission.ok_or(NoCacheReason::Custom("no room"))?;
        let mut head =
            ResponseHeader::build(answer.status, Some(headers.len())).map_err(|_| NoCacheReason::InternalError)?;
        for (name, value) in &headers {
            head.append_header(name, value).map_err(|_| NoCacheReason::InternalError)?;
        }
        let mut meta = CacheMeta::new(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, 0, 0, head);
        meta.extensions_mut().insert(admission);
        Ok(meta)
    }
}

pub(super) fn key(name: &PublicName) -> CacheKey {
    CacheKey::new(name.text().as_bytes(), "")
}

/// Returns whether a response is declared public for as long as its name is valid.
fn is_public(name: &PublicName, headers: &HeaderMap) -> bool {
    let directives: Vec<&str> = values(headers, &header::CACHE_CONTROL).collect();
    let says = |directive: &str| directives.iter().any(|said| said.eq_ignore_ascii_case(directive));
    let lasts = directives.iter().any(|said| said.strip_prefix("max-age=").is_some_and(|age| age != "0"));
    let is_forbidden = ["private", "no-store", "no-cache"].into_iter().any(says);
    says("public")
        && lasts
        && !is_forbidden
        && (says("immutable") || !name.needs_immutable())
        && !headers.contains_key(header::SET_COOKIE)
        && values(headers, &header::VARY).all(|field| field.eq_ignore_ascii_case("accept-encoding"))
        && headers.get_all(header::CONTENT_ENCODING).iter().count() <= 1
        && name.allows_coding(headers.get(header::CONTENT_ENCODING))
}

fn values<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

fn is_not_modified(headers: &HeaderMap, kept: &CachedResponse) -> bool {
    let etag = kept.headers().get(header::ETAG).and_then(|etag| etag.to_str().ok());
    etag.is_some_and(|etag| {
        FormValidators { etag, modified: None, is_only_form: true }.evaluate(headers) == ConditionOutcome::NotModified
    })
}

fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let kept = names.iter().filter_map(|name| headers.get(name).map(|value| (name.clone(), value.clone())));
    kept.collect()
}

#[cfg(test)]
mod tests;
