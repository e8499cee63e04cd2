//! `svc download`.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufReader, IsTerminal as _, Read, Seek as _, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
};

use api::deployments::ArchiveFormat;
use clap::ValueEnum;
use clap_complete::engine::ArgValueCandidates;
use domain::{DeploymentId, ProjectName, limits};
use flate2::read::GzDecoder;
use serde::Serialize;

use super::{super::projects, reference::DeploymentReference};
use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::{Output, count, size},
};

/// The maximum size of an archive, packed or unpacked, including the headers of its files.
const ARCHIVE_BYTES: u64 = 2 * limits::DEPLOYMENT_BYTES;
/// The mode of written files, before the umask.
const MODE: u32 = 0o666;

/// Download all files of a deployment, as they were uploaded.
#[derive(Debug, clap::Args)]
pub(crate) struct DownloadArgs {
    /// The deployment, by id or address [default: the live one]
    #[arg(add = ArgValueCandidates::new(complete::deployments))]
    deployment: Option<DeploymentReference>,
    #[command(flatten)]
    project: ProjectOption,
    /// The file to write, a folder to write it in, or - for stdout [default: PROJECT-ID.tar.gz in the current folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The archive format
    #[arg(long, value_enum, default_value_t = DownloadFormat::TarGz)]
    format: DownloadFormat,
    /// Unpack into this folder, which must be new or empty
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format"])]
    extract: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DownloadFormat {
    /// A gzip-compressed tarball
    #[value(name = "tar.gz")]
    TarGz,
    /// A zip archive
    Zip,
}

impl From<DownloadFormat> for ArchiveFormat {
    fn from(format: DownloadFormat) -> Self {
        match format {
            DownloadFormat::TarGz => Self::TarGz,
            DownloadFormat::Zip => Self::Zip,
        }
    }
}

#[derive(Serialize)]
struct DownloadOutput<'d> {
    project: &'d ProjectName,
    deployment_id: &'d DeploymentId,
    #[serde(flatten)]
    place: DownloadTarget<'d>,
}

/// Where the archive or its files were written.
#[derive(Serialize)]
#[serde(untagged)]
enum DownloadTarget<'d> {
    File { file: &'d Path, format: ArchiveFormat, bytes: u64 },
    Folder { folder: &'d Path, files: u64, bytes: u64 },
}

struct DeploymentSource<'c> {
    name: ProjectName,
    id: DeploymentId,
    client: &'c Client,
    output: Output,
}

pub(crate) async fn run(args: DownloadArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let DownloadArgs { deployment, project, output: file, format, extract, force } = args;
    let format = ArchiveFormat::from(format);
    let to_stdout = file.as_deref() == Some(Path::new("-"));
    if to_stdout {
        check_stdout(output)?;
    }
    if let Some(folder) = &extract {
        check_folder(folder, force)?;
    }
    let (name, id) = if let Some(deployment) = deployment {
        (deployment.project(project, client, output).await?, deployment.id)
    } else {
        let name = project.choose(client, output).await?;
        let id = find_live_deployment(&name, client).await?;
        (name, id)
    };
    let source = DeploymentSource { name, id, client, output };
    if let Some(folder) = extract {
        return source.extract(&folder).await;
    }
    if to_stdout {
        let mut stdout = io::stdout();
        source.fetch(format, |part| stdout.write_all(part).map_err(|error| unwritable(Path::new("-"), &error))).await?;
        return Ok(stdout.flush()?);
    }
    source.save(&source.place(file, format), format, force).await
}

async fn find_live_deployment(name: &ProjectName, client: &Client) -> Result<DeploymentId, Failure> {
    projects::detail(name, client).await?.project.active_deployment_id.ok_or_else(|| {
        Failure::new(FailureClass::NotFound, "nothing_to_download", format!("Nothing of {name} is live."))
            .with_hint(format!("`svc deployments --project {name}` lists what there is."))
    })
}

