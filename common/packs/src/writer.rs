//! Writes a pack in one blocking pass over the uploaded archive.
//!
//! Bodies are streamed into the data file as they are read, each distinct content once. Meanwhile a few workers read
//! them back (from the page cache), compress them, and stream the variants into files of their own, which are appended
//! at the end. No body is ever completely in memory, so memory does not grow with the upload.

mod conclusions;

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map},
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    panic,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use domain::{Timestamp, private_files};

use super::{
    ArchiveError, FileEntry, Manifest, Span, StoreError, WriteError, WrittenPack,
    advice::ReplacedFiles,
    appender::{self, DraftAppender},
    archive::{ArchiveMember, MemberBody as ArchivedBody, PublishRoot, UploadArchive, UploadFormat},
    compress::{self, BodyCompressor},
    dates::{self, FileDates},
    digest::BlockHasher,
    encoded, files,
    manifest::Encoding,
    parts::loads_parts,
    rules::{
        HEADERS_FILE, REDIRECTS_BYTES, REDIRECTS_FILE, RULES_BYTES,
        headers::CompiledHeaders,
        kept,
        robots::{ROBOTS_FILE, RobotsRules},
    },
    types::{self, CharsetCheck},
};

const CHUNK_BYTES: usize = 128 * 1024;
/// Bytes of a page that are searched for subresources. Most are named in its head.
const SEARCHED_BYTES: usize = 256 * 1024;
/// Maximum bodies waiting for compression; beyond it reading blocks.
const QUEUED_BODIES: usize = 256;
const WORKERS: usize = 4;

/// Validates `upload` and writes its bodies into `data`, which must be empty. `scratch` is a folder for temporary
/// files. Waits for the dates of an earlier pack at the end.
pub(super) fn write_pack(
    upload: File,
    format: UploadFormat,
    root: PublishRoot,
    data: &File,
    scratch: &Path,
    now: Timestamp,
    dates: &Receiver<FileDates>,
) -> Result<(Manifest, WrittenPack), WriteError> {
    let archive = UploadArchive::open(upload, format, root)?;
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS);
    let given_up = AtomicBool::new(false);
    let (queue, jobs) = sync_channel(QUEUED_BODIES);
    let jobs = Arc::new(Mutex::new(jobs));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let (jobs, given_up) = (Arc::clone(&jobs), &given_up);
                scope.spawn(move || compress_bodies(&jobs, given_up, data, scratch))
            })
            .collect();
        // Only the workers hold the other end of the queue: if all of them fail, sending fails instead of blocking.
        drop(jobs);
        let read = read_archive(archive, data, queue).and_then(|mut contents| {
            // Runs while the workers compress the last bodies.
            contents.detect_encodings(data).map_err(StoreError::Io)?;
            Ok(contents)
        });
        given_up.store(read.is_err(), Ordering::Relaxed);
        let compressed: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause)))
            .collect();
        // If the workers failed, reading failed too, and their error is the cause.
        let compressed: Vec<CompressedVariants> = match read {
            Err(WriteError::Archive(refused)) => return Err(refused.into()),
            _ => compressed.into_iter().collect::<io::Result<_>>().map_err(StoreError::Io)?,
        };
        let mut contents = read?;
        contents.append_variants(compressed).and_then(|()| contents.append_rules()).map_err(StoreError::Io)?;
        Ok(contents.into_pack(now, &dates::wait_for_dates(dates)))
    })
}

struct ArchiveContents<'d> {
    data: DraftAppender<'d>,
    bodies: Vec<DistinctBody>,
    known: HashMap<[u8; 32], usize>,
    files: BTreeMap<String, usize>,
    headers: Option<Vec<u8>>,
    /// The text of `_headers` to store.
    kept_headers: Option<Vec<u8>>,
    compiled_headers: CompiledHeaders,
    redirects: Option<Vec<u8>>,
    robots: RobotsRules,
    unserved: BTreeMap<String, FileEntry>,
    replaced: ReplacedFiles,
    /// The files that are stored and sent encoded, by path.
    encoded: HashMap<String, Encoding>,
    /// Warnings about files that lack the encoding which `_headers` sets.
    misnamed: Vec<String>,
    fingerprinted: HashSet<String>,
    written: WrittenPack,
}

