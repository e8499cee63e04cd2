//! Released segments that are kept for a while, because the system that took the records may lose them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{AbandonedSegments, SegmentId, Spool, SpoolOptions, SpoolRecord, segment, take_over::lock_all};

const FOLDER: &str = "settled";
/// Stands for the history's name while it is unknown. It differs from every history.
const UNKNOWN: &str = "unknown";

pub(super) fn path<R: SpoolRecord>(
    options: &SpoolOptions,
    SegmentId(number): SegmentId,
    history: Option<&str>,
) -> PathBuf {
    let history = history.unwrap_or(UNKNOWN);
    options.folder.join(FOLDER).join(format!("{}-{number:08}.{history}{}", options.owner, R::SUFFIX))
}

pub(super) fn parse_path<R: SpoolRecord>(path: &Path) -> Option<(&str, &str)> {
    let (segment, history) = path.file_name()?.to_str()?.strip_suffix(R::SUFFIX)?.rsplit_once('.')?;
    Some((segment.rsplit_once('-')?.0, history))
}

impl<R: SpoolRecord> Spool<R> {
    /// Sets the history that released records go into from now on, such as a database's timeline. Another history of
    /// that system may lack what it took before. The name must not contain dots or slashes.
    pub fn set_history(&self, history: &str) {
        *self.history() = Some(history.to_owned());
    }

    /// Returns the unreleased segments on disk that this process wrote. Blocks.
    pub fn own_segments(&self) -> Vec<PathBuf> {
        let state = self.state();
        state.full.values().chain(&state.current).map(|segment| segment.path().to_owned()).collect()
    }

    /// Folds the records of one of the [own segments](Self::own_segments); `None` if it was released since. Blocks.
    pub fn read_own<T: Default>(&self, path: &Path, fold: impl Fn(&mut T, R)) -> io::Result<Option<T>> {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The process that wrote the segment knows what it lacks, and counts that itself.
            file => Ok(self.read_segments([(path, &file?)], fold, |_, _| {})?.map(|(contents, _)| contents)),
        }
    }

    /// Folds the records of an unreleased segment that this process wrote. Blocks.
    pub fn read_unreleased<T: Default>(&self, id: SegmentId, fold: impl Fn(&mut T, R)) -> io::Result<T> {
        let path = segment::path::<R>(&self.options.folder, &self.options.owner, id);
        Ok(self.read_own(&path, fold)?.unwrap_or_default())
    }

    /// Returns the kept segments, of any process, whose records went into another history than the current one. Blocks.
    pub fn lost_segments(&self) -> io::Result<Vec<PathBuf>> {
        let Some(present) = self.history().clone() else { return Ok(Vec::new()) };
        let is_lost = |path: &PathBuf| parse_path::<R>(path).is_some_and(|(_, history)| history != present);
        Ok(self.kept_segments()?.into_iter().filter(is_lost).collect())
    }

    /// Takes over one of the [lost segments](Self::lost_segments) and folds its records. Returns `None` if it has
    /// another scope or another process has taken it over. Blocks.
    pub fn take_over_lost<T: Default>(
        &self,
        path: PathBuf,
        fold: impl Fn(&mut T, R),
    ) -> io::Result<Option<AbandonedSegments<T>>> {
        let Some(owner) = parse_path::<R>(&path).map(|(owner, _)| owner.to_owned()) else { return Ok(None) };
        let Some(segments) = lock_all(vec![path])? else { return Ok(None) };
        let read = self.read(segments.iter().map(|of| (&*of.path, &of.file)), fold)?;
        Ok(read.map(|(contents, is_complete)| AbandonedSegments { contents, owner, is_complete, segments }))
    }

    /// Deletes kept segments older than [`SpoolOptions::kept_for`], and the oldest beyond [`SpoolOptions::kept_bytes`]. Blocks.
    pub fn prune_kept(&self) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for path in self.kept_segments()? {
            // Another process may have deleted it in the meantime.
            if let Ok(metadata) = fs::metadata(&path) {
                kept.push((metadata.modified()?, metadata.len(), path));
            }
        }
        kept.sort();
        let mut bytes: u64 = 0;
        for (since, len, path) in kept.into_iter().rev() {
            bytes = bytes.saturating_add(len);
            // A segment dated in the future was written before the clock was set back; it is not old.
            let is_old = since.elapsed().is_ok_and(|age| age > self.options.kept_for);
            if is_old || bytes > self.options.kept_bytes {
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    fn kept_segments(&self) -> io::Result<Vec<PathBuf>> {
        match segment::check_owner(&self.options.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            checked => checked?,
        }
        let entries = match fs::read_dir(self.options.folder.join(FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(paths.into_iter().filter(|path| parse_path::<R>(path).is_some()).collect())
    }
}
