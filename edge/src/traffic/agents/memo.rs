//! A per-thread cache of recently read `User-Agent`s, by keyed hash, without their texts.

use std::cell::RefCell;

use ahash::RandomState;
use domain::traffic::agents::Agent;

use super::text::{self, Browser};
use crate::limits;

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Agent(&'static Agent),
    Browser(Browser),
}

/// The cache of a thread. Each hash maps to one slot, which holds the latest entry.
struct Remembered {
    hasher: RandomState,
    places: Box<[Option<(u64, Said)>]>,
}

impl Default for Remembered {
    fn default() -> Self {
        // Keyed, so that nobody can choose texts that share a slot.
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

pub(super) fn read(user_agent: &[u8]) -> Said {
    let text = &user_agent[..user_agent.len().min(limits::USER_AGENT_BYTES)];
    REMEMBERED.with_borrow_mut(|remembered| remembered.read(text))
}