struct DistinctBody {
    sha256: [u8; 32],
    span: Span,
    is_utf8: bool,
    /// Whether a page loads subresources from the same site; `None` if this was not checked.
    loads_parts: Option<bool>,
    /// Whether it contains a private key, if its name suggests one.
    has_key: bool,
    queued: bool,
    variants: Vec<(Encoding, Span)>,
    /// The digests of its blocks, then those of each variant.
    digests: Vec<String>,
}

struct AddedMember<'m> {
    path: &'m str,
    index: usize,
    /// Whether it must repeat an earlier file.
    must_repeat: bool,
}

struct CompressJob {
    body: usize,
    span: Span,
}

/// The output of one worker: variants of bodies, in a file of its own.
struct CompressedVariants {
    file: File,
    variants: Vec<(usize, Encoding, Span, String)>,
}

fn read_archive(
    archive: UploadArchive<File>,
    data: &File,
    queue: SyncSender<CompressJob>,
) -> Result<ArchiveContents<'_>, WriteError> {
    let mut contents = ArchiveContents {
        data: DraftAppender::for_bodies(data),
        bodies: Vec::new(),
        known: HashMap::new(),
        files: BTreeMap::new(),
        headers: None,
        kept_headers: None,
        compiled_headers: CompiledHeaders::default(),
        redirects: None,
        robots: RobotsRules::default(),
        unserved: BTreeMap::new(),
        replaced: ReplacedFiles::default(),
        encoded: HashMap::new(),
        misnamed: Vec::new(),
        fingerprinted: HashSet::new(),
        written: WrittenPack { files: 0, bytes: 0, stored_bytes: 0, warnings: Vec::new() },
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    let summary = archive.read(|member| {
        let Some(AddedMember { path, index, must_repeat }) = contents.add(member, &mut chunk)? else { return Ok(()) };
        let body = &mut contents.bodies[index];
        if !body.queued && compress::is_worth_it(types::essence(path), body.span.len) && !encoded::is_claimed(path) {
            body.queued = true;
            let job = CompressJob { body: index, span: body.span };
            queue.send(job).map_err(|_| StoreError::Stopping)?;
        }
        let before = contents.files.insert(path.to_owned(), index);
        if must_repeat && before != Some(index) {
            return Err(ArchiveError::past_end(path).into());
        }
        if before.is_some_and(|before| before != index) {
            contents.replaced.add(path);
        }
        Ok(())
    })?;
    drop(queue); // the workers end when they have emptied it
    contents.written.files = u32::try_from(summary.files).unwrap_or(u32::MAX);
    contents.written.bytes = summary.bytes;
    contents.written.warnings = summary.notes;
    Ok(contents)
}

/// Reads the part of a rules file that counts.
fn read_rules(body: &mut ArchivedBody<'_>, chunk: &mut [u8], most: usize) -> Result<Vec<u8>, WriteError> {
    let mut text = Vec::new();
    loop {
        let read = body.read(chunk)?;
        if read == 0 {
            return Ok(text);
        }
        // One extra byte lets the compilers of rules detect, and report, that there was more.
        let room = (most + 1).saturating_sub(text.len());
        text.extend_from_slice(&chunk[..read.min(room)]);
    }
}

