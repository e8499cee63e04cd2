//! A durable spool: records that must outlive this process until another system has taken them.
//!
//! What lives here: segments on disk, their locks, the take-over of segments that a dead process left, and segments that are
//! kept for a while after their records were taken. What does not: what a record means, and when it may be forgotten; that is
//! its owner's (for usage, `gateway::meter`). Start with [`Spool`].

mod kept;
mod segment;
mod take_over;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    marker::PhantomData,
    path::PathBuf,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicUsize},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::segment::Segment;
pub use self::take_over::Abandoned;

/// A kind of record that a [`Spool`] keeps. Each kind has a file suffix of its own, so several kinds can share a folder.
///
/// A record is one line of JSON and must not be an object whose only field is `journal` or `boot`: a segment begins with
/// those.
pub trait Record: DeserializeOwned {
    /// The borrowed form, which is written. It must serialize to what the owned form deserializes from.
    type Ref<'a>: Serialize;

    /// The suffix of segment files, such as `.usage`.
    const SUFFIX: &'static str;
    /// The name of the record's kind in logs.
    const KIND: &'static str;
    /// The name of the counter of records that could not be written.
    const ERRORS: &'static str;
    /// The name of the gauge of dead processes whose segments are of another scope.
    const FOREIGN: &'static str;
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
/// `{"journal": "<scope>"}`, the second, `{"boot": "<id>"}`, names the run of the machine; every other line is a record. A line
/// that is not complete is ignored by readers: its [`append`](Self::append) did not return, so nobody has relied on it.
///
/// # Ownership
/// The owner holds a lock on each of its segments. The kernel drops the locks when the process ends, however it ends;
/// then the spool of another process can take the segments over, see [`take_over`](Self::take_over).
///
/// # Durability
/// When [`append`](Self::append) has returned, the record is in the kernel's page cache and survives the death of the
/// process. It survives the loss of power after the next [`sync`](Self::sync). The owner chooses when to pay for that.
///
/// # Keeping
/// A record is released when another system has taken it. That system may lose what it has taken, when a copy takes its place
/// that lacks the last moments. So segments are kept for a while in the subfolder `settled`, each under the name of the
/// [history](Self::set_history) that its records went into; [`lost_segments`](Self::lost_segments) are those of former
/// histories.
///
/// # Access
/// The folder is made for the user of the process alone. One that another user owns, or that every user may write to, is not
/// used: what a segment says is believed.
pub struct Spool<R> {
    options: Options,
    scope: OnceLock<String>,
    /// The number of dead processes whose segments were last found to be of another scope.
    foreign: AtomicUsize,
    state: Mutex<State>,
    record: PhantomData<fn() -> R>,
}

#[derive(Default)]
struct State {
    /// The segment that is written to.
    current: Option<Segment>,
    /// Full segments with records that are not released. They stay open, because closing a file drops its lock.
    full: BTreeMap<SegmentId, Segment>,
    next: u64,
    /// Bytes of all segments.
    bytes: u64,
    /// The last write failed, perhaps in the middle of a line.
    is_failing: bool,
    /// The history that released records went into, once it is known.
    history: Option<String>,
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
        let (scope, foreign) = (OnceLock::new(), AtomicUsize::new(0));
        Self { options, scope, foreign, state: Mutex::default(), record: PhantomData }
    }

    /// Says whose the records are, such as a database's: a spool takes over only records of the same scope. Until that is
    /// known it writes none and takes none over. Only the first call counts.
    pub fn set_scope(&self, scope: String) {
        let _ = self.scope.set(scope);
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
        self.state().bytes < self.options.max_bytes / 2
    }

