//! Reads request bodies within bounds.
//!
//! A body is held once; the provider's request consists of slices of it. A body in a format that is translated is
//! charged with the memory of its translation as well, of which the unused part is given back afterwards. Bodies of up
//! to [`limits::SMALL_BODY_BYTES`] are charged to the connection while they are read, and to its client for as long as
//! they are held. A larger one waits for a place in a shared room, with a bound per account.

mod coding;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use domain::PayingAccount;
use edge_metrics as metrics;
use fairness::{
    RoomPlace, SizedRoom,
    budget::{self, ByteGrant},
};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep_until};

use self::coding::{BodyDecoder, ContentCoding, DecodeError};
use super::{asks::RequestLimits, error::ApiError};

/// A request body with its memory grant, which is tied to its bytes.
pub struct ReadBody {
    /// The body, decompressed or as rewritten since. The bytes hold its memory grant.
    pub bytes: Bytes,
    /// The grant of a large body.
    place: Option<Arc<RoomPlace<PayingAccount>>>,
    /// The grant of a small body.
    grant: Option<Arc<ByteGrant>>,
    /// The grant for a small body's translation.
    spare: Option<Arc<Mutex<ByteGrant>>>,
}

impl ReadBody {
    /// Returns the same body with the same grants, to be validated again.
    #[must_use]
    pub fn same(&self) -> Self {
        let Self { bytes, place, grant, spare } = self;
        Self { bytes: bytes.clone(), place: place.clone(), grant: grant.clone(), spare: spare.clone() }
    }

    /// Replaces the bytes with their translation. Each keeps its part of the memory for both, and the rest is given back.
    pub fn translated_to(mut self, mut chat: Vec<u8>) -> Result<Self, ApiError> {
        chat.shrink_to_fit();
        let (old, needed) = (self.bytes.len() as u64, chat.capacity() as u64);
        let Some(place) = &self.place else {
            let Some(spare) = self.spare.take() else {
                self.bytes = chat.into();
                return Ok(self);
            };
            let mut part = spare.lock().unwrap_or_else(PoisonError::into_inner).split_off(needed);
            // The translation of a tiny body may take more.
            if part.try_grow(needed - part.bytes()).is_err() {
                metrics::exhausted();
                return Err(ApiError::no_memory());
            }
            let part = Arc::new(part);
            self.bytes = Bytes::from_owner(SmallBody { bytes: chat.into(), _grant: part.clone() });
            self.grant = Some(part);
            return Ok(self);
        };
        // A body with fewer copies than it takes has the whole room, beyond which nothing is counted.
        let is_alone = place.size() < old * limits::TRANSLATED_BODY_COPIES;
        // Both grow as one place: as two they would be two holders, which have a share together.
        if !is_alone && place.grow_to(old + needed).is_err() {
            metrics::exhausted();
            return Err(ApiError::no_memory());
        }
        let part = place.split_off(place.size().saturating_sub(if is_alone { 0 } else { old }));
        part.shrink_to(needed);
        let part = Arc::new(part);
        self.bytes = Bytes::from_owner(LargeBody { bytes: chat, _place: part.clone() });
        self.place = Some(part);
        Ok(self)
    }

    /// Replaces the bytes with a rewritten request under the same grant, and releases the original bytes.
    #[must_use]
    pub fn replaced_by(mut self, bytes: Vec<u8>) -> Self {
        self.bytes = match (&self.place, &self.grant) {
            (Some(place), _) => Bytes::from_owner(LargeBody { bytes, _place: place.clone() }),
            (None, Some(grant)) => Bytes::from_owner(SmallBody { bytes: bytes.into(), _grant: grant.clone() }),
            (None, None) => bytes.into(),
        };
        self
    }
}

impl From<Bytes> for ReadBody {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, place: None, grant: None, spare: None }
    }
}

/// Reads the bodies of one key's requests over one connection.
pub struct BodyReader<'r> {
    /// The request limits of the key, of which the one for bodies applies here.
    pub asks: &'r RequestLimits,
    /// The connection's memory budget, to which bodies of up to [`limits::SMALL_BODY_BYTES`] are charged.
    pub connection: &'r budget::BudgetAccount,
    /// The room for large bodies.
    pub room: &'r SizedRoom<PayingAccount>,
    /// The account whose part of `room` a large body takes.
    pub account: &'r PayingAccount,
    /// How many times its bytes reading a body takes in memory.
    pub copies: u64,
}

/// A large body with its memory grant.
struct LargeBody {
    bytes: Vec<u8>,
    _place: Arc<RoomPlace<PayingAccount>>,
}

/// A small body with its memory grant.
struct SmallBody {
    bytes: Bytes,
    _grant: Arc<ByteGrant>,
}