impl DeploymentSource<'_> {
    fn place(&self, wanted: Option<PathBuf>, format: ArchiveFormat) -> PathBuf {
        let default = format!("{}-{}.{}", self.name, self.id, format.extension());
        match wanted {
            None => default.into(),
            Some(place) if place.is_dir() || place.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                place.join(default)
            }
            Some(place) => place,
        }
    }

    /// Writes the archive to `file`, which appears only once it is complete.
    async fn save(&self, file: &Path, format: ArchiveFormat, force: bool) -> anyhow::Result<()> {
        let taken = || {
            Failure::new(FailureClass::Conflict, "file_exists", format!("{} is there already.", file.display()))
                .with_hint("Add --force to overwrite it, or name another file with --output.")
        };
        if !force && file.symlink_metadata().is_ok() {
            return Err(taken().into());
        }
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unwritable = |error: &io::Error| unwritable(file, error);
        let new = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(folder);
        let mut new = new.map_err(|error| unwritable(&error))?;
        let bytes = self.fetch(format, |part| new.write_all(part).map_err(|error| unwritable(&error))).await?;
        let placed = if force { new.persist(file) } else { new.persist_noclobber(file) };
        placed.map_err(|failed| match failed.error.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => unwritable(&failed.error),
        })?;
        self.output.success(&format!("Saved {} of {} in {} ({}).", self.id, self.name, file.display(), size(bytes)));
        self.tell(DownloadTarget::File { file, format, bytes }, file)
    }

    async fn extract(&self, folder: &Path) -> anyhow::Result<()> {
        let mut archive = tempfile::tempfile()?;
        self.fetch(ArchiveFormat::TarGz, |part| {
            archive.write_all(part).map_err(|error| Failure::refused("unwritable", format!("Cannot write: {error}.")))
        })
        .await?;
        archive.rewind()?;
        let (files, bytes) = unpack(archive, folder)?;
        let what = format!("{} of {}", self.id, self.name);
        self.output.success(&format!(
            "Unpacked {what} in {}: {}, {}.",
            folder.display(),
            count(files, "file"),
            size(bytes)
        ));
        self.tell(DownloadTarget::Folder { folder, files, bytes }, folder)
    }

    fn tell(&self, place: DownloadTarget<'_>, shown: &Path) -> anyhow::Result<()> {
        let document = DownloadOutput { project: &self.name, deployment_id: &self.id, place };
        self.output.result(&document, || shown.display().to_string())
    }

    /// Passes the parts of the archive to `take`, and returns its length.
    async fn fetch(
        &self,
        format: ArchiveFormat,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let Self { name, id, .. } = self;
        let path = format!("/projects/{name}/deployments/{id}/archive?format={}", format.extension());
        let progress = self.output.spinner(format!("Downloading {id}"));
        let mut bytes = 0;
        let fetched = self.client.fetch(&path, |part| {
            bytes += part.len() as u64;
            if bytes > ARCHIVE_BYTES {
                return Err(Failure::limit(format!("The archive is longer than {}.", size(ARCHIVE_BYTES))));
            }
            progress.set_message(format!("Downloading {id}, {}", size(bytes)));
            take(part)
        });
        let fetched = fetched.await;
        progress.finish_and_clear();
        fetched.map_err(|failure| match failure.kind {
            FailureClass::NotFound => {
                failure.with_hint(format!("`svc deployments --project {name}` lists what there is."))
            }
            _ => failure,
        })?;
        Ok(bytes)
    }
}

/// Refuses to write an archive to a terminal, or to the stdout that holds a JSON document.
fn check_stdout(output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return Err(Failure::usage("With `--output -` stdout is the archive; --json has no place there."));
    }
    if io::stdout().is_terminal() {
        return Err(
            Failure::usage("An archive is not for a terminal.").with_hint("Pipe it: svc download -o - | tar tz")
        );
    }
    Ok(())
}

