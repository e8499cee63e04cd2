//! Measures the deploy of a real site, from a folder to the first byte of its new version.

use std::{fmt::Write as _, fs, path::Path, process::Command, time::Instant};

use anyhow::ensure;

use crate::{
    BenchEffort,
    figures::{format_number, median},
    wire::HttpsConnection,
    world::BenchWorld,
};

/// Debian packages with documentation, and the project that each is published to.
const SITES: [(&str, &str); 2] = [("python3.11-doc", "python-doc"), ("postgresql-doc-15", "postgres-doc")];

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let mut text = String::from(
        "`svc deploy FOLDER` as a person runs it, from its start until a new connection got the new version's first byte: walking, \
         packing, uploading, compressing, publishing, acknowledged by every edge. Every run changes a file.\n\n\
         | site | files | MB | median s | slowest s |\n|---|--:|--:|--:|--:|\n",
    );
    for (package, project) in SITES {
        let copy = tempfile::tempdir()?;
        let site = copy.path().join("site");
        // -L: the targets of Debian's links are part of the site.
        let copied = Command::new("cp").arg("-rL").arg(format!("/usr/share/doc/{package}/html")).arg(&site).output()?;
        ensure!(site.is_dir(), "cp: {}", String::from_utf8_lossy(&copied.stderr));
        let (files, bytes) = size(&site)?;
        let mut seconds = Vec::new();
        for round in 0..effort.rounds {
            let version = format!("version {round}");
            fs::write(site.join("version.txt"), &version)?;
            let host = world.host(project);
            let start = Instant::now();
            world.svc(&["deploy", &site.display().to_string(), "--project", project])?;
            let body = HttpsConnection::open(&world.trust, &host, world.up.https_port)?.get(&host, "/version.txt")?;
            seconds.push(start.elapsed().as_secs_f64());
            ensure!(body == version.as_bytes(), "after the deploy had answered, an old version was served");
        }
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        eprintln!("  {package}: {} s", format_number(median(&seconds)));
        let _ = writeln!(
            text,
            "| {package} | {files} | {:.1} | {} | {} |",
            bytes / 1e6,
            format_number(median(&seconds)),
            format_number(slowest)
        );
    }
    Ok(text)
}

fn size(folder: &Path) -> anyhow::Result<(u32, f64)> {
    let (mut files, mut bytes) = (0, 0.0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let (inner_files, inner_bytes) = size(&entry.path())?;
            files += inner_files;
            bytes += inner_bytes;
        } else {
            files += 1;
            #[expect(clippy::cast_precision_loss, reason = "a size for people")]
            let length = metadata.len() as f64;
            bytes += length;
        }
    }
    Ok((files, bytes))
}
