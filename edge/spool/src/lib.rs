//! A durable spool: records that outlive this process until another system has taken them.
//!
//! This module has the segments on disk, their locks, the take-over of a dead process's segments, and the segments that
//! are kept for a while after their records were taken. The owner decides what a record means and when it may be
//! forgotten (for usage, `gateway::meter`). Start with [`Spool`].

mod frame;
mod kept;
mod name;
mod pace;
mod segment;
mod take_over;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    marker::PhantomData,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use telemetry::{OutageLine, OutageLog};

use self::{
    frame::{RecordSeal, SegmentOrigin},
    pace::{DiskPace, block_in_place},
    segment::Segment,
    take_over::SkippedOwners,
};
pub use self::{
    name::{TAKE_OVERS, database_name, note_take_over, set_database_name, taken_over_at},
    take_over::AbandonedSegments,
};

/// A kind of record that a [`Spool`] stores. Each kind has its own file suffix, so several kinds can share a folder. A
/// record is one line of JSON. It must not be an object with only the fields of another kind of line: `journal`,
/// `boot`, `owner` and `segment`, or `seal`.
pub trait SpoolRecord: DeserializeOwned {
    /// The borrowed form, which is written. It must serialize to what the owned form deserializes from.
    type Ref<'a>: Serialize;

    /// The suffix of segment files, such as `.usage`.
    const SUFFIX: &'static str;
    /// The name of this kind in logs.
    const KIND: &'static str;
    /// The name of the counter of records that could not be written.
    const ERRORS: &'static str;
    /// The name of the counter of slow writes.
    const SLOW: &'static str;
    /// The name of the gauge of dead processes whose segments have another scope.
    const FOREIGN: &'static str;

    /// Returns how many things are lost if the record is lost.
    fn count(_: &Self::Ref<'_>) -> u64 {
        1
    }

    /// Counts what a damaged segment has lost.
    fn note_damaged(lost: u64);
}

/// The folder of a [`Spool`], and its bounds.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The folder of the segments. The first record creates it; several processes may share it.
    pub folder: PathBuf,
    /// The name of the writing process. It must be unique among all processes, past and present, that use the folder.
    pub owner: String,
    /// A scope ([`Spool::set_scope`]) that segments of earlier versions use for the spool's own.
    pub former_scope: String,
    /// The size in bytes after which a segment is full and the next one begins.
    pub segment_bytes: u64,
    /// The size in bytes after which a segment is full once all of its records are released. A value below
    /// [`Self::segment_bytes`] spares a process that takes over the last segment most of what was already released.
    pub released_bytes: u64,
    /// The total size in bytes of all segments beyond which [`Spool::append`] fails.
    pub max_bytes: u64,
    /// How long a segment is kept after its last record was released.
    pub kept_for: Duration,
    /// The total size in bytes of kept segments in the folder, beyond which the oldest are deleted. 0 keeps none.
    pub kept_bytes: u64,
}

/// The number of a segment. Numbers increase and are unique within a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(u64);

