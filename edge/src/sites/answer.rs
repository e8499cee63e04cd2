//! What is sent of a file: conditions, forms, ranges.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use domain::traffic::agents::Agent;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, LAST_MODIFIED,
        RANGE, VARY,
    },
};
use packs::Span;

use super::{
    cache::{Bodies, PackCache},
    conditional::{Validators, Verdict},
    header_rules,
    pack::{File, Form, Pack},
    packs::PackError,
    path::encode,
    pieces::{Piece, Pieces},
    ranges::{Wanted, wanted},
};
use crate::{
    http::{Accepted, CacheUse, SiteBody, pages},
    limits::{BLOCK_BYTES, CACHED_BODY_BYTES},
};

/// The parts of a request that matter once the file is known.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'r> {
    pub(crate) method: &'r Method,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) host: &'r str,
    /// Decoded, with its leading slash.
    pub(crate) path: &'r str,
    /// The program that asks, when it says its name.
    pub(crate) agent: Option<&'static Agent>,
}

/// As what a file is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The file that was asked for.
    Found,
    /// The page that stands in for any address of a navigation.
    SinglePage,
    /// The page that says that nothing was found.
    NotFound,
}

impl PackCache {
    /// Answers with a file of `pack`.
    pub(crate) async fn send(
        &self,
        pack: &Arc<Pack>,
        file: &File,
        asked: Asked<'_>,
        role: Role,
    ) -> Result<Response<SiteBody>, PackError> {
        let mut response = self.conditional(pack, file, asked, role).await?;
        if role != Role::NotFound {
            response.body_mut().serve(file.served);
        }
        Ok(response)
    }

    async fn conditional(
        &self,
        pack: &Arc<Pack>,
        file: &File,
        asked: Asked<'_>,
        role: Role,
    ) -> Result<Response<SiteBody>, PackError> {
        // A 404 answers no conditions and has no parts.
        let range = asked.headers.get(RANGE).filter(|_| asked.method == Method::GET && role != Role::NotFound);
        let Some(form) = choose(file.forms(), asked.headers, range.is_some()) else {
            return Err(PackError::unavailable("a file without a form"));
        };
        let mut headers = pack.headers_of(file, form);
        if !pack.headers.is_empty() {
            header_rules::apply(&pack.headers, asked.host, &encode(asked.path), &mut headers);
        }
        if role == Role::NotFound {
            for name in [ETAG, LAST_MODIFIED, ACCEPT_RANGES] {
                headers.remove(name);
            }
            return self.whole(pack, form, asked, StatusCode::NOT_FOUND, headers).await;
        }
        if role == Role::SinglePage {
            headers.append(VARY, HeaderValue::from_static("Accept"));
        }
        let validators = Validators { etag: form.etag(), modified: pack.modified };
        match validators.judge(asked.headers) {
            Verdict::Send => {}
            Verdict::NotModified => return Ok(not_modified(headers)),
            Verdict::Failed => return Ok(pages::precondition_failed()),
        }
        let range = range.filter(|_| validators.allow_range(asked.headers));
        match range.map_or(Wanted::Whole, |range| wanted(range.to_str().unwrap_or_default(), form.span.len)) {
            Wanted::Whole => self.whole(pack, form, asked, StatusCode::OK, headers).await,
            Wanted::Unsatisfiable => Ok(pages::range_not_satisfiable(form.span.len)),
            Wanted::Parts(parts) => self.parts(pack, file, form, parts, headers).await,
        }
    }

