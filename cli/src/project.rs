//! The choice of the project that a command acts on.
//!
//! `--project` (or `SVC_PROJECT`) names it, else the nearest [`PROJECT_FILE`], else the person at a terminal chooses it
//! and may save the answer. The project is never guessed: without a terminal, its absence is a usage error, which lists
//! projects.

use std::{env, fs, path::Path};

use api::projects::ProjectList;
use domain::{ProjectName, names::NewProjectName};

use crate::{
    client::Client,
    failure::Failure,
    options::ProjectOption,
    output::{self, Output},
};

/// The name of the file with a project's name on a line of its own; lines that begin with `#` are comments.
pub(crate) const PROJECT_FILE: &str = ".svcproject";
/// The maximum number of projects that a question or a hint lists.
const MAX_LISTED: usize = 6;
/// Projects per page of the API. With a full page, the person may mean a project that was not listed.
const PAGE: usize = 100;
/// The maximum number of attempts to answer a question.
const MAX_ATTEMPTS: u32 = 3;

/// Which projects are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProjectChoice {
    /// The person's existing projects.
    Existing,
    /// The existing projects, or one that is to be created.
    New,
}

impl ProjectOption {
    /// Chooses an existing project by option, file or question. Saves it with `--save`.
    pub(crate) async fn choose(self, client: &Client, output: Output) -> anyhow::Result<ProjectName> {
        let save = self.save;
        let name = self.find(None, ProjectChoice::Existing, client, output).await?;
        if save {
            remember(&name)?;
            output.note(&format!("Kept {name} in {PROJECT_FILE}: here, --project can be left out."));
        }
        Ok(name)
    }

    /// Chooses the project to publish `folder` to, which need not exist. The caller saves it once it was published.
    pub(crate) async fn choose_for(
        self,
        folder: &Path,
        client: &Client,
        output: Output,
    ) -> anyhow::Result<ProjectName> {
        self.find(Some(folder), ProjectChoice::New, client, output).await
    }

    async fn find(
        self,
        folder: Option<&Path>,
        among: ProjectChoice,
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
            return Err(choice_failure(among, suggested.as_deref(), &existing).into());
        }
        let existing = names(client).await?;
        let name = ask(among, suggested, &existing, output)?;
        if !self.save && output.confirm(&format!("Keep {name} in {PROJECT_FILE}, so that it is not asked for here?"))? {
            remember(&name)?;
        }
        Ok(name)
    }
}

/// Returns the project named by the nearest [`PROJECT_FILE`]: in `folder`, the working folder or those above it.
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

/// Returns the person's newest projects, including those of organizations.
async fn names(client: &Client) -> Result<Vec<ProjectName>, Failure> {
    let (projects, _) = client.get::<ProjectList>("/projects?all=true").await?.body.into_projects();
    Ok(projects.into_iter().map(|project| project.name).collect())
}

/// Returns the failure if no person can be asked.
fn choice_failure(among: ProjectChoice, suggested: Option<&str>, existing: &[ProjectName]) -> Failure {
    let keep = format!("or keep the name in a file {PROJECT_FILE}, which --save writes.");
    let hint = match (among, existing) {
        (ProjectChoice::New, _) => {
            let example = suggested.unwrap_or("my-site");
            format!("Add `--project {example}` (any name you like), {keep}")
        }
        (ProjectChoice::Existing, []) => {
            "Add `--project NAME`; `svc projects --all` lists those that you may use.".to_owned()
        }
        (ProjectChoice::Existing, existing) => {
            let example = suggested.filter(|name| existing.iter().any(|there| there.as_str() == *name));
            let example = example.unwrap_or(existing[0].as_str());
            format!("Add `--project NAME`, such as `--project {example}`, {keep}\nYours: {}.", listed(existing))
        }
    };
    Failure::usage("Which project?").with_hint(hint)
}