/// An append-only journal of records on disk, in segments that are retired once all of their records are released.
///
/// # Format
/// A segment is a file `<owner>-<number><suffix>` with one JSON value per line. The first line is the header
/// `{"journal": "<scope>"}`; `{"boot": "<id>"}` names the boot of the machine, and `{"owner": "<owner>", "segment":
/// <number>}` identifies the segment, so that a copy under another name is detected. Every other line is a record, or
/// `{"seal": "<hash>"}` for the record before it. Damage costs only the records that it affects, and is logged and
/// counted.
///
/// # Ownership
/// The owner holds a lock on each of its segments. The kernel drops the locks when the process ends, however it ends.
/// The spool of another process can then take the segments over: see [`take_over`](Self::take_over).
///
/// # Durability
/// When [`append`](Self::append) returns, the record is in the kernel's page cache and survives the death of the
/// process. After the next [`sync`](Self::sync) it survives a power loss. The owner chooses when to pay for that.
///
/// # Slow disks
/// [`append`](Self::append) writes on the calling thread. If the disk is slow (throttled or hanging), the thread's
/// other tasks move to another thread, for up to [`limits::SLOW_WRITERS`] concurrent writers; further writes are given
/// up. No other method waits for a write, except those documented to block.
///
/// # Keeping
/// A record is released once another system has taken it. That system may still lose it, for example when a replica
/// that lacks the last moments is promoted. Segments are therefore kept for a while in the subfolder `settled`, each
/// under the name of the [history](Self::set_history) that its records went into.
/// [`lost_segments`](Self::lost_segments) returns those of former histories.
///
/// # Access
/// The folder is created for the user of the process alone. A folder that another user owns or may write to is refused,
/// because the contents of segments are trusted.
pub struct Spool<R> {
    options: SpoolOptions,
    scope: OnceLock<String>,
    passed_over: Mutex<SkippedOwners>,
    /// Segments whose damage is already logged and counted.
    damaged: Mutex<BTreeSet<PathBuf>>,
    state: Mutex<SpoolState>,
    /// The total size of all segments. Changed together with `state`, and read without its lock.
    bytes: AtomicU64,
    has_begun: AtomicBool,
    is_failing: AtomicBool,
    /// Released records that are not yet applied to `state`.
    released: Mutex<Vec<SegmentId>>,
    history: Mutex<Option<String>>,
    pace: DiskPace,
    record: PhantomData<fn() -> R>,
}

#[derive(Default)]
struct SpoolState {
    current: Option<Segment>,
    /// Full segments with unreleased records. They stay open, because closing a file drops its lock.
    full: BTreeMap<SegmentId, Segment>,
    next: u64,
    is_cut_off: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeHeader<S> {
    #[serde(rename = "journal")]
    scope: S,
}

/// The line after the header that names the boot of the machine, on systems that have boot ids.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BootHeader<B> {
    boot: B,
}

/// Returns the id of the machine's current boot: unsynced data does not survive a reboot.
fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

impl<R: SpoolRecord> Spool<R> {
    /// Creates an empty spool. It touches no file before [`begin`](Self::begin) or the first [`append`](Self::append).
    pub fn new(options: SpoolOptions) -> Self {
        Self {
            options,
            scope: OnceLock::new(),
            passed_over: Mutex::default(),
            damaged: Mutex::default(),
            state: Mutex::default(),
            bytes: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            released: Mutex::default(),
            history: Mutex::default(),
            pace: DiskPace::new(R::KIND, R::SLOW),
            record: PhantomData,
        }
    }

    /// Sets the scope of the records, such as the name of a database. A spool takes over only records of the same
    /// scope. Until the scope is set, it writes nothing and takes nothing over. Only the first call counts.
    pub fn set_scope(&self, scope: String) {
        let _ = self.scope.set(scope);
    }

