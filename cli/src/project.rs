//! The choice of the project that a command acts on.
//!
//! `--project` (or `SVC_PROJECT`) names it, else the nearest [`PROJECT_FILE`], else a person at a terminal is asked, who may have the
//! answer remembered. Nobody is guessed for: without a terminal it is a mistake of usage, which names the projects there are.

use std::{env, fs, path::Path};

use api::projects::ProjectList;
use domain::{ProjectName, names::NewProjectName};

use crate::{
    client::Client,
    failure::Failure,
    options::ProjectOption,
    output::{self, Output},
};

/// The name of the file that holds a project's name on a line of its own; lines that begin with `#` are comments.
pub(crate) const PROJECT_FILE: &str = ".svcproject";
/// Most projects that a question or a hint names.
const NAMED: usize = 6;
/// Projects of one page of the API: whoever has as many may mean one that was not listed.
const PAGE: usize = 100;
/// How often a question is asked until it is answered with a project.
const QUESTIONS: u32 = 3;

/// The projects that may be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those that the person has.
    Existing,
    /// Those, and one that is to be created.
    New,
}

impl ProjectOption {
    /// The project that is named, remembered or asked for, among those that exist. Keeps it with `--save`.
    pub(crate) async fn choose(self, client: &Client, output: Output) -> anyhow::Result<ProjectName> {
        let save = self.save;
        let name = self.find(None, Among::Existing, client, output).await?;
        if save {
            remember(&name)?;
            output.note(&format!("Kept {name} in {PROJECT_FILE}: here, --project can be left out."));
        }
        Ok(name)
    }

    /// The project that `folder` is published to, which need not exist. Keeping it is left to the caller, who knows whether it was.
    pub(crate) async fn choose_for(
        self,
        folder: &Path,
        client: &Client,
        output: Output,
    ) -> anyhow::Result<ProjectName> {
        self.find(Some(folder), Among::New, client, output).await
    }

    async fn find(
        self,
        folder: Option<&Path>,
        among: Among,
        client: &Client,
        output: Output,
    ) -> anyhow::Result<ProjectName> {
        if let Some(name) = self.project {
            return Ok(name);
        }
        if let Some(name) = remembered(folder)? {
            return Ok(name);
        }
        let here = env::current_dir()?;
        let suggested = folder.and_then(suggested).or_else(|| suggested(&here));
        if !output.can_ask() {
            let existing = names(client).await.unwrap_or_default();
            return Err(which(among, suggested.as_deref(), &existing).into());
        }
        let existing = names(client).await?;
        let name = ask(among, suggested, &existing, output)?;
        if !self.save && output.confirm(&format!("Keep {name} in {PROJECT_FILE}, so that it is not asked for here?"))? {
            remember(&name)?;
        }
        Ok(name)
    }
}

/// The project that the nearest [`PROJECT_FILE`] names: in `folder`, then in the working folder and those above it.
pub(crate) fn remembered(folder: Option<&Path>) -> anyhow::Result<Option<ProjectName>> {
    let here = env::current_dir()?;
    for folder in folder.into_iter().chain(here.ancestors()) {
        let file = folder.join(PROJECT_FILE);
        if let Ok(text) = fs::read_to_string(&file) {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
            let name = line
                .unwrap_or_default()
                .parse()
                .map_err(|why| Failure::usage(format!("{} does not hold a project's name: {why}.", file.display())))?;
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The person's newest projects, the organizations' included.
async fn names(client: &Client) -> Result<Vec<ProjectName>, Failure> {
    let (projects, _) = client.get::<ProjectList>("/projects?all=true").await?.body.into_projects();
    Ok(projects.into_iter().map(|project| project.name).collect())
}

/// The failure where nobody can be asked.
fn which(among: Among, suggested: Option<&str>, existing: &[ProjectName]) -> Failure {
    let keep = format!("or keep the name in a file {PROJECT_FILE}, which --save writes.");
    let hint = match (among, existing) {
        (Among::New, _) => {
            let example = suggested.unwrap_or("my-site");
            format!("Add `--project {example}` (any name you like), {keep}")
        }
        (Among::Existing, []) => "Add `--project NAME`; `svc projects --all` lists those that you may use.".to_owned(),
        (Among::Existing, existing) => {
            let example = suggested.filter(|name| existing.iter().any(|there| there.as_str() == *name));
            let example = example.unwrap_or(existing[0].as_str());
            format!("Add `--project NAME`, such as `--project {example}`, {keep}\nYours: {}.", listed(existing))
        }
    };
    Failure::usage("Which project?").with_hint(hint)
}

/// Names projects, and says how many more there are.
fn listed(names: &[ProjectName]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(ProjectName::as_str).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more (`svc projects --all`)", shown.join(", ")),
    }
}

fn ask(
    among: Among,
    suggested: Option<String>,
    existing: &[ProjectName],
    output: Output,
) -> anyhow::Result<ProjectName> {
    let is_there = |name: &str| existing.iter().any(|there| there.as_str() == name);
    let default = match (among, existing) {
        (Among::New, _) => suggested,
        (Among::Existing, []) => {
            return Err(Failure::usage("You have no projects yet.").with_hint("`svc deploy DIR` creates one.").into());
        }
        (Among::Existing, [only]) => Some(only.to_string()),
        (Among::Existing, _) => suggested.filter(|name| is_there(name)),
    };
    if !existing.is_empty() {
        output::tell(&format!("Your projects: {}.", listed(existing)));
    }
    let new = if among == Among::New { ", a new one or one of yours" } else { "" };
    let shown = default.as_ref().map(|name| format!(" [{name}]")).unwrap_or_default();
    for _ in 0..QUESTIONS {
        let Some(typed) = output.ask(&format!("Which project{new}?{shown} "))? else { break };
        let typed = if typed.is_empty() { default.clone().unwrap_or_default() } else { typed };
        if typed.is_empty() {
            continue;
        }
        match parse(&typed) {
            Ok(name) if among == Among::New || is_there(name.as_str()) || existing.len() >= PAGE => return Ok(name),
            Ok(name) => output::tell(&format!("You have no project {name}.")),
            Err(why) => output::tell(&format!("{typed} cannot be a project: {why}.")),
        }
    }
    Err(which(among, default.as_deref(), existing).into())
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
        assert_eq!(remembered(Some(dir.path())).unwrap().unwrap().as_str(), "docs");
        fs::write(dir.path().join(PROJECT_FILE), "No Name\n").unwrap();
        assert!(remembered(Some(dir.path())).is_err());
    }

    #[test]
    fn a_hint_names_projects_that_there_are() {
        let existing: Vec<ProjectName> =
            ["one", "two", "three", "four", "five", "six", "seven"].iter().map(|name| name.parse().unwrap()).collect();
        let hint = |among, suggested, existing: &[ProjectName]| which(among, suggested, existing).hint.unwrap();
        assert!(hint(Among::Existing, Some("fix"), &existing).contains("--project one`"));
        assert!(hint(Among::Existing, Some("two"), &existing).contains("--project two`"));
        assert!(
            hint(Among::Existing, None, &existing)
                .ends_with("Yours: one, two, three, four, five, six and 1 more (`svc projects --all`).")
        );
        assert!(!hint(Among::Existing, Some("fix"), &[]).contains("fix"));
        assert!(hint(Among::New, Some("fix"), &existing).contains("--project fix` (any name you like)"));
    }

    #[test]
    fn a_folder_suggests_a_valid_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("My Site_2");
        fs::create_dir(&folder).unwrap();
        assert_eq!(suggested(&folder).as_deref(), Some("my-site-2"));
    }
}
