//! A durable spool: records that must outlive this process until another system has taken them.
//!
//! What lives here: segments on disk, their locks, the take-over of segments that a dead process left, and segments that are
//! kept for a while after their records were taken. What does not: what a record means, and when it may be forgotten; that is
//! its owner's (for usage, `gateway::meter`). Start with [`Spool`].

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
use telemetry::{Line, Outage};

use self::{
    frame::{Origin, Seal},
    pace::{Pace, block_in_place},
    segment::Segment,
    take_over::PassedOver,
};
pub use self::{
    name::{TAKE_OVERS, database_name, note_take_over, set_database_name, taken_over_at},
    take_over::Abandoned,
};
use crate::limits;

/// A kind of record that a [`Spool`] keeps. Each kind has a file suffix of its own, so several kinds can share a folder.
///
/// A record is one line of JSON and must not be an object of the fields of a line that is none: `journal`, `boot`, `owner` and `segment`,
/// `seal`.
pub trait Record: DeserializeOwned {
    /// The borrowed form, which is written. It must serialize to what the owned form deserializes from.
    type Ref<'a>: Serialize;

    /// The suffix of segment files, such as `.usage`.
    const SUFFIX: &'static str;
    /// The name of the record's kind in logs.
    const KIND: &'static str;
    /// The name of the counter of records that could not be written.
    const ERRORS: &'static str;
    /// The name of the counter of writes that took long.
    const SLOW: &'static str;
    /// The name of the gauge of dead processes whose segments are of another scope.
    const FOREIGN: &'static str;

    /// The number of things that are lost with a record.
    fn count(_: &Self::Ref<'_>) -> u64 {
        1
    }

    /// Counts what a damaged segment has lost.
    fn note_damaged(lost: u64);
}

/// The folder of a [`Spool`], and its bounds.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the segments. It is created with the first record, and may be shared by several processes.
    pub folder: PathBuf,
    /// The name of the writing process. It must be unique among all processes that share the folder, past ones included.
    pub owner: String,
    /// A scope ([`Spool::set_scope`]) that stands for the spool's own in segments of earlier versions.
    pub former_scope: String,
    /// The size in bytes after which a segment is full and the next one begins.
    pub segment_bytes: u64,
    /// The size in bytes after which a segment is full as soon as all of its records are released. Less than
    /// [`Self::segment_bytes`] spares whoever takes over a dead owner's last segment what was released before.
    pub released_bytes: u64,
    /// The size in bytes of all segments together beyond which [`Spool::append`] fails.
    pub max_bytes: u64,
    /// Time for which a segment is kept after its last record was released.
    pub kept_for: Duration,
    /// The size in bytes of the kept segments in the folder, beyond which the oldest ones are deleted. None is kept when 0.
    pub kept_bytes: u64,
}

/// The number of a segment. Numbers grow with time and are unique in a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(u64);

/// An append-only journal of records on disk, in segments that are put aside once all of their records are released.
///
/// # Format
/// A segment is a file `<owner>-<number><suffix>` of lines, each one JSON value. The first line is the header
/// `{"journal": "<scope>"}`, then `{"boot": "<id>"}` names the run of the machine, and `{"owner": "<owner>", "segment": <number>}` says whose
/// it is, so that a copy under another name is known. Every other line is a record, or `{"seal": "<hash>"}` for the record before it. What is
/// damaged costs the records that it is in, is logged and counted.
///
/// # Ownership
/// The owner holds a lock on each of its segments. The kernel drops the locks when the process ends, however it ends;
/// then the spool of another process can take the segments over, see [`take_over`](Self::take_over).
///
/// # Durability
/// When [`append`](Self::append) has returned, the record is in the kernel's page cache and survives the death of the
/// process. It survives the loss of power after the next [`sync`](Self::sync). The owner chooses when to pay for that.
///
/// # Slow disks
/// A record is written where [`append`](Self::append) is called. Where that takes long (a throttled disk, one that hangs), the
/// thread's other tasks move to another thread, up to [`limits::SLOW_WRITERS`] times at once; what is to be written beyond
/// that is given up. No other method waits for a write, except those that say so.
///
/// # Keeping
/// A record is released when another system has taken it. That system may lose what it has taken, when a copy takes its place
/// that lacks the last moments. So segments are kept for a while in the subfolder `settled`, each under the name of the
/// [history](Self::set_history) that its records went into; [`lost_segments`](Self::lost_segments) are those of former
/// histories.
///
/// # Access
/// The folder is made for the user of the process alone. One that another user owns, or may write to, is not used: what a
/// segment says is believed.
pub struct Spool<R> {
    options: Options,
    scope: OnceLock<String>,
    passed_over: Mutex<PassedOver>,
    /// Segments whose damage is logged and counted.
    damaged: Mutex<BTreeSet<PathBuf>>,
    state: Mutex<State>,
    /// Bytes of all segments. They change with `state`, and are read without it.
    bytes: AtomicU64,
    /// Whether there is a segment that is written to.
    has_begun: AtomicBool,
    /// Whether the last record could not be written.
    is_failing: AtomicBool,
    /// Records that are released, and not yet in `state`.
    released: Mutex<Vec<SegmentId>>,
    /// The history that released records went into, once it is known.
    history: Mutex<Option<String>>,
    pace: Pace,
    record: PhantomData<fn() -> R>,
}

