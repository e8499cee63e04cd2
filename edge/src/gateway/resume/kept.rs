//! An answer in memory, as written so far, for any number of readers.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use domain::PayingAccount;
use fairness::{Held, Refused};
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;

use super::{claim::Claim, events, store::Room};
use crate::limits;

pub(super) struct Kept {
    pub(super) claim: Claim,
    pub(super) account: PayingAccount,
    state: Mutex<State>,
    written: Notify,
    /// Notified when something was read, or a reader was dropped.
    read: Notify,
}

struct State {
    stage: Stage,
    /// The held bytes, beginning at `start` in the answer.
    bytes: Vec<u8>,
    start: u64,
    end: Option<End>,
    memory: Vec<[Held<PayingAccount>; 2]>,
    /// The number of bytes covered by `memory`.
    room: u64,
    /// Whether bytes are dropped once read.
    is_unkept: bool,
    /// The positions of the readers at this edge.
    readers: HashMap<u64, u64>,
    next_reader: u64,
}

enum Stage {
    Starting,
    Begun(Arc<Head>),
    Absent(Absent),
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) is_stream: bool,
}

/// Why an answer is not written here.
#[derive(Debug, Clone)]
pub(super) enum Absent {
    /// Another edge has it, or this one had it, under this claim.
    Claimed(Claim),
    /// Redis is unavailable, so its edge is unknown.
    Unknown,
    /// Its request was refused or abandoned before the answer began.
    Void,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    Aborted,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Bytes),
    End(End),
    /// The bytes at the position are no longer held.
    Lost,
}

/// A reader at this edge. Bytes of an answer that is not kept are held until it has read them.
pub(super) struct Reader {
    kept: Arc<Kept>,
    number: u64,
    at: u64,
}

impl Kept {
    pub(super) fn new(claim: Claim, account: PayingAccount) -> Self {
        let state = State {
            stage: Stage::Starting,
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

    fn state(&self) -> MutexGuard<'_, State> {
        // The code under this lock does not panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_absent(&self, absent: Absent) {
        self.state().stage = Stage::Absent(absent);
        self.written.notify_waiters();
    }

    /// Records that nothing more will be written.
    pub(super) fn set_void(&self) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Starting) {
            state.stage = Stage::Absent(Absent::Void);
        }
        state.end.get_or_insert(End::Aborted);
        drop(state);
        self.written.notify_waiters();
    }

    pub(super) fn begin(&self, head: Head) {
        self.state().stage = Stage::Begun(Arc::new(head));
        self.written.notify_waiters();
    }

    pub(super) async fn head(&self) -> Result<Arc<Head>, Absent> {
        let head = |state: &State| match &state.stage {
            Stage::Starting => None,
            Stage::Begun(head) => Some(Ok(head.clone())),
            Stage::Absent(absent) => Some(Err(absent.clone())),
        };
        self.wait_for(&self.written, head).await
    }

    /// Waits until `find` succeeds, checking it at each notification of `changed`.
    async fn wait_for<T>(&self, changed: &Notify, find: impl Fn(&State) -> Option<T>) -> T {
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
    pub(super) fn make_room(&self, room: &Room, bytes: usize) -> Result<(), Refused> {
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
        let room = |state: &State| (!state.is_unkept || state.bytes.len() < limits::UNKEPT_BYTES).then_some(());
        self.let_go();
        self.wait_for(&self.read, room).await;
        self.state().bytes.extend_from_slice(bytes);
        self.written.notify_waiters();
    }

    /// Drops what all readers have read, if the answer is not kept.
    fn let_go(&self) {
        let state = &mut *self.state();
        if state.is_unkept {
            let end = state.start + state.bytes.len() as u64;
            let taken = state.readers.values().copied().min().unwrap_or(end);
            let count = usize::try_from(taken.saturating_sub(state.start)).unwrap_or(usize::MAX).min(state.bytes.len());
            state.bytes.drain(..count);
            state.start += count as u64;
        }
    }

    pub(super) fn end(&self, end: End) {
        let mut state = self.state();
        state.end = Some(end);
        state.bytes.shrink_to_fit();
        drop(state);
        self.written.notify_waiters();
    }

    /// Returns the position after the event with this id, if it is held.
    pub(super) fn place_after(&self, id: &str) -> Option<u64> {
        let place = events::place(id, &self.claim.tag)?;
        let state = self.state();
        let from = usize::try_from(place.checked_sub(state.start)?).ok()?;
        let length = events::length(state.bytes.get(from..)?, &self.claim.tag, place)?;
        Some(place + length as u64)
    }

    /// Returns the length of the whole answer, if it ended properly and all of it is held.
    pub(super) fn whole_length(&self) -> Option<u64> {
        let state = self.state();
        (state.end == Some(End::Whole) && state.start == 0).then_some(state.bytes.len() as u64)
    }

    /// Waits until the answer has ended or is no longer kept.
    pub(super) async fn ended(&self) {
        self.wait_for(&self.written, |state| (state.end.is_some() || state.is_unkept).then_some(())).await;
    }

    /// Waits for the next piece at a position.
    pub(super) async fn next(&self, at: u64) -> Piece {
        let find = |state: &State| {
            let Some(from) = at.checked_sub(state.start).and_then(|from| usize::try_from(from).ok()) else {
                return Some(Piece::Lost);
            };
            match state.bytes.get(from..) {
                Some([]) => state.end.map(Piece::End),
                Some(bytes) => {
                    let piece = bytes.get(..limits::KEPT_PIECE_BYTES).unwrap_or(bytes);
                    Some(Piece::Bytes(Bytes::copy_from_slice(piece)))
                }
                None => Some(Piece::Lost),
            }
        };
        self.wait_for(&self.written, find).await
    }

    /// Creates a reader at a position, or returns `None` if that is no longer held.
    pub(super) fn reader(self: &Arc<Self>, at: u64) -> Option<Reader> {
        let mut state = self.state();
        if at < state.start {
            return None;
        }
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(number, at);
        Some(Reader { kept: self.clone(), number, at })
    }
}

