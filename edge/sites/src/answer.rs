//! Builds the response for a file: conditional requests, encodings and ranges.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::SystemTime};

use bytes::Bytes;
use domain::traffic::agents::KnownAgent;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE,
        LAST_MODIFIED, RANGE, VARY,
    },
};
use http_types::{AcceptedCodings, BodySource as _, CacheUse, SiteBody, pages};
use limits::{BLOCK_BYTES, CACHED_BODY_BYTES};
use packs::{Encoding, Span, StoredBody};

use super::{
    cache::BodyCache,
    conditional::{ConditionOutcome, FormValidators},
    decoded::EncodedBody,
    guards::{GrantedAccounts, PathGuards},
    header_rules,
    pack::{FileForm, LoadedPack, PackData, PackFile, REVALIDATE},
    packs::PackError,
    pieces::{BodyPiece, PieceReader},
    ranges::{RangeRequest, parse_range},
};

/// The parts of a request that matter once the file is known.
#[derive(Clone, Copy)]
pub(crate) struct FileRequest<'r> {
    pub(crate) method: &'r Method,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) host: &'r str,
    /// The request path with its leading slash, decoded as far as a file name allows: see [`super::path::DecodedPath`].
    pub(crate) path: &'r str,
    /// The path as the client sent it, without its query.
    pub(crate) sent: &'r str,
    pub(crate) is_nameable: bool,
    pub(crate) country: Option<[u8; 2]>,
    /// The accounts whose credentials the request carries, limited to guards checked so far.
    pub(crate) granted: &'r GrantedAccounts,
    /// The known agent (crawler, AI program) that sent the request, if it names itself.
    pub(crate) agent: Option<&'static KnownAgent>,
    /// The guards of the live deployment, when the pack being served is not the live one.
    pub(crate) live_guards: Option<&'r PathGuards>,
    /// The port in the site's URLs; `None` for the default port.
    pub(crate) public_port: Option<u16>,
    pub(crate) now: SystemTime,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServedAs {
    Found,
    Rewritten,
    /// The page that a single-page site serves for any navigation without a file.
    SinglePage,
    NotFound,
    Gone,
}

impl ServedAs {
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
pub(crate) struct PendingResponse {
    response: Response<SiteBody>,
    /// The work to do before the response begins, so that a failed read can still become another response. `None` if
    /// the body needs no read. Boxed because most responses have none, and each is moved several times.
    first: Option<Box<FirstStep>>,
}

enum FirstStep {
    Read(FirstBlock),
    Decode(PendingDecode),
}

struct PendingDecode {
    body: EncodedBody,
    is_sent: bool,
}

/// The first block of a body that is not in memory, and the pieces to send once it is.
struct FirstBlock {
    data: Arc<PackData>,
    whole: StoredBody,
    start: u64,
    pieces: Option<VecDeque<BodyPiece>>,
}

impl From<Response<SiteBody>> for PendingResponse {
    fn from(response: Response<SiteBody>) -> Self {
        Self { response, first: None }
    }
}

impl PendingResponse {
    pub(crate) fn disallow(&mut self) {
        self.response.body_mut().disallow();
    }

