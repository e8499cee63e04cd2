//! Verification that a pack is complete and unchanged.
//!
//! A check reads the data in order, in steps that may be far apart in time, so that a store can be checked at a bounded
//! rate and the work resumed.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt as _, time::Duration};

use bytes::Bytes;
use domain::DeploymentId;
use tokio::time::Instant;

use super::{DIGEST_BLOCK_BYTES, Manifest, PackStore, Span, StoreError, StoredBody, blocking};

const READ_BYTES: u64 = 1024 * 1024;
/// Maximum number of files named per damaged pack.
pub const FAULTY_PATHS: usize = 100;

/// The kind of damage to a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The manifest is not in the store.
    ManifestMissing,
    /// The manifest differs from what was stored.
    ManifestDamaged,
    /// The data is not in the store.
    DataMissing,
    /// Parts of the data are missing or differ from what was stored.
    DataDamaged,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::ManifestMissing, Self::ManifestDamaged, Self::DataMissing, Self::DataDamaged];

    /// Returns the kind's name, in the database and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ManifestMissing => "manifest_missing",
            Self::ManifestDamaged => "manifest_damaged",
            Self::DataMissing => "data_missing",
            Self::DataDamaged => "data_damaged",
        }
    }
}

/// Damage to a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFault {
    /// The kind of damage.
    pub kind: FaultKind,
    /// The affected files, at most [`FAULTY_PATHS`]; empty if the manifest, which lists them, is affected.
    pub paths: Vec<String>,
}

/// The outcome of one step of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStep {
    /// The damage found. The step then continues to the end of the pack and ends the check.
    pub fault: Option<PackFault>,
    /// Bytes read.
    pub read: u64,
    /// The offset in the data at which the next step resumes; `None` when the check is complete.
    pub next: Option<u64>,
}

/// The rate at which a check reads.
#[derive(Debug)]
pub struct ReadPace {
    bytes_per_second: Option<u64>,
    began: Instant,
    read: u64,
}

impl ReadPace {
    /// Creates a pace of at most this many bytes per second, or without a limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), began: Instant::now(), read: 0 }
    }

    /// Counts `bytes` as read and waits until the rate allows for them.
    pub(super) async fn after(&mut self, bytes: u64) {
        self.read += bytes;
        if let Some(rate) = self.bytes_per_second {
            #[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
            let due = Duration::from_secs_f64(self.read as f64 / rate as f64);
            tokio::time::sleep_until(self.began + due).await;
        }
    }
}

/// A piece of data that can be verified on its own.
struct CheckUnit {
    span: Span,
    expected: StoredBody,
    /// Offset of the piece within that body.
    start: u64,
}

impl CheckUnit {
    fn matches(&self, bytes: &[u8]) -> bool {
        if self.expected.is_checked_by_block() {
            self.expected.has_blocks(self.start, bytes)
        } else {
            self.expected.is_body(bytes)
        }
    }

    fn end(&self) -> u64 {
        self.span.offset + self.span.len
    }
}

/// Returns the pieces of a pack's data in order, each once.
fn units(manifest: &Manifest) -> Vec<CheckUnit> {
    let mut units = BTreeMap::new();
    for body in manifest.stored_files().flat_map(|(_, file)| file.bodies()).map(|(_, body)| body) {
        let Span { offset, len } = body.span;
        let step = if body.is_checked_by_block() { DIGEST_BLOCK_BYTES as u64 } else { len.max(1) };
        let mut start = 0;
        while start < len {
            let span = Span { offset: offset + start, len: step.min(len - start) };
            units.entry((span.offset, span.len)).or_insert_with(|| CheckUnit { span, expected: body.clone(), start });
            start += step;
        }
    }
    units.into_values().collect()
}

/// Returns the files with a stored form that overlaps one of the `damaged` spans.
fn damaged_paths(manifest: &Manifest, damaged: &[Span]) -> Vec<String> {
    let meets = |body: Span| {
        body.len > 0
            && damaged.iter().any(|span| span.offset < body.offset + body.len && body.offset < span.offset + span.len)
    };
    let is_faulty = |(_, file): &(&String, &super::FileEntry)| file.bodies().any(|(_, body)| meets(body.span));
    manifest.stored_files().filter(is_faulty).take(FAULTY_PATHS).map(|(path, _)| path.clone()).collect()
}

