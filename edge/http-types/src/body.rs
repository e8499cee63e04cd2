//! The body of a response to a site's visitor: empty, bytes from memory, or streamed.
//!
//! Bodies are pulled: the sender says how many bytes it can send, and holds no more than those.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::BudgetAccount;
use http_body::{Body, Frame, SizeHint};
use limits::{BLOCK_BYTES, COPIED_BYTES};
use packs::{Span, StoredBody};

use super::pacing::BodyPace;

/// Why a body ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response to a site's visitor. Nearly all come from memory: those are neither boxed nor dispatched.
#[derive(Default)]
pub struct SiteBody {
    content: BodyContent,
    cache_use: CacheUse,
    served: ServedKind,
    is_own_file: bool,
    is_disallowed: bool,
    /// `Some` if the bytes wait for the pace of an account.
    pacing: Option<Box<BodyPace>>,
}

/// The kind of content, for counting visits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServedKind {
    /// A page of the site.
    Page {
        /// Whether a browser that shows it loads subresources of the same site.
        loads_parts: bool,
    },
    /// A subresource of pages: a style, a script, an image, a font.
    Part,
    /// Anything else, including a page that replaces a missing one.
    #[default]
    Other,
}

/// Whether a response came from the body cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// The cache was not consulted.
    #[default]
    None,
    /// The cache had the body, or its first part.
    Hit,
    /// The body is read from the store.
    Miss,
}

#[derive(Default)]
enum BodyContent {
    #[default]
    Empty,
    Whole(Bytes),
    /// Bytes that can be read again.
    Kept(Bytes, OriginRange),
    Streamed(Box<dyn BodySource>),
}

struct OriginRange {
    origin: Arc<dyn BodyOrigin>,
    whole: StoredBody,
    offset: u64,
}

/// A source from which a streamed body is read, as fast as its visitor takes it.
pub trait BodySource: Send {
    /// Polls for the next bytes, at least one and at most `most`.
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>>;
    /// Returns the number of bytes that [`poll_next`](Self::poll_next) has yet to return.
    fn left(&self) -> u64;
    /// Releases bytes that can be read again.
    fn park(&mut self);
    /// Allows reading ahead, charged to `account` for as long as the bytes are held.
    fn read_ahead(&mut self, _account: &BudgetAccount) {}
}

/// A place from which bytes of a stored body can be read again after they were released.
pub trait BodyOrigin: Send + Sync {
    /// Returns the bytes of `part` of the body `whole`.
    fn reopen(self: Arc<Self>, part: Span, whole: StoredBody) -> Box<dyn BodySource>;
}

impl SiteBody {
    /// Creates an empty body.
    pub const fn empty() -> Self {
        Self::from_content(BodyContent::Empty)
    }

    const fn from_content(content: BodyContent) -> Self {
        let (cache_use, served) = (CacheUse::None, ServedKind::Other);
        Self { content, cache_use, served, is_own_file: false, is_disallowed: false, pacing: None }
    }

    /// Sets the use of the body cache.
    #[must_use]
    pub fn with_cache_use(mut self, cache_use: CacheUse) -> Self {
        self.cache_use = cache_use;
        self
    }

    /// Takes over the content of `body` and its use of the cache, and leaves everything else as it is.
    pub fn fill(&mut self, body: Self) {
        self.content = body.content;
        self.cache_use = body.cache_use;
    }

    /// Sets the kind of content by which the visit is counted.
    pub fn set_served(&mut self, served: ServedKind) {
        self.served = served;
    }

    /// Marks the body as that of the file that the path names, rather than of one that answers any path.
    pub fn mark_own_file(&mut self) {
        self.is_own_file = true;
    }

    /// Returns whether the path names the file, and so is not made up.
    pub fn is_own_file(&self) -> bool {
        self.is_own_file
    }

    /// Returns the kind of content by which the visit is counted; [`ServedKind::Other`] unless it was set.
    pub fn served(&self) -> ServedKind {
        self.served
    }

    /// Marks the body as disallowed by the site's `robots.txt` for the requesting client.
    pub fn disallow(&mut self) {
        self.is_disallowed = true;
    }

    /// Returns whether the site's `robots.txt` disallows the body for the requesting client.
    pub fn is_disallowed(&self) -> bool {
        self.is_disallowed
    }

    /// Returns whether the body came from the cache.
    pub fn cache_use(&self) -> CacheUse {
        self.cache_use
    }

