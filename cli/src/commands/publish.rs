//! The common part of `deploy` and `share`: selects files, packs them and uploads the archive.

use std::{convert::Infallible, path::Path, process::Command, time::Instant};

use api::deployments::Uploaded;
use domain::{access::SitePassword, audit::Action};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    client::{ApiResponse, Client, Propagation, StreamEvent, UploadRequest},
    failure::{Failure, FailureClass},
    output::{self, Output, count, size},
    pack::{self, LinkedFile, PackedArchive, Selection, SkippedFiles},
};

pub(super) struct PackedSite {
    selection: Selection,
    archive: PackedArchive,
    git_sha: Option<String>,
}

/// The result of publishing, as printed by `--json`.
#[derive(Serialize)]
pub(super) struct PublishOutput {
    #[serde(flatten)]
    pub(super) uploaded: Uploaded,
    files: usize,
    bytes: u64,
    packed_bytes: u64,
    git_sha: Option<String>,
    /// The number of files that were left out although the person did not exclude them, by reason.
    skipped: std::collections::BTreeMap<String, u64>,
    /// The files outside the folder that symlinks in it point to.
    linked: Vec<std::path::PathBuf>,
    pub(super) propagation: Option<Propagation>,
}

/// Options that allow files which are not published otherwise.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct PublishConsents {
    /// Publish files outside the folder that symlinks in it point to
    #[arg(long)]
    follow: bool,
    /// Publish a single file that looks private
    #[arg(long)]
    anyway: bool,
}

/// Packs `path` on a blocking thread.
pub(super) async fn package(path: &Path, consents: PublishConsents, output: Output) -> anyhow::Result<PackedSite> {
    let spinner = output.spinner(format!("Packing {}", path.display()));
    let start = Instant::now();
    let path = path.to_owned();
    let package = tokio::task::spawn_blocking({
        let spinner = spinner.clone();
        move || -> anyhow::Result<PackedSite> {
            let selection = pack::select(&path, consents.anyway)?;
            // Before any of these files is read.
            spinner.suspend(|| allow_linked(&selection.linked, consents, output))?;
            let archive = pack::write(&selection)?;
            Ok(PackedSite { archive, git_sha: git_sha(&path), selection })
        }
    })
    .await?;
    spinner.finish_and_clear();

    let package = package?;
    let Selection { entries, bytes, skipped, linked, warnings, redirects: _, archive } = &package.selection;
    if let Some((path, _)) = archive {
        output.note(&format!("Publishing what {} holds, {}.", path.display(), size(*bytes)));
    } else {
        output.note(&format!(
            "Packed {}, {} → {}, in {:.1} s.",
            count(entries.len() as u64, "file"),
            size(*bytes),
            size(package.archive.bytes),
            start.elapsed().as_secs_f64()
        ));
    }
    if !skipped.is_empty() {
        let what: Vec<String> = skipped.iter().map(|(what, skipped)| describe_skipped(what, skipped)).collect();
        output.note(&format!("Left out {}.", what.join(", ")));
    }
    if let Some(first) = linked.first() {
        let number = count(linked.len() as u64, "symlink");
        output.note(&format!("Followed {number} out of the folder, such as to {}.", first.target.display()));
    }
    for warning in warnings {
        output::warning(warning);
    }
    Ok(package)
}

/// Uploads the package and prints the service's warnings. The caller reports the propagation.
pub(super) async fn upload(
    package: PackedSite,
    path: &str,
    password: Option<&SitePassword>,
    client: &Client,
    output: Output,
) -> anyhow::Result<PublishOutput> {
    let PackedSite { selection, archive, git_sha } = package;
    let packed_bytes = archive.bytes;
    let progress = output.byte_bar("Uploading", packed_bytes);
    let upload = UploadRequest { path, archive, git_sha: git_sha.clone(), password, progress: &progress };
    let answer = tokio::select! {
        answer = client.upload(upload) => answer,
        never = show_when_live(path, &progress, client) => match never {},
    };
    progress.finish_and_clear();

    let ApiResponse { body: uploaded, propagation } = answer?;
    for warning in &uploaded.warnings {
        output::warning(warning);
    }
    if uploaded.warnings.iter().any(|warning| is_about_line(warning)) {
        output.note("Such lines have no effect; everything else is published.");
    }
    Ok(PublishOutput {
        uploaded,
        files: selection.entries.len(),
        bytes: selection.bytes,
        packed_bytes,
        git_sha,
        skipped: selection.skipped.into_iter().map(|(what, SkippedFiles { times, .. })| (what, times)).collect(),
        linked: selection.linked.into_iter().map(|linked| linked.target).collect(),
        propagation,
    })
}

