//! Reading a pack to find out whether all of it is there and is what was stored.
//!
//! A check goes through the data in its order, in steps that may be far apart in time, so that a store can be gone through at a
//! bounded rate and the work be taken up again.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt as _, time::Duration};

use bytes::Bytes;
use domain::DeploymentId;
use tokio::time::Instant;

use super::{DIGEST_BLOCK_BYTES, Manifest, PackStore, Span, StoreError, StoredBody, blocking};

/// Bytes of data read at a time.
const READ_BYTES: u64 = 1024 * 1024;
/// Files that are named of one damaged pack at most.
pub const FAULTY_PATHS: usize = 100;

/// What is wrong with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Its manifest is not in the store.
    ManifestMissing,
    /// Its manifest is not what was stored.
    ManifestDamaged,
    /// Its data is not in the store.
    DataMissing,
    /// Parts of its data are not what was stored, or are not there.
    DataDamaged,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::ManifestMissing, Self::ManifestDamaged, Self::DataMissing, Self::DataDamaged];

    /// The kind's name, in the database and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ManifestMissing => "manifest_missing",
            Self::ManifestDamaged => "manifest_damaged",
            Self::DataMissing => "data_missing",
            Self::DataDamaged => "data_damaged",
        }
    }
}

/// A fault of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The files that have to do with it, [`FAULTY_PATHS`] at most; none when it is the manifest that names them.
    pub paths: Vec<String>,
}

/// The outcome of a step of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStep {
    /// The fault that was met. The step ends the check then, and it is known of all of the pack.
    pub fault: Option<PackFault>,
    /// Bytes that were read.
    pub read: u64,
    /// Where in the data the next step goes on; none when the check has come to its end.
    pub next: Option<u64>,
}

/// The rate at which a check reads.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    began: Instant,
    read: u64,
}

impl Pace {
    /// A rate of so many bytes a second; as fast as the store gives them when none.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), began: Instant::now(), read: 0 }
    }

    /// Waits until so many bytes more may have been read.
    pub(super) async fn after(&mut self, bytes: u64) {
        self.read += bytes;
        if let Some(rate) = self.bytes_per_second {
            #[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
            let due = Duration::from_secs_f64(self.read as f64 / rate as f64);
            tokio::time::sleep_until(self.began + due).await;
        }
    }
}

/// A piece of data that can be checked alone.
struct Unit {
    span: Span,
    expected: StoredBody,
    /// Where in that body the piece begins.
    start: u64,
}

impl Unit {
    fn is(&self, bytes: &[u8]) -> bool {
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

/// The pieces of a pack's data in their order, each once.
fn units(manifest: &Manifest) -> Vec<Unit> {
    let mut units = BTreeMap::new();
    for body in manifest.stored_files().flat_map(|(_, file)| file.bodies()).map(|(_, body)| body) {
        let Span { offset, len } = body.span;
        let step = if body.is_checked_by_block() { DIGEST_BLOCK_BYTES as u64 } else { len.max(1) };
        let mut start = 0;
        while start < len {
            let span = Span { offset: offset + start, len: step.min(len - start) };
            units.entry((span.offset, span.len)).or_insert_with(|| Unit { span, expected: body.clone(), start });
            start += step;
        }
    }
    units.into_values().collect()
}

/// The files of which a stored form has to do with one of the `damaged` spans.
fn paths(manifest: &Manifest, damaged: &[Span]) -> Vec<String> {
    let meets = |body: Span| {
        body.len > 0
            && damaged.iter().any(|span| span.offset < body.offset + body.len && body.offset < span.offset + span.len)
    };
    let is_faulty = |(_, file): &(&String, &super::FileEntry)| file.bodies().any(|(_, body)| meets(body.span));
    manifest.stored_files().filter(is_faulty).take(FAULTY_PATHS).map(|(path, _)| path.clone()).collect()
}

impl PackStore {
    /// Reads what the pack of `id` has from `from` on, `most` bytes about, and says what is wrong with it. Each thing that seems
    /// wrong is read a second time. An error is the store's, and says nothing of the pack.
    pub async fn check(
        &self,
        id: &DeploymentId,
        from: u64,
        most: u64,
        pace: &mut Pace,
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
            let fault = PackFault { kind: FaultKind::DataMissing, paths: paths(&manifest, &[]) };
            return Ok(CheckStep { fault: Some(fault), read, next: None });
        }
        // Each step gets on, however large the manifest is.
        let mut left = most;
        while let Some(first) = rest.first() {
            if left == 0 && damaged.is_empty() {
                return Ok(CheckStep { fault: None, read, next: Some(first.span.offset) });
            }
            let fits = |unit: &&Unit| unit.end() - first.span.offset <= READ_BYTES;
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            match self.check_units(id, now).await {
                Ok(wrong) => damaged.extend(wrong),
                Err(StoreError::NotFound) => {
                    let all: Vec<Span> = units.iter().map(|unit| unit.span).collect();
                    let whole = [Span { offset: 0, len: all.last().map_or(0, |last| last.offset + last.len) }];
                    let fault = PackFault { kind: FaultKind::DataMissing, paths: paths(&manifest, &whole) };
                    return Ok(CheckStep { fault: Some(fault), read, next: None });
                }
                Err(error) => return Err(error),
            }
            let bytes = now.last().map_or(0, Unit::end) - first.span.offset;
            read += bytes;
            left = left.saturating_sub(bytes);
            pace.after(bytes).await;
            rest = later;
        }
        let fault = (!damaged.is_empty())
            .then(|| PackFault { kind: FaultKind::DataDamaged, paths: paths(&manifest, &damaged) });
        Ok(CheckStep { fault, read, next: None })
    }

    /// Checks all of a pack.
    pub async fn check_whole(&self, id: &DeploymentId, pace: &mut Pace) -> Result<CheckStep, StoreError> {
        self.check(id, 0, u64::MAX, pace).await
    }

    /// The manifest and its length, read again when it seems to be damaged or not there.
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

    /// Reads pieces of data that follow one another, and returns the spans of those that are wrong.
    async fn check_units(&self, id: &DeploymentId, units: &[Unit]) -> Result<Vec<Span>, StoreError> {
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return Ok(Vec::new()) };
        let begin = first.span.offset;
        let together = match self.read(id, begin, last.end() - begin).await {
            Ok(bytes) => bytes,
            // Some may be there.
            Err(StoreError::Damaged(_)) => Bytes::new(),
            Err(error) => return Err(error),
        };
        let mut wrong = Vec::new();
        for unit in units {
            let from = usize::try_from(unit.span.offset - begin).unwrap_or(usize::MAX);
            let to = usize::try_from(unit.end() - begin).unwrap_or(usize::MAX);
            if together.get(from..to).is_some_and(|bytes| unit.is(bytes)) {
                continue;
            }
            match self.read(id, unit.span.offset, unit.span.len).await {
                Ok(bytes) if unit.is(&bytes) => {}
                Ok(_) | Err(StoreError::Damaged(_)) => wrong.push(unit.span),
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }
}

/// Refuses data that is not what `manifest` says.
pub(super) async fn check_file(manifest: Manifest, data: File) -> Result<File, StoreError> {
    blocking(move || {
        for unit in units(&manifest) {
            let mut bytes = vec![0; usize::try_from(unit.span.len).unwrap_or(usize::MAX)];
            data.read_exact_at(&mut bytes, unit.span.offset).map_err(|_| ends_early())?;
            if !unit.is(&bytes) {
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
