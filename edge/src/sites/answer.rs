//! Builds the response for a file: conditional requests, encodings and ranges.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::SystemTime};

use bytes::Bytes;
use domain::traffic::agents::Agent;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE,
        LAST_MODIFIED, RANGE, VARY,
    },
};
use packs::{Encoding, Span, StoredBody};

use super::{
    cache::Bodies,
    conditional::{Validators, Verdict},
    decoded::EncodedBody,
    guards::{Granted, Guards},
    header_rules,
    pack::{File, Form, Pack, PackData, REVALIDATE},
    packs::PackError,
    pieces::{Piece, Pieces},
    ranges::{Wanted, wanted},
};
use crate::{
    http::{Accepted, CacheUse, SiteBody, Source as _, pages},
    limits::{BLOCK_BYTES, CACHED_BODY_BYTES},
};

/// The parts of a request that matter once the file is known.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'r> {
    pub(crate) method: &'r Method,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) host: &'r str,
    /// The request path with its leading slash, decoded as far as a file name allows: see [`super::path::RequestPath`].
    pub(crate) path: &'r str,
    /// The path as the client sent it, without its query.
    pub(crate) sent: &'r str,
    pub(crate) is_nameable: bool,
    pub(crate) country: Option<[u8; 2]>,
    /// The accounts whose credentials the request carries, limited to guards checked so far.
    pub(crate) granted: &'r Granted,
    /// The known agent (crawler, AI program) that sent the request, if it names itself.
    pub(crate) agent: Option<&'static Agent>,
    /// The guards of the live deployment, when the pack being served is not the live one.
    pub(crate) live_guards: Option<&'r Guards>,
    /// The port in the site's URLs; `None` for the default port.
    pub(crate) public_port: Option<u16>,
    pub(crate) now: SystemTime,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Found,
    Rewritten,
    /// The page that a single-page site serves for any navigation without a file.
    SinglePage,
    NotFound,
    Gone,
}

impl Role {
    /// Returns the error status, or `None` if the file is a regular answer.
    fn error(self) -> Option<StatusCode> {
        match self {
            Self::Found | Self::Rewritten | Self::SinglePage => None,
            Self::NotFound => Some(StatusCode::NOT_FOUND),
            Self::Gone => Some(StatusCode::GONE),
        }
    }

    /// Returns whether the site's own `Cache-Control` in `headers` applies: to its files (200, 206, 304). A long
    /// lifetime for asset URLs must not keep a 404, or a page served in place of an asset, in browsers for a year.
    fn takes_cache_control(self, headers: &HeaderMap) -> bool {
        match self {
            Self::Found | Self::Rewritten => true,
            Self::NotFound | Self::Gone => false,
            Self::SinglePage => {
                let mut values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
                !values.any(|value| value.to_ascii_lowercase().contains("immutable"))
            }
        }
    }
}

/// A response whose status and headers are decided. Borrows nothing from the pack; its first block may still be read.
pub(crate) struct Decided {
    response: Response<SiteBody>,
    /// The work to do before the response begins, so that a failed read can still become another response. `None` if
    /// the body needs no read. Boxed because most responses have none, and each is moved several times.
    first: Option<Box<Begin>>,
}

enum Begin {
    Read(First),
    Decode(Decode),
}

struct Decode {
    body: EncodedBody,
    is_sent: bool,
}

/// The first block of a body that is not in memory, and the pieces to send once it is.
struct First {
    data: Arc<PackData>,
    whole: StoredBody,
    start: u64,
    pieces: Option<VecDeque<Piece>>,
}

impl From<Response<SiteBody>> for Decided {
    fn from(response: Response<SiteBody>) -> Self {
        Self { response, first: None }
    }
}

impl Decided {
    pub(crate) fn disallow(&mut self) {
        self.response.body_mut().disallow();
    }