/// Returns whether a warning is about a line of a rules file. Other warnings say themselves what was done.
fn is_about_line(warning: &str) -> bool {
    ["_headers", "_redirects"].iter().any(|file| warning.starts_with(file))
}

/// Shows that the upload to `path` is live as soon as an event says so, while the response still waits for the edges.
/// The response contains everything, so nothing is lost without events or a terminal.
async fn show_when_live(path: &str, progress: &ProgressBar, client: &Client) -> Infallible {
    if !progress.is_hidden()
        && let Some(mut events) = client.events().await
    {
        while let Some(news) = events.next().await {
            if let StreamEvent::Change(event) = news
                && event.kind == Action::DeploymentUpload.as_str()
                && event.project.is_some_and(|project| path == format!("/projects/{project}/deployments"))
            {
                progress.set_message("Live; telling the edges");
            }
        }
    }
    std::future::pending().await
}

/// Allows symlinks that lead out of the folder only with consent: the folder may come from anywhere, and a symlink in
/// it may point to any file of this machine.
fn allow_linked(linked: &[LinkedFile], consents: PublishConsents, output: Output) -> anyhow::Result<()> {
    let Some(first) = linked.first().filter(|_| !consents.follow) else { return Ok(()) };
    let others = match linked.len() - 1 {
        0 => String::new(),
        more => format!(", and {} more", count(more as u64, "symlink")),
    };
    let what = format!("{} leads out of the folder, to {}{others}.", first.name, first.target.display());
    // `--yes` does not count as consent, because it was given with other questions in mind.
    if output.confirm(&format!("{what} Publish it?"))? {
        return Ok(());
    }
    Err(Failure::new(FailureClass::Refused, "symlink_leaves_folder", what)
        .with_hint("Add --follow to publish what such symlinks lead to, or leave them out with .svcignore.")
        .into())
}

/// Describes the files or folders that were left out for one reason: the path if there is only one, else the reason,
/// their number and the first path. Control characters in names are replaced.
fn describe_skipped(what: &str, SkippedFiles { times, first }: &SkippedFiles) -> String {
    let path = first.display().to_string().replace(char::is_control, "\u{fffd}");
    match times {
        1 if first.file_name().is_some_and(|name| name == what) => path,
        1 => format!("{path} ({what})"),
        _ if path == what => format!("{what} ({times}×)"),
        _ => format!("{what} ({times}×, such as {path})"),
    }
}

/// Returns the commit that is checked out in the repository around `path`, if there is one.
fn git_sha(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let folder = if path.is_dir() { &path } else { path.parent()? };
    let git = Command::new("git").arg("-C").arg(folder).args(["rev-parse", "--verify", "--quiet", "HEAD"]).output();
    let sha = String::from_utf8(git.ok().filter(|git| git.status.success())?.stdout).ok()?.trim().to_owned();
    (sha.len() >= 40 && sha.bytes().all(|b| b.is_ascii_hexdigit())).then_some(sha)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_rules_are_told_from_other_warnings() {
        assert!(is_about_line("_headers line 3: a header has the form `Name: value`"));
        assert!(is_about_line("_redirects: 9950 more lines were left out"));
        assert!(!is_about_line("`.env` is published, and looks like environment variables: leave it out"));
        assert!(!is_about_line("`_headers` is in the archive more than once"));
    }

    #[test]
    fn what_was_left_out_is_named() {
        let said =
            |what: &str, times, first: &str| describe_skipped(what, &SkippedFiles { times, first: first.into() });
        assert_eq!(said(".git", 1, ".git"), ".git");
        assert_eq!(said("node_modules", 3, "node_modules"), "node_modules (3×)");
        assert_eq!(said("node_modules", 1, "a/node_modules"), "a/node_modules");
        assert_eq!(said("node_modules", 2, "a/node_modules"), "node_modules (2×, such as a/node_modules)");
        assert_eq!(said("broken symlink", 1, "old.css"), "old.css (broken symlink)");
        assert_eq!(said("broken symlink", 2, "old.css"), "broken symlink (2×, such as old.css)");
        assert_eq!(said("broken symlink", 1, "a\n✓ Live"), "a\u{fffd}✓ Live (broken symlink)");
    }
}
