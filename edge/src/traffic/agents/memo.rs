//! A thread remembers what the last `User-Agent`s said, under keyed hashes of them and without their texts.

use std::cell::RefCell;

use ahash::RandomState;
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

/// What a thread has read. A hash has one place, where the last one stays.
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

/// Returns what `user_agent` says.
pub(super) fn read(user_agent: &[u8]) -> Said {
    let text = &user_agent[..user_agent.len().min(limits::USER_AGENT_BYTES)];
    REMEMBERED.with_borrow_mut(|remembered| remembered.read(text))
}