impl AsRef<[u8]> for SmallBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for LargeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyReader<'_> {
    /// Reads and decompresses a whole body. Memory is reserved before reading, as far as the size is known: a request
    /// that held a part while waiting for more would block others. The actual size is counted, as the header may be
    /// wrong.
    pub async fn read<B>(&self, headers: &HeaderMap, body: &mut B) -> Result<ReadBody, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let coding = ContentCoding::from_headers(headers)?;
        let said = body.size_hint().exact();
        // The decoded body is hardly ever smaller than the encoded one.
        if said.is_some_and(|said| said > self.asks.body.most) {
            return Err(self.too_large());
        }
        let mut memory = BodyReservation::for_body(self, coding, said).await?;
        let mut plain = BodyBuffer::new(said.filter(|_| coding == ContentCoding::Identity));
        let mut decoder = coding.decoder().map_err(|DecodeError| ApiError::damaged_body(coding.name()))?;
        let (mut start, mut received) = (Instant::now(), 0);
        let mut end = std::pin::pin!(sleep_until(start + limits::COMPLETION_BODY));
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut end => return Err(ApiError::body_timed_out()),
            };
            let Some(frame) = frame else { break };
            let Ok(frame) = frame else { return Err(ApiError::body_cut_off()) };
            let Ok(piece) = frame.into_data() else { continue };
            received += piece.len() as u64;
            let waiting = Instant::now();
            match &mut decoder {
                None => {
                    memory.allow(plain.len() + piece.len()).await?;
                    plain.push(piece, &memory);
                }
                Some(decoder) => {
                    decode(decoder, &piece, &mut plain, &mut memory)
                        .await?
                        .map_err(|DecodeError| ApiError::damaged_body(coding.name()))?;
                }
            }
            let beyond = received.saturating_sub(limits::SMALL_BODY_BYTES as u64);
            if beyond > 0 {
                // Our own waiting does not count against the client's time.
                start += waiting.elapsed();
                let beyond = Duration::from_secs(beyond / limits::BODY_BYTES_PER_SECOND);
                end.as_mut().reset(start + limits::COMPLETION_BODY + beyond);
            }
        }
        if let Some(decoder) = decoder {
            let rest = decoder.finish().map_err(|DecodeError| ApiError::damaged_body(coding.name()))?;
            memory.allow(plain.len() + rest.len()).await?;
            plain.push(rest.into(), &memory);
        }
        Ok(memory.keep(plain))
    }

    fn too_large(&self) -> ApiError {
        ApiError::body_too_large(self.asks.body.most, self.asks.body.remedy())
    }
}

async fn decode(
    decoder: &mut BodyDecoder,
    piece: &[u8],
    plain: &mut BodyBuffer,
    memory: &mut BodyReservation<'_>,
) -> Result<Result<(), DecodeError>, ApiError> {
    let (mut encoded, mut since_pause) = (piece, 0);
    loop {
        // Reserves room for actual output only: a decompression bomb is refused one step after the limit.
        let made = match decoder.step(&mut encoded) {
            Ok(made) => made,
            Err(damaged) => return Ok(Err(damaged)),
        };
        let count = made.len();
        memory.allow(plain.len() + count).await?;
        plain.extend(made, memory);
        if encoded.is_empty() && !decoder.may_hold_more(count) {
            return Ok(Ok(()));
        }
        since_pause += count;
        if since_pause > limits::DECODED_BETWEEN_PAUSES {
            since_pause = 0;
            tokio::task::yield_now().await;
        }
    }
}

struct BodyReservation<'r> {
    reader: &'r BodyReader<'r>,
    grant: Option<ByteGrant>,
    place: Option<RoomPlace<PayingAccount>>,
    /// The body size in bytes that the reservation covers, as often as the reader's `copies`.
    allowed: usize,
    /// The decoder's memory in bytes, in addition to the body.
    beside: u64,
}

impl<'r> BodyReservation<'r> {
    /// Reserves memory for a body with `said` announced bytes. Waits for it within bounds.
    async fn for_body(reader: &'r BodyReader<'r>, coding: ContentCoding, said: Option<u64>) -> Result<Self, ApiError> {
        let most = reader.asks.body.most;
        let small = limits::SMALL_BODY_BYTES as u64;
        let beside = if coding == ContentCoding::Zstd { limits::ZSTD_WINDOW_BYTES.min(most) } else { 0 };
        let mut memory = Self { reader, grant: None, place: None, allowed: 0, beside };
        // The decoded size of an encoded body, and the size of one without a length, are unknown.
        let expected = said.filter(|_| coding == ContentCoding::Identity).unwrap_or(small.min(most));
        if expected <= small {
            let Ok(grant) = reader.connection.take(expected * reader.copies, limits::BODY_PATIENCE).await else {
                metrics::exhausted();
                return Err(ApiError::no_memory());
            };
            memory.grant = Some(grant);
            memory.allowed = usize::try_from(expected).unwrap_or(usize::MAX);
        } else {
            memory.take_place(expected).await?;
        }
        Ok(memory)
    }

