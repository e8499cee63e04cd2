//! The cache without a proxy: what it admits, keeps, releases and returns.

use bytes::Bytes;
use domain::{OrgId, RouteChange, addresses::HostKind};
use http::Request;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty};
use http_types::Visitor;
use pingora::cache::{HttpCache, RespCacheable};

use super::*;

const FOREVER: &str = "public, max-age=31536000, immutable";
const ASSET: &str = "/_app/immutable/a.js";
const ICON: &str = "/api/orgs/acme/icon";
const VERSIONED_ICON: &str = "/api/orgs/acme/icon?v=0123456789abcdef";

fn cache() -> (PlatformCache, Arc<ChangeMarks>) {
    let marks = Arc::<ChangeMarks>::default();
    marks.set_applied(1);
    (PlatformCache::new(&MemoryShares::least().unwrap(), marks.clone()), marks)
}

fn name(target: &str, accepted: &str) -> PublicName {
    let request = Request::get(target).header(header::ACCEPT_ENCODING, accepted).body(Empty::<Bytes>::new()).unwrap();
    let visitor = Visitor { address: std::net::Ipv4Addr::LOCALHOST.into(), tls: true };
    PublicName::from_request(&request, "app.x", &HostKind::Console, visitor).unwrap()
}

fn org() -> OrgId {
    OrgId::from_body("0123456789abcdefghij").unwrap()
}

fn answer(len: usize, headers: &[(&str, &str)]) -> ResponseHeader {
    let mut head = ResponseHeader::build(200, None).unwrap();
    head.insert_header("content-length", len.to_string()).unwrap();
    head.insert_header("etag", "\"e\"").unwrap();
    head.insert_header("x-request-id", "req_of_somebody").unwrap();
    for (name, value) in headers {
        head.append_header((*name).to_owned(), *value).unwrap();
    }
    head
}

fn is_kept(target: &str, headers: &[(&str, &str)]) -> bool {
    let (cache, marks) = cache();
    let judged = cache.decide_caching(&name(target, "br"), marks.moment(), &answer(1, headers));
    matches!(judged, RespCacheable::Cacheable(_))
}

/// Passes a response through pingora-cache. Returns whether it was admitted.
async fn fill(cache: &PlatformCache, name: &PublicName, head: &ResponseHeader, body: &[u8]) -> bool {
    let RespCacheable::Cacheable(meta) = cache.decide_caching(name, cache.current_moment(), head) else { return false };
    let mut http = HttpCache::new();
    http.enable(cache.memory, Some(cache.memory.evictions()), None, Some(cache.lock), None);
    http.set_cache_key(key(name));
    assert!(http.cache_lookup().await.unwrap().is_none());
    http.cache_miss();
    http.set_cache_meta(meta);
    http.set_miss_handler().await.unwrap();
    http.miss_handler().unwrap().write_body(Bytes::copy_from_slice(body), true).await.unwrap();
    http.finish_miss_handler().await.unwrap();
    // A task removes evicted responses.
    tokio::task::yield_now().await;
    true
}

async fn kept(cache: &PlatformCache, name: &PublicName) -> Option<Bytes> {
    let response = cache.answer(name, &Method::GET, &HeaderMap::new())?;
    Some(response.into_body().collect().await.unwrap().to_bytes())
}

#[test]
fn only_what_is_public_and_lasts_is_kept() {
    let asset = |headers: &[(&str, &str)]| is_kept(ASSET, headers);
    assert!(asset(&[("cache-control", FOREVER), ("vary", "Accept-Encoding"), ("content-encoding", "br")]));
    for headers in [
        &[][..],
        &[("cache-control", "public, max-age=60")],
        &[("cache-control", "public, immutable")],
        &[("cache-control", "public, max-age=0, immutable")],
        &[("cache-control", "private, max-age=60, immutable")],
        &[("cache-control", "max-age=60, immutable")],
        &[("cache-control", FOREVER), ("cache-control", "no-store")],
        &[("cache-control", FOREVER), ("set-cookie", "a=b")],
        &[("cache-control", FOREVER), ("vary", "cookie")],
        &[("cache-control", FOREVER), ("vary", "accept-encoding, *")],
        &[("cache-control", FOREVER), ("content-encoding", "gzip")],
        &[("cache-control", FOREVER), ("content-encoding", "br"), ("content-encoding", "br")],
    ] {
        assert!(!asset(headers), "{headers:?}");
    }
    let org = org();
    let ends_with = ("surrogate-key", org.as_str());
    assert!(is_kept(ICON, &[("cache-control", "public, max-age=60"), ends_with]));
    assert!(is_kept(VERSIONED_ICON, &[("cache-control", FOREVER), ends_with]));
    for (target, headers) in [
        (ICON, &[("cache-control", "public, max-age=60")][..]),
        (ICON, &[("cache-control", "public, max-age=60"), ("surrogate-key", "acme")]),
        (ICON, &[("cache-control", FOREVER), ends_with, ("content-encoding", "br")]),
        (VERSIONED_ICON, &[("cache-control", "public, max-age=60"), ends_with]),
    ] {
        assert!(!is_kept(target, headers), "{target} {headers:?}");
    }
}

