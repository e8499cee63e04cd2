//! A per-thread cache of recently read `User-Agent`s, by keyed hash, without their texts.

use std::cell::RefCell;

use ahash::RandomState;
use domain::traffic::agents::KnownAgent;

use super::text::{self, BrowserKind};

thread_local! {
    static REMEMBERED: RefCell<AgentMemo> = RefCell::default();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParsedAgent {
    Agent(&'static KnownAgent),
    Browser(BrowserKind),
}

/// The cache of a thread. Each hash maps to one slot, which holds the latest entry.
struct AgentMemo {
    hasher: RandomState,
    places: Box<[Option<(u64, ParsedAgent)>]>,
}

impl Default for AgentMemo {
    fn default() -> Self {
        // Keyed, so that nobody can choose texts that share a slot.
        Self { hasher: RandomState::new(), places: vec![None; limits::REMEMBERED_AGENTS].into() }
    }
}

impl AgentMemo {
    fn read(&mut self, text: &[u8]) -> ParsedAgent {
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

pub(super) fn read(user_agent: &[u8]) -> ParsedAgent {
    let text = &user_agent[..user_agent.len().min(limits::USER_AGENT_BYTES)];
    REMEMBERED.with_borrow_mut(|remembered| remembered.read(text))
}
