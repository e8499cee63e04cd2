//! Takes over segments whose owner is dead.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    sync::{MutexGuard, PoisonError},
};

use super::{
    BootHeader, ScopeHeader, SegmentId, Spool, SpoolRecord, boot_id,
    frame::{FrameReader, SegmentDamage, SegmentOrigin},
    kept, segment,
};

/// The segments that a dead process left in the folder. They stay locked, and on disk, until [`delete`](Self::delete).
pub struct AbandonedSegments<T> {
    /// The records, folded in the order in which they were written.
    pub contents: T,
    /// The name of the dead process.
    pub owner: String,
    /// Whether every record that [`append`](Spool::append) returned is present: no reboot since the first segment.
    pub is_complete: bool,
    pub(super) segments: Vec<LockedSegment>,
}

impl<T> AbandonedSegments<T> {
    /// Splits off the contents.
    pub fn split(self) -> (T, AbandonedSegments<()>) {
        let Self { contents, owner, is_complete, segments } = self;
        (contents, AbandonedSegments { contents: (), owner, is_complete, segments })
    }

    /// Deletes the segments. Call it once everything in them is in this process's spool.
    pub fn delete(self) {
        for segment in self.segments {
            let _ = fs::remove_file(&segment.path);
        }
    }

    /// Deletes the first remaining segment. Call it once everything in it was taken.
    pub fn delete_first(&mut self) {
        if !self.segments.is_empty() {
            let _ = fs::remove_file(self.segments.remove(0).path);
        }
    }
}

type OwnersSegments = Vec<(String, Vec<PathBuf>)>;

pub(super) struct LockedSegment {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// The dead owners whose segments the last search skipped, so that each is logged once.
#[derive(Default)]
pub(super) struct SkippedOwners {
    pub(super) foreign: usize,
    unreadable: BTreeSet<String>,
    /// Copies of segments that also exist under their own name.
    copies: BTreeSet<PathBuf>,
}

impl<R: SpoolRecord> Spool<R> {
    /// Takes over the segments of one dead owner, if there is one, and folds their records. Blocks.
    ///
    /// The segments of an owner are taken over together or not at all: an owner that holds the lock of any of them is
    /// alive. Segments of another scope are left alone. An unreadable segment prevents the take-over of its owner and
    /// is logged; it is an error only if no other owner is found.
    pub fn take_over<T: Default>(&self, fold: impl Fn(&mut T, R)) -> io::Result<Option<AbandonedSegments<T>>> {
        self.take_over_by(|segments| self.read(segments.iter().map(|of| (&*of.path, &of.file)), &fold))
    }

    /// Takes over the segments of one dead owner without reading their records, which may exceed memory. Works like
    /// [`take_over`](Self::take_over), but does not check whether the segments are complete. Blocks.
    pub fn take_over_unread(&self) -> io::Result<Option<AbandonedSegments<()>>> {
        self.take_over_by(|segments| {
            for LockedSegment { path, file } in segments {
                let mut head = Vec::new();
                BufReader::new(file).read_until(b'\n', &mut head).map_err(|error| with_path(path, &error))?;
                if serde_json::from_slice::<ScopeHeader<String>>(&head).is_ok_and(|header| !self.has_own_scope(&header))
                {
                    return Ok(None);
                }
            }
            Ok(Some(((), false)))
        })
    }

    /// Folds the records of a dead owner's first remaining segment. Returns `None` if there is none. Blocks.
    pub fn read_first<A, T: Default>(
        &self,
        abandoned: &AbandonedSegments<A>,
        fold: impl Fn(&mut T, R),
    ) -> io::Result<Option<T>> {
        self.read_one(abandoned, 0, fold)
    }

    /// Folds the records of a dead owner's remaining segment `number`, from 0. Returns `None` if there is none. Blocks.
    pub fn read_one<A, T: Default>(
        &self,
        abandoned: &AbandonedSegments<A>,
        number: usize,
        fold: impl Fn(&mut T, R),
    ) -> io::Result<Option<T>> {
        let Some(LockedSegment { path, file }) = abandoned.segments.get(number) else { return Ok(None) };
        let mut start = file;
        start.rewind()?;
        Ok(self.read([(&**path, file)], fold)?.map(|(contents, _)| contents))
    }