#[test]
fn other_statuses_and_unknown_lengths_are_not_kept() {
    let (cache, marks) = cache();
    let judge = |head: &ResponseHeader| cache.decide_caching(&name(ASSET, ""), marks.moment(), head).is_cacheable();
    let mut head = answer(1, &[("cache-control", FOREVER)]);
    assert!(judge(&head));
    for status in [204, 206, 302, 304, 404, 500] {
        head.set_status(status).unwrap();
        assert!(!judge(&head), "{status}");
    }
    let mut head = answer(1, &[("cache-control", FOREVER)]);
    head.remove_header("content-length");
    assert!(!judge(&head));
    assert!(judge(&answer(limits::CACHED_ANSWER_BYTES, &[("cache-control", FOREVER)])));
    assert!(!judge(&answer(limits::CACHED_ANSWER_BYTES + 1, &[("cache-control", FOREVER)])));
    let icon = answer(1, &[("cache-control", FOREVER), ("surrogate-key", org().as_str())]);
    assert!(!cache.decide_caching(&name(ICON, ""), None, &icon).is_cacheable(), "no change has been heard of yet");
}

#[tokio::test]
async fn kept_answers_are_answered_with_their_own_headers() {
    let (cache, _) = cache();
    let (br, identity) = (name(ASSET, "br"), name(ASSET, "gzip"));
    let head = answer(4, &[("cache-control", FOREVER), ("content-encoding", "br"), ("x-else", "y")]);
    assert!(fill(&cache, &br, &head, b"body").await);
    assert!(kept(&cache, &identity).await.is_none(), "another coding is another name");
    let get = |method: &Method, headers: &[(HeaderName, &str)]| {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        cache.answer(&br, method, &headers)
    };
    let whole = get(&Method::GET, &[]).unwrap();
    assert_eq!((whole.status(), whole.body().size_hint().exact()), (StatusCode::OK, Some(4)));
    assert_eq!(whole.headers()["content-encoding"], "br");
    assert!(!whole.headers().contains_key("x-request-id") && !whole.headers().contains_key("x-else"));
    let head = get(&Method::HEAD, &[]).unwrap();
    assert_eq!((head.headers()["content-length"].to_str().unwrap(), head.body().left()), ("4", 0));
    for (known, status) in [("\"e\"", 304), ("W/\"e\"", 304), ("*", 304), ("\"other\", \"e\"", 304), ("\"other\"", 200)]
    {
        let answer = get(&Method::GET, &[(header::IF_NONE_MATCH, known)]).unwrap();
        assert_eq!(answer.status().as_u16(), status, "{known}");
        assert_eq!(answer.headers().contains_key("content-length"), status == 200, "{known}");
    }
    for condition in CONDITIONS {
        assert!(get(&Method::GET, &[(condition.clone(), "x")]).is_none(), "{condition} is the proxy's");
    }
}

#[tokio::test]
async fn a_change_of_the_organization_ends_its_icon_and_nothing_else() {
    let (cache, marks) = cache();
    let org = org();
    let icon_head = answer(3, &[("cache-control", "public, max-age=60"), ("surrogate-key", org.as_str())]);
    let (icon, asset) = (name(ICON, ""), name(ASSET, ""));
    assert!(fill(&cache, &icon, &icon_head, b"old").await);
    assert!(fill(&cache, &asset, &answer(1, &[("cache-control", FOREVER)]), b"a").await);
    let held = cache.bytes();
    let asked_before = marks.moment();
    marks.apply(&RouteChange { seq: 2, subject: (&org).into(), hosts: Vec::new(), epoch: None, nonce: None });
    marks.set_applied(2);
    assert_eq!(kept(&cache, &icon).await, None);
    assert_eq!(kept(&cache, &asset).await.as_deref(), Some(&b"a"[..]));
    assert!(cache.bytes() < held, "its bytes are let go of");
    // A response requested before the change may be older than it.
    let RespCacheable::Cacheable(late) = cache.decide_caching(&icon, asked_before, &icon_head) else {
        panic!("admitted")
    };
    let mut http = HttpCache::new();
    cache_late(&cache, &mut http, &icon, late).await;
    assert_eq!(kept(&cache, &icon).await, None);
    assert!(fill(&cache, &icon, &icon_head, b"new").await);
    assert_eq!(kept(&cache, &icon).await.as_deref(), Some(&b"new"[..]));
    marks.start_over("next".parse().unwrap());
    assert_eq!(kept(&cache, &icon).await, None, "the order of changes began anew");
    assert_eq!(kept(&cache, &asset).await.as_deref(), Some(&b"a"[..]));
}