impl PackStore {
    /// Checks the pack of `id` from the offset `from` on, reading about `most` bytes. Anything that seems damaged is
    /// read a second time. An error concerns the store, not the pack.
    pub async fn check(
        &self,
        id: &DeploymentId,
        from: u64,
        most: u64,
        pace: &mut ReadPace,
    ) -> Result<CheckStep, StoreError> {
        let (manifest, mut read) = match self.manifest_twice(id).await {
            Ok(found) => found,
            Err(error) => {
                let kind = match error {
                    StoreError::NotFound => FaultKind::ManifestMissing,
                    StoreError::Damaged(_) => FaultKind::ManifestDamaged,
                    error => return Err(error),
                };
                return Ok(CheckStep { fault: Some(PackFault { kind, paths: Vec::new() }), read: 0, next: None });
            }
        };
        pace.after(read).await;
        let units = units(&manifest);
        let mut rest = units.as_slice();
        rest = &rest[rest.partition_point(|unit| unit.span.offset < from)..];
        let mut damaged = Vec::new();
        if rest.is_empty() && from == 0 && self.data_len(id).await.is_err_and(|error| error.is_not_found()) {
            let fault = PackFault { kind: FaultKind::DataMissing, paths: damaged_paths(&manifest, &[]) };
            return Ok(CheckStep { fault: Some(fault), read, next: None });
        }
        // Each step makes progress, however large the manifest is.
        let mut left = most;
        while let Some(first) = rest.first() {
            if left == 0 && damaged.is_empty() {
                return Ok(CheckStep { fault: None, read, next: Some(first.span.offset) });
            }
            let fits = |unit: &&CheckUnit| unit.end() - first.span.offset <= READ_BYTES;
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            match self.check_units(id, now).await {
                Ok(wrong) => damaged.extend(wrong),
                Err(StoreError::NotFound) => {
                    let all: Vec<Span> = units.iter().map(|unit| unit.span).collect();
                    let whole = [Span { offset: 0, len: all.last().map_or(0, |last| last.offset + last.len) }];
                    let fault = PackFault { kind: FaultKind::DataMissing, paths: damaged_paths(&manifest, &whole) };
                    return Ok(CheckStep { fault: Some(fault), read, next: None });
                }
                Err(error) => return Err(error),
            }
            let bytes = now.last().map_or(0, CheckUnit::end) - first.span.offset;
            read += bytes;
            left = left.saturating_sub(bytes);
            pace.after(bytes).await;
            rest = later;
        }
        let fault = (!damaged.is_empty())
            .then(|| PackFault { kind: FaultKind::DataDamaged, paths: damaged_paths(&manifest, &damaged) });
        Ok(CheckStep { fault, read, next: None })
    }

    /// Checks a whole pack.
    pub async fn check_whole(&self, id: &DeploymentId, pace: &mut ReadPace) -> Result<CheckStep, StoreError> {
        self.check(id, 0, u64::MAX, pace).await
    }

    /// Reads the manifest and its length, retrying once if it is damaged or missing.
    async fn manifest_twice(&self, id: &DeploymentId) -> Result<(Manifest, u64), StoreError> {
        let read = async || {
            let stored = self.open_manifest(id).await?;
            let len = stored.len;
            Ok((stored.read().await?, len))
        };
        match read().await {
            Err(StoreError::NotFound | StoreError::Damaged(_)) => read().await,
            read => read,
        }
    }

    /// Reads adjacent pieces of data and returns the spans of the damaged ones.
    async fn check_units(&self, id: &DeploymentId, units: &[CheckUnit]) -> Result<Vec<Span>, StoreError> {
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return Ok(Vec::new()) };
        let begin = first.span.offset;
        let together = match self.read(id, begin, last.end() - begin).await {
            Ok(bytes) => bytes,
            // Some pieces may be readable on their own.
            Err(StoreError::Damaged(_)) => Bytes::new(),
            Err(error) => return Err(error),
        };
        let mut wrong = Vec::new();
        for unit in units {
            let from = usize::try_from(unit.span.offset - begin).unwrap_or(usize::MAX);
            let to = usize::try_from(unit.end() - begin).unwrap_or(usize::MAX);
            if together.get(from..to).is_some_and(|bytes| unit.matches(bytes)) {
                continue;
            }
            match self.read(id, unit.span.offset, unit.span.len).await {
                Ok(bytes) if unit.matches(&bytes) => {}
                Ok(_) | Err(StoreError::Damaged(_)) => wrong.push(unit.span),
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }
}

/// Fails if the data does not match `manifest`.
pub(super) async fn check_file(manifest: Manifest, data: File) -> Result<File, StoreError> {
    blocking(move || {
        for unit in units(&manifest) {
            let mut bytes = vec![0; usize::try_from(unit.span.len).unwrap_or(usize::MAX)];
            data.read_exact_at(&mut bytes, unit.span.offset).map_err(|_| ends_early())?;
            if !unit.matches(&bytes) {
                return Err(StoreError::Damaged(format!("its data is wrong at {}", unit.span.offset)));
            }
        }
        Ok(data)
    })
    .await
}

fn ends_early() -> StoreError {
    StoreError::Damaged("its data ends before a span".into())
}
