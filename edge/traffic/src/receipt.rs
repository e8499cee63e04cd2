//! Counts a response once: when the connection has taken its body, or the first bytes if that takes longer. Bytes that
//! were made ready and never taken, as after a reset, do not count.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use domain::{
    Site,
    traffic::{ErrorKey, TrafficCount, TrafficEntryKind, ViewKey},
};
use http::{Response, StatusCode, uri::PathAndQuery};
use http_types::{BodyError, CacheUse, GateAnswer, ServedKind, SiteBody, TakenBytes};
use limits::BLOCK_BYTES;

use super::{
    Country, TrafficCounter,
    people::{
        client::{ClientIdentity, FetchPurpose, RequestClient},
        referrer::{Referrer, assistant},
    },
    truncate_path,
};

/// The counted part of a request.
pub struct CountedRequest {
    /// The visited site.
    pub site: Arc<Site>,
    /// The host that the visit counts for: for a deployment's address, the project's own.
    pub host: Arc<str>,
    /// The country of the client's address.
    pub country: Country,
    /// The requested path with its query; without one, the request counts for `/`.
    pub path: Option<PathAndQuery>,
    /// The client, with the purpose of its request and the page that led to it.
    pub client: RequestClient,
}

/// The counted part of a response.
pub struct CountedResponse {
    pub(super) site: Arc<Site>,
    pub(super) host: Arc<str>,
    pub(super) status: StatusCode,
    pub(super) cache: CacheUse,
    pub(super) country: Country,
    /// The sender; a visitor that may be a person until it is classified.
    pub(super) who: ClientIdentity,
    pub(super) purpose: FetchPurpose,
    pub(super) served: ServedKind,
    /// Whether the path names the served file. Visitors make up other paths, and one page or rule answers them all.
    pub(super) is_own_file: bool,
    /// Whether the site's `robots.txt` disallows it for this client.
    pub(super) is_disallowed: bool,
    /// For pages and errors: the referring host, or for errors a path of the same site. Empty if there is none.
    referrer: Box<str>,
    path: CountedPath,
    /// Whether the gate answered, before checking whether the path exists.
    is_gate: bool,
}

enum CountedPath {
    /// Shared without a copy. It may keep the request head that it came in alive.
    Shared(Option<PathAndQuery>),
    /// Copied, for a response whose body may take long.
    Own(Box<str>),
}

/// The body of a response that is counted.
pub struct CountedBody {
    body: SiteBody,
    receipt: Arc<ResponseReceipt>,
}

/// Counts a response together with its body, at the latest when dropped: with the body, or with the last of its bytes
/// that is on its way.
pub struct ResponseReceipt {
    traffic: &'static TrafficCounter,
    state: Mutex<ReceiptState>,
}

struct ReceiptState {
    answer: CountedResponse,
    /// Bytes that were taken and are not counted yet.
    bytes: u64,
    is_counted: bool,
}

impl CountedResponse {
    fn new(requested: CountedRequest, response: &Response<SiteBody>, is_own: impl Fn(&Site, &str) -> bool) -> Self {
        let CountedRequest { site, host, country, path, client } = requested;
        let RequestClient { who, mut purpose, referer } = client;
        let status = response.status();
        let is_answer = status == StatusCode::OK || status == StatusCode::NOT_MODIFIED;
        let served = if is_answer { response.body().served() } else { ServedKind::Other };
        let is_own = |host: &str| is_own(&site, host);
        let led_here = || referer.as_ref().and_then(Referrer::parse);
        let is_page = matches!((served, purpose), (ServedKind::Page { .. }, FetchPurpose::Page { .. }))
            && matches!(who, ClientIdentity::Browser(_));
        let referrer = if is_page {
            let foreign = || Some(led_here()?.host).filter(|host| !is_own(host));
            let query = path.as_ref().and_then(PathAndQuery::query);
            match (&referer, query) {
                (None, Some(query)) => assistant(query).unwrap_or_default().into(),
                (None, None) => Box::default(),
                (Some(_), _) => foreign().unwrap_or_default().into(),
            }
        } else if is_error(status) {
            let origin = led_here().map(|from| if is_own(&from.host) { from.counted_path() } else { from.host });
            origin.unwrap_or_default().into()
        } else {
            Box::default()
        };
        if purpose == FetchPurpose::MaybePart {
            let is_part = served == ServedKind::Part && led_here().is_some_and(|from| is_own(&from.host));
            purpose = if is_part { FetchPurpose::Part } else { FetchPurpose::Other };
        }
        let path = if response.body().left() > BLOCK_BYTES as u64 {
            CountedPath::Own(path.as_ref().map_or("/", PathAndQuery::path).into())
        } else {
            CountedPath::Shared(path)
        };
        let (cache, is_disallowed) = (response.body().cache_use(), response.body().is_disallowed());
        let is_gate = response.extensions().get::<GateAnswer>().is_some();
        let is_own_file = response.body().is_own_file();
        Self {
            site,
            host,
            status,
            cache,
            country,
            who,
            purpose,
            served,
            is_own_file,
            is_disallowed,
            referrer,
            path,
            is_gate,
        }
    }

