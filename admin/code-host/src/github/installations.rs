//! The installations of our app that a person may use, and the repositories that each of them reaches.

use db::code_host::installations::ReportedInstallation;
use domain::{Timestamp, repo::RepoName};
use secrecy::SecretString;
use serde::{Deserialize, de::DeserializeOwned};
use time::OffsetDateTime;

use super::{CodeHostError, GithubHost, repositories::GithubRepository};
use crate::HostRepository;

const INSTALLATIONS: &str = "GET /user/installations";
const REACHED: &str = "GET /user/installations/{installation_id}/repositories";
/// The page size of lists: GitHub's maximum.
const PER_PAGE: &str = "100";
/// The most pages read of one list: 2,000 installations or repositories.
const PAGES: usize = 20;

#[derive(Deserialize)]
struct InstallationPage {
    installations: Vec<GithubInstallation>,
}

#[derive(Deserialize)]
struct GithubInstallation {
    id: i64,
    account: GithubAccount,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(default, with = "time::serde::rfc3339::option")]
    suspended_at: Option<OffsetDateTime>,
}

/// A user or an organization. An enterprise has a slug instead of a login.
#[derive(Deserialize)]
pub(super) struct GithubAccount {
    id: i64,
    login: Option<String>,
    slug: Option<String>,
    r#type: Option<String>,
    avatar_url: Option<String>,
}

#[derive(Deserialize)]
struct RepositoryPage {
    repositories: Vec<GithubRepository>,
}

impl GithubAccount {
    /// Returns the account's picture, if its URL may be sent to browsers.
    pub(super) fn avatar(&self) -> Option<String> {
        self.avatar_url.clone().filter(|url| url.starts_with("https://") && url.parse::<url::Url>().is_ok())
    }
}

impl From<GithubInstallation> for ReportedInstallation {
    fn from(installation: GithubInstallation) -> Self {
        let GithubInstallation { id, account, created_at, suspended_at } = installation;
        Self {
            id,
            account_id: account.id,
            account_type: account.r#type.clone().unwrap_or_else(|| "Enterprise".to_owned()),
            avatar_url: account.avatar(),
            account: account.login.or(account.slug).unwrap_or_default(),
            created_at: Timestamp::from(created_at),
            suspended_at: suspended_at.map(Timestamp::from),
        }
    }
}

impl GithubHost {
    pub(super) async fn list_installations(
        &self,
        token: &SecretString,
    ) -> Result<Vec<ReportedInstallation>, CodeHostError> {
        let mut found = Vec::new();
        let segments = ["user", "installations"];
        self.for_each_page(INSTALLATIONS, &segments, token, |page: InstallationPage| {
            found.extend(page.installations.into_iter().map(ReportedInstallation::from));
            true
        })
        .await?;
        Ok(found)
    }

    pub(super) async fn find_in_installation(
        &self,
        token: &SecretString,
        installation: i64,
        wanted: &RepoName,
    ) -> Result<Option<HostRepository>, CodeHostError> {
        let id = installation.to_string();
        let segments = ["user", "installations", &id, "repositories"];
        let mut found = None;
        let listed = self
            .for_each_page(REACHED, &segments, token, |page: RepositoryPage| {
                let mut repos = page.repositories.into_iter();
                // GitHub has no names that differ only in case.
                found = repos.find(|repo| repo.full_name.eq_ignore_ascii_case(wanted.as_str()));
                found.is_none()
            })
            .await;
        match listed {
            Ok(()) => found.map(|repo| repo.read(REACHED)).transpose(),
            Err(CodeHostError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn for_each_page<T: DeserializeOwned>(
        &self,
        call: &'static str,
        segments: &[&str],
        token: &SecretString,
        mut take: impl FnMut(T) -> bool,
    ) -> Result<(), CodeHostError> {
        let mut url = self.api_url(call, segments)?;
        url.query_pairs_mut().append_pair("per_page", PER_PAGE);
        for _ in 0..PAGES {
            let (page, next) = self.fetch_page(call, url, token).await?;
            match (take(page), next) {
                (true, Some(next)) => url = next,
                _ => return Ok(()),
            }
        }
        tracing::warn!(call, "a list at the code host was read to its {PAGES}th page only");
        Ok(())
    }
}
