//! Dynamic completions: the names of projects, organizations and deployments come from the API.
//!
//! The shell runs `svc` for every press of the key. If a request is slow, refused or impossible, it offers no
//! candidates and prints no message.

use std::{env, time::Duration};

use api::{
    deployments::DeploymentList,
    orgs::OrgList,
    projects::{Project, ProjectList},
};
use clap::{CommandFactory as _, builder::StyledStr};
use clap_complete::{
    CompleteEnv,
    engine::CompletionCandidate,
    env::{EnvCompleter, Shells},
};
use domain::BRAND;

use crate::{
    args::Args,
    client::Client,
    commands::deployments,
    credentials::{Connection, ConnectionOptions},
    failure::Failure,
    project,
};

/// The timeout of a request; a person is waiting at the keyboard.
const PATIENCE: Duration = Duration::from_secs(2);
/// The variable in which a shell's completion script names the shell.
const VARIABLE: &str = "COMPLETE";

/// Answers a shell that requests completions, and exits. Does nothing otherwise.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Args::command).var(VARIABLE).complete();
}

/// Returns the script that makes a shell request completions; `None` for a shell that does not support it.
pub(crate) fn script(shell: &str) -> anyhow::Result<Option<String>> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else { return Ok(None) };
    let mut script = Vec::new();
    EnvCompleter::write_registration(shell, VARIABLE, BRAND, BRAND, BRAND, &mut script)?;
    Ok(Some(String::from_utf8(script)?))
}

/// Returns the names of the caller's projects, including those of organizations.
pub(crate) fn projects() -> Vec<CompletionCandidate> {
    query_candidates(async |client| {
        let projects = all_projects(&client).await?;
        Ok(projects
            .into_iter()
            .map(|project| candidate(project.name.as_str(), project.org.map(|org| org.to_string())))
            .collect())
    })
}

pub(crate) fn orgs() -> Vec<CompletionCandidate> {
    query_candidates(async |client| {
        let orgs = client.get::<OrgList>("/orgs").await?.body.orgs;
        let described = |org: api::orgs::Org| {
            candidate(org.name.as_str(), Some(org.display_name.map_or(org.role.to_string(), |shown| shown.to_string())))
        };
        Ok(orgs.into_iter().map(described).collect())
    })
}

/// Returns ids of deployments: those of the project on the line or in `.svcproject`, else all live ones.
pub(crate) fn deployments() -> Vec<CompletionCandidate> {
    let named = option(&["--project", "-p"]).or_else(|| env::var("SVC_PROJECT").ok());
    let named = named.and_then(|name| project::parse(&name).ok());
    let project = named.or_else(|| project::remembered(None).ok().flatten());
    query_candidates(async move |client| {
        let Some(name) = project else {
            let live = all_projects(&client).await?.into_iter().filter_map(|project| {
                let live = project.active_deployment_id?;
                Some(candidate(live.as_str(), Some(project.name.to_string())))
            });
            return Ok(live.collect());
        };
        let list = client.get::<DeploymentList>(&format!("/projects/{name}/deployments?limit=20")).await?.body;
        let described = list.deployments.into_iter().map(|deployment| {
            let state = deployments::status_word(deployment.status);
            candidate(deployment.id.as_str(), Some(format!("{state}, {}", deployment.created_at)))
        });
        Ok(described.collect())
    })
}

async fn all_projects(client: &Client) -> Result<Vec<Project>, Failure> {
    Ok(client.get::<ProjectList>("/projects?all=true").await?.body.into_projects().0)
}

fn candidate(value: &str, help: Option<String>) -> CompletionCandidate {
    CompletionCandidate::new(value).help(help.map(StyledStr::from))
}

/// Returns the candidates that `question` finds; none if it fails or takes too long.
fn query_candidates(
    question: impl AsyncFnOnce(Client) -> Result<Vec<CompletionCandidate>, Failure>,
) -> Vec<CompletionCandidate> {
    let ask = || -> anyhow::Result<Vec<CompletionCandidate>> {
        let client = Client::new(connection()?)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, question(client)).await });
        Ok(asked??)
    };
    ask().unwrap_or_default()
}

/// Returns the connection that the command would use. The options are read by hand because the line is incomplete.
fn connection() -> anyhow::Result<Connection> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    Connection::find(ConnectionOptions {
        api: option(&["--api"]).or_else(|| set("SVC_API_URL")).map(|api| api.parse()).transpose()?,
        ca_file: option(&["--ca-file"]).or_else(|| set("SVC_CA_FILE")).map(Into::into),
        token: set("SVC_TOKEN"),
    })
}

fn option(names: &[&str]) -> Option<String> {
    option_value(names, env::args().skip_while(|word| word != "--").skip(1))
}

fn option_value(names: &[&str], words: impl Iterator<Item = String>) -> Option<String> {
    let mut words = words;
    while let Some(word) = words.next() {
        if names.contains(&word.as_str()) {
            return words.next().filter(|value| !value.is_empty());
        }
        let attached = word.split_once('=').filter(|(name, _)| names.contains(name));
        if let Some((_, value)) = attached {
            return Some(value.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_an_unfinished_line_is_read() {
        let value = |line: &str| option_value(&["--project", "-p"], line.split(' ').map(str::to_owned));
        assert_eq!(value("svc rollback -p docs dep_").as_deref(), Some("docs"));
        assert_eq!(value("svc rollback --project=docs").as_deref(), Some("docs"));
        assert_eq!(value("svc rollback --project "), None);
        assert_eq!(value("svc rollback dep_"), None);
    }

    #[test]
    fn each_shell_has_a_script() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            assert!(script(shell).unwrap().is_some_and(|script| script.contains("svc")), "{shell}");
        }
        assert!(script("tcsh").unwrap().is_none());
    }
}
