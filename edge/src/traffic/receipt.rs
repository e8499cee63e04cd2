//! An answer on its way: counted once, when its body was handed over, or when more than a moment passes until then.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use domain::{
    Site,
    traffic::{Count, EntryKind},
};
use http::{Response, StatusCode, uri::PathAndQuery};

use super::{Country, Traffic};
use crate::{
    http::{BodyError, CacheUse, GateAnswer, SiteBody},
    limits::{self, BLOCK_BYTES},
};

/// The counted part of a request.
pub(crate) struct Requested {
    /// The site that it reached.
    pub(crate) site: Arc<Site>,
    /// The hostname that it counts for.
    pub(crate) host: Arc<str>,
    /// Its client's country.
    pub(crate) country: Country,
    /// Its path, and what follows.
    pub(crate) path: Option<PathAndQuery>,
}

/// The counted part of an answer.
pub(crate) struct Answer {
    pub(super) site: Arc<Site>,
    pub(super) host: Arc<str>,
    pub(super) status: StatusCode,
    pub(super) cache: CacheUse,
    pub(super) country: Country,
    path: RequestPath,
    /// Whether the gate answered: it does so before anybody looks whether the path is there.
    is_gate: bool,
}

enum RequestPath {
    /// Without a copy. It may hold the head that it came in.
    Shared(Option<PathAndQuery>),
    /// Of an answer that may be on its way for long.
    Own(Box<str>),
}

/// The body of an answer that is counted.
pub struct Counted {
    body: SiteBody,
    receipt: Receipt,
}

struct Receipt {
    traffic: &'static Traffic,
    answer: Answer,
    /// Bytes that were handed over and are not counted yet.
    bytes: u64,
    is_counted: bool,
}

impl Answer {
    fn of(requested: Requested, response: &Response<SiteBody>) -> Self {
        let Requested { site, host, country, path } = requested;
        let path = if response.body().left() > BLOCK_BYTES as u64 {
            RequestPath::Own(path.as_ref().map_or("/", PathAndQuery::path).into())
        } else {
            RequestPath::Shared(path)
        };
        let (status, cache) = (response.status(), response.body().cache_use());
        let is_gate = response.extensions().get::<GateAnswer>().is_some();
        Self { site, host, status, cache, country, path, is_gate }
    }

    /// What its path counts as: one that the site has, one that it lacks, or none. Of what is answered whatever the path
    /// is (the gate, errors), the paths are whatever visitors make up.
    pub(super) fn path_kind(&self) -> Option<EntryKind> {
        match self.status {
            _ if self.is_gate => None,
            StatusCode::NOT_FOUND => Some(EntryKind::MissingPath),
            status if status.is_success() || status.is_redirection() => Some(EntryKind::Path),
            _ => None,
        }
    }

    /// Its path, without the query, cut where it is too long.
    pub(super) fn path(&self) -> Cow<'_, str> {
        let path = match &self.path {
            RequestPath::Shared(path) => path.as_ref().map_or("/", PathAndQuery::path),
            RequestPath::Own(path) => path,
        };
        if path.len() <= limits::COUNTED_PATH_BYTES {
            return path.into();
        }
        let cut = path.floor_char_boundary(limits::COUNTED_PATH_BYTES - '…'.len_utf8());
        format!("{}…", &path[..cut]).into()
    }
}

impl Receipt {
    fn handed_over(&mut self, bytes: usize, is_end: bool) {
        self.bytes += bytes as u64;
        if is_end || !self.is_counted || self.bytes >= limits::COUNTED_PART_BYTES {
            self.count();
        }
    }

    fn count(&mut self) {
        let requests = u64::from(!std::mem::replace(&mut self.is_counted, true));
        let bytes = std::mem::take(&mut self.bytes);
        if requests + bytes > 0 {
            self.traffic.add(&self.answer, Count { requests, bytes });
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.count();
    }
}

impl Counted {
    /// Bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.body.left()
    }

    /// The next bytes, at least one and at most `most`. Whoever takes them sends them.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        let next = ready!(self.body.poll_next(cx, most));
        if let Some(Ok(bytes)) = &next {
            self.receipt.handed_over(bytes.len(), self.body.left() == 0);
        }
        Poll::Ready(next)
    }

    /// The body itself, for what is done to it beside taking its bytes.
    pub(crate) fn body_mut(&mut self) -> &mut SiteBody {
        &mut self.body
    }

    /// The body of another answer that is sent instead, as long as nothing was.
    pub(crate) fn replaced(mut self, status: StatusCode, body: SiteBody) -> Self {
        self.receipt.answer.status = status;
        self.receipt.answer.cache = CacheUse::None;
        self.body = body;
        self
    }
}

impl Traffic {
    /// The country of a client at `address`.
    pub(crate) fn country(&self, address: IpAddr) -> Country {
        self.countries.of(address)
    }

    /// Counts the answer to a request: now when it has no body, else together with its body.
    pub(crate) fn follow(
        &'static self,
        requested: Requested,
        response: Response<SiteBody>,
    ) -> Response<Result<Counted, SiteBody>> {
        let answer = Answer::of(requested, &response);
        if response.body().left() == 0 {
            self.add(&answer, Count { requests: 1, bytes: 0 });
            return response.map(Err);
        }
        let receipt = Receipt { traffic: self, answer, bytes: 0, is_counted: false };
        response.map(|body| Ok(Counted { body, receipt }))
    }
}