    /// Grows the reservation to a body of `bytes`.
    async fn allow(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes <= self.allowed {
            return Ok(());
        }
        let most = self.reader.asks.body.most;
        if bytes as u64 > most {
            return Err(self.reader.too_large());
        }
        // Doubled, to keep the number of reservations low.
        let wanted = (2 * bytes as u64).min(most);
        let Some(place) = &mut self.place else { return self.take_place(wanted).await };
        let copies = self.reader.copies;
        let mut grown = wanted;
        if place.grow_to(wanted * copies + self.beside).is_err() {
            grown = bytes as u64;
            // The memory already held blocks others, so the wait for more is short.
            let growing = place.grow_within(grown * copies + self.beside, limits::BODY_GROWTH_WAIT);
            if growing.await.is_err() {
                metrics::exhausted();
                return Err(ApiError::no_memory());
            }
        }
        self.allowed = usize::try_from(grown).unwrap_or(usize::MAX);
        Ok(())
    }

    async fn take_place(&mut self, bytes: u64) -> Result<(), ApiError> {
        let BodyReader { room, account, copies, .. } = self.reader;
        let Ok(place) = room.take(account, bytes * copies + self.beside, limits::BODY_ROOM_WAIT).await else {
            metrics::exhausted();
            return Err(ApiError::no_memory());
        };
        self.place = Some(place);
        self.grant = None;
        self.allowed = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(())
    }

    fn keep(self, plain: BodyBuffer) -> ReadBody {
        let Some(place) = self.place else {
            let bytes = plain.into_bytes();
            let Some(grant) = self.grant.filter(|_| !bytes.is_empty()) else { return bytes.into() };
            // A completion lasts for minutes, during which its connection reads others.
            let mut spare = grant.into_client();
            let len = bytes.len() as u64;
            spare.shrink_to(len * self.reader.copies);
            let grant = Arc::new(spare.split_off(len));
            let spare = (spare.bytes() > 0).then(|| Arc::new(Mutex::new(spare)));
            let bytes = Bytes::from_owner(SmallBody { bytes, _grant: grant.clone() });
            return ReadBody { bytes, place: None, grant: Some(grant), spare };
        };
        let place = Arc::new(place);
        let bytes = match plain {
            BodyBuffer { bytes, first, .. } if first.is_empty() => bytes,
            BodyBuffer { first, .. } => first.into(),
        };
        let bytes = Bytes::from_owner(LargeBody { bytes, _place: place.clone() });
        ReadBody { bytes, place: Some(place), grant: None, spare: None }
    }
}

/// The bytes of a body. A body that arrives in one piece is not copied.
#[derive(Default)]
struct BodyBuffer {
    first: Bytes,
    bytes: Vec<u8>,
    said: Option<u64>,
}

impl BodyBuffer {
    fn new(said: Option<u64>) -> Self {
        Self { said, ..Self::default() }
    }

    fn len(&self) -> usize {
        self.first.len() + self.bytes.len()
    }

    fn push(&mut self, piece: Bytes, memory: &BodyReservation<'_>) {
        if self.len() == 0 {
            self.first = piece;
        } else {
            self.extend(&piece, memory);
        }
    }

    fn extend(&mut self, piece: &[u8], memory: &BodyReservation<'_>) {
        let total = self.len() + piece.len();
        if self.bytes.capacity() < total {
            // Allocate a large body at its full length: growing a buffer holds it twice, and unwritten pages are not
            // touched.
            let full = self.said.or_else(|| memory.place.as_ref().map(|_| memory.reader.asks.body.most));
            match full.and_then(|full| usize::try_from(full).ok()).filter(|full| *full >= total) {
                Some(full) => self.bytes.reserve_exact(full - self.bytes.len()),
                None => self.bytes.reserve(total - self.bytes.len()),
            }
        }
        let first = std::mem::take(&mut self.first);
        self.bytes.extend_from_slice(&first);
        self.bytes.extend_from_slice(piece);
    }

    fn into_bytes(self) -> Bytes {
        if self.bytes.is_empty() { self.first } else { self.bytes.into() }
    }
}

/// Reads and drops the rest of a refused request's body, within bounds: a client that receives the response while it
/// sends may lose it. Over HTTP/2, some lose it even when a reset refuses the rest, so known lengths are read longer.
pub async fn discard<B>(body: &mut B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let announced = body.size_hint().exact().filter(|bytes| *bytes <= limits::UNWANTED_ANNOUNCED_BYTES);
    let most = announced.unwrap_or(limits::UNWANTED_BODY_BYTES as u64);
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len) as u64;
            if read > most {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(limits::COMPLETION_BODY, reading).await;
}

#[cfg(test)]
mod tests;