impl ArchiveContents<'_> {
    /// Adds a member, unless it is a rules file, which is not served.
    fn add<'m>(
        &mut self,
        member: ArchiveMember<'m, '_>,
        chunk: &mut [u8],
    ) -> Result<Option<AddedMember<'m>>, WriteError> {
        match member {
            ArchiveMember::File { path, body, must_repeat } if path == HEADERS_FILE || path == REDIRECTS_FILE => {
                let most = if path == HEADERS_FILE { RULES_BYTES } else { REDIRECTS_BYTES };
                let text = read_rules(body, chunk, most)?;
                let rules = if path == HEADERS_FILE { &mut self.headers } else { &mut self.redirects };
                let before = rules.replace(text);
                if before != *rules {
                    if must_repeat {
                        return Err(ArchiveError::past_end(path).into());
                    }
                    if before.is_some() {
                        self.replaced.add(path);
                    }
                }
                Ok(None)
            }
            ArchiveMember::File { path, body, must_repeat } => {
                let index = self.add_body(body, chunk, path)?;
                Ok(Some(AddedMember { path, index, must_repeat }))
            }
            ArchiveMember::Link { path, target, must_repeat } => {
                let index = self.link_target(path, target)?;
                self.inspect_linked(path, index)?;
                Ok(Some(AddedMember { path, index, must_repeat }))
            }
        }
    }

    /// Returns the body of `target`, for its hard link `path`. Rules files, stored separately and modified, have none.
    fn link_target(&self, path: &str, target: &str) -> Result<usize, ArchiveError> {
        let index = self.files.get(target).filter(|_| path != HEADERS_FILE && path != REDIRECTS_FILE);
        index.copied().ok_or_else(|| {
            let why = "a hard link has to do with `_headers` or `_redirects`, which must be files of their own";
            ArchiveError::Invalid(why.to_owned())
        })
    }

    /// Inspects a link's content under the link's own name.
    fn inspect_linked(&mut self, path: &str, index: usize) -> Result<(), StoreError> {
        let len = searched_bytes(path);
        let DistinctBody { span, loads_parts: known, .. } = self.bodies[index];
        if len > 0 && !(files::is_page(path) && known.is_some()) {
            let mut beginning = vec![0; usize::try_from(span.len).unwrap_or(usize::MAX).min(len)];
            self.data.file().read_exact_at(&mut beginning, span.offset)?;
            self.inspect(path, index, &beginning);
        }
        Ok(())
    }

    /// Records findings from the beginning of a file.
    fn inspect(&mut self, path: &str, index: usize, beginning: &[u8]) {
        if path == ROBOTS_FILE {
            self.robots = RobotsRules::compile(beginning);
        }
        if may_be_key(path) {
            self.bodies[index].has_key |= private_files::holds_key(file_name(path), beginning);
        }
        if files::is_page(path) {
            self.bodies[index].loads_parts.get_or_insert_with(|| loads_parts(beginning));
        }
    }

    /// Streams the archive's current file into the data file, unless its content is already there.
    fn add_body(&mut self, archived: &mut ArchivedBody<'_>, chunk: &mut [u8], path: &str) -> Result<usize, WriteError> {
        let searched = searched_bytes(path);
        let mut beginning = Vec::new();
        let mut charset = CharsetCheck::default();
        loop {
            let read = archived.read(chunk)?;
            if read == 0 {
                break;
            }
            charset.update(&chunk[..read]);
            beginning.extend_from_slice(&chunk[..read.min(searched - beginning.len())]);
            self.data.write_all(&chunk[..read]).map_err(StoreError::Io)?;
        }
        let (sha256, digests) = self.data.finish_body();
        let index = match self.known.entry(sha256) {
            hash_map::Entry::Occupied(known) => {
                self.data.discard();
                *known.get()
            }
            hash_map::Entry::Vacant(place) => {
                let (span, _) = self.data.keep().map_err(StoreError::Io)?;
                let (is_utf8, variants, digests) = (charset.finish(), Vec::new(), vec![digests]);
                let body = DistinctBody {
                    sha256,
                    span,
                    is_utf8,
                    loads_parts: None,
                    has_key: false,
                    queued: false,
                    variants,
                    digests,
                };
                self.bodies.push(body);
                *place.insert(self.bodies.len() - 1)
            }
        };
        self.inspect(path, index, &beginning);
        Ok(index)
    }

    /// Moves published bodies over replaced ones, so that nothing unpublished is stored or billed.
    fn drop_replaced(&mut self, data: &File, published: &HashSet<usize>) -> io::Result<()> {
        let mut end = 0;
        // Bodies are in data order, so that none is overwritten before it is moved.
        for (_, body) in self.bodies.iter_mut().enumerate().filter(|(index, _)| published.contains(index)) {
            appender::move_down(data, body.span, end)?;
            body.span.offset = end;
            end += body.span.len;
        }
        data.set_len(end)
    }

    fn append_variants(&mut self, compressed: Vec<CompressedVariants>) -> io::Result<()> {
        let mut data = self.data.finish()?;
        let published: Option<HashSet<usize>> = self.replaced.is_any().then(|| self.files.values().copied().collect());
        if let Some(published) = &published {
            self.drop_replaced(data, published)?;
        }
        let mut end = data.seek(SeekFrom::End(0))?;
        for CompressedVariants { mut file, variants } in compressed {
            file.rewind()?;
            if published.is_none() {
                io::copy(&mut file, &mut data)?;
            }
            let start = end;
            for (body, encoding, Span { offset, len }, digests) in variants {
                let mut place = start + offset;
                if let Some(published) = &published {
                    if !published.contains(&body) {
                        continue;
                    }
                    file.seek(SeekFrom::Start(offset))?;
                    io::copy(&mut (&file).take(len), &mut data)?;
                    place = end;
                }
                end += len;
                let body = &mut self.bodies[body];
                body.variants.push((encoding, Span { offset: place, len }));
                body.digests.push(digests);
            }
        }
        Ok(())
    }

    fn append_rules(&mut self) -> io::Result<()> {
        let redirects = self.redirects.as_deref().map(kept::redirects);
        for (path, text) in [(HEADERS_FILE, self.kept_headers.as_deref()), (REDIRECTS_FILE, redirects)] {
            let Some(text) = text else { continue };
            let mut data = self.data.file();
            let offset = data.seek(SeekFrom::End(0))?;
            data.write_all(text)?;
            let mut hasher = BlockHasher::for_whole_bodies();
            hasher.update(text);
            let (sha256, digests) = hasher.finish_whole();
            let entry = FileEntry {
                content_type: types::content_type(types::essence(path), std::str::from_utf8(text).is_ok()),
                sha256: hex::encode(sha256),
                fingerprinted: false,
                encoded: None,
                identity: Span { offset, len: text.len() as u64 },
                variants: Vec::new(),
                loads_parts: false,
                digests: vec![digests],
                modified: None,
            };
            self.unserved.insert(path.to_owned(), entry);
        }
        Ok(())
    }
}

