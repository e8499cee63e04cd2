//! `/projects/:name/repo`.

use domain::repo::{Branch, Directory, RepoName};
use serde::{Deserialize, Deserializer, Serialize};

/// The request to link a project to a repository, whose pushes then deploy it, or to unlink it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkRepo {
    /// The installation that gives access to the repository: one shared with the project's organization, or your own
    /// for a personal project. Required unless `repo` is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub installation_id: Option<i64>,
    /// The repository as `owner/name` at the code host; null unlinks the project.
    #[serde(deserialize_with = "required_nullable")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = true))]
    pub repo: Option<RepoName>,
    /// The branch whose pushes deploy; the repository's default branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub branch: Option<Branch>,
    /// The folder of the repository that is published; the whole repository when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub directory: Option<Directory>,
}

/// The repository that a project is now linked to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RepoLinked {
    /// Always `true`.
    pub ok: bool,
    /// The repository as `owner/name`; null if the project is not linked.
    pub repo: Option<String>,
    /// The branch whose pushes deploy; null if the project is not linked.
    pub branch: Option<String>,
    /// The folder that is published, `.` for the whole repository; null if the project is not linked.
    pub directory: Option<String>,
}

/// Null is a value here: leaving the field out must not unlink.
fn required_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepoName>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_null_unlinks() {
        let read = |json: &str| serde_json::from_str::<LinkRepo>(json);
        assert!(read(r#"{"repo":null}"#).unwrap().repo.is_none());
        assert!(read("{}").is_err());
        assert_eq!(read(r#"{"repo":"a/b","installation_id":7}"#).unwrap().installation_id, Some(7));
    }
}