    /// Writes a record, and returns the segment that holds it, to be given to [`release`](Self::release).
    ///
    /// Returns `None` when the record could not be written; that is counted, and logged once per series of failures.
    pub fn append(&self, record: &R::Ref<'_>) -> Option<SegmentId> {
        let mut state = self.state();
        match self.write(&mut state, record) {
            Ok(id) => {
                if std::mem::take(&mut state.is_failing) {
                    tracing::info!(kind = R::KIND, "the spool can be written again");
                }
                Some(id)
            }
            Err(error) => {
                metrics::counter!(R::ERRORS).increment(1);
                if !std::mem::replace(&mut state.is_failing, true) {
                    let folder = self.options.folder.display();
                    tracing::error!(kind = R::KIND, %error, %folder, "the spool cannot be written (edge.spool)");
                }
                None
            }
        }
    }

    fn write(&self, state: &mut State, record: &R::Ref<'_>) -> io::Result<SegmentId> {
        // After a failure, end the line that may have been cut off, so that it cannot spoil this one.
        let mut line = if state.is_failing { vec![b'\n'] } else { Vec::with_capacity(512) };
        serde_json::to_writer(&mut line, record)?;
        line.push(b'\n');
        if state.bytes.saturating_add(line.len() as u64) > self.options.max_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the spool has reached its largest size"));
        }
        if state.current.as_ref().is_none_or(|segment| self.is_full(segment)) {
            self.begin_segment(state)?;
        }
        let Some(segment) = &mut state.current else { return Err(io::ErrorKind::NotFound.into()) };
        segment.write(&line)?;
        state.bytes += line.len() as u64;
        Ok(segment.id)
    }

    fn is_full(&self, segment: &Segment) -> bool {
        let Options { segment_bytes, released_bytes, .. } = self.options;
        segment.bytes >= segment_bytes || (segment.unreleased == 0 && segment.bytes >= released_bytes)
    }

    /// Begins the first segment, if that is not done: from then on the death of this process is noticed by others. Where it
    /// fails, [`append`](Self::append) says so.
    pub fn begin(&self) {
        let mut state = self.state();
        if state.current.is_none()
            && let Err(error) = self.begin_segment(&mut state)
        {
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
        let path = segment::path::<R>(&self.options.folder, &self.options.owner, id);
        let mut segment = Segment::create(path, id)?;
        state.next += 1;
        segment.write_head(&header)?;
        state.bytes += segment.bytes;
        if let Some(full) = state.current.replace(segment) {
            if full.unreleased == 0 {
                self.retire(state, full);
            } else {
                state.full.insert(full.id, full);
            }
        }
        Ok(())
    }

    /// Gives up one record in each of these segments. A full segment is put aside when its last record is released.
    pub fn release(&self, segments: impl IntoIterator<Item = SegmentId>) {
        let mut state = self.state();
        let state = &mut *state;
        for id in segments {
            if let Some(current) = state.current.as_mut().filter(|current| current.id == id) {
                current.unreleased = current.unreleased.saturating_sub(1);
            } else if let Some(segment) = state.full.get_mut(&id) {
                segment.unreleased = segment.unreleased.saturating_sub(1);
                if segment.unreleased == 0
                    && let Some(segment) = state.full.remove(&id)
                {
                    self.retire(state, segment);
                }
            }
        }
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
                tracing::warn!(kind = R::KIND, %error, "the spool does not reach the disk");
                let mut state = self.state();
                let state = &mut *state;
                if let Some(segment) = state.full.values_mut().chain(&mut state.current).find(|of| of.id == id) {
                    segment.mark_unsynced();
                }
            }
        }
    }

    /// Puts the current segment aside if no record of the spool is unreleased. Called at a clean end, it leaves nothing to take
    /// over.
    pub fn close(&self) {
        let mut state = self.state();
        let is_empty = state.full.is_empty() && state.current.as_ref().is_none_or(|current| current.unreleased == 0);
        if is_empty && let Some(current) = state.current.take() {
            self.retire(&mut state, current);
        }
    }

    fn retire(&self, state: &mut State, segment: Segment) {
        state.bytes -= segment.bytes;
        if self.options.kept_bytes == 0 {
            segment.delete();
            return;
        }
        let target = kept::path::<R>(&self.options, segment.id, state.history.as_deref());
        segment.retire(&target);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