    /// Creates a body that is read from `source`, or an empty one if the source has no bytes left.
    pub fn streamed(source: Box<dyn BodySource>) -> Self {
        if source.left() == 0 { Self::empty() } else { Self::from_content(BodyContent::Streamed(source)) }
    }

    /// Creates a body of bytes that are also the `whole` of a body in `origin`.
    pub fn kept(bytes: Bytes, origin: Arc<dyn BodyOrigin>, whole: StoredBody) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        let offset = whole.span.offset;
        Self::from_content(BodyContent::Kept(bytes, OriginRange { origin, whole, offset }))
    }

    /// Returns the number of bytes that are still to be sent.
    pub fn left(&self) -> u64 {
        match &self.content {
            BodyContent::Empty => 0,
            BodyContent::Whole(bytes) | BodyContent::Kept(bytes, _) => bytes.len() as u64,
            BodyContent::Streamed(source) => source.left(),
        }
    }

    pub(super) fn paced(mut self, pacing: BodyPace) -> Self {
        self.pacing = Some(Box::new(pacing));
        self
    }

    /// Returns whether the bytes wait for the pace of an account over its bandwidth.
    pub fn is_paced(&self) -> bool {
        self.pacing.is_some()
    }

    /// Polls for the number of bytes that the pace allows now; unlimited without a pace. A waiting body holds no bytes.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let left = self.left();
        let Some(pacing) = &mut self.pacing else { return Poll::Ready(usize::MAX) };
        if left == 0 {
            return Poll::Ready(usize::MAX);
        }
        let room = pacing.poll_room(cx, left);
        if room.is_pending() {
            self.park();
        }
        room
    }

    /// Polls for the next bytes, at least one and at most `most`.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.pacing.is_none() {
            return self.poll_content(cx, most);
        }
        let most = most.min(ready!(self.poll_room(cx)));
        let next = ready!(self.poll_content(cx, most));
        if let (Some(Ok(bytes)), Some(pacing)) = (&next, &mut self.pacing) {
            pacing.record_sent(bytes.len());
        }
        Poll::Ready(next)
    }

    fn poll_content(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        let part = match &mut self.content {
            BodyContent::Empty => return Poll::Ready(None),
            BodyContent::Streamed(source) => return source.poll_next(cx, most),
            BodyContent::Whole(bytes) => {
                if bytes.len() > most {
                    bytes.split_to(most)
                } else {
                    std::mem::take(bytes)
                }
            }
            BodyContent::Kept(bytes, kept) => {
                if bytes.len() > most {
                    kept.offset += most as u64;
                    copy_if_small(bytes.split_to(most))
                } else if kept.offset > kept.whole.span.offset {
                    copy_if_small(std::mem::take(bytes))
                } else {
                    std::mem::take(bytes)
                }
            }
        };
        if self.left() == 0 {
            self.content = BodyContent::Empty;
        }
        Poll::Ready(Some(Ok(part)))
    }

    /// Allows a streamed body to read ahead, charged to `account`.
    pub fn read_ahead(&mut self, account: &BudgetAccount) {
        if let BodyContent::Streamed(source) = &mut self.content {
            source.read_ahead(account);
        }
    }

    /// Releases bytes that can be read again, while the client does not read.
    pub fn park(&mut self) {
        self.content = match std::mem::take(&mut self.content) {
            BodyContent::Kept(bytes, OriginRange { origin, whole, offset }) => {
                BodyContent::Streamed(origin.reopen(Span { offset, len: bytes.len() as u64 }, whole))
            }
            BodyContent::Streamed(mut source) => {
                source.park();
                BodyContent::Streamed(source)
            }
            other => other,
        };
    }
}

/// Copies a small part of a block, so that it takes no more memory than itself.
pub fn copy_if_small(part: Bytes) -> Bytes {
    if part.len() < COPIED_BYTES { Bytes::copy_from_slice(&part) } else { part }
}

/// Returns the bytes to charge for `len` bytes of a body: a part that is not small may hold its whole block.
pub fn charged_bytes(len: usize) -> u64 {
    (if len < COPIED_BYTES { len } else { len.max(BLOCK_BYTES) }) as u64
}

impl From<Bytes> for SiteBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::from_content(BodyContent::Whole(bytes)) }
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.poll_next(cx, BLOCK_BYTES).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