    async fn whole(
        &self,
        pack: &Arc<Pack>,
        form: &Form,
        asked: Asked<'_>,
        status: StatusCode,
        headers: HeaderMap,
    ) -> Result<Response<SiteBody>, PackError> {
        let body = if asked.method == Method::HEAD {
            SiteBody::empty()
        } else if form.span.len > BLOCK_BYTES as u64 {
            let mut cache_use = CacheUse::Miss;
            if form.span.len <= CACHED_BODY_BYTES {
                // Read before the answer begins: as long as it has not, it can be another.
                (_, cache_use) = block(pack, form.span, form.span.offset).await?;
            }
            streamed(pack, VecDeque::from([Piece::Span { part: form.span, whole: form.span }])).found(cache_use)
        } else {
            let (bytes, cache_use) = block(pack, form.span, form.span.offset).await?;
            SiteBody::kept(bytes, pack.clone(), form.span).found(cache_use)
        };
        Ok(respond(status, headers, body))
    }

    async fn parts(
        &self,
        pack: &Arc<Pack>,
        file: &File,
        form: &Form,
        parts: Vec<Range<u64>>,
        mut headers: HeaderMap,
    ) -> Result<Response<SiteBody>, PackError> {
        let len = form.span.len;
        let mut cache_use = CacheUse::Miss;
        if let Some(first) = parts.first()
            && len <= CACHED_BODY_BYTES
        {
            (_, cache_use) = block(pack, form.span, form.span.offset + first.start).await?;
        }
        let mut pieces = VecDeque::new();
        if let [part] = parts.as_slice() {
            headers.insert(CONTENT_RANGE, content_range(part, len));
            pieces.push_back(piece(form.span, part));
        } else {
            // Derived from the content by a hash, so that no content can hold its own boundary.
            let boundary = file.sha256.get(32..).unwrap_or("part");
            for part in &parts {
                let preface = multipart_preface(boundary, &file.content_type, part, len);
                pieces.extend([Piece::Bytes(preface), piece(form.span, part)]);
            }
            pieces.push_back(Piece::Bytes(format!("\r\n--{boundary}--\r\n").into()));
            let multipart = format!("multipart/byteranges; boundary={boundary}");
            headers.insert(CONTENT_TYPE, HeaderValue::try_from(multipart).map_err(PackError::unavailable)?);
        }
        headers.insert(CONTENT_LENGTH, pieces.iter().map(Piece::len).sum::<u64>().into());
        Ok(respond(StatusCode::PARTIAL_CONTENT, headers, streamed(pack, pieces).found(cache_use)))
    }
}

/// The block of the small body `body` in which `offset` of the pack's data is, and whether it was in memory.
async fn block(pack: &Pack, body: Span, offset: u64) -> Result<(Bytes, CacheUse), PackError> {
    if body.len == 0 {
        return Ok((Bytes::new(), CacheUse::None));
    }
    let (block, start) = Bodies::block_at(body, offset);
    match pack.bodies.remembered(pack, block) {
        Some(bytes) => Ok((bytes, CacheUse::Hit)),
        None => Ok((pack.bodies.block(pack, body, start).await?, CacheUse::Miss)),
    }
}

fn streamed(pack: &Arc<Pack>, pieces: VecDeque<Piece>) -> SiteBody {
    SiteBody::streamed(Box::new(Pieces::new(pack.clone(), pieces)))
}

/// The form to send. Parts are parts of the file as it is, which every client can put together; except for one that
/// says it has the beginning of the compressed form.
fn choose<'f>(forms: &'f [Form], headers: &HeaderMap, is_range: bool) -> Option<&'f Form> {
    let plain = forms.first()?;
    if forms.len() == 1 {
        return Some(plain);
    }
    let accepted = Accepted::of(headers);
    let best = forms.get(accepted.choose(forms.iter().map(|form| (form.encoding, form.span.len))))?;
    let continues_best = headers.get(IF_RANGE).is_some_and(|tag| tag == best.etag());
    Some(if is_range && accepted.takes_identity() && !continues_best { plain } else { best })
}

fn respond(status: StatusCode, headers: HeaderMap, body: SiteBody) -> Response<SiteBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// 304 says nothing of the body that it does not have.
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

fn piece(whole: Span, part: &Range<u64>) -> Piece {
    Piece::Span { part: Span { offset: whole.offset + part.start, len: part.end - part.start }, whole }
}
