//! The port to repositories: finding them, checking who may read them, and downloading their files.

use std::{fs::File, path::PathBuf};

use async_trait::async_trait;
use db::code_host::installations::ReportedInstallation;
use domain::repo::{Branch, CommitSha, RepoName};
use fairness::HeldAmount;
use secrecy::SecretString;

use super::{CodeHostError, UserGrant};

/// A code host's repositories. Every call acts for the person, or the app, that owns the token.
#[async_trait]
pub trait Repositories: Send + Sync {
    /// Obtains the next pair of tokens; `None` if the refresh token is no longer valid.
    async fn refresh(&self, refresh_token: &SecretString) -> Result<Option<UserGrant>, CodeHostError>;

    /// Returns a token of our own app that reads one repository through an installation; `None` if the app has no key.
    async fn app_token(&self, installation: i64, repo_id: i64) -> Result<Option<AppToken>, CodeHostError>;

    /// Reports that the app's token was refused, so that a new one is requested next time.
    async fn refuse_app_token(&self, installation: i64, repo_id: i64);

    /// Drops the cached app token, together with the repository's name at its creation.
    async fn forget_app_token(&self, installation: i64, repo_id: i64);

    /// Returns whether the account may read the repository, as the app sees it; also `false` if the app cannot tell.
    async fn may_read(
        &self,
        token: &SecretString,
        repo: &RepoName,
        account: &HostAccount,
    ) -> Result<bool, CodeHostError>;

    /// Lists the installations that the person may use.
    async fn installations(&self, token: &SecretString) -> Result<Vec<ReportedInstallation>, CodeHostError>;

    /// Finds a repository that the person reaches through this installation.
    async fn find_through(
        &self,
        token: &SecretString,
        installation: i64,
        repo: &RepoName,
    ) -> Result<Option<HostRepository>, CodeHostError>;

    /// Finds the repository that has this name now.
    async fn find(&self, token: &SecretString, repo: &RepoName) -> Result<HostRepository, CodeHostError>;

    /// Returns the commit that a branch points at; `None` if there is no such branch.
    async fn head(
        &self,
        token: &SecretString,
        repo: &RepoName,
        branch: &Branch,
    ) -> Result<Option<CommitSha>, CodeHostError>;

    /// Downloads the files of a commit as a gzipped tarball.
    async fn tarball(
        &self,
        token: &SecretString,
        repo: &RepoName,
        sha: &CommitSha,
        spool: SpoolTarget,
    ) -> Result<SpooledTarball, CodeHostError>;
}

/// The destination of a commit's files.
#[derive(Debug)]
pub struct SpoolTarget {
    /// The folder in which an unnamed file is created.
    pub folder: PathBuf,
    /// The room that the files take, counted against their account.
    pub held: HeldAmount<domain::PayingAccount>,
}

/// The downloaded files of a commit.
#[derive(Debug)]
pub struct SpooledTarball {
    /// The gzipped tarball. The file has no name, so it is deleted when this is dropped.
    pub file: File,
    /// The room that it takes, counted against its account.
    pub held: HeldAmount<domain::PayingAccount>,
}

/// A token of our own app that reads one repository.
#[derive(Debug, Clone)]
pub struct AppToken {
    /// The token.
    pub token: SecretString,
    /// The repository's present name.
    pub repo: RepoName,
}

/// An account at the code host.
#[derive(Debug, Clone)]
pub struct HostAccount {
    /// The code host's id, which stays the same when the login changes.
    pub vcs_id: String,
    /// The login, as of the last sign-in.
    pub login: String,
}

/// A repository.
#[derive(Debug, Clone)]
pub struct HostRepository {
    /// The code host's id, which stays the same when the name changes.
    pub id: i64,
    /// `owner/name`, in the code host's spelling.
    pub name: RepoName,
    /// The default branch.
    pub default_branch: Branch,
    /// The URL of the owner's picture.
    pub owner_avatar_url: Option<String>,
}
