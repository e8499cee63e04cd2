//! What every page of the documentation has to be: each command in it says whether a test runs it, and README, the architecture and the
//! bench stay as short as somebody reads them.

use std::{fs, path::PathBuf};

use crate::{read, root};

/// Languages whose blocks are commands.
const SHELLS: [&str; 4] = ["sh", "bash", "shell", "console"];

/// README and every page of `docs`, the runbook aside: what stands there changes a broken installation.
fn pages() -> Vec<PathBuf> {
    let (mut folders, mut pages) = (vec![root().join("docs")], vec![root().join("README.md")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() > 35, "{} pages", pages.len());
    pages
}

#[test]
fn every_command_is_run_or_says_why_not() {
    let mut run = 0;
    for page in pages() {
        // Each of its configurations is read and used by tests/gateway/clients.
        if page.ends_with("docs/clients.md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let mut is_inside = false;
        for line in text.lines() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            is_inside = !is_inside;
            let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
            if !is_inside || !SHELLS.contains(&language) {
                continue;
            }
            let says_why = rest.strip_prefix("not run: ").is_some_and(|why| why.len() > 10);
            let is_run = rest == "run" || rest == "run admin";
            run += usize::from(is_run);
            assert!(is_run || says_why, "{}: ```{info}: `run`, `run admin` or `not run: WHY`", page.display());
        }
        assert!(!is_inside, "{}: a block does not end", page.display());
    }
    assert!(run > 20, "{run} blocks are run");
}

#[test]
fn what_everybody_reads_stays_short() {
    for (page, most) in [("README.md", 150), ("ARCHITECTURE.md", 300), ("bench/README.md", 300)] {
        let lines = read(page).lines().count();
        assert!(lines <= most, "{page} has {lines} lines, {most} at most: move some of it into docs/");
    }
}

#[test]
fn every_page_of_the_runbook_is_in_the_navigation() {
    let navigation = read("mkdocs.yml");
    for entry in fs::read_dir(root().join("deploy/runbook")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(navigation.contains(&format!("operate/runbook/{name}")), "mkdocs.yml lacks operate/runbook/{name}");
    }
}