    /// Sets a function that returns whether this process ran without interruption. A write during which the process was
    /// stopped says nothing about the disk: it is neither counted nor logged as slow. Only the first call counts.
    pub fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        self.pace.set_awake(is_awake);
    }

    /// Returns whether [`set_scope`](Self::set_scope) was called.
    pub fn has_scope(&self) -> bool {
        self.scope.get().is_some()
    }

    /// Returns the name of the writing process.
    pub fn owner(&self) -> &str {
        &self.options.owner
    }

    /// Returns whether less than half of [`SpoolOptions::max_bytes`] is in use. An owner that checks this before it starts
    /// something reserves the other half for the records that finish what it has started.
    pub fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.options.max_bytes / 2
    }

    /// Writes a record and returns its segment, to pass to [`release`](Self::release) later. Returns `None` if the
    /// record could not be written; each failure is counted, and each series of failures is logged once.
    pub fn append(&self, record: &R::Ref<'_>) -> Option<SegmentId> {
        match self.serialize_and_write(record) {
            Ok(id) => {
                if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!(kind = R::KIND, "the spool can be written again");
                }
                Some(id)
            }
            Err(error) => {
                metrics::counter!(R::ERRORS).increment(1);
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    let folder = self.options.folder.display();
                    tracing::error!(kind = R::KIND, %error, %folder, "the spool cannot be written (edge.spool)");
                }
                None
            }
        }
    }

    fn serialize_and_write(&self, record: &R::Ref<'_>) -> io::Result<SegmentId> {
        let mut line = Vec::with_capacity(512);
        line.push(b'\n');
        serde_json::to_writer(&mut line, record)?;
        let seal = RecordSeal::for_record(&self.options.owner, line.get(1..).unwrap_or_default(), R::count(record));
        line.push(b'\n');
        serde_json::to_writer(&mut line, &seal)?;
        line.push(b'\n');
        self.with_state(|state| self.write(state, &line)).ok_or_else(|| io::Error::other("the disk is too slow"))?
    }

    /// Writes a record's lines, given with a line end in front of them.
    fn write(&self, state: &mut SpoolState, line: &[u8]) -> io::Result<SegmentId> {
        // After a failed write, the leading line end terminates a line that may be cut off.
        let line = if state.is_cut_off { line } else { line.get(1..).unwrap_or_default() };
        let len = line.len() as u64;
        if self.bytes.load(Ordering::Relaxed).saturating_add(len) > self.options.max_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the spool has reached its largest size"));
        }
        if state.current.as_ref().is_none_or(|segment| self.is_full(segment)) {
            self.begin_segment(state)?;
        }
        let Some(segment) = &mut state.current else { return Err(io::ErrorKind::NotFound.into()) };
        let written = segment.write(line);
        state.is_cut_off = written.is_err();
        written?;
        self.bytes.fetch_add(len, Ordering::Relaxed);
        Ok(segment.id)
    }

    /// Runs `work`, which may write, on the state. Returns `None` if too many callers wait for the disk.
    fn with_state<T>(&self, work: impl FnOnce(&mut SpoolState) -> T) -> Option<T> {
        if !self.pace.is_slow()
            && let Some(mut state) = self.try_state()
        {
            return Some(self.pace.timed(|| work(&mut state)));
        }
        let _place = self.pace.acquire_slot()?;
        Some(block_in_place(|| {
            let mut state = self.state();
            self.pace.timed(|| work(&mut state))
        }))
    }

    fn is_full(&self, segment: &Segment) -> bool {
        let SpoolOptions { segment_bytes, released_bytes, .. } = self.options;
        segment.bytes >= segment_bytes || (segment.unreleased == 0 && segment.bytes >= released_bytes)
    }

    /// Creates the first segment if there is none, so that others notice if this process dies. The next
    /// [`append`](Self::append) reports a failure.
    pub fn begin(&self) {
        if self.has_begun.load(Ordering::Relaxed) {
            return;
        }
        let begin = |state: &mut SpoolState| if state.current.is_none() { self.begin_segment(state) } else { Ok(()) };
        if let Some(Err(error)) = self.with_state(begin) {
            tracing::debug!(kind = R::KIND, %error, "the spool cannot be begun");
        }
    }

    fn begin_segment(&self, state: &mut SpoolState) -> io::Result<()> {
        let scope = self.scope.get().ok_or_else(|| io::Error::other("the spool's scope is not known yet"))?;
        let mut header = serde_json::to_vec(&ScopeHeader { scope })?;
        header.push(b'\n');
        if let Some(boot) = boot_id() {
            serde_json::to_writer(&mut header, &BootHeader { boot })?;
            header.push(b'\n');
        }
        let id = SegmentId(state.next);
        serde_json::to_writer(&mut header, &SegmentOrigin { owner: &self.options.owner, segment: id.0 })?;
        header.push(b'\n');
        let path = segment::path::<R>(&self.options.folder, &self.options.owner, id);
        state.next += 1;
        let segment = Segment::create(path, id, &header)?;
        self.bytes.fetch_add(segment.bytes, Ordering::Relaxed);
        self.has_begun.store(true, Ordering::Relaxed);
        state.full.extend(state.current.replace(segment).map(|full| (full.id, full)));
        state.is_cut_off = false;
        self.apply_releases(state).into_iter().for_each(|segment| self.retire(segment));
        Ok(())
    }

    /// Releases one record in each of these segments. A full segment is retired when its last record is released.
    pub fn release(&self, segments: impl IntoIterator<Item = SegmentId>) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).extend(segments);
        // Another thread may hold the state for long; the next call then applies the releases.
        let Some(mut state) = self.try_state() else { return };
        let retired = self.apply_releases(&mut state);
        drop(state);
        if !retired.is_empty() {
            let retire = || retired.into_iter().for_each(|segment| self.retire(segment));
            if self.pace.is_slow() { block_in_place(retire) } else { retire() }
        }
    }

    /// Applies pending releases and removes the full segments without unreleased records.
    fn apply_releases(&self, state: &mut SpoolState) -> Vec<Segment> {
        let released = std::mem::take(&mut *self.released.lock().unwrap_or_else(PoisonError::into_inner));
        for id in released {
            let current = state.current.as_mut().filter(|current| current.id == id);
            if let Some(segment) = current.or_else(|| state.full.get_mut(&id)) {
                segment.unreleased = segment.unreleased.saturating_sub(1);
            }
        }
        state.full.extract_if(.., |_, segment| segment.unreleased == 0).map(|(_, segment)| segment).collect()
    }

    /// Flushes every segment from the page cache to the disk. Blocks.
    pub fn sync(&self) {
        let files: Vec<(SegmentId, io::Result<File>)> = {
            let mut state = self.state();
            let state = &mut *state;
            let segments = state.full.values_mut().chain(&mut state.current);
            segments.filter_map(|segment| Some((segment.id, segment.unsynced_handle()?))).collect()
        };
        for (id, file) in files {
            if let Err(error) = file.and_then(|file| file.sync_data()) {
                static UNSYNCED: OutageLog = OutageLog::new();
                if let Some(OutageLine { left_out, .. }) = UNSYNCED.record_failure() {
                    tracing::warn!(kind = R::KIND, %error, left_out, "the spool does not reach the disk");
                }
                let mut state = self.state();
                let state = &mut *state;
                if let Some(segment) = state.full.values_mut().chain(&mut state.current).find(|of| of.id == id) {
                    segment.mark_unsynced();
                }
            }
        }
    }

    /// Retires the current segment if no record is unreleased, so that nothing is left to take over. Blocks.
    pub fn close(&self) {
        let mut state = self.state();
        self.apply_releases(&mut state).into_iter().for_each(|segment| self.retire(segment));
        let is_empty = state.full.is_empty() && state.current.as_ref().is_none_or(|current| current.unreleased == 0);
        if is_empty && let Some(current) = state.current.take() {
            self.has_begun.store(false, Ordering::Relaxed);
            self.retire(current);
        }
    }

    fn retire(&self, segment: Segment) {
        self.bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        if self.options.kept_bytes == 0 {
            segment.delete();
            return;
        }
        let target = kept::path::<R>(&self.options, segment.id, self.history().as_deref());
        segment.retire(&target);
    }

    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state, or returns `None` if it stays locked for longer than a fast write takes.
    fn try_state(&self) -> Option<MutexGuard<'_, SpoolState>> {
        for _ in 0..limits::WRITE_SPINS {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// Returns whether everything that was appended is on the disk.
    pub fn is_synced(&self) -> bool {
        let state = self.state();
        state.full.values().chain(&state.current).all(|segment| !segment.is_unsynced)
    }

    fn history(&self) -> MutexGuard<'_, Option<String>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
