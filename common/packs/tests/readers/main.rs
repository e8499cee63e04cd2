//! Reads ordinary and malformed archives with our reader and with the programs that people use.
//!
//! `writers/all.sh` packs three folders in every common way; the content of each archive must be the folder's.
//! Mutations of these archives are read by five programs: what all of them read alike is published alike unless one of
//! our rules forbids it, and content that any of them would write outside its folder is never published.
//! `SVC_TEST_MUTATIONS` sets the number of mutations.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot be set up has failed")]
#![expect(clippy::print_stdout, reason = "figures for who asks for them")]

mod mutations;
mod ours;
mod random;
mod site;
mod theirs;
mod zip_mutations;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use packs::archive::UploadFormat;

use self::theirs::{ExternalReaders, tools};

/// The files of an archive, with the SHA-256 of each.
type FileHashes = BTreeMap<String, String>;

/// Cases of zip archives that programs read differently nevertheless: names without the UTF-8 flag, which Python reads
/// in the DOS code page; symlinks, which only the directory marks; and Windows backslashes, which Python and others
/// keep in names.
const READ_DIFFERENTLY: [&str; 8] = [
    "zip_name_in_utf8",
    "zip_name_beside",
    "zip_name_beside_is_the_same",
    "zip_name_beside_of_unix",
    "zip_symlink_is_skipped",
    "zip_pipe_is_left_out",
    "zip_backslashes_of_windows_0",
    "zip_backslashes_of_windows_10",
];

/// Packs the folders. Returns for each archive the folder's name, its own name, its format and its bytes.
fn written(folder: &Path) -> Vec<(String, String, UploadFormat, Vec<u8>)> {
    let sites = folder.join("sites");
    site::write(&sites);
    let out = folder.join("out");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers");
    let packed = Command::new(here.join("writers/all.sh"))
        .args([&sites, &out])
        .envs([("TOOLS", tools()), ("NODE", theirs::node())])
        .status()
        .expect("bash");
    assert!(packed.success(), "the archives were not written");
    let mut archives = Vec::new();
    for site in site::ALL {
        let mut files: Vec<_> =
            out.join(site).read_dir().expect("the archives").map(|file| file.expect("a file")).collect();
        if site == site::RECORDED {
            files.extend(here.join("recorded").read_dir().expect("the recorded").map(|file| file.expect("a file")));
        }
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            let name = file.file_name().into_string().expect("a name");
            let format = match name.split_once('.').expect("an ending").1 {
                "tar.gz" => UploadFormat::TarGzip,
                "tar.zst" => UploadFormat::TarZstd,
                "zip" => UploadFormat::Zip,
                _ => continue,
            };
            archives.push((site.to_owned(), name, format, fs::read(file.path()).expect("an archive")));
        }
    }
    archives
}

#[test]
fn archives_of_every_writer_are_read_as_every_reader_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let archives = written(folder.path());
    assert!(archives.len() > 150, "{}", archives.len());
    let mut readers = ExternalReaders::start();
    let (mut wrong, mut odd) = (Vec::new(), Vec::new());
    for (site, name, format, bytes) in &archives {
        let wanted = site::files(site, name);
        match ours::read(bytes, *format) {
            Ok(files) if files == wanted => {}
            other => wrong.push(format!("{site}/{name}: {other:?}")),
        }
        // Some programs cannot read some archives; only the folder counts.
        for (reader, read) in readers.read_all(bytes, *format) {
            match read {
                Ok(read) if read.files == wanted => {}
                Ok(_) => odd.push(format!("{site}/{name} by {reader}: other files")),
                Err(why) => odd.push(format!("{site}/{name} by {reader}: {}", why.lines().next().unwrap_or_default())),
            }
        }
    }
    println!("{} archives; readings that are not the folder: {}\n{}", archives.len(), odd.len(), odd.join("\n"));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), archives.len(), wrong.join("\n"));
}

#[test]
fn zip_archives_that_lie_are_read_as_all_readers_read_them_or_refused() {
    const LARGEST: usize = 1024 * 1024;
    let mut readers = ExternalReaders::start();
    let mut wrong = Vec::new();
    let mut compared = 0;
    let cases = corpus::cases().into_iter().filter(|case| case.form == corpus::Form::Zip && case.bytes.len() < LARGEST);
    for corpus::Case { name, bytes, .. } in cases {
        let Ok(ours) = ours::read(&bytes, UploadFormat::Zip) else { continue };
        for (reader, read) in readers.read_all(&bytes, UploadFormat::Zip) {
            // A program that cannot read the archive sees no other files in it.
            let Ok(read) = read else { continue };
            compared += 1;
            if read.files != ours && !READ_DIFFERENTLY.contains(&&*name) {
                wrong.push(format!("{name}: {reader} reads {:?}, and we {:?}", read.files.keys(), ours.keys()));
            }
        }
    }
    println!("{compared} readings");
    assert!(compared > 60, "{compared}");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn mutations_are_read_as_all_readers_read_them_or_refused() {
    let count = std::env::var("SVC_TEST_MUTATIONS").map_or(600, |count| count.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let seeds: Vec<Vec<u8>> = written(folder.path())
        .into_iter()
        .filter(|(_, _, format, _)| *format != UploadFormat::Zip)
        .map(|(_, _, format, bytes)| ours::decompressed(&bytes, format))
        .filter(|tar| tar.len() <= mutations::LARGEST)
        .collect();
    mutations::judge(&seeds, count);
}

#[test]
fn mutations_of_zip_archives_are_read_as_all_readers_read_them_or_refused() {
    let count = std::env::var("SVC_TEST_MUTATIONS").map_or(150, |count| count.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let plain = written(folder.path()).into_iter().filter(|(site, ..)| site == "plain");
    let written = plain.filter(|(_, _, format, _)| *format == UploadFormat::Zip).map(|(_, _, _, bytes)| bytes);
    let cases = corpus::cases().into_iter().filter(|case| {
        let is_published = matches!(case.expect, corpus::Expect::Files(_));
        case.form == corpus::Form::Zip && is_published && !READ_DIFFERENTLY.contains(&&*case.name)
    });
    let seeds: Vec<Vec<u8>> = written.chain(cases.map(|case| case.bytes)).collect();
    let seeds: Vec<Vec<u8>> = seeds.into_iter().filter(|zip| zip.len() <= mutations::LARGEST).collect();
    zip_mutations::judge(&seeds, count);
}