/// Returns how many bytes at the beginning of a file are inspected.
fn searched_bytes(path: &str) -> usize {
    match path {
        ROBOTS_FILE => RULES_BYTES,
        _ if files::is_page(path) => SEARCHED_BYTES,
        _ if may_be_key(path) => private_files::KEY_SEARCH_BYTES,
        _ => 0,
    }
}

fn may_be_key(path: &str) -> bool {
    private_files::may_hold_key(file_name(path))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Compresses bodies until the queue is closed.
fn compress_bodies(
    jobs: &Mutex<Receiver<CompressJob>>,
    given_up: &AtomicBool,
    data: &File,
    scratch: &Path,
) -> io::Result<CompressedVariants> {
    let file = tempfile::tempfile_in(scratch)?;
    let mut out = DraftAppender::new(&file);
    let mut compressor = BodyCompressor::new();
    let mut variants = Vec::new();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(CompressJob { body, span }) = job else { break };
        if given_up.load(Ordering::Relaxed) {
            break;
        }
        for encoding in compress::ENCODINGS {
            compressor.compress(encoding, data, span, &mut out)?;
            if compress::is_small_enough(out.draft(), span.len) {
                let (span, digests) = out.keep()?;
                variants.push((body, encoding, span, digests));
            } else {
                out.discard();
            }
        }
    }
    out.finish()?;
    Ok(CompressedVariants { file, variants })
}