    /// Reads the first block of the body, if any, and returns the response.
    pub(crate) async fn begin(self) -> Result<Response<SiteBody>, PackError> {
        match self.first {
            None => Ok(self.response),
            Some(first) => match *first {
                Begin::Read(first) => Box::pin(first.fill(self.response)).await,
                Begin::Decode(decode) => Box::pin(decode.fill(self.response)).await,
            },
        }
    }
}

impl Decode {
    async fn fill(self, mut response: Response<SiteBody>) -> Result<Response<SiteBody>, PackError> {
        let encoding = self.body.encoding;
        let Some(body) = self.body.decode().await? else {
            return Ok(pages::not_acceptable(encoding));
        };
        response.headers_mut().insert(CONTENT_LENGTH, body.left().into());
        if self.is_sent {
            response.body_mut().fill(SiteBody::streamed(Box::new(body)));
        }
        Ok(response)
    }
}

impl First {
    async fn fill(mut self, mut response: Response<SiteBody>) -> Result<Response<SiteBody>, PackError> {
        if let Some(pieces) = self.pieces.take_if(|_| self.whole.span.len > CACHED_BODY_BYTES) {
            let mut pieces = Pieces::new(self.data, pieces);
            pieces.begin().await?;
            response.body_mut().fill(SiteBody::streamed(Box::new(pieces)).found(CacheUse::Miss));
            return Ok(response);
        }
        let bytes = self.data.bodies.block(&self.data, &self.whole, self.start).await?;
        let body = match self.pieces {
            None => SiteBody::kept(bytes, self.data, self.whole),
            Some(pieces) => streamed(self.data, pieces),
        };
        response.body_mut().fill(body.found(CacheUse::Miss));
        Ok(response)
    }
}

pub(crate) fn send(pack: &Pack, file: &File, asked: Asked<'_>, role: Role) -> Result<Decided, PackError> {
    pack.admit_to_file(file, asked)?;
    let mut decided = conditional(pack, file, asked, role)?;
    if role.error().is_none() {
        decided.response.body_mut().serve(file.served);
        if role == Role::Found {
            decided.response.body_mut().mark_own_file();
        }
    }
    Ok(decided)
}

fn conditional(pack: &Pack, file: &File, asked: Asked<'_>, role: Role) -> Result<Decided, PackError> {
    // Errors ignore conditions and ranges.
    let range = asked.headers.get(RANGE).filter(|_| asked.method == Method::GET && role.error().is_none());
    let Some(form) = choose(file.forms(), asked.headers, range.is_some()) else {
        return Err(PackError::unavailable("a file without a form"));
    };
    let mut headers = pack.headers_of(file, form);
    if role != Role::Found {
        // The URL does not identify the content: the next deployment may serve another file there.
        headers.insert(CACHE_CONTROL, REVALIDATE);
    }
    if !pack.headers.is_empty() {
        header_rules::apply(&pack.headers, asked.host, asked.sent, &mut headers);
        if !role.takes_cache_control(&headers) {
            headers.insert(CACHE_CONTROL, REVALIDATE);
        }
    }
    if role == Role::SinglePage || (role == Role::NotFound && pack.has_own_single_page()) {
        headers.append(VARY, HeaderValue::from_static("Accept"));
        headers.append(VARY, HeaderValue::from_static("Sec-Fetch-Dest, Sec-Fetch-Mode"));
    }
    let encoding = pack.encoding(file).filter(|encoding| Accepted::refuses(asked.headers, *encoding));
    if encoding.is_some() {
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, ACCEPT_RANGES] {
            headers.remove(name);
        }
    }
    let decoded_etag = encoding.map(|_| file.etag_decoded());
    if let Some(etag) = &decoded_etag {
        headers.insert(ETAG, etag.clone());
    }
    if let Some(status) = role.error() {
        for name in [ETAG, LAST_MODIFIED, ACCEPT_RANGES] {
            headers.remove(name);
        }
        return Ok(match encoding {
            Some(encoding) => decoded(pack, form, encoding, asked, status, headers),
            None => whole(pack, form, asked, status, headers),
        });
    }
    // Where a rule or the request selects the file, the next response may be another file with the same date. A date in
    // the future cannot tell apart several contents within a second.
    let modified = pack.modified(file).filter(|at| role == Role::Found && file.is_alone && *at <= asked.now);
    if modified.is_none() {
        headers.remove(LAST_MODIFIED);
    }
    let etag = decoded_etag.as_ref().and_then(|etag| etag.to_str().ok()).unwrap_or(form.etag());
    let validators = Validators { etag, modified, is_only_form: file.forms().len() == 1 };
    match validators.judge(asked.headers) {
        Verdict::Send => {}
        Verdict::NotModified => return Ok(not_modified(headers).into()),
        Verdict::Failed => return Ok(pages::precondition_failed().into()),
    }
    if let Some(encoding) = encoding {
        return Ok(decoded(pack, form, encoding, asked, StatusCode::OK, headers));
    }
    let range = range.filter(|_| validators.allow_range(asked.headers));
    match range.map_or(Wanted::Whole, |range| wanted(range.to_str().unwrap_or_default(), form.body.span.len)) {
        Wanted::Whole => Ok(whole(pack, form, asked, StatusCode::OK, headers)),
        Wanted::Unsatisfiable => Ok(pages::range_not_satisfiable(form.body.span.len).into()),
        Wanted::Parts(parts) => self::parts(pack, file, form, &parts, headers),
    }
}

