//! The body of an answer to a site's visitor: nothing, bytes from memory, or a body that is read while it is sent.
//!
//! Bodies are pulled: whoever sends one says how many bytes it can send, and holds no more than those.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::Account;
use http_body::{Body, Frame, SizeHint};
use packs::{Span, StoredBody};

use super::pacing::Pacing;
use crate::limits::{BLOCK_BYTES, COPIED_BYTES};

/// Why a body ended before its end.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer to a site's visitor. Nearly all come from memory: those are neither boxed nor dispatched.
#[derive(Default)]
pub struct SiteBody {
    content: Content,
    cache_use: CacheUse,
    served: Served,
    is_own_file: bool,
    is_disallowed: bool,
    /// There where bytes wait for the pace of an account.
    pacing: Option<Box<Pacing>>,
}

/// What is served, for those who count visits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Served {
    /// A page of the site.
    Page {
        /// Whether a browser that shows it loads parts of the same site.
        loads_parts: bool,
    },
    /// What pages load: a style, a script, an image, a font.
    Part,
    /// Anything else, also a page that stands in for one that is not there.
    #[default]
    Other,
}

/// The part of the body cache in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// It was not asked.
    #[default]
    None,
    /// It had the body, or as much of it as an answer begins with.
    Hit,
    /// The body is read from the store.
    Miss,
}

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Whole(Bytes),
    /// Bytes that can be had again.
    Kept(Bytes, Kept),
    Streamed(Box<dyn Source>),
}

/// Where the bytes of a body can be had again.
struct Kept {
    origin: Arc<dyn Origin>,
    whole: StoredBody,
    offset: u64,
}

/// A body that is read while it is sent.
pub(crate) trait Source: Send {
    /// The next bytes, at least one and at most `most`.
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>>;
    /// Bytes that are still to come.
    fn left(&self) -> u64;
    /// Lets go of bytes that can be read again.
    fn park(&mut self);
    /// Lets bytes be read ahead of those that are asked for, charged to `account` for as long as anybody holds them.
    fn read_ahead(&mut self, _account: &Account) {}
}

/// A place of which parts can be read again.
pub(crate) trait Origin: Send + Sync {
    /// The bytes of `part`, which lies in the body `whole`.
    fn reopen(self: Arc<Self>, part: Span, whole: StoredBody) -> Box<dyn Source>;
}

impl SiteBody {
    /// An empty body.
    pub const fn empty() -> Self {
        Self::of(Content::Empty)
    }

    const fn of(content: Content) -> Self {
        let (cache_use, served) = (CacheUse::None, Served::Other);
        Self { content, cache_use, served, is_own_file: false, is_disallowed: false, pacing: None }
    }

    /// The same body, with what the memory of bodies did for it.
    #[must_use]
    pub(crate) fn found(mut self, cache_use: CacheUse) -> Self {
        self.cache_use = cache_use;
        self
    }

    /// Takes the content of `body`, and what the memory of bodies did for it.
    pub(crate) fn fill(&mut self, body: Self) {
        self.content = body.content;
        self.cache_use = body.cache_use;
    }

    /// Says what is served, also where the body itself is left out.
    pub(crate) fn serve(&mut self, served: Served) {
        self.served = served;
    }

    /// Marks the body as that of the file which the path names, rather than of one that answers whatever path.
    pub(crate) fn mark_own_file(&mut self) {
        self.is_own_file = true;
    }

    /// Whether the path names the file: nobody makes such a path up.
    pub(crate) fn is_own_file(&self) -> bool {
        self.is_own_file
    }

    /// What is served.
    pub(crate) fn served(&self) -> Served {
        self.served
    }

    /// Marks the body as one that the site's `robots.txt` disallows for the client that asked.
    pub(crate) fn disallow(&mut self) {
        self.is_disallowed = true;
    }

    /// Whether the site's `robots.txt` disallows the body for the client that asked.
    pub(crate) fn is_disallowed(&self) -> bool {
        self.is_disallowed
    }

    /// The part of the body cache in it.
    pub(crate) fn cache_use(&self) -> CacheUse {
        self.cache_use
    }

    /// A body that is read while it is sent.
    pub(crate) fn streamed(source: Box<dyn Source>) -> Self {
        if source.left() == 0 { Self::empty() } else { Self::of(Content::Streamed(source)) }
    }

    /// A body of bytes that are the `whole` of a body in `origin`, too.
    pub(crate) fn kept(bytes: Bytes, origin: Arc<dyn Origin>, whole: StoredBody) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        let offset = whole.span.offset;
        Self::of(Content::Kept(bytes, Kept { origin, whole, offset }))
    }

    /// Bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        match &self.content {
            Content::Empty => 0,
            Content::Whole(bytes) | Content::Kept(bytes, _) => bytes.len() as u64,
            Content::Streamed(source) => source.left(),
        }
    }

    /// The same body, at a pace.
    pub(super) fn paced(mut self, pacing: Pacing) -> Self {
        self.pacing = Some(Box::new(pacing));
        self
    }

    /// Whether it is sent at a pace.
    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.is_some()
    }

    /// The bytes that its pace allows now, as many as there are without one. Whoever waits holds none.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
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

    /// The next bytes, at least one and at most `most`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.pacing.is_none() {
            return self.poll_content(cx, most);
        }
        let most = most.min(ready!(self.poll_room(cx)));
        let next = ready!(self.poll_content(cx, most));
        if let (Some(Ok(bytes)), Some(pacing)) = (&next, &mut self.pacing) {
            pacing.took(bytes.len());
        }
        Poll::Ready(next)
    }

    fn poll_content(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        let part = match &mut self.content {
            Content::Empty => return Poll::Ready(None),
            Content::Streamed(source) => return source.poll_next(cx, most),
            Content::Whole(bytes) => {
                if bytes.len() > most {
                    bytes.split_to(most)
                } else {
                    std::mem::take(bytes)
                }
            }
            Content::Kept(bytes, kept) => {
                if bytes.len() > most {
                    kept.offset += most as u64;
                    own(bytes.split_to(most))
                } else if kept.offset > kept.whole.span.offset {
                    own(std::mem::take(bytes))
                } else {
                    std::mem::take(bytes)
                }
            }
        };
        if self.left() == 0 {
            self.content = Content::Empty;
        }
        Poll::Ready(Some(Ok(part)))
    }

    /// Lets bytes of a body that is read while it is sent be read ahead, charged to `account`.
    pub(crate) fn read_ahead(&mut self, account: &Account) {
        if let Content::Streamed(source) = &mut self.content {
            source.read_ahead(account);
        }
    }

    /// Lets go of bytes that can be had again: for when nobody takes them for now.
    pub(crate) fn park(&mut self) {
        self.content = match std::mem::take(&mut self.content) {
            Content::Kept(bytes, Kept { origin, whole, offset }) => {
                Content::Streamed(origin.reopen(Span { offset, len: bytes.len() as u64 }, whole))
            }
            Content::Streamed(mut source) => {
                source.park();
                Content::Streamed(source)
            }
            other => other,
        };
    }
}

/// A part of a block: a small one takes no more memory than itself.
pub(crate) fn own(part: Bytes) -> Bytes {
    if part.len() < COPIED_BYTES { Bytes::copy_from_slice(&part) } else { part }
}

/// What `len` bytes of a body are charged as: a part that is not small may hold the whole of its block.
pub(crate) fn charge(len: usize) -> u64 {
    (if len < COPIED_BYTES { len } else { len.max(BLOCK_BYTES) }) as u64
}

impl From<Bytes> for SiteBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::of(Content::Whole(bytes)) }
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
