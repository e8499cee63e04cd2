//! Detects damage in a segment: a seal line follows each record, and the head of a segment names its owner.
//!
//! Earlier versions skip both kinds of line and wrote neither, so a record without a seal counts if it parses.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The hash bytes in a seal: enough to detect accidental damage; nobody gains from forging it.
const SEAL_BYTES: usize = 4;

/// The line in a segment's head that names its owner and number. A copy has the same, whatever its file name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegmentOrigin<S> {
    pub(super) owner: S,
    pub(super) segment: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordSeal {
    seal: String,
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

impl RecordSeal {
    /// Seals a record's line (without its line end) for `owner`.
    pub(super) fn for_record(owner: &str, record: &[u8], n: u64) -> Self {
        Self { seal: seal_hash(owner, record), n }
    }
}

fn seal_hash(owner: &str, record: &[u8]) -> String {
    let hash = Sha256::new().chain_update(owner).chain_update([0]).chain_update(record).finalize();
    let number = hash.iter().take(SEAL_BYTES).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("{number:08x}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentDamage {
    /// The offset of the first damaged line.
    pub(super) offset: u64,
    /// The total number of unreadable bytes.
    pub(super) bytes: u64,
    /// The number of things lost: as the seals say, or one for each line without a seal.
    pub(super) lost: u64,
}

/// Reassembles records from the lines of a segment after its head.
#[derive(Default)]
pub(super) struct FrameReader {
    pending: Option<(u64, Vec<u8>)>,
    damage: Option<SegmentDamage>,
}

impl FrameReader {
    /// Takes the next line (without its line end) and its offset. Returns a record once it is complete.
    pub(super) fn push<R: serde::de::DeserializeOwned>(&mut self, owner: &str, offset: u64, line: &[u8]) -> Option<R> {
        if let Ok(RecordSeal { seal, n }) = serde_json::from_slice(line) {
            // Without a record before it, that record's line is already counted.
            let (start, record) = self.pending.take()?;
            let whole = (seal == seal_hash(owner, &record)).then(|| serde_json::from_slice(&record).ok()).flatten();
            if whole.is_none() {
                self.note_damage(start, &record, n);
            }
            return whole;
        }
        let before = self.pending.replace((offset, line.to_vec()));
        before.and_then(|(start, record)| self.parse_unsealed(start, &record))
    }

    /// Ends the segment. Returns the last record if it is intact without its seal, and the damage found.
    pub(super) fn finish<R: serde::de::DeserializeOwned>(mut self) -> (Option<R>, Option<SegmentDamage>) {
        let last = self.pending.take().and_then(|(start, record)| self.parse_unsealed(start, &record));
        (last, self.damage)
    }

    /// Parses a record whose seal is damaged, or that an earlier version wrote.
    fn parse_unsealed<R: serde::de::DeserializeOwned>(&mut self, start: u64, record: &[u8]) -> Option<R> {
        let whole = serde_json::from_slice(record).ok();
        // A damaged seal whose record counts is no loss.
        if whole.is_none() && !record.starts_with(b"{\"seal\"") {
            self.note_damage(start, record, 1);
        }
        whole
    }

    fn note_damage(&mut self, start: u64, record: &[u8], lost: u64) {
        let damage = self.damage.get_or_insert(SegmentDamage { offset: start, bytes: 0, lost: 0 });
        damage.bytes += record.len() as u64;
        damage.lost = damage.lost.saturating_add(lost);
    }
}