/// Builds the response for a file stored in an encoding that the client refuses.
fn decoded(
    pack: &Pack,
    form: &Form,
    encoding: Encoding,
    asked: Asked<'_>,
    status: StatusCode,
    headers: HeaderMap,
) -> Decided {
    let body = EncodedBody { data: pack.data.clone(), whole: form.body.clone(), encoding };
    let decode = Decode { body, is_sent: asked.method != Method::HEAD };
    let response = respond(status, headers, SiteBody::empty());
    Decided { response, first: Some(Box::new(Begin::Decode(decode))) }
}

fn whole(pack: &Pack, form: &Form, asked: Asked<'_>, status: StatusCode, headers: HeaderMap) -> Decided {
    let (whole, span) = (&form.body, form.body.span);
    if asked.method == Method::HEAD || span.len == 0 {
        return respond(status, headers, SiteBody::empty()).into();
    }
    let pieces = || VecDeque::from([Piece::Span { part: span, whole: whole.clone() }]);
    if span.len > BLOCK_BYTES as u64 {
        return begun(pack, whole, 0, pieces(), status, headers);
    }
    if let Some(bytes) = pack.data.bodies.remembered(&pack.data, span) {
        let body = SiteBody::kept(bytes, pack.data.clone(), whole.clone()).found(CacheUse::Hit);
        return respond(status, headers, body).into();
    }
    let first = First { data: pack.data.clone(), whole: whole.clone(), start: 0, pieces: None };
    Decided { response: respond(status, headers, SiteBody::empty()), first: Some(Box::new(Begin::Read(first))) }
}

fn parts(
    pack: &Pack,
    file: &File,
    form: &Form,
    parts: &[Range<u64>],
    mut headers: HeaderMap,
) -> Result<Decided, PackError> {
    let len = form.body.span.len;
    let mut pieces = VecDeque::new();
    if let [part] = parts {
        headers.insert(CONTENT_RANGE, content_range(part, len));
        pieces.push_back(piece(&form.body, part));
    } else {
        // Derived from the content by a hash, so that no content can contain its own boundary.
        let boundary = file.sha256.get(32..).unwrap_or("part");
        for part in parts {
            let preface = multipart_preface(boundary, &file.content_type, part, len);
            pieces.extend([Piece::Bytes(preface), piece(&form.body, part)]);
        }
        pieces.push_back(Piece::Bytes(format!("\r\n--{boundary}--\r\n").into()));
        let multipart = format!("multipart/byteranges; boundary={boundary}");
        headers.insert(CONTENT_TYPE, HeaderValue::try_from(multipart).map_err(PackError::unavailable)?);
    }
    headers.insert(CONTENT_LENGTH, pieces.iter().map(Piece::len).sum::<u64>().into());
    let first = parts.first().map_or(0, |part| part.start);
    Ok(begun(pack, &form.body, first, pieces, StatusCode::PARTIAL_CONTENT, headers))
}