    /// Reads the first block of the body, if any, and returns the response.
    pub(crate) async fn begin(self) -> Result<Response<SiteBody>, PackError> {
        match self.first {
            None => Ok(self.response),
            Some(first) => match *first {
                FirstStep::Read(first) => Box::pin(first.fill(self.response)).await,
                FirstStep::Decode(decode) => Box::pin(decode.fill(self.response)).await,
            },
        }
    }
}

impl PendingDecode {
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

impl FirstBlock {
    async fn fill(mut self, mut response: Response<SiteBody>) -> Result<Response<SiteBody>, PackError> {
        if let Some(pieces) = self.pieces.take_if(|_| self.whole.span.len > CACHED_BODY_BYTES) {
            let mut pieces = PieceReader::new(self.data, pieces);
            pieces.begin().await?;
            response.body_mut().fill(SiteBody::streamed(Box::new(pieces)).with_cache_use(CacheUse::Miss));
            return Ok(response);
        }
        let bytes = self.data.bodies.block(&self.data, &self.whole, self.start).await?;
        let body = match self.pieces {
            None => SiteBody::kept(bytes, self.data, self.whole),
            Some(pieces) => streamed(self.data, pieces),
        };
        response.body_mut().fill(body.with_cache_use(CacheUse::Miss));
        Ok(response)
    }
}

pub(crate) fn send(
    pack: &LoadedPack,
    file: &PackFile,
    asked: FileRequest<'_>,
    role: ServedAs,
) -> Result<PendingResponse, PackError> {
    pack.admit_to_file(file, asked)?;
    let mut decided = conditional(pack, file, asked, role)?;
    if role.error().is_none() {
        decided.response.body_mut().set_served(file.served);
        if role == ServedAs::Found {
            decided.response.body_mut().mark_own_file();
        }
    }
    Ok(decided)
}

fn conditional(
    pack: &LoadedPack,
    file: &PackFile,
    asked: FileRequest<'_>,
    role: ServedAs,
) -> Result<PendingResponse, PackError> {
    // Errors ignore conditions and ranges.
    let range = asked.headers.get(RANGE).filter(|_| asked.method == Method::GET && role.error().is_none());
    let Some(form) = choose_form(file.forms(), asked.headers, range.is_some()) else {
        return Err(PackError::unavailable("a file without a form"));
    };
    let mut headers = pack.form_headers(file, form);
    if role != ServedAs::Found {
        // The URL does not identify the content: the next deployment may serve another file there.
        headers.insert(CACHE_CONTROL, REVALIDATE);
    }
    if !pack.headers.is_empty() {
        header_rules::apply(&pack.headers, asked.host, asked.sent, &mut headers);
        if !role.takes_cache_control(&headers) {
            headers.insert(CACHE_CONTROL, REVALIDATE);
        }
    }
    if role == ServedAs::SinglePage || (role == ServedAs::NotFound && pack.has_own_single_page()) {
        headers.append(VARY, HeaderValue::from_static("Accept"));
        headers.append(VARY, HeaderValue::from_static("Sec-Fetch-Dest, Sec-Fetch-Mode"));
    }
    let encoding = pack.encoding(file).filter(|encoding| AcceptedCodings::is_refused(asked.headers, *encoding));
    if encoding.is_some() {
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, ACCEPT_RANGES] {
            headers.remove(name);
        }
    }
    let decoded_etag = encoding.map(|_| file.decoded_etag());
    if let Some(etag) = &decoded_etag {
        headers.insert(ETAG, etag.clone());
    }
    if let Some(status) = role.error() {
        for name in [ETAG, LAST_MODIFIED, ACCEPT_RANGES] {
            headers.remove(name);
        }
        return Ok(match encoding {
            Some(encoding) => decoded_response(pack, form, encoding, asked, status, headers),
            None => whole_response(pack, form, asked, status, headers),
        });
    }
    // Where a rule or the request selects the file, the next response may be another file with the same date. A date in
    // the future cannot tell apart several contents within a second.
    let modified = pack.modified(file).filter(|at| role == ServedAs::Found && file.is_alone && *at <= asked.now);
    if modified.is_none() {
        headers.remove(LAST_MODIFIED);
    }
    let etag = decoded_etag.as_ref().and_then(|etag| etag.to_str().ok()).unwrap_or(form.etag());
    let validators = FormValidators { etag, modified, is_only_form: file.forms().len() == 1 };
    match validators.evaluate(asked.headers) {
        ConditionOutcome::Send => {}
        ConditionOutcome::NotModified => return Ok(not_modified(headers).into()),
        ConditionOutcome::Failed => return Ok(pages::precondition_failed().into()),
    }
    if let Some(encoding) = encoding {
        return Ok(decoded_response(pack, form, encoding, asked, StatusCode::OK, headers));
    }
    let range = range.filter(|_| validators.allows_range(asked.headers));
    match range.map_or(RangeRequest::Whole, |range| parse_range(range.to_str().unwrap_or_default(), form.body.span.len))
    {
        RangeRequest::Whole => Ok(whole_response(pack, form, asked, StatusCode::OK, headers)),
        RangeRequest::Unsatisfiable => Ok(pages::range_not_satisfiable(form.body.span.len).into()),
        RangeRequest::Parts(parts) => self::range_response(pack, file, form, &parts, headers),
    }
}

/// Builds the response for a file stored in an encoding that the client refuses.
fn decoded_response(
    pack: &LoadedPack,
    form: &FileForm,
    encoding: Encoding,
    asked: FileRequest<'_>,
    status: StatusCode,
    headers: HeaderMap,
) -> PendingResponse {
    let body = EncodedBody { data: pack.data.clone(), whole: form.body.clone(), encoding };
    let decode = PendingDecode { body, is_sent: asked.method != Method::HEAD };
    let response = respond(status, headers, SiteBody::empty());
    PendingResponse { response, first: Some(Box::new(FirstStep::Decode(decode))) }
}

fn whole_response(
    pack: &LoadedPack,
    form: &FileForm,
    asked: FileRequest<'_>,
    status: StatusCode,
    headers: HeaderMap,
) -> PendingResponse {
    let (whole, span) = (&form.body, form.body.span);
    if asked.method == Method::HEAD || span.len == 0 {
        return respond(status, headers, SiteBody::empty()).into();
    }
    let pieces = || VecDeque::from([BodyPiece::Span { part: span, whole: whole.clone() }]);
    if span.len > BLOCK_BYTES as u64 {
        return streamed_response(pack, whole, 0, pieces(), status, headers);
    }
    if let Some(bytes) = pack.data.bodies.cached_block(&pack.data, span) {
        let body = SiteBody::kept(bytes, pack.data.clone(), whole.clone()).with_cache_use(CacheUse::Hit);
        return respond(status, headers, body).into();
    }
    let first = FirstBlock { data: pack.data.clone(), whole: whole.clone(), start: 0, pieces: None };
    PendingResponse {
        response: respond(status, headers, SiteBody::empty()),
        first: Some(Box::new(FirstStep::Read(first))),
    }
}

fn range_response(
    pack: &LoadedPack,
    file: &PackFile,
    form: &FileForm,
    parts: &[Range<u64>],
    mut headers: HeaderMap,
) -> Result<PendingResponse, PackError> {
    let len = form.body.span.len;
    let mut pieces = VecDeque::new();
    if let [part] = parts {
        headers.insert(CONTENT_RANGE, content_range(part, len));
        pieces.push_back(body_piece(&form.body, part));
    } else {
        // Derived from the content by a hash, so that no content can contain its own boundary.
        let boundary = file.sha256.get(32..).unwrap_or("part");
        for part in parts {
            let preface = multipart_preface(boundary, &file.content_type, part, len);
            pieces.extend([BodyPiece::Bytes(preface), body_piece(&form.body, part)]);
        }
        pieces.push_back(BodyPiece::Bytes(format!("\r\n--{boundary}--\r\n").into()));
        let multipart = format!("multipart/byteranges; boundary={boundary}");
        headers.insert(CONTENT_TYPE, HeaderValue::try_from(multipart).map_err(PackError::unavailable)?);
    }
    headers.insert(CONTENT_LENGTH, pieces.iter().map(BodyPiece::len).sum::<u64>().into());
    let first = parts.first().map_or(0, |part| part.start);
    Ok(streamed_response(pack, &form.body, first, pieces, StatusCode::PARTIAL_CONTENT, headers))
}

/// Builds a response from pieces of `whole`. If cacheable, its block at byte `first` is read before the response
/// begins.
fn streamed_response(
    pack: &LoadedPack,
    whole: &StoredBody,
    first: u64,
    pieces: VecDeque<BodyPiece>,
    status: StatusCode,
    headers: HeaderMap,
) -> PendingResponse {
    let data = pack.data.clone();
    if whole.span.len > CACHED_BODY_BYTES {
        let first = FirstBlock { data, whole: whole.clone(), start: first, pieces: Some(pieces) };
        return PendingResponse {
            response: respond(status, headers, SiteBody::empty()),
            first: Some(Box::new(FirstStep::Read(first))),
        };
    }
    let (block, start) = BodyCache::block_at(whole.span, whole.span.offset + first);
    if data.bodies.cached_block(&data, block).is_some() {
        return respond(status, headers, streamed(data, pieces).with_cache_use(CacheUse::Hit)).into();
    }
    let first = FirstBlock { data, whole: whole.clone(), start, pieces: Some(pieces) };
    PendingResponse {
        response: respond(status, headers, SiteBody::empty()),
        first: Some(Box::new(FirstStep::Read(first))),
    }
}

fn streamed(data: Arc<PackData>, pieces: VecDeque<BodyPiece>) -> SiteBody {
    SiteBody::streamed(Box::new(PieceReader::new(data, pieces)))
}

/// Chooses the form to send. Ranges are taken from the uncompressed file, which every client can reassemble, unless
/// `If-Range` says that the client has the beginning of the compressed form.
fn choose_form<'f>(forms: &'f [FileForm], headers: &HeaderMap, is_range: bool) -> Option<&'f FileForm> {
    let plain = forms.first()?;
    if forms.len() == 1 {
        return Some(plain);
    }
    let accepted = AcceptedCodings::from_headers(headers);
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

fn body_piece(whole: &StoredBody, part: &Range<u64>) -> BodyPiece {
    let part = Span { offset: whole.span.offset + part.start, len: part.end - part.start };
    BodyPiece::Span { part, whole: whole.clone() }
}
