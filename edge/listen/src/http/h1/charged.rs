//! The body of an HTTP/1.1 response: bytes passed to the connection are charged until the socket has taken them.
//!
//! hyper writes one frame after the other, so a frame consists of several blocks while memory is plentiful.

use std::{
    collections::VecDeque,
    io::IoSlice,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use edge_metrics as metrics;
use fairness::budget::{ByteGrant, ExhaustedError};
use front::ResponseBody;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_types::{BodyError, ChargedChunk, charged_bytes};
use limits::{BLOCK_BYTES, RUN_BLOCKS};

use super::super::ConnectionShared;

type PendingGrant = Pin<Box<dyn Future<Output = Result<ByteGrant, ExhaustedError>> + Send>>;

#[derive(Default)]
pub(in crate::http) struct ChunkRun {
    first: ChargedChunk,
    /// Empty, and not allocated, for most bodies, which are one chunk.
    rest: VecDeque<ChargedChunk>,
}

/// A body that reads nothing before it has a grant for it.
pub(in crate::http) struct ChargedBody {
    body: ResponseBody,
    shared: Arc<ConnectionShared>,
    grant: Option<ByteGrant>,
    asking: Option<PendingGrant>,
    /// Bytes of a body that is not pulled, which wait for their grant.
    given: Option<Bytes>,
    /// Why the body ended early, reported after the bytes before it.
    failed: Option<BodyError>,
}

impl ChunkRun {
    fn from_chunk(first: ChargedChunk) -> Self {
        Self { first, rest: VecDeque::new() }
    }
}

impl Buf for ChunkRun {
    fn remaining(&self) -> usize {
        self.first.remaining() + self.rest.iter().map(ChargedChunk::remaining).sum::<usize>()
    }

    fn chunk(&self) -> &[u8] {
        self.first.chunk()
    }

    fn chunks_vectored<'r>(&'r self, slices: &mut [IoSlice<'r>]) -> usize {
        let chunks = std::iter::once(&self.first).chain(&self.rest).filter(|chunk| chunk.has_remaining());
        let filled = slices.iter_mut().zip(chunks).map(|(slice, chunk)| *slice = IoSlice::new(chunk.chunk()));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        loop {
            let step = count.min(self.first.remaining());
            self.first.advance(step);
            count -= step;
            if !self.first.has_remaining()
                && let Some(next) = self.rest.pop_front()
            {
                self.first = next;
            } else {
                assert_eq!(count, 0, "a run is advanced beyond its end");
                return;
            }
        }
    }
}

impl ChargedBody {
    /// Creates a body that is charged to the connection; `grant` is for its first bytes.
    pub(in crate::http) fn new(body: ResponseBody, shared: Arc<ConnectionShared>, grant: Option<ByteGrant>) -> Self {
        Self { body, shared, grant, asking: None, given: None, failed: None }
    }

    fn poll_grant(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<(), BodyError>> {
        if self.grant.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.asking.is_none() {
            if let Ok(grant) = self.shared.connection.account.try_take(bytes) {
                self.grant = Some(grant);
                return Poll::Ready(Ok(()));
            }
            let account = self.shared.connection.account.clone();
            self.asking = Some(Box::pin(async move { account.take(bytes, limits::FLIGHT_PATIENCE).await }));
        }
        let Some(asking) = &mut self.asking else { return Poll::Ready(Ok(())) };
        let granted = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        match granted {
            Ok(grant) => {
                self.grant = Some(grant);
                Poll::Ready(Ok(()))
            }
            Err(exhausted) => {
                metrics::exhausted();
                Poll::Ready(Err(exhausted.into()))
            }
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ChargedChunk, BodyError>>> {
        let bytes = if self.body.is_pulled() {
            let next = usize::try_from(self.body.left()).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            if next == 0 {
                return Poll::Ready(None);
            }
            if self.body.is_paced() && self.body.poll_room(cx).is_pending() {
                self.grant = None;
                return Poll::Pending;
            }
            if let Err(error) = ready!(self.poll_grant(cx, charged_bytes(next))) {
                return Poll::Ready(Some(Err(error)));
            }
            match ready!(self.body.poll_next(cx, BLOCK_BYTES)) {
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        } else {
            if self.given.is_none() {
                match ready!(self.body.poll_next(cx, BLOCK_BYTES)) {
                    Some(Ok(bytes)) => self.given = Some(bytes),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                }
            }
            let len = self.given.as_ref().map_or(0, Bytes::len);
            if let Err(error) = ready!(self.poll_grant(cx, len as u64)) {
                return Poll::Ready(Some(Err(error)));
            }
            self.given.take().unwrap_or_default()
        };
        let chunk = ChargedChunk::new(bytes, self.grant.take(), None).counted_by(self.body.counter());
        Poll::Ready(Some(Ok(chunk)))
    }

    fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ChunkRun, BodyError>>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(first) = ready!(self.poll_chunk(cx)) else { return Poll::Ready(None) };
        let mut run = ChunkRun::from_chunk(first?);
        while run.rest.len() + 1 < RUN_BLOCKS && self.has_spare() {
            match self.poll_chunk(cx) {
                Poll::Ready(Some(Ok(chunk))) => run.rest.push_back(chunk),
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Poll::Ready(Some(Ok(run)))
    }

    /// Returns whether a pulled body has more bytes, and memory is plentiful enough for its next block.
    fn has_spare(&mut self) -> bool {
        let next = usize::try_from(self.body.left()).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        if next == 0 {
            return false;
        }
        if self.grant.is_none() {
            self.grant = self.shared.connection.account.try_take_spare(charged_bytes(next)).ok();
        }
        self.grant.is_some()
    }
}

impl HttpBody for ChargedBody {
    type Data = ChunkRun;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<ChunkRun>, BodyError>>> {
        self.poll_run(cx).map(|next| next.map(|run| run.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.given.is_none() && self.failed.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use fairness::budget::{BudgetLimits, ByteBudget};

    use super::*;

    #[test]
    fn a_run_gives_every_byte_once_and_each_grant_as_soon_as_its_bytes_are_taken() {
        let text = b"abcdefghi";
        for steps in [vec![9], vec![3, 3, 3], vec![1, 4, 4], vec![2, 0, 7]] {
            let budget = ByteBudget::new(BudgetLimits { total: 100, client: 100, connection: 100 });
            let account = budget.account(None);
            let chunk = |from: usize| {
                let grant = account.try_take(3).unwrap();
                ChargedChunk::new(Bytes::copy_from_slice(&text[from..from + 3]), Some(grant), None)
            };
            let mut run = ChunkRun::from_chunk(chunk(0));
            run.rest.extend([chunk(3), chunk(6)]);
            let (mut taken, mut at) = (Vec::new(), 0);
            for step in steps {
                let mut slices = [IoSlice::new(&[]); 4];
                let filled = run.chunks_vectored(&mut slices);
                let written: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
                assert_eq!(written, text[at..]);
                assert_eq!(run.chunk(), &*slices[0]);
                taken.extend_from_slice(&written[..step]);
                run.advance(step);
                at += step;
                assert_eq!((run.remaining(), budget.used()), (9 - at, (9 - at).div_ceil(3) as u64 * 3));
            }
            assert_eq!(taken, text);
        }
    }
}
