//! An answer in memory, as written so far, for any number of readers.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use domain::PayingAccount;
use fairness::{HeldAmount, ShareError};
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;

use super::{claim::AnswerClaim, events, store::KeptRoom};

pub(super) struct KeptAnswer {
    pub(super) claim: AnswerClaim,
    pub(super) account: PayingAccount,
    state: Mutex<KeptState>,
    written: Notify,
    /// Notified when something was read, or a reader was dropped.
    read: Notify,
}

struct KeptState {
    stage: KeptStage,
    /// The held bytes, beginning at `start` in the answer.
    bytes: Vec<u8>,
    start: u64,
    end: Option<AnswerEnd>,
    memory: Vec<[HeldAmount<PayingAccount>; 2]>,
    /// The number of bytes covered by `memory`.
    room: u64,
    /// Whether bytes are dropped once read.
    is_unkept: bool,
    /// The positions of the readers at this edge.
    readers: HashMap<u64, u64>,
    next_reader: u64,
}

enum KeptStage {
    Starting,
    Begun(Arc<AnswerHead>),
    Absent(AbsentReason),
}

#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) is_stream: bool,
}

/// Why an answer is not written here.
#[derive(Debug, Clone)]
pub(super) enum AbsentReason {
    /// Another edge has it, or this one had it, under this claim.
    Claimed(AnswerClaim),
    /// Redis is unavailable, so its edge is unknown.
    Unknown,
    /// Its request was refused or abandoned before the answer began.
    Void,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    Whole,
    Aborted,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerPiece {
    Bytes(Bytes),
    End(AnswerEnd),
    /// The bytes at the position are no longer held.
    Lost,
}

/// A reader at this edge. Bytes of an answer that is not kept are held until it has read them.
pub(super) struct KeptReader {
    kept: Arc<KeptAnswer>,
    number: u64,
    at: u64,
}

impl KeptAnswer {
    pub(super) fn new(claim: AnswerClaim, account: PayingAccount) -> Self {
        let state = KeptState {
            stage: KeptStage::Starting,
            bytes: Vec::new(),
            start: 0,
            end: None,
            memory: Vec::new(),
            room: 0,
            is_unkept: false,
            readers: HashMap::new(),
            next_reader: 0,
        };
        Self { claim, account, state: Mutex::new(state), written: Notify::new(), read: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, KeptState> {
        // The code under this lock does not panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_absent(&self, absent: AbsentReason) {
        self.state().stage = KeptStage::Absent(absent);
        self.written.notify_waiters();
    }

    /// Records that nothing more will be written.
    pub(super) fn set_void(&self) {
        let mut state = self.state();
        if matches!(state.stage, KeptStage::Starting) {
            state.stage = KeptStage::Absent(AbsentReason::Void);
        }
        state.end.get_or_insert(AnswerEnd::Aborted);
        drop(state);
        self.written.notify_waiters();
    }

    pub(super) fn begin(&self, head: AnswerHead) {
        self.state().stage = KeptStage::Begun(Arc::new(head));
        self.written.notify_waiters();
    }

    pub(super) async fn head(&self) -> Result<Arc<AnswerHead>, AbsentReason> {
        let head = |state: &KeptState| match &state.stage {
            KeptStage::Starting => None,
            KeptStage::Begun(head) => Some(Ok(head.clone())),
            KeptStage::Absent(absent) => Some(Err(absent.clone())),
        };
        self.wait_for(&self.written, head).await
    }

    /// Waits until `find` succeeds, checking it at each notification of `changed`.
    async fn wait_for<T>(&self, changed: &Notify, find: impl Fn(&KeptState) -> Option<T>) -> T {
        loop {
            let mut change = pin!(changed.notified());
            // Enabled before the check, so that no later change is missed.
            change.as_mut().enable();
            if let Some(found) = find(&self.state()) {
                return found;
            }
            change.await;
        }
    }

    pub(super) fn written(&self) -> u64 {
        let state = self.state();
        state.start + state.bytes.len() as u64
    }

    /// Reserves memory in `room` for `bytes` more bytes, if the answer is kept.
    pub(super) fn make_room(&self, room: &KeptRoom, bytes: usize) -> Result<(), ShareError> {
        let state = &mut *self.state();
        let needed = state.bytes.len() as u64 + bytes as u64;
        if state.is_unkept || needed <= state.room {
            return Ok(());
        }
        // Grows in increasing steps, so that a long answer is not moved with every word.
        let more = (needed - state.room).max(limits::KEPT_STEP_BYTES).max(state.room / 2);
        state.memory.push(room.take(&self.account, more)?);
        state.room += more;
        let room = usize::try_from(state.room).unwrap_or(usize::MAX);
        state.bytes.reserve_exact(room.saturating_sub(state.bytes.len()));
        Ok(())
    }

    /// Drops bytes once read from now on, because there is no memory to keep them.
    pub(super) fn stop_keeping(&self) {
        self.state().is_unkept = true;
    }

    pub(super) fn is_kept(&self) -> bool {
        !self.state().is_unkept
    }

    /// Appends bytes. If the answer is not kept, first waits until its readers have taken most of what is held.
    pub(super) async fn write(&self, bytes: &[u8]) {
        let room = |state: &KeptState| (!state.is_unkept || state.bytes.len() < limits::UNKEPT_BYTES).then_some(());
        self.drop_read_bytes();
        self.wait_for(&self.read, room).await;
        self.state().bytes.extend_from_slice(bytes);
        self.written.notify_waiters();
    }

    /// Drops what all readers have read, if the answer is not kept.
    fn drop_read_bytes(&self) {
        let state = &mut *self.state();
        if state.is_unkept {
            let end = state.start + state.bytes.len() as u64;
            let taken = state.readers.values().copied().min().unwrap_or(end);
            let count = usize::try_from(taken.saturating_sub(state.start)).unwrap_or(usize::MAX).min(state.bytes.len());
            state.bytes.drain(..count);
            state.start += count as u64;
        }
    }

    pub(super) fn end(&self, end: AnswerEnd) {
        let mut state = self.state();
        state.end = Some(end);
        state.bytes.shrink_to_fit();
        drop(state);
        self.written.notify_waiters();
    }

    /// Returns the position after the event with this id, if it is held.
    pub(super) fn position_after(&self, id: &str) -> Option<u64> {
        let place = events::parse_position(id, &self.claim.tag)?;
        let state = self.state();
        let from = usize::try_from(place.checked_sub(state.start)?).ok()?;
        let length = events::event_length(state.bytes.get(from..)?, &self.claim.tag, place)?;
        Some(place + length as u64)
    }

    /// Returns the length of the whole answer, if it ended properly and all of it is held.
    pub(super) fn whole_length(&self) -> Option<u64> {
        let state = self.state();
        (state.end == Some(AnswerEnd::Whole) && state.start == 0).then_some(state.bytes.len() as u64)
    }

    /// Waits until the answer has ended or is no longer kept.
    pub(super) async fn wait_until_ended(&self) {
        self.wait_for(&self.written, |state| (state.end.is_some() || state.is_unkept).then_some(())).await;
    }

    /// Waits for the next piece at a position.
    pub(super) async fn next(&self, at: u64) -> AnswerPiece {
        let find = |state: &KeptState| {
            let Some(from) = at.checked_sub(state.start).and_then(|from| usize::try_from(from).ok()) else {
                return Some(AnswerPiece::Lost);
            };
            match state.bytes.get(from..) {
                Some([]) => state.end.map(AnswerPiece::End),
                Some(bytes) => {
                    let piece = bytes.get(..limits::KEPT_PIECE_BYTES).unwrap_or(bytes);
                    Some(AnswerPiece::Bytes(Bytes::copy_from_slice(piece)))
                }
                None => Some(AnswerPiece::Lost),
            }
        };
        self.wait_for(&self.written, find).await
    }

    /// Creates a reader at a position, or returns `None` if that is no longer held.
    pub(super) fn reader(self: &Arc<Self>, at: u64) -> Option<KeptReader> {
        let mut state = self.state();
        if at < state.start {
            return None;
        }
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(number, at);
        Some(KeptReader { kept: self.clone(), number, at })
    }
}

impl KeptReader {
    /// Waits for the next piece, and advances past it.
    pub(super) async fn next(&mut self) -> AnswerPiece {
        let piece = self.kept.next(self.at).await;
        if let AnswerPiece::Bytes(bytes) = &piece {
            self.at += bytes.len() as u64;
            self.kept.state().readers.insert(self.number, self.at);
            self.kept.drop_read_bytes();
            self.kept.read.notify_waiters();
        }
        piece
    }
}

impl Drop for KeptReader {
    fn drop(&mut self) {
        self.kept.state().readers.remove(&self.number);
        self.kept.drop_read_bytes();
        self.kept.read.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairness::AmountLimit;
    use tokio::time::timeout;

    use super::*;

    fn kept() -> Arc<KeptAnswer> {
        let claim = AnswerClaim { edge: "e".to_owned(), tag: "t".to_owned(), request: "r".to_owned() };
        Arc::new(KeptAnswer::new(claim, "usr_0000000000000000001a".parse::<domain::UserId>().unwrap().into()))
    }

    async fn read_all(kept: &Arc<KeptAnswer>, at: u64) -> (Vec<u8>, AnswerPiece) {
        let (mut reader, mut read) = (kept.reader(at).unwrap(), Vec::new());
        loop {
            match reader.next().await {
                AnswerPiece::Bytes(bytes) => read.extend_from_slice(&bytes),
                end => return (read, end),
            }
        }
    }

    #[tokio::test]
    async fn each_reader_gets_all_of_it() {
        let (room, kept) = (KeptRoom::new(&AmountLimit::new(1 << 20, 1 << 20), 1 << 20, 1 << 20), kept());
        let reading = [0, 0, 3].map(|at| {
            let kept = kept.clone();
            tokio::spawn(async move { read_all(&kept, at).await })
        });
        for piece in [&b"abc"[..], b"def", b"ghi"] {
            kept.make_room(&room, piece.len()).unwrap();
            kept.write(piece).await;
            tokio::task::yield_now().await;
        }
        kept.end(AnswerEnd::Whole);
        for (reading, expected) in reading.into_iter().zip(["abcdefghi", "abcdefghi", "defghi"]) {
            assert_eq!(reading.await.unwrap(), (expected.as_bytes().to_vec(), AnswerPiece::End(AnswerEnd::Whole)));
        }
        assert_eq!(kept.whole_length(), Some(9));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_kept_waits_for_its_readers_and_for_nobody_else() {
        let answers = AmountLimit::new(2 * limits::KEPT_STEP_BYTES, limits::KEPT_STEP_BYTES);
        let (room, kept) = (KeptRoom::new(&answers, 1 << 20, 1 << 20), kept());
        let piece = vec![b'x'; limits::UNKEPT_BYTES];
        assert_eq!(kept.make_room(&room, piece.len()), Err(ShareError::Share));
        kept.stop_keeping();
        kept.make_room(&room, piece.len()).unwrap();
        let mut reader = kept.reader(0).unwrap();
        kept.write(&piece).await;
        assert!(timeout(Duration::from_secs(9), kept.write(&piece)).await.is_err(), "nobody has read");
        assert_eq!(reader.next().await, AnswerPiece::Bytes(piece.clone().into()));
        kept.write(&piece).await;
        assert!(kept.reader(0).is_none() && kept.whole_length().is_none());
        drop(reader);
        for _ in 0..9 {
            kept.write(&piece).await;
        }
        assert_eq!(answers.held(), 0);
    }
}
