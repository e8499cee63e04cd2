//! The folders to pack.

use std::{fs, os::unix::fs::symlink, path::Path};

use sha2::{Digest as _, Sha256};

use crate::FileHashes;

/// Their names, as in `writers/all.sh`.
pub(crate) const ALL: [&str; 3] = ["plain", "full", "links"];
/// The folder that the archives of `recorded` belong to. They have files of their own.
pub(crate) const RECORDED: &str = "full";

fn contents(site: &str) -> Vec<(String, String)> {
    let mut files = vec![
        ("index.html".to_owned(), "<!doctype html><title>Home</title>\n".to_owned()),
        ("404.html".to_owned(), "<p>not found</p>\n".to_owned()),
        ("assets/app.js".to_owned(), "console.log('app');\n".repeat(100)),
        ("assets/empty.txt".to_owned(), String::new()),
    ];
    if site != "recorded" {
        files.push(("docs/guide/page.html".to_owned(), "<p>guide</p>\n".to_owned()));
        files.push((".well-known/security.txt".to_owned(), "Contact: mailto:a@example.org\n".to_owned()));
    }
    if site == "full" || site == "recorded" {
        files.push(("docs/caf\u{e9} \u{2014} m\u{e9}nu.html".to_owned(), "<p>caf\u{e9}</p>\n".to_owned()));
        files.push((format!("docs/{}.html", "long-name-".repeat(12)), "<p>long</p>\n".to_owned()));
        files.push((format!("{}page.html", "deep-folder/".repeat(14)), "<p>deep</p>\n".to_owned()));
    }
    if site == "full" {
        files.push(("docs/\u{65e5}\u{672c}.txt".to_owned(), "\u{65e5}\u{672c}\n".to_owned()));
        files.push((format!("{}/{}.html", "d".repeat(150), "e".repeat(120)), "<p>both</p>\n".to_owned()));
    }
    if site == "links" {
        files.push(("home.html".to_owned(), files[0].1.clone()));
    }
    files
}

pub(crate) fn write(folder: &Path) {
    for site in ALL {
        let folder = folder.join(site);
        for (path, body) in contents(site) {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, body).expect("a file");
        }
        if site == "links" {
            fs::remove_file(folder.join("home.html")).expect("removed");
            fs::hard_link(folder.join("index.html"), folder.join("home.html")).expect("a hard link");
            symlink("index.html", folder.join("latest.html")).expect("a symlink");
            symlink("docs", folder.join("latest")).expect("a symlink");
        }
    }
}

/// Returns the expected files of an archive of a folder.
pub(crate) fn files(site: &str, archive: &str) -> FileHashes {
    let site = if archive.starts_with("go-") { "recorded" } else { site };
    let mut files: FileHashes =
        contents(site).into_iter().map(|(path, body)| (path, hex::encode(Sha256::digest(body)))).collect();
    // Info-ZIP follows symlinks unless told otherwise, and Python those to files.
    if site == "links" && archive.starts_with("info") && archive != "info-symlinks.zip" {
        files.insert("latest/guide/page.html".to_owned(), files["docs/guide/page.html"].clone());
    }
    if site == "links" && (files.contains_key("latest/guide/page.html") || archive == "python-shutil.zip") {
        files.insert("latest.html".to_owned(), files["index.html"].clone());
    }
    files
}
