//! The choice of the project that a command acts on.

use std::{env, fs, path::Path};

use domain::{ProjectName, names::NewProjectName};

use crate::failure::Failure;

/// The name of the file that holds a project's name on a line of its own; lines that begin with `#` are comments.
pub(crate) const PROJECT_FILE: &str = ".svcproject";

/// The project that was named with `--project` (or `SVC_PROJECT`), else by the nearest [`PROJECT_FILE`]: in `folder`,
/// then in the working folder and those above it.
pub(crate) fn named_or_remembered(named: Option<ProjectName>, folder: Option<&Path>) -> anyhow::Result<ProjectName> {
    if let Some(name) = named {
        return Ok(name);
    }
    let here = env::current_dir()?;
    for folder in folder.into_iter().chain(here.ancestors()) {
        let file = folder.join(PROJECT_FILE);
        if let Ok(text) = fs::read_to_string(&file) {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
            return line.unwrap_or_default().parse().map_err(|why| {
                Failure::usage(format!("{} does not hold a project's name: {why}.", file.display())).into()
            });
        }
    }
    let example = folder.and_then(suggested).or_else(|| suggested(&here)).unwrap_or_else(|| "my-site".to_owned());
    let hint = format!("Add `--project {example}` (any name you like), or keep the name in a file {PROJECT_FILE}.");
    Err(Failure::usage("Which project?").with_hint(hint).into())
}

/// Writes the name into [`PROJECT_FILE`] in `folder`.
pub(crate) fn remember(name: &ProjectName) -> anyhow::Result<()> {
    Ok(fs::write(PROJECT_FILE, format!("{name}\n"))?)
}

/// A valid project name derived from the folder's name; none when nothing valid can be made of it.
fn suggested(folder: &Path) -> Option<String> {
    let name = folder.canonicalize().ok()?.file_name()?.to_str()?.to_ascii_lowercase();
    let dashed: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = dashed.split('-').filter(|part| !part.is_empty()).collect();
    let name = parts.join("-").parse::<NewProjectName>().ok()?;
    Some(name.to_string())
}

/// Reads a project's name from the command line: the name itself, or any address of the site.
pub(crate) fn parse(text: &str) -> Result<ProjectName, String> {
    let label = first_label(text).unwrap_or(text);
    let name = label.split_once("--").filter(|(head, _)| domain::ids::is_body(head)).map_or(label, |(_, name)| name);
    name.parse().map_err(|why: domain::names::NameError| why.to_string())
}

/// The first label of an `https://label.domain/…` address; nothing when `text` is no address.
pub(crate) fn first_label(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = rest.split(['/', ':', '?', '#']).next()?;
    host.split('.').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_named_by_name_or_address() {
        for (text, name) in [
            ("docs", "docs"),
            ("https://docs.svc.localhost:8443/x/y", "docs"),
            ("https://0123456789abcdefghij--docs.svc.localhost", "docs"),
        ] {
            assert_eq!(parse(text).unwrap().as_str(), name);
        }
        assert!(parse("Docs").is_err());
        assert!(parse("https://").is_err());
    }

    #[test]
    fn the_published_folder_may_remember_its_project() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(PROJECT_FILE), "# where this goes\n\n docs \n").unwrap();
        assert_eq!(named_or_remembered(None, Some(dir.path())).unwrap().as_str(), "docs");
        let named = "other".parse().unwrap();
        assert_eq!(named_or_remembered(Some(named), Some(dir.path())).unwrap().as_str(), "other");
    }

    #[test]
    fn a_folder_suggests_a_valid_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("My Site_2");
        fs::create_dir(&folder).unwrap();
        assert_eq!(suggested(&folder).as_deref(), Some("my-site-2"));
    }
}
