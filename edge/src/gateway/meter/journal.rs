//! The journal: the books on disk, so that they outlive the process.
//!
//! A folder of segments, each a file of lines, each line a piece of JSON. A segment belongs to the process that holds its
//! lock, which the kernel lets go when the process dies, however it dies: then another edge takes the segment over. A
//! segment is deleted once nothing in it has to be answered for. Its first line says for which database it is.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{CompletionId, usage::UsageRow};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::limits;

const SUFFIX: &str = ".usage";

/// What is written down.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line<'a> {
    /// Whose journal this is.
    Journal(&'a str),
    /// A completion was admitted, and can use so much at most.
    Open(&'a UsageRow),
    /// It used so much.
    Ended(&'a UsageRow),
    /// It used nothing.
    Released(&'a CompletionId),
}

/// What is read back.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Found {
    Journal(String),
    Open(UsageRow),
    Ended(UsageRow),
    Released(CompletionId),
}

/// The segments that hold lines of one completion: of its admission and of its end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Segments([Option<u64>; 2]);

impl Segments {
    pub(super) fn of(first: Option<u64>) -> Self {
        Self([first, None])
    }

    pub(super) fn add(&mut self, segment: Option<u64>) {
        self.0[1] = segment;
    }
}

/// The journal of an edge.
pub(super) struct Journal {
    folder: PathBuf,
    edge: String,
    database: String,
    pen: Mutex<Pen>,
}

#[derive(Default)]
struct Pen {
    segment: Option<Segment>,
    next: u64,
    /// Lines in each segment that have to be answered for.
    lines: BTreeMap<u64, usize>,
    /// Files that stay locked as long as they are needed.
    held: BTreeMap<u64, File>,
    /// The last write failed, perhaps in the middle of a line.
    failing: bool,
}

struct Segment {
    number: u64,
    file: File,
    bytes: u64,
}

/// What a dead edge left behind: rows, and whether they used nothing.
pub(super) struct Legacy {
    pub(super) rows: Vec<(UsageRow, bool)>,
    files: Vec<(PathBuf, File)>,
}

impl Journal {
    /// A journal in `folder`. Nothing is written before the first line.
    pub(super) fn new(folder: PathBuf, edge: &str, postgres_url: &str) -> Self {
        Self { folder, edge: edge.to_owned(), database: identity(postgres_url), pen: Mutex::default() }
    }

    pub(super) fn edge(&self) -> &str {
        &self.edge
    }

    /// Writes a line down, and says in which segment. When that fails the books go on without: the reservation in Redis
    /// remains, so that it takes another fault for anything to be lost.
    pub(super) fn append(&self, line: &Line<'_>) -> Option<u64> {
        let mut pen = self.pen();
        match self.write(&mut pen, line) {
            Ok(number) => {
                if std::mem::take(&mut pen.failing) {
                    tracing::info!("the journal of usage can be written again");
                }
                *pen.lines.entry(number).or_default() += 1;
                Some(number)
            }
            Err(error) => {
                metrics::counter!("svc_gateway_journal_errors_total").increment(1);
                if !std::mem::replace(&mut pen.failing, true) {
                    let folder = self.folder.display();
                    tracing::error!(%error, %folder, "the journal of usage cannot be written (edge.spool)");
                }
                None
            }
        }
    }

    fn write(&self, pen: &mut Pen, line: &Line<'_>) -> io::Result<u64> {
        if pen.segment.as_ref().is_none_or(|segment| segment.bytes >= limits::JOURNAL_SEGMENT) {
            self.begin_segment(pen)?;
        }
        // A line that broke off is ended first, so that it cannot spoil this one.
        let mut text = if pen.failing { vec![b'\n'] } else { Vec::with_capacity(512) };
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        let Some(segment) = &mut pen.segment else { return Err(io::ErrorKind::NotFound.into()) };
        segment.file.write_all(&text)?;
        segment.bytes += text.len() as u64;
        Ok(segment.number)
    }

    fn begin_segment(&self, pen: &mut Pen) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let number = pen.next;
        let path = self.path(number);
        let mut file = File::options().append(true).create_new(true).open(&path)?;
        pen.next += 1;
        file.try_lock().map_err(io::Error::from)?;
        let mut text = serde_json::to_vec(&Line::Journal(&self.database))?;
        text.push(b'\n');
        file.write_all(&text)?;
        if let Some(full) = pen.segment.replace(Segment { number, file, bytes: text.len() as u64 }) {
            if pen.lines.get(&full.number).is_none_or(|lines| *lines == 0) {
                pen.lines.remove(&full.number);
                let _ = fs::remove_file(self.path(full.number));
            } else {
                pen.held.insert(full.number, full.file);
            }
        }
        Ok(())
    }

    /// These completions need not be answered for any more.
    pub(super) fn forget(&self, done: &[Segments]) {
        let mut pen = self.pen();
        let current = pen.segment.as_ref().map(|segment| segment.number);
        for number in done.iter().flat_map(|segments| segments.0).flatten() {
            let Some(lines) = pen.lines.get_mut(&number) else { continue };
            *lines = lines.saturating_sub(1);
            if *lines == 0 && Some(number) != current {
                pen.lines.remove(&number);
                pen.held.remove(&number);
                let _ = fs::remove_file(self.path(number));
            }
        }
    }

    /// Brings to the disk what the kernel still holds, for a machine that may lose its power. Blocks.
    pub(super) fn sync(&self) {
        let file = self.pen().segment.as_ref().and_then(|segment| segment.file.try_clone().ok());
        if let Some(Err(error)) = file.map(|file| file.sync_data()) {
            tracing::warn!(%error, "the journal of usage does not reach the disk");
        }
    }

    /// At a clean end: nothing has to be answered for, so no file remains.
    pub(super) fn close(&self) {
        let mut pen = self.pen();
        if pen.lines.values().all(|lines| *lines == 0)
            && let Some(segment) = pen.segment.take()
        {
            let _ = fs::remove_file(self.path(segment.number));
        }
    }

    /// What a dead edge left in the folder, if there is one. Blocks. Its files stay until [`Legacy::remove`].
    pub(super) fn legacy(&self) -> io::Result<Option<Legacy>> {
        let mut edges: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
        let folder = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            folder => folder?,
        };
        for entry in folder {
            let path = entry?.path();
            if let Some((edge, number)) = name_of(&path)
                && edge != self.edge
            {
                edges.entry(edge).or_default().push((number, path));
            }
        }
        for mut segments in edges.into_values() {
            segments.sort();
            if let Some(legacy) = self.read_all(segments)? {
                return Ok(Some(legacy));
            }
        }
        Ok(None)
    }

    /// None when the edge lives, or counts for another database.
    fn read_all(&self, segments: Vec<(u64, PathBuf)>) -> io::Result<Option<Legacy>> {
        let mut files = Vec::new();
        for (_, path) in segments {
            let file = match File::open(&path) {
                // Another edge was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            if file.try_lock().is_err() {
                return Ok(None);
            }
            files.push((path, file));
        }
        let mut rows: BTreeMap<CompletionId, (UsageRow, bool)> = BTreeMap::new();
        for (_, file) in &files {
            let mut reader = BufReader::new(file);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line)? > 0 {
                match serde_json::from_slice(&line) {
                    Ok(Found::Journal(database)) if database != self.database => return Ok(None),
                    Ok(Found::Open(row)) => drop(rows.entry(row.id.clone()).or_insert((row, false))),
                    Ok(Found::Ended(row)) => drop(rows.insert(row.id.clone(), (row, false))),
                    Ok(Found::Released(id)) => drop(rows.get_mut(&id).map(|(_, released)| *released = true)),
                    // A line that broke off: what it said was never acted upon.
                    Ok(Found::Journal(_)) | Err(_) => {}
                }
                line.clear();
            }
        }
        Ok(Some(Legacy { rows: rows.into_values().collect(), files }))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number:08}{SUFFIX}", self.edge))
    }

    fn pen(&self) -> MutexGuard<'_, Pen> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Legacy {
    /// Somebody else answers for all of it now.
    pub(super) fn remove(self) {
        for (path, _locked) in self.files {
            let _ = fs::remove_file(path);
        }
    }
}

fn name_of(path: &Path) -> Option<(String, u64)> {
    let (edge, number) = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    Some((edge.to_owned(), number.parse().ok()?))
}

/// Of the database, without its password: a journal shall not be brought into another.
fn identity(postgres_url: &str) -> String {
    let place = Url::parse(postgres_url).map_or_else(
        |_| String::new(),
        |url| format!("{}:{}{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(5432), url.path()),
    );
    URL_SAFE_NO_PAD.encode(&Sha256::digest(place.as_bytes())[..12])
}

#[cfg(test)]
mod tests;