    fn take_over_by<T>(
        &self,
        read: impl Fn(&[LockedSegment]) -> io::Result<Option<(T, bool)>>,
    ) -> io::Result<Option<AbandonedSegments<T>>> {
        if !self.has_scope() {
            return Ok(None);
        }
        let (mut passed, mut first_error) = (SkippedOwners::default(), None);
        let (owners, copies) = self.segments_of_others()?;
        for copy in copies.difference(&self.passed_over().copies) {
            tracing::warn!(kind = R::KIND, file = %copy.display(), "a copy of another file in the spool is left alone while that one is there");
        }
        passed.copies = copies;
        for (owner, paths) in owners {
            let found = lock_all(paths).and_then(|locked| match locked {
                Some(segments) => Ok(Some((read(&segments)?, segments))),
                None => Ok(None),
            });
            match found {
                Ok(Some((Some((contents, is_complete)), segments))) => {
                    return Ok(Some(AbandonedSegments { contents, owner, is_complete, segments }));
                }
                Ok(Some((None, _))) => passed.foreign += 1,
                Ok(None) => {}
                // The owners after this one must not wait until somebody repairs it.
                Err(error) => {
                    if self.passed_over().unreadable.insert(owner.clone()) {
                        tracing::warn!(kind = R::KIND, owner, %error, "what a dead process left in the spool cannot be read");
                    }
                    passed.unreadable.insert(owner);
                    first_error.get_or_insert(error);
                }
            }
        }
        let foreign = passed.foreign;
        metrics::gauge!(R::FOREIGN).set(f64::from(u32::try_from(foreign).unwrap_or(u32::MAX)));
        if std::mem::replace(&mut *self.passed_over(), passed).foreign < foreign {
            let folder = self.options.folder.display();
            tracing::warn!(kind = R::KIND, foreign, %folder, "what other processes left in the spool is of another scope");
        }
        first_error.map_or(Ok(None), Err)
    }

    pub(super) fn passed_over(&self) -> MutexGuard<'_, SkippedOwners> {
        self.passed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the segments of each other owner, in the order in which they were written, and the copies of segments.
    /// The content of a segment names its owner; if it does not, the file name does.
    fn segments_of_others(&self) -> io::Result<(OwnersSegments, BTreeSet<PathBuf>)> {
        match segment::check_owner(&self.options.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            checked => checked?,
        }
        let mut owners: BTreeMap<String, BTreeMap<SegmentId, PathBuf>> = BTreeMap::new();
        let mut misnamed = Vec::new();
        for entry in fs::read_dir(&self.options.folder)? {
            let path = entry?.path();
            let Some(named) = segment::parse_path::<R>(&path) else { continue };
            let (owner, id) = read_origin(&path).unwrap_or_else(|| named.clone());
            if owner == self.options.owner {
                continue;
            }
            if (&owner, id) == (&named.0, named.1) {
                owners.entry(owner).or_default().insert(id, path);
            } else {
                misnamed.push((owner, id, path));
            }
        }
        let mut copies = BTreeSet::new();
        for (owner, id, path) in misnamed {
            match owners.entry(owner).or_default().entry(id) {
                Entry::Vacant(place) => _ = place.insert(path),
                Entry::Occupied(_) => _ = copies.insert(path),
            }
        }
        let owners = owners.into_iter().map(|(owner, segments)| (owner, segments.into_values().collect()));
        Ok((owners.collect(), copies))
    }

    /// Reads segments as [`Self::read_segments`] does, and logs and counts their damage.
    pub(super) fn read<'a, T: Default>(
        &self,
        segments: impl IntoIterator<Item = (&'a Path, &'a File)>,
        fold: impl Fn(&mut T, R),
    ) -> io::Result<Option<(T, bool)>> {
        self.read_segments(segments, fold, |path, damage| self.report(path, damage))
    }