fn listed(names: &[ProjectName]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_LISTED).map(ProjectName::as_str).collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more (`svc projects --all`)", shown.join(", ")),
    }
}

fn ask(
    among: ProjectChoice,
    suggested: Option<String>,
    existing: &[ProjectName],
    output: Output,
) -> anyhow::Result<ProjectName> {
    let is_there = |name: &str| existing.iter().any(|there| there.as_str() == name);
    let default = match (among, existing) {
        (ProjectChoice::New, _) => suggested,
        (ProjectChoice::Existing, []) => {
            return Err(Failure::usage("You have no projects yet.").with_hint("`svc deploy DIR` creates one.").into());
        }
        (ProjectChoice::Existing, [only]) => Some(only.to_string()),
        (ProjectChoice::Existing, _) => suggested.filter(|name| is_there(name)),
    };
    if !existing.is_empty() {
        output::print_stderr(&format!("Your projects: {}.", listed(existing)));
    }
    let new = if among == ProjectChoice::New { ", a new one or one of yours" } else { "" };
    let shown = default.as_ref().map(|name| format!(" [{name}]")).unwrap_or_default();
    for _ in 0..MAX_ATTEMPTS {
        let Some(typed) = output.ask(&format!("Which project{new}?{shown} "))? else { break };
        let typed = if typed.is_empty() { default.clone().unwrap_or_default() } else { typed };
        if typed.is_empty() {
            continue;
        }
        match parse(&typed) {
            Ok(name) if among == ProjectChoice::New || is_there(name.as_str()) || existing.len() >= PAGE => {
                return Ok(name);
            }
            Ok(name) => output::print_stderr(&format!("You have no project {name}.")),
            Err(why) => output::print_stderr(&format!("{typed} cannot be a project: {why}.")),
        }
    }
    Err(choice_failure(among, default.as_deref(), existing).into())
}

/// Writes the name to [`PROJECT_FILE`] in the working folder.
pub(crate) fn remember(name: &ProjectName) -> anyhow::Result<()> {
    Ok(fs::write(PROJECT_FILE, format!("{name}\n"))?)
}

/// Derives a valid project name from the folder's name, if possible.
fn suggested(folder: &Path) -> Option<String> {
    let name = folder.canonicalize().ok()?.file_name()?.to_str()?.to_ascii_lowercase();
    let dashed: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = dashed.split('-').filter(|part| !part.is_empty()).collect();
    let name = parts.join("-").parse::<NewProjectName>().ok()?;
    Some(name.to_string())
}

/// Parses a project's name, or any address of its site.
pub(crate) fn parse(text: &str) -> Result<ProjectName, String> {
    let label = first_label(text).unwrap_or(text);
    let name = label.split_once("--").filter(|(head, _)| domain::ids::is_body(head)).map_or(label, |(_, name)| name);
    name.parse().map_err(|why: domain::names::NameError| why.to_string())
}

/// Returns the first label of an `https://label.domain/…` address, or `None` if `text` is not one.
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
        let hint =
            |among, suggested, existing: &[ProjectName]| choice_failure(among, suggested, existing).hint.unwrap();
        assert!(hint(ProjectChoice::Existing, Some("fix"), &existing).contains("--project one`"));
        assert!(hint(ProjectChoice::Existing, Some("two"), &existing).contains("--project two`"));
        assert!(
            hint(ProjectChoice::Existing, None, &existing)
                .ends_with("Yours: one, two, three, four, five, six and 1 more (`svc projects --all`).")
        );
        assert!(!hint(ProjectChoice::Existing, Some("fix"), &[]).contains("fix"));
        assert!(hint(ProjectChoice::New, Some("fix"), &existing).contains("--project fix` (any name you like)"));
    }

    #[test]
    fn a_folder_suggests_a_valid_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("My Site_2");
        fs::create_dir(&folder).unwrap();
        assert_eq!(suggested(&folder).as_deref(), Some("my-site-2"));
    }
}