    /// Returns the list that its path counts in: paths of the site, errors, or none. Paths that are answered regardless
    /// of the path (by the gate, in most refusals) are made up by visitors.
    pub(super) fn path_kind(&self) -> Option<TrafficEntryKind> {
        match self.status {
            _ if self.is_gate => None,
            status if is_error(status) => Some(TrafficEntryKind::Error),
            status if status.is_success() || status.is_redirection() => Some(TrafficEntryKind::Path),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> Cow<'_, str> {
        truncate_path(match &self.path {
            CountedPath::Shared(path) => path.as_ref().map_or("/", PathAndQuery::path),
            CountedPath::Own(path) => path,
        })
    }

    pub(super) fn error_key(&self) -> String {
        ErrorKey { status: self.status.as_u16(), path: &self.path(), referrer: &self.referrer }.encode()
    }

    /// Returns whether it is a page requested with GET, by any client.
    pub(super) fn is_page(&self) -> bool {
        matches!((self.served, self.purpose), (ServedKind::Page { .. }, FetchPurpose::Page { .. }))
    }

    /// Returns its key in the list of views, and whether a browser would now load parts; `None` if it is not a page.
    pub(super) fn page(&self) -> Option<(String, bool)> {
        let (ServedKind::Page { loads_parts }, FetchPurpose::Page { has_copy }) = (self.served, self.purpose) else {
            return None;
        };
        let (path, country) = (self.path(), self.country);
        let key = ViewKey { path: &path, referrer: &self.referrer, country: country.as_str(), hostname: &self.host };
        Some((key.encode(), loads_parts && !has_copy))
    }
}

/// Returns whether a response with this status counts as an error of its path.
fn is_error(status: StatusCode) -> bool {
    status == StatusCode::NOT_FOUND || status.is_server_error()
}

impl ResponseReceipt {
    pub fn into_counted(self, body: SiteBody) -> CountedBody {
        CountedBody { body, receipt: Arc::new(self) }
    }

    fn state(&self) -> MutexGuard<'_, ReceiptState> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_taken(&self, bytes: usize, is_end: bool) {
        let mut state = self.state();
        state.bytes += bytes as u64;
        if is_end || !state.is_counted || state.bytes >= limits::COUNTED_PART_BYTES {
            state.count(self.traffic);
        }
    }
}

impl ReceiptState {
    fn count(&mut self, traffic: &TrafficCounter) {
        let requests = u64::from(!std::mem::replace(&mut self.is_counted, true));
        let bytes = std::mem::take(&mut self.bytes);
        if requests + bytes > 0 {
            traffic.add(&mut self.answer, TrafficCount { requests, bytes });
        }
    }
}

impl TakenBytes for ResponseReceipt {
    fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.record_taken(bytes, false);
        }
    }
}

impl Drop for ResponseReceipt {
    fn drop(&mut self) {
        self.state().count(self.traffic);
    }
}

impl CountedBody {
    /// Returns the number of bytes that are still to be sent.
    pub fn left(&self) -> u64 {
        self.body.left()
    }

    /// Returns the next bytes, at least one and at most `most`. They count as taken.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        let next = ready!(self.body.poll_next(cx, most));
        if let Some(Ok(bytes)) = &next {
            self.receipt.record_taken(bytes.len(), self.body.left() == 0);
        }
        Poll::Ready(next)
    }

    /// Returns who counts the bytes that are read from [`body_mut`](Self::body_mut), once they are taken.
    pub fn counter(&self) -> Arc<dyn TakenBytes> {
        self.receipt.clone()
    }

    /// Returns whether the bytes wait for the pace of an account over its bandwidth.
    pub fn is_paced(&self) -> bool {
        self.body.is_paced()
    }

    /// Returns the body itself. Bytes that are taken from it directly are not counted.
    pub fn body_mut(&mut self) -> &mut SiteBody {
        &mut self.body
    }

    /// Replaces the response and its body, as long as nothing was sent.
    #[must_use]
    pub fn replace_with(mut self, status: StatusCode, body: SiteBody) -> Self {
        let mut state = self.receipt.state();
        state.answer.status = status;
        state.answer.cache = CacheUse::None;
        state.answer.served = ServedKind::Other;
        state.answer.is_own_file = false;
        drop(state);
        self.body = body;
        self
    }
}

impl TrafficCounter {
    /// Returns the country of `address` by the configured database; without one, every country is unknown.
    pub fn country(&self, address: IpAddr) -> Country {
        self.countries.find(address)
    }

    /// Counts the response to a request: immediately if it has no body, otherwise through the returned receipt.
    /// `is_own` returns whether a host belongs to the same site.
    pub fn follow(
        &'static self,
        requested: CountedRequest,
        response: &Response<SiteBody>,
        is_own: impl Fn(&Site, &str) -> bool,
    ) -> Option<ResponseReceipt> {
        let mut answer = CountedResponse::new(requested, response, is_own);
        if response.body().left() == 0 {
            self.add(&mut answer, TrafficCount { requests: 1, bytes: 0 });
            return None;
        }
        let state = ReceiptState { answer, bytes: 0, is_counted: false };
        Some(ResponseReceipt { traffic: self, state: state.into() })
    }
}
