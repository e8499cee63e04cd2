//! How damage in a segment shows: each record is followed by a line that seals it, and the head of a segment says whose it is.
//!
//! Both are lines that earlier versions pass over. They wrote none, so that a record without a seal counts when it can be read.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The bytes of a hash that a seal has: enough to notice damage, of which nobody makes more on purpose.
const SEAL_BYTES: usize = 4;

/// The line of a segment's head that says whose it is, whatever the file is called: a copy has the same.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin<S> {
    /// The name of the process that wrote it.
    pub(super) owner: S,
    /// The number of the segment.
    pub(super) segment: u64,
}

/// The line after a record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seal {
    seal: String,
    /// The number of things that are lost with the record.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    n: u64,
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(n: &u64) -> bool {
    *n == 1
}

impl Seal {
    /// Seals a record's line, without its end, of this owner.
    pub(super) fn of(owner: &str, record: &[u8], n: u64) -> Self {
        Self { seal: hash(owner, record), n }
    }
}

fn hash(owner: &str, record: &[u8]) -> String {
    let hash = Sha256::new().chain_update(owner).chain_update([0]).chain_update(record).finalize();
    let number = hash.iter().take(SEAL_BYTES).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("{number:08x}")
}

/// The damaged part of a journal's segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    /// Where it begins.
    pub(super) offset: u64,
    /// The bytes that cannot be read, together.
    pub(super) bytes: u64,
    /// The number of things that are lost, as far as it is known; one for each line otherwise.
    pub(super) lost: u64,
}

/// The lines of a segment beside its head, which make records.
#[derive(Default)]
pub(super) struct Frames {
    /// The line that is the next seal's record.
    pending: Option<(u64, Vec<u8>)>,
    damage: Option<Damage>,
}

impl Frames {
    /// Takes the next line, without its end, and where it begins. Returns a record that is whole.
    pub(super) fn push<R: serde::de::DeserializeOwned>(&mut self, owner: &str, offset: u64, line: &[u8]) -> Option<R> {
        if let Ok(Seal { seal, n }) = serde_json::from_slice(line) {
            // Without a record before it, that one's line is counted already.
            let (start, record) = self.pending.take()?;
            let whole = (seal == hash(owner, &record)).then(|| serde_json::from_slice(&record).ok()).flatten();
            if whole.is_none() {
                self.note(start, &record, n);
            }
            return whole;
        }
        let before = self.pending.replace((offset, line.to_vec()));
        before.and_then(|(start, record)| self.unsealed(start, &record))
    }

    /// Ends the segment. Returns a record that is whole without its seal, and what was damaged.
    pub(super) fn finish<R: serde::de::DeserializeOwned>(mut self) -> (Option<R>, Option<Damage>) {
        let last = self.pending.take().and_then(|(start, record)| self.unsealed(start, &record));
        (last, self.damage)
    }

    /// A record whose seal is damaged, or that an earlier version wrote.
    fn unsealed<R: serde::de::DeserializeOwned>(&mut self, start: u64, record: &[u8]) -> Option<R> {
        let whole = serde_json::from_slice(record).ok();
        // The seal of a record that counts is no loss.
        if whole.is_none() && !record.starts_with(b"{\"seal\"") {
            self.note(start, record, 1);
        }
        whole
    }

    fn note(&mut self, start: u64, record: &[u8], lost: u64) {
        let damage = self.damage.get_or_insert(Damage { offset: start, bytes: 0, lost: 0 });
        damage.bytes += record.len() as u64;
        damage.lost = damage.lost.saturating_add(lost);
    }
}