    /// Logs and counts the damage of a segment once, however often the segment is read.
    fn report(&self, path: &Path, damage: SegmentDamage) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.len() >= limits::DAMAGED_SEGMENTS {
            damaged.clear();
        }
        if !damaged.insert(path.to_owned()) {
            return;
        }
        drop(damaged);
        let SegmentDamage { offset, bytes, lost } = damage;
        R::note_damaged(lost);
        let file = path.display();
        tracing::warn!(kind = R::KIND, %file, offset, bytes, lost, "a file in the spool is damaged; the rest of it is taken");
    }

    /// Returns the folded records and whether they are complete, or `None` if a header has another scope. An empty
    /// segment had no record: its owner was killed while creating it, if the machine has not rebooted since.
    pub(super) fn read_segments<'a, T: Default>(
        &self,
        segments: impl IntoIterator<Item = (&'a Path, &'a File)>,
        fold: impl Fn(&mut T, R),
        report: impl Fn(&Path, SegmentDamage),
    ) -> io::Result<Option<(T, bool)>> {
        let (mut contents, mut is_complete, mut is_empty) = (T::default(), true, true);
        let boot = boot_id();
        for (path, segment) in segments {
            let mut reader = BufReader::new(segment);
            let (mut line, mut written_in) = (Vec::new(), None);
            if reader.fill_buf().map_err(|error| with_path(path, &error))?.is_empty() {
                continue;
            }
            let (mut frames, mut offset) = (FrameReader::default(), 0);
            let named = kept::parse_path::<R>(path).map(|(owner, _)| owner.to_owned());
            let mut owner =
                named.or_else(|| segment::parse_path::<R>(path).map(|(owner, _)| owner)).unwrap_or_default();
            while reader.read_until(b'\n', &mut line).map_err(|error| with_path(path, &error))? > 0 {
                let start = offset;
                offset += line.len() as u64;
                line.pop_if(|last| *last == b'\n');
                if line.is_empty() {
                    continue;
                }
                if let Ok(header) = serde_json::from_slice::<ScopeHeader<String>>(&line) {
                    if !self.has_own_scope(&header) {
                        return Ok(None);
                    }
                } else if let Ok(of) = serde_json::from_slice::<BootHeader<String>>(&line) {
                    written_in = Some(of.boot);
                } else if let Ok(of) = serde_json::from_slice::<SegmentOrigin<String>>(&line) {
                    owner = of.owner;
                } else if let Some(record) = frames.push(&owner, start, &line) {
                    fold(&mut contents, record);
                }
                line.clear();
            }
            let (last, damage) = frames.finish();
            if let Some(record) = last {
                fold(&mut contents, record);
            }
            if let Some(damage) = damage {
                report(path, damage);
            }
            is_empty = false;
            is_complete &= written_in.is_some() && written_in == boot && damage.is_none();
        }
        Ok(Some((contents, is_complete && !is_empty)))
    }

    fn has_own_scope(&self, ScopeHeader { scope }: &ScopeHeader<String>) -> bool {
        self.scope.get() == Some(scope) || self.options.former_scope == *scope
    }
}

/// Reads the owner and the number from a segment's content. Segments of earlier versions have neither.
fn read_origin(path: &Path) -> Option<(String, SegmentId)> {
    let mut reader = BufReader::new(File::open(path).ok()?.take(limits::SEGMENT_HEAD));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).ok()? > 0 {
        if let Ok(SegmentOrigin { owner, segment }) = serde_json::from_slice::<SegmentOrigin<String>>(&line) {
            return Some((owner, SegmentId(segment)));
        }
        line.clear();
    }
    None
}

/// Locks the segments. Returns `None` if their owner is alive or another process is taking them over.
pub(super) fn lock_all(paths: Vec<PathBuf>) -> io::Result<Option<Vec<LockedSegment>>> {
    let lock = |path: &Path| match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(file) => Ok((file.try_lock().is_ok() && segment::is_at(&file, path)?).then_some(file)),
    };
    let mut segments = Vec::new();
    for path in paths {
        let Some(file) = lock(&path).map_err(|error| with_path(&path, &error))? else { return Ok(None) };
        segments.push(LockedSegment { path, file });
    }
    Ok(Some(segments))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
