//! Repositories, and the heads of their branches.

use async_trait::async_trait;
use db::code_host::installations::ReportedInstallation;
use domain::repo::{Branch, CommitSha, RepoName};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{CodeHostError, GithubHost, installations, oauth};
use crate::{AppToken, HostAccount, HostRepository, Repositories, SpoolTarget, SpooledTarball, UserGrant};

const REPOSITORY: &str = "GET /repos/{owner}/{repo}";
const REFERENCE: &str = "GET /repos/{owner}/{repo}/git/ref/{ref}";

#[derive(Deserialize)]
pub(super) struct GithubRepository {
    id: i64,
    pub(super) full_name: String,
    default_branch: String,
    owner: installations::GithubAccount,
}

#[derive(Deserialize)]
struct GitReference {
    object: GitObject,
}

#[derive(Deserialize)]
struct GitObject {
    r#type: String,
    sha: String,
}

impl GithubRepository {
    pub(super) fn read(self, call: &'static str) -> Result<HostRepository, CodeHostError> {
        let odd = |what: &str| CodeHostError::Answer { call, reason: format!("an odd {what}") };
        Ok(HostRepository {
            id: self.id,
            name: self.full_name.parse().map_err(|_| odd("full_name"))?,
            default_branch: self.default_branch.parse().map_err(|_| odd("default_branch"))?,
            owner_avatar_url: self.owner.avatar(),
        })
    }
}

#[async_trait]
impl Repositories for GithubHost {
    async fn refresh(&self, refresh_token: &SecretString) -> Result<Option<UserGrant>, CodeHostError> {
        let mut form = vec![
            ("client_id", &*self.client_id),
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose_secret()),
        ];
        // Tokens of the device flow can be refreshed without a client secret.
        if !self.client_secret.expose_secret().is_empty() {
            form.push(("client_secret", self.client_secret.expose_secret()));
        }
        let mut answer = self.token(&form).await?;
        match (answer.grant(), answer.error.as_deref()) {
            (Some(grant), _) => Ok(Some(grant)),
            (None, Some("bad_refresh_token" | "expired_token" | "unauthorized")) => Ok(None),
            (None, error) => Err(CodeHostError::Answer { call: oauth::CALL, reason: format!("error {error:?}") }),
        }
    }

    async fn app_token(&self, installation: i64, repo_id: i64) -> Result<Option<AppToken>, CodeHostError> {
        self.app_token_for(installation, repo_id).await
    }

    async fn refuse_app_token(&self, installation: i64, repo_id: i64) {
        self.drop_refused_app_token(installation, repo_id).await;
    }

    async fn forget_app_token(&self, installation: i64, repo_id: i64) {
        self.drop_app_token(installation, repo_id).await;
    }

    async fn may_read(
        &self,
        token: &SecretString,
        repo: &RepoName,
        account: &HostAccount,
    ) -> Result<bool, CodeHostError> {
        self.can_read(token, repo, account).await
    }

    async fn installations(&self, token: &SecretString) -> Result<Vec<ReportedInstallation>, CodeHostError> {
        self.list_installations(token).await
    }

    async fn find_through(
        &self,
        token: &SecretString,
        installation: i64,
        repo: &RepoName,
    ) -> Result<Option<HostRepository>, CodeHostError> {
        self.find_in_installation(token, installation, repo).await
    }

    async fn find(&self, token: &SecretString, repo: &RepoName) -> Result<HostRepository, CodeHostError> {
        let (owner, name) = repo.parts();
        let url = self.api_url(REPOSITORY, &["repos", owner, name])?;
        self.fetch::<GithubRepository>(REPOSITORY, url, token).await?.read(REPOSITORY)
    }

    async fn head(
        &self,
        token: &SecretString,
        repo: &RepoName,
        branch: &Branch,
    ) -> Result<Option<CommitSha>, CodeHostError> {
        let (owner, name) = repo.parts();
        let segments = ["repos", owner, name, "git", "ref", "heads"];
        let segments: Vec<&str> = segments.into_iter().chain(branch.as_str().split('/')).collect();
        let url = self.api_url(REFERENCE, &segments)?;
        match self.fetch::<GitReference>(REFERENCE, url, token).await {
            Ok(GitReference { object }) if object.r#type == "commit" => {
                let odd = || CodeHostError::Answer { call: REFERENCE, reason: "an odd sha".to_owned() };
                object.sha.parse().map(Some).map_err(|_| odd())
            }
            Ok(_) => Err(CodeHostError::Answer { call: REFERENCE, reason: "a branch that is no commit".to_owned() }),
            // GitHub responds with 409 for a repository without commits.
            Err(CodeHostError::NotFound { .. } | CodeHostError::Status { status: 409, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn tarball(
        &self,
        token: &SecretString,
        repo: &RepoName,
        sha: &CommitSha,
        spool: SpoolTarget,
    ) -> Result<SpooledTarball, CodeHostError> {
        self.fetch_tarball(token, repo, sha, spool).await
    }
}