/// Builds a response from pieces of `whole`. If cacheable, its block at byte `first` is read before the response
/// begins.
fn begun(
    pack: &Pack,
    whole: &StoredBody,
    first: u64,
    pieces: VecDeque<Piece>,
    status: StatusCode,
    headers: HeaderMap,
) -> Decided {
    let data = pack.data.clone();
    if whole.span.len > CACHED_BODY_BYTES {
        let first = First { data, whole: whole.clone(), start: first, pieces: Some(pieces) };
        return Decided {
            response: respond(status, headers, SiteBody::empty()),
            first: Some(Box::new(Begin::Read(first))),
        };
    }
    let (block, start) = Bodies::block_at(whole.span, whole.span.offset + first);
    if data.bodies.remembered(&data, block).is_some() {
        return respond(status, headers, streamed(data, pieces).found(CacheUse::Hit)).into();
    }
    let first = First { data, whole: whole.clone(), start, pieces: Some(pieces) };
    Decided { response: respond(status, headers, SiteBody::empty()), first: Some(Box::new(Begin::Read(first))) }
}

fn streamed(data: Arc<PackData>, pieces: VecDeque<Piece>) -> SiteBody {
    SiteBody::streamed(Box::new(Pieces::new(data, pieces)))
}

/// Chooses the form to send. Ranges are taken from the uncompressed file, which every client can reassemble, unless
/// `If-Range` says that the client has the beginning of the compressed form.
fn choose<'f>(forms: &'f [Form], headers: &HeaderMap, is_range: bool) -> Option<&'f Form> {
    let plain = forms.first()?;
    if forms.len() == 1 {
        return Some(plain);
    }
    let accepted = Accepted::of(headers);
    let best = forms.get(accepted.choose(forms.iter().map(|form| (form.encoding, form.body.span.len))))?;
    let continues_best = headers.get(IF_RANGE).is_some_and(|tag| tag == best.etag());
    Some(if is_range && accepted.takes_identity() && !continues_best { plain } else { best })
}

fn respond(status: StatusCode, headers: HeaderMap, body: SiteBody) -> Response<SiteBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A 304 must not describe the body that it does not have.
fn not_modified(mut headers: HeaderMap) -> Response<SiteBody> {
    for name in [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, ACCEPT_RANGES] {
        headers.remove(name);
    }
    respond(StatusCode::NOT_MODIFIED, headers, SiteBody::empty())
}

fn content_range(part: &Range<u64>, len: u64) -> HeaderValue {
    let value = format!("bytes {}-{}/{len}", part.start, part.end.saturating_sub(1));
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("bytes */*"))
}

fn multipart_preface(boundary: &str, content_type: &HeaderValue, part: &Range<u64>, len: u64) -> Bytes {
    let range = content_range(part, len);
    [
        b"\r\n--",
        boundary.as_bytes(),
        b"\r\nContent-Type: ",
        content_type.as_bytes(),
        b"\r\nContent-Range: ",
        range.as_bytes(),
        b"\r\n\r\n",
    ]
    .concat()
    .into()
}

fn piece(whole: &StoredBody, part: &Range<u64>) -> Piece {
    let part = Span { offset: whole.span.offset + part.start, len: part.end - part.start };
    Piece::Span { part, whole: whole.clone() }
}