#[derive(Default)]
struct State {
    /// The segment that is written to.
    current: Option<Segment>,
    /// Full segments with records that are not released. They stay open, because closing a file drops its lock.
    full: BTreeMap<SegmentId, Segment>,
    next: u64,
    /// The last write failed, perhaps in the middle of a line.
    is_cut_off: bool,
}

/// The first line of a segment.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<S> {
    #[serde(rename = "journal")]
    scope: S,
}

/// The line of a segment after its header, where the system tells its runs apart.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Boot<B> {
    boot: B,
}

/// The id of the machine's present run: after a restart, what was not synced is lost.
fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

impl<R: Record> Spool<R> {
    /// An empty spool. It touches no file before it is [begun](Self::begin), or the first [`append`](Self::append).
    pub fn new(options: Options) -> Self {
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
            pace: Pace::new(R::KIND, R::SLOW),
            record: PhantomData,
        }
    }

    /// Says whose the records are, such as a database's: a spool takes over only records of the same scope. Until that is
    /// known it writes none and takes none over. Only the first call counts.
    pub fn set_scope(&self, scope: String) {
        let _ = self.scope.set(scope);
    }

    /// Says how to find out whether this process has run all the time. A write during which it was stopped says nothing of the
    /// disk: it is neither counted nor logged as slow. Only the first call counts.
    pub fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        self.pace.set_awake(is_awake);
    }

    /// Whether [`set_scope`](Self::set_scope) was called.
    pub fn has_scope(&self) -> bool {
        self.scope.get().is_some()
    }

    /// The name of the writing process.
    pub fn owner(&self) -> &str {
        &self.options.owner
    }

    /// Whether less than half of [`Options::max_bytes`] is in use.
    ///
    /// An owner that asks before it begins something keeps the other half for the records with which it ends what it
    /// has begun.
    pub fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.options.max_bytes / 2
    }

    /// Writes a record, and returns the segment that holds it, to be given to [`release`](Self::release).
    ///
    /// Returns `None` when the record could not be written; that is counted, and logged once per series of failures.
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
        let seal = Seal::of(&self.options.owner, line.get(1..).unwrap_or_default(), R::count(record));
        line.push(b'\n');
        serde_json::to_writer(&mut line, &seal)?;
        line.push(b'\n');
        self.change(|state| self.write(state, &line)).ok_or_else(|| io::Error::other("the disk is too slow"))?
    }

    /// Writes a record's lines, which are given with an end of a line before them.
    fn write(&self, state: &mut State, line: &[u8]) -> io::Result<SegmentId> {
        // After a failure, end the line that may have been cut off, so that it cannot spoil this one.
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

    /// Changes the state by `work`, which may write. Returns `None` when too many wait for the disk.
    fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        if !self.pace.is_slow()
            && let Some(mut state) = self.try_state()
        {
            return Some(self.pace.time(|| work(&mut state)));
        }
        let _place = self.pace.wait()?;
        Some(block_in_place(|| {
            let mut state = self.state();
            self.pace.time(|| work(&mut state))
        }))
    }

    fn is_full(&self, segment: &Segment) -> bool {
        let Options { segment_bytes, released_bytes, .. } = self.options;
        segment.bytes >= segment_bytes || (segment.unreleased == 0 && segment.bytes >= released_bytes)
    }

    /// Begins the first segment, if that is not done: from then on the death of this process is noticed by others. Where it
    /// fails, [`append`](Self::append) says so.
    pub fn begin(&self) {
        if self.has_begun.load(Ordering::Relaxed) {
            return;
        }
        let begin = |state: &mut State| if state.current.is_none() { self.begin_segment(state) } else { Ok(()) };
        if let Some(Err(error)) = self.change(begin) {
            tracing::debug!(kind = R::KIND, %error, "the spool cannot be begun");
        }
    }

    fn begin_segment(&self, state: &mut State) -> io::Result<()> {
        let scope = self.scope.get().ok_or_else(|| io::Error::other("the spool's scope is not known yet"))?;
        let mut header = serde_json::to_vec(&Header { scope })?;
        header.push(b'\n');
        if let Some(boot) = boot_id() {
            serde_json::to_writer(&mut header, &Boot { boot })?;
            header.push(b'\n');
        }
        let id = SegmentId(state.next);
        serde_json::to_writer(&mut header, &Origin { owner: &self.options.owner, segment: id.0 })?;
        header.push(b'\n');
        let path = segment::path::<R>(&self.options.folder, &self.options.owner, id);
        state.next += 1;
        let segment = Segment::create(path, id, &header)?;
        self.bytes.fetch_add(segment.bytes, Ordering::Relaxed);
        self.has_begun.store(true, Ordering::Relaxed);
        state.full.extend(state.current.replace(segment).map(|full| (full.id, full)));
        state.is_cut_off = false;
        self.take_released(state).into_iter().for_each(|segment| self.retire(segment));
        Ok(())
    }

    /// Gives up one record in each of these segments. A full segment is put aside when its last record is released.
    pub fn release(&self, segments: impl IntoIterator<Item = SegmentId>) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).extend(segments);
        // Whoever holds the state may hold it for long. Then the next one sees to it.
        let Some(mut state) = self.try_state() else { return };
        let retired = self.take_released(&mut state);
        drop(state);
        if !retired.is_empty() {
            let retire = || retired.into_iter().for_each(|segment| self.retire(segment));
            if self.pace.is_slow() { block_in_place(retire) } else { retire() }
        }
    }

    /// Takes out the full segments without unreleased records.
    fn take_released(&self, state: &mut State) -> Vec<Segment> {
        let released = std::mem::take(&mut *self.released.lock().unwrap_or_else(PoisonError::into_inner));
        for id in released {
            let current = state.current.as_mut().filter(|current| current.id == id);
            if let Some(segment) = current.or_else(|| state.full.get_mut(&id)) {
                segment.unreleased = segment.unreleased.saturating_sub(1);
            }
        }
        state.full.extract_if(.., |_, segment| segment.unreleased == 0).map(|(_, segment)| segment).collect()
    }

    /// Brings every segment from the kernel's page cache to the disk. Blocks.
    pub fn sync(&self) {
        let files: Vec<(SegmentId, io::Result<File>)> = {
            let mut state = self.state();
            let state = &mut *state;
            let segments = state.full.values_mut().chain(&mut state.current);
            segments.filter_map(|segment| Some((segment.id, segment.unsynced_handle()?))).collect()
        };
        for (id, file) in files {
            if let Err(error) = file.and_then(|file| file.sync_data()) {
                static UNSYNCED: Outage = Outage::new();
                if let Some(Line { left_out, .. }) = UNSYNCED.fails() {
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

    /// Puts the current segment aside if no record of the spool is unreleased. Called at a clean end, it leaves nothing to take
    /// over. Blocks.
    pub fn close(&self) {
        let mut state = self.state();
        self.take_released(&mut state).into_iter().for_each(|segment| self.retire(segment));
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless somebody holds it for longer than a fast write takes.
    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        for _ in 0..limits::WRITE_SPINS {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn history(&self) -> MutexGuard<'_, Option<String>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