/// Refuses a folder that is not empty, unless its files may be overwritten.
fn check_folder(folder: &Path, force: bool) -> Result<(), Failure> {
    let is_empty = match fs::read_dir(folder) {
        Ok(mut inside) => inside.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(unwritable(folder, &error)),
    };
    if is_empty || force {
        return Ok(());
    }
    Err(Failure::new(FailureClass::Conflict, "folder_not_empty", format!("{} is not empty.", folder.display()))
        .with_hint("Name a new folder, or add --force to overwrite what is there."))
}

fn unwritable(place: &Path, error: &io::Error) -> Failure {
    Failure::refused("unwritable", format!("Cannot write {}: {error}.", place.display()))
}

/// Unpacks a gzipped tarball into `folder`. The sender is not trusted: only files are accepted, and none whose path
/// leads out of the folder. Returns the number of files and their bytes.
fn unpack(archive: File, folder: &Path) -> anyhow::Result<(u64, u64)> {
    let unpacked = GzDecoder::new(BufReader::new(archive)).take(ARCHIVE_BYTES);
    let mut archive = tar::Archive::new(unpacked);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let (mut files, mut bytes) = (0, 0);
    for entry in archive.entries()? {
        let mut entry = entry.map_err(|error| broken_archive(&error))?;
        let path = entry.path().map_err(|error| broken_archive(&error))?.into_owned();
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !entry.header().entry_type().is_file() || !is_inside {
            let message = format!("The archive holds {}, which is not a file within it.", path.display());
            return Err(Failure::refused("unsafe_archive", message).into());
        }
        // An existing symlink may lead out of the folder: `unpack_in` does not follow it.
        let is_unpacked = entry.unpack_in(folder).map_err(|error| unwritable(&folder.join(&path), &error))?;
        if !is_unpacked {
            return Err(Failure::refused("unsafe_archive", format!("{} was left out.", path.display())).into());
        }
        files += 1;
        bytes += entry.size();
    }
    // Read to the end, which holds the checksum.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| broken_archive(&error))?;
    Ok((files, bytes))
}

fn broken_archive(error: &io::Error) -> Failure {
    Failure::refused("broken_archive", format!("The archive cannot be read: {error}.")).with_hint("Download it again.")
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// Creates an archive of one member, whose name is written unchanged.
    fn archive(path: &str, kind: EntryType, link: &str) -> File {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(if kind == EntryType::Regular { 4 } else { 0 });
        header.set_cksum();
        let mut builder = Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        let content: &[u8] = if kind == EntryType::Regular { b"evil" } else { b"" };
        builder.append(&header, content).unwrap();
        let mut file = builder.into_inner().unwrap().finish().unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("in");
        let file = EntryType::Regular;
        assert_eq!(unpack(archive("a/b.txt", file, ""), &folder).unwrap(), (1, 4));
        for (path, kind, link) in [
            ("../out.txt", file, ""),
            ("a/../../out.txt", file, ""),
            ("/tmp/svc-out.txt", file, ""),
            ("link", EntryType::Symlink, ".."),
            ("hard", EntryType::Link, "../out.txt"),
            ("folder", EntryType::Directory, ""),
        ] {
            let refused = unpack(archive(path, kind, link), &folder).unwrap_err();
            assert_eq!(refused.downcast::<Failure>().unwrap().code, "unsafe_archive", "{path}");
        }
        // Through a symlink that is already in the folder.
        std::os::unix::fs::symlink(place.path(), folder.join("link")).unwrap();
        unpack(archive("link/out.txt", file, ""), &folder).unwrap_err();
        assert!(!place.path().join("out.txt").exists());
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        check_folder(place.path(), false).unwrap();
        check_folder(&place.path().join("new"), false).unwrap();
        fs::write(place.path().join("x"), "x").unwrap();
        assert_eq!(check_folder(place.path(), false).unwrap_err().kind, FailureClass::Conflict);
        check_folder(place.path(), true).unwrap();
        assert!(check_folder(&place.path().join("x"), true).is_err());
    }
}
