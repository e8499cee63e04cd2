//! The port to repositories: finding them, asking who may read them, and fetching their files.

use std::{fs::File, path::PathBuf};

use async_trait::async_trait;
use db::code_host::installations::Seen;
use domain::repo::{Branch, CommitSha, RepoName};
use fairness::Held;
use secrecy::SecretString;

use super::{CodeHostError, UserGrant};

/// A code host's repositories. Every call is made in the name of the person, or of the app, whose token it is.
#[async_trait]
pub trait Repositories: Send + Sync {
    /// Gets the next pair of tokens. None when the refresh token no longer works.
    async fn refresh(&self, refresh_token: &SecretString) -> Result<Option<UserGrant>, CodeHostError>;

    /// Gets a token of our own app that reads one repository through an installation. None when the app has no key.
    async fn app_token(&self, installation: i64, repo_id: i64) -> Result<Option<AppToken>, CodeHostError>;

    /// Reports that the app's token was refused, so that the next one is another.
    async fn refuse_app_token(&self, installation: i64, repo_id: i64);

    /// Drops the cached app token, with the repository's name at its making.
    async fn forget_app_token(&self, installation: i64, repo_id: i64);

    /// Whether that account may read the repository, as the app sees it. False also when the app cannot tell.
    async fn may_read(&self, token: &SecretString, repo: &RepoName, account: &Account) -> Result<bool, CodeHostError>;

    /// Lists the installations that the person may use.
    async fn installations(&self, token: &SecretString) -> Result<Vec<Seen>, CodeHostError>;

    /// Finds a repository that the person reaches through this installation.
    async fn find_through(
        &self,
        token: &SecretString,
        installation: i64,
        repo: &RepoName,
    ) -> Result<Option<Repository>, CodeHostError>;

    /// Finds the repository that has this name now.
    async fn find(&self, token: &SecretString, repo: &RepoName) -> Result<Repository, CodeHostError>;

    /// Finds the commit that a branch points at. None when there is no such branch.
    async fn head(
        &self,
        token: &SecretString,
        repo: &RepoName,
        branch: &Branch,
    ) -> Result<Option<CommitSha>, CodeHostError>;

    /// Fetches the files of a commit: a gzipped tarball.
    async fn tarball(
        &self,
        token: &SecretString,
        repo: &RepoName,
        sha: &CommitSha,
        spool: Spool,
    ) -> Result<Spooled, CodeHostError>;
}

/// The place where the files of a commit are received.
#[derive(Debug)]
pub struct Spool {
    /// The folder in which a file without a name is made.
    pub folder: PathBuf,
    /// What the files take of the room that their account may use.
    pub held: Held<domain::PayingAccount>,
}

/// The files of a commit that were received.
#[derive(Debug)]
pub struct Spooled {
    /// The gzipped tarball. It has no name, so it goes away with this.
    pub file: File,
    /// What it takes of its account's room.
    pub held: Held<domain::PayingAccount>,
}

/// A token of our own app, which reads one repository.
#[derive(Debug, Clone)]
pub struct AppToken {
    /// The token.
    pub token: SecretString,
    /// The repository's name now.
    pub repo: RepoName,
}

/// An account at the code host.
#[derive(Debug, Clone)]
pub struct Account {
    /// The code host's id: it stays when the login changes.
    pub vcs_id: String,
    /// The login, as it was at the last sign-in.
    pub login: String,
}

/// A repository.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The code host's id: it stays when the name changes.
    pub id: i64,
    /// `owner/name`, in the code host's spelling.
    pub name: RepoName,
    /// Its default branch.
    pub default_branch: Branch,
    /// Its owner's picture.
    pub owner_avatar_url: Option<String>,
}