async fn cache_late(cache: &PlatformCache, http: &mut HttpCache, name: &PublicName, meta: CacheMeta) {
    http.enable(cache.memory, Some(cache.memory.evictions()), None, None, None);
    http.set_cache_key(key(name));
    assert!(http.cache_lookup().await.unwrap().is_none());
    http.cache_miss();
    http.set_cache_meta(meta);
    http.set_miss_handler().await.unwrap();
    http.miss_handler().unwrap().write_body(Bytes::from_static(b"old"), true).await.unwrap();
    http.finish_miss_handler().await.unwrap();
}

#[tokio::test]
async fn memory_keeps_within_its_share_and_drops_what_was_not_asked_for() {
    let (cache, _) = cache();
    let share = MemoryShares::least().unwrap().platform;
    let body = vec![b'x'; 60_000];
    let head = answer(body.len(), &[("cache-control", FOREVER)]);
    let numbered = |number: usize| name(&format!("/_app/immutable/{number}.js"), "");
    for number in 0..200 {
        assert!(fill(&cache, &numbered(number), &head, &body).await);
        assert!(cache.bytes() <= share, "{} of {share}", cache.bytes());
    }
    assert!(cache.bytes() > share / 2, "most of the share is used");
    assert!(kept(&cache, &numbered(199)).await.is_some() && kept(&cache, &numbered(0)).await.is_none());
    // Responses that are still being sent hold their bytes, so that fewer can be cached.
    let mut sending = Vec::new();
    let mut number = 200;
    while fill(&cache, &numbered(number), &head, &body).await {
        sending.extend(cache.answer(&numbered(number), &Method::GET, &HeaderMap::new()));
        assert!(cache.bytes() <= share);
        number += 1;
    }
    assert!(sending.len() > 10);
    drop(sending);
    assert!(fill(&cache, &numbered(number), &head, &body).await);
}

#[tokio::test]
async fn a_body_of_another_length_than_was_said_is_not_kept() {
    let (cache, _) = cache();
    let asset = name(ASSET, "");
    for body in [&b"12345"[..], b"123"] {
        let RespCacheable::Cacheable(meta) =
            cache.decide_caching(&asset, None, &answer(4, &[("cache-control", FOREVER)]))
        else {
            panic!("admitted")
        };
        let mut http = HttpCache::new();
        http.enable(cache.memory, Some(cache.memory.evictions()), None, Some(cache.lock), None);
        http.set_cache_key(key(&asset));
        assert!(http.cache_lookup().await.unwrap().is_none());
        http.cache_miss();
        http.set_cache_meta(meta);
        http.set_miss_handler().await.unwrap();
        let written = http.miss_handler().unwrap().write_body(Bytes::copy_from_slice(body), true).await;
        assert!(written.is_err() || http.finish_miss_handler().await.is_err());
        // As the proxy does after every error.
        http.disable(NoCacheReason::InternalError);
        drop(http);
        assert_eq!((kept(&cache, &asset).await, cache.bytes()), (None, 0));
    }
}

#[test]
fn nothing_of_a_visitor_goes_along() {
    let mut headers = HeaderMap::new();
    for name in ["cookie", "authorization", "origin", "referer", "x-else", "accept-encoding", "range", "host"] {
        headers.insert(HeaderName::from_static(name), header::HeaderValue::from_static("x"));
    }
    PlatformCache::normalize_request(&name(ASSET, "br"), &mut headers);
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "host", "range", "x-svc-cache-name"]);
    assert_eq!(headers["accept-encoding"], "br");
}

#[tokio::test(start_paused = true)]
async fn the_description_of_the_api_is_kept_for_a_while() {
    let (cache, _marks) = cache();
    let request = Request::get("/openapi.json").body(Empty::<Bytes>::new()).unwrap();
    let visitor = Visitor { address: std::net::Ipv4Addr::LOCALHOST.into(), tls: true };
    let document = PublicName::from_request(&request, "api.x", &HostKind::Api, visitor).unwrap();
    assert!(fill(&cache, &document, &answer(2, &[("cache-control", "public, max-age=60")]), b"{}").await);
    assert_eq!(kept(&cache, &document).await.as_deref(), Some(&b"{}"[..]));
    tokio::time::advance(limits::DOCUMENT_LIFE).await;
    assert_eq!(kept(&cache, &document).await, None);
}
