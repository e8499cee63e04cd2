//! A deployment as named on the command line.

use std::str::FromStr;

use api::deployments::DeploymentProject;
use domain::{DeploymentId, ProjectName};

use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::Output,
    project,
};

/// A deployment by its id, with or without prefix, or by its own address, which also names its project.
#[derive(Debug, Clone)]
pub(super) struct DeploymentReference {
    pub(super) id: DeploymentId,
    project: Option<ProjectName>,
}

impl FromStr for DeploymentReference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let label = project::first_label(text).unwrap_or(text);
        let (body, project) = label.split_once("--").map_or((label, None), |(body, name)| (body, name.parse().ok()));
        let id = body.parse().or_else(|_| DeploymentId::from_body(body));
        let id = id.map_err(|_| "a deployment is named by its id (dep_…) or its own address".to_owned())?;
        Ok(Self { id, project })
    }
}

impl DeploymentReference {
    /// Returns the deployment's project: the given one, or the one that the service reports for its id.
    pub(super) async fn project(
        &self,
        option: ProjectOption,
        client: &Client,
        output: Output,
    ) -> anyhow::Result<ProjectName> {
        if option.project.is_some() {
            return option.choose(client, output).await;
        }
        if let Some(name) = &self.project {
            return Ok(name.clone());
        }
        match client.get::<DeploymentProject>(&format!("/deployments/{}", self.id)).await {
            Ok(answer) => Ok(answer.body.project),
            // An older service lacks this route, and organization tokens may not use it: try the remembered project.
            Err(failure) if matches!(failure.kind, FailureClass::NotFound | FailureClass::NotSignedIn) => {
                match project::remembered(None)? {
                    Some(name) => Ok(name),
                    None => Err(self.unknown(failure).into()),
                }
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn unknown(&self, failure: Failure) -> Failure {
        if failure.kind == FailureClass::NotSignedIn {
            return failure.with_hint("Run `svc login`. With an organization's token, add `--project NAME`.");
        }
        Failure { message: format!("No project of yours has the deployment {}.", self.id), ..failure }
            .with_hint("`svc deployments --project NAME` lists those of a project.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_are_named_by_id_or_address() {
        let id = "dep_0123456789abcdefghij";
        let parse = |text: &str| text.parse::<DeploymentReference>();
        for text in [id, "0123456789abcdefghij"] {
            let reference = parse(text).unwrap();
            assert_eq!((reference.id.as_str(), reference.project), (id, None));
        }
        let reference = parse("https://0123456789abcdefghij--docs.svc.localhost:8443/x").unwrap();
        assert_eq!((reference.id.as_str(), reference.project.unwrap().as_str()), (id, "docs"));
        assert!(parse("https://docs.svc.localhost").is_err());
    }
}