impl Reader {
    /// Waits for the next piece, and advances past it.
    pub(super) async fn next(&mut self) -> Piece {
        let piece = self.kept.next(self.at).await;
        if let Piece::Bytes(bytes) = &piece {
            self.at += bytes.len() as u64;
            self.kept.state().readers.insert(self.number, self.at);
            self.kept.let_go();
            self.kept.read.notify_waiters();
        }
        piece
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.kept.state().readers.remove(&self.number);
        self.kept.let_go();
        self.kept.read.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairness::Amounts;
    use tokio::time::timeout;

    use super::*;

    fn kept() -> Arc<Kept> {
        let claim = Claim { edge: "e".to_owned(), tag: "t".to_owned(), request: "r".to_owned() };
        Arc::new(Kept::new(claim, "usr_0000000000000000001a".parse::<domain::UserId>().unwrap().into()))
    }

    async fn read_all(kept: &Arc<Kept>, at: u64) -> (Vec<u8>, Piece) {
        let (mut reader, mut read) = (kept.reader(at).unwrap(), Vec::new());
        loop {
            match reader.next().await {
                Piece::Bytes(bytes) => read.extend_from_slice(&bytes),
                end => return (read, end),
            }
        }
    }

    #[tokio::test]
    async fn each_reader_gets_all_of_it() {
        let (room, kept) = (Room::new(&Amounts::new(1 << 20, 1 << 20), 1 << 20, 1 << 20), kept());
        let reading = [0, 0, 3].map(|at| {
            let kept = kept.clone();
            tokio::spawn(async move { read_all(&kept, at).await })
        });
        for piece in [&b"abc"[..], b"def", b"ghi"] {
            kept.make_room(&room, piece.len()).unwrap();
            kept.write(piece).await;
            tokio::task::yield_now().await;
        }
        kept.end(End::Whole);
        for (reading, expected) in reading.into_iter().zip(["abcdefghi", "abcdefghi", "defghi"]) {
            assert_eq!(reading.await.unwrap(), (expected.as_bytes().to_vec(), Piece::End(End::Whole)));
        }
        assert_eq!(kept.whole_length(), Some(9));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_kept_waits_for_its_readers_and_for_nobody_else() {
        let answers = Amounts::new(2 * limits::KEPT_STEP_BYTES, limits::KEPT_STEP_BYTES);
        let (room, kept) = (Room::new(&answers, 1 << 20, 1 << 20), kept());
        let piece = vec![b'x'; limits::UNKEPT_BYTES];
        assert_eq!(kept.make_room(&room, piece.len()), Err(Refused::Share));
        kept.stop_keeping();
        kept.make_room(&room, piece.len()).unwrap();
        let mut reader = kept.reader(0).unwrap();
        kept.write(&piece).await;
        assert!(timeout(Duration::from_secs(9), kept.write(&piece)).await.is_err(), "nobody has read");
        assert_eq!(reader.next().await, Piece::Bytes(piece.clone().into()));
        kept.write(&piece).await;
        assert!(kept.reader(0).is_none() && kept.whole_length().is_none());
        drop(reader);
        for _ in 0..9 {
            kept.write(&piece).await;
        }
        assert_eq!(answers.held(), 0);
    }
}
