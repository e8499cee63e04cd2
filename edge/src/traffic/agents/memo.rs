//! What was read of a `User-Agent` is remembered: by a connection with its text, by a thread with a keyed hash.

use std::{
    cell::RefCell,
    hash::{BuildHasher as _, RandomState},
    sync::Mutex,
};

use domain::traffic::agents::Agent;

use super::text::{self, Browser};
use crate::limits;

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

/// What a `User-Agent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// A name.
    Agent(&'static Agent),
    /// The name of a browser.
    Browser(Browser),
}

/// What a connection's last `User-Agent` said. A connection is nearly always one client's, so that its requests are
/// told by comparing bytes.
#[derive(Default)]
pub(crate) struct Memo(Mutex<Option<(Box<[u8]>, Said)>>);

/// What a thread has read. A hash has one place, where the last one stays; the texts are not kept.
struct Remembered {
    hasher: RandomState,
    places: Box<[Option<(u64, Said)>]>,
}

impl Default for Remembered {
    fn default() -> Self {
        // Keyed: nobody can choose texts that share a place.
        Self { hasher: RandomState::new(), places: vec![None; limits::REMEMBERED_AGENTS].into() }
    }
}

impl Remembered {
    fn read(&mut self, text: &[u8]) -> Said {
        let hash = self.hasher.hash_one(text);
        let index = usize::try_from(hash % limits::REMEMBERED_AGENTS as u64).unwrap_or_default();
        match self.places[index] {
            Some((known, said)) if known == hash => said,
            _ => {
                let said = text::read(text);
                self.places[index] = Some((hash, said));
                said
            }
        }
    }
}

impl Memo {
    /// Returns what `user_agent` says.
    pub(super) fn read(&self, user_agent: &[u8]) -> Said {
        let text = &user_agent[..user_agent.len().min(limits::USER_AGENT_BYTES)];
        let read = || REMEMBERED.with_borrow_mut(|remembered| remembered.read(text));
        // Another request of the connection has it: it is not worth waiting for.
        let Ok(mut last) = self.0.try_lock() else { return read() };
        if let Some((known, said)) = &*last
            && **known == *text
        {
            return *said;
        }
        let said = read();
        *last = Some((text.into(), said));
        said
    }
}

/// The copy of a connection remembers for itself.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Without the text, which is never shown.
impl std::fmt::Debug for Memo {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Memo").finish_non_exhaustive()
    }
}
